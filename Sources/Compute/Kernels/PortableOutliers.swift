// Portable kernels of outliers, and their scalar twins.

import KernelTypes

extension Portable {
  static func splitOutliers(
    _ x: UnsafePointer<Float>, _ columns: Int, into rest: UnsafeMutablePointer<Float>,
    _ list: UnsafeMutablePointer<UInt32>
  ) {
    // Sixteen sums, as the widest registers have.
    var (low, high) = (Lanes.zero, Lanes.zero)
    for c in stride(from: 0, to: columns, by: 2 * lanes) {
      let (first, second) = (load(x, c), load(x, c + lanes))
      store(first, rest, c)
      store(second, rest, c + lanes)
      low += first * first
      high += second * second
    }
    // Numbers whose squares are none have no outliers: nothing exceeds them.
    let bound = Lanes(repeating: sum(low + high) * OutlierList.share(columns))
    var count = 0
    for c in stride(from: 0, to: columns, by: lanes) {
      let value = load(x, c)
      let isOutlier = value * value .> bound
      guard any(isOutlier) else { continue }
      for lane in 0..<lanes where isOutlier[lane] && count < OutlierList.limit {
        list[1 + count] = UInt32(truncatingIfNeeded: c + lane)
        list[1 + OutlierList.limit + count] = value[lane].bitPattern
        rest[c + lane] = 0
        count += 1
      }
    }
    list[0] = UInt32(truncatingIfNeeded: count)
  }

  static func addOutliers(
    _ rows: OutlierRows, _ weights: UnsafePointer<Float>, bias: UnsafePointer<Float>?, _ outputs: Int,
    into y: Output
  ) {
    for r in 0..<rows.count {
      let (list, target) = (rows.base + r * OutlierList.length, y.base + r * y.stride)
      let count = Int(list[0])
      var o = 0
      while o + lanes <= outputs {
        var sum = load(target, o)
        for index in 0..<count {
          let value = Float(bitPattern: list[1 + OutlierList.limit + index])
          sum += value * load(weights, Int(list[1 + index]) * OutlierList.outputs + o)
        }
        if let bias { sum += load(bias, o) }
        store(sum, target, o)
        o += lanes
      }
      while o < outputs {
        for index in 0..<count {
          let value = Float(bitPattern: list[1 + OutlierList.limit + index])
          target[o] += value * weights[Int(list[1 + index]) * OutlierList.outputs + o]
        }
        if let bias { target[o] += bias[o] }
        o += 1
      }
    }
  }
}

extension Reference {
  static func splitOutliers(
    _ x: UnsafePointer<Float>, _ columns: Int, into rest: UnsafeMutablePointer<Float>,
    _ list: UnsafeMutablePointer<UInt32>
  ) {
    var sums = [Float](repeating: 0, count: 16)
    for c in 0..<columns { sums[c % 16] += x[c] * x[c] }
    for half in [8, 4, 2, 1] { for lane in 0..<half { sums[lane] += sums[lane + half] } }
    var count = 0
    for c in 0..<columns {
      let isOutlier = x[c] * x[c] > sums[0] * OutlierList.share(columns) && count < OutlierList.limit
      rest[c] = isOutlier ? 0 : x[c]
      guard isOutlier else { continue }
      list[1 + count] = UInt32(truncatingIfNeeded: c)
      list[1 + OutlierList.limit + count] = x[c].bitPattern
      count += 1
    }
    list[0] = UInt32(truncatingIfNeeded: count)
  }

  static func addOutliers(
    _ rows: OutlierRows, _ weights: UnsafePointer<Float>, bias: UnsafePointer<Float>?, _ outputs: Int,
    into y: Output
  ) {
    for r in 0..<rows.count {
      let list = rows.base + r * OutlierList.length
      for index in 0..<Int(list[0]) {
        let value = Float(bitPattern: list[1 + OutlierList.limit + index])
        for o in 0..<outputs {
          y.base[r * y.stride + o] += value * weights[Int(list[1 + index]) * OutlierList.outputs + o]
        }
      }
      if let bias { for o in 0..<outputs { y.base[r * y.stride + o] += bias[o] } }
    }
  }

  static func columns(of weights: QuantizedRows, into out: WeightColumns) {
    let groups = weights.groups
    for row in 0..<weights.count {
      let (packed, factors) = (weights.packed + row * weights.rowBytes, row * groups.rowBytes)
      for index in 0..<out.count {
        let column = Int(out.columns[index])
        let q = Float(quantum(packed, weights.bits, column))
        let scale = element(groups.scales + factors, groups.format, column / groups.size)
        let bias = element(groups.biases + factors, groups.format, column / groups.size)
        out.base[index * OutlierList.outputs + row] = scale * q + bias
      }
    }
  }
}
