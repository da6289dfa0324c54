// Scalar twins of the integer kernels, in the same float operations: they agree to the bit.
//
// A quantized row here is x8 in natural order, padded to 4 bytes, then a and c per block; a wide one x16 and a.

import KernelTypes

extension Reference {
  static let int8 = Int8Kernels(
    rowBytes: { columns, block in (columns + 3) / 4 * 4 + 8 * (columns / block) },
    quantize: quantizeInt8, multiply: multiplyInt8, panelBytes: { _, _ in 0 },
    multiplyPanel: { weights, x, y, _ in multiplyInt8(weights, x, into: y) }, repack: repack,
    multiplyFloating: { weights, x, y in
      if weights.isWide {
        multiplyWide(weights, x, into: y)
      } else {
        multiplyInt8Floating(weights, x, into: y)
      }
    }, wide: WideQuantizer(rowBytes: { 2 * $0 + 4 * ($0 / 32) }, quantize: quantizeWide))

  static func repack(
    _ packed: UnsafeRawPointer, _ bits: Int, _ count: Int, into out: UnsafeMutableRawPointer
  ) {
    for i in 0..<count {
      let q = UInt8(quantum(packed, bits, i))
      if bits > 4 {
        out.storeBytes(of: q, toByteOffset: i, as: UInt8.self)
      } else {
        let before = i & 1 == 0 ? 0 : out.load(fromByteOffset: i / 2, as: UInt8.self)
        out.storeBytes(of: before | q << (i & 1 == 0 ? 0 : 4), toByteOffset: i / 2, as: UInt8.self)
      }
    }
  }

  static func quantizeInt8(
    _ x: UnsafePointer<Float>, _ columns: Int, _ block: Int, _ order: Int8Order,
    into out: UnsafeMutableRawPointer
  ) {
    let a = (out + (columns + 3) / 4 * 4).assumingMemoryBound(to: Float.self)
    let c = a + columns / block
    for j in 0..<columns / block {
      var top: Float = 0
      for i in 0..<block { top = max(top, abs(x[j * block + i])) }
      let inverse = top > 0 ? 127 / top : 0
      var sum = 0
      for i in j * block..<(j + 1) * block {
        let q = Int8((x[i] * inverse).rounded(.toNearestOrEven))
        sum += Int(q)
        out.storeBytes(of: q, toByteOffset: i, as: Int8.self)
      }
      a[j] = top / 127
      c[j] = a[j] * Float(sum)
    }
  }

  static func multiplyInt8(_ weights: QuantizedRows, _ x: Int8Activations, into y: Output) {
    let (columns, groups) = (weights.columns, weights.groups)
    let block = min(groups.size, Int8Block.limit)
    for r in 0..<x.count {
      let row = x.base + r * x.rowBytes
      let a = (row + (columns + 3) / 4 * 4).assumingMemoryBound(to: Float.self)
      let c = a + columns / block
      for o in 0..<weights.count {
        let (packed, factors) = (weights.packed + o * weights.rowBytes, o * groups.rowBytes)
        var lanes = [Float](repeating: 0, count: 16)
        for j in 0..<columns / block {
          var product = 0
          for i in j * block..<(j + 1) * block {
            product += quantum(packed, weights.bits, i) * Int(row.load(fromByteOffset: i, as: Int8.self))
          }
          let scale = element(groups.scales + factors, groups.format, j * block / groups.size)
          let bias = element(groups.biases + factors, groups.format, j * block / groups.size)
          let sum = lanes[j % 16].addingProduct(Float(product), a[j] * scale)
          lanes[j % 16] = sum.addingProduct(bias, c[j])
        }
        y.base[r * y.stride + o] = sum(lanes)
      }
    }
  }

  static func multiplyInt8Floating(_ weights: FloatingRows, _ x: Int8Activations, into y: Output) {
    let (columns, group) = (weights.columns, weights.mode.groupSize)
    for r in 0..<x.count {
      let row = x.base + r * x.rowBytes
      let a = (row + (columns + 3) / 4 * 4).assumingMemoryBound(to: Float.self)
      for o in 0..<weights.count {
        let weights = weights.rows(o..<o + 1)
        var lanes = [Float](repeating: 0, count: 16)
        for j in 0..<columns / group {
          // Twice an element is an integer.
          var product = 0
          for i in j * group..<(j + 1) * group {
            let doubled = Int(2 * e2m1(quantum(weights.packed, 4, i)))
            product += doubled * Int(row.load(fromByteOffset: i, as: Int8.self))
          }
          let factor = scale(weights, j) * (0.5 * a[j * group / 32])
          lanes[j % 16] = lanes[j % 16].addingProduct(Float(product), factor)
        }
        y.base[r * y.stride + o] = sum(lanes)
      }
    }
  }

  static func quantizeWide(
    _ x: UnsafePointer<Float>, _ columns: Int, into out: UnsafeMutableRawPointer
  ) {
    let a = (out + 2 * columns).assumingMemoryBound(to: Float.self)
    for j in 0..<columns / 32 {
      var top: Float = 0
      for i in 0..<32 { top = max(top, abs(x[j * 32 + i])) }
      let inverse = top > 0 ? 2047 / top : 0
      for i in j * 32..<(j + 1) * 32 {
        let q = Int16((x[i] * inverse).rounded(.toNearestOrEven))
        out.storeBytes(of: q, toByteOffset: 2 * i, as: Int16.self)
      }
      // Of integers that are 2^6 times their elements.
      a[j] = top / 2047 * 0x1p-6
    }
  }

  /// Of E4M3 weights.
  static func multiplyWide(_ weights: FloatingRows, _ x: Int8Activations, into y: Output) {
    for r in 0..<x.count {
      let row = x.base + r * x.rowBytes
      let a = (row + 2 * weights.columns).assumingMemoryBound(to: Float.self)
      for o in 0..<weights.count {
        let weights = weights.rows(o..<o + 1)
        var lanes = [Float](repeating: 0, count: 16)
        for j in 0..<weights.columns / 32 {
          var product = 0
          for i in j * 32..<(j + 1) * 32 {
            let code = quantum(weights.packed, 8, i)
            let exponent = (code >> 3) & 15
            let magnitude = ((8 | code & 7) << 11) >> (15 - exponent)
            let element = code & 0x80 == 0 ? magnitude : -magnitude
            product += element * Int(row.load(fromByteOffset: 2 * i, as: Int16.self))
          }
          lanes[j % 16] = lanes[j % 16].addingProduct(Float(product), scale(weights, j) * a[j])
        }
        y.base[r * y.stride + o] = sum(lanes)
      }
    }
  }

  /// The sum of sixteen lanes, always in the same tree.
  private static func sum(_ lanes: [Float]) -> Float {
    var lanes = lanes
    for half in [8, 4, 2, 1] {
      for lane in 0..<half { lanes[lane] += lanes[lane + half] }
    }
    return lanes[0]
  }
}
