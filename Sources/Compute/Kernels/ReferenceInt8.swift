// Scalar twins of the integer kernels, in the same float operations: they agree to the bit.
//
// A quantized row here is x8 in natural order, padded to 4 bytes, then a and c per block.

extension Reference {
  static let int8 = Int8Kernels(
    rowBytes: { columns, block in (columns + 3) / 4 * 4 + 8 * (columns / block) },
    quantize: quantizeInt8, multiply: multiplyInt8, panelBytes: { _, _ in 0 },
    multiplyPanel: {
      w, rowBytes, s, b, scaleBytes, format, bits, group, rows, x, xBytes, xRows, columns, y, n, _, _ in
      multiplyInt8(
        packed: w, rowBytes: rowBytes, scales: s, biases: b, scaleRowBytes: scaleBytes, scaleFormat: format,
        bits: bits, groupSize: group, weightRows: rows, x: x, xRowBytes: xBytes, xRows: xRows,
        columns: columns,
        y: y, yStride: n)
    }, repack: repack, multiplyFloating: multiplyInt8Floating)

  static func repack(packed: UnsafeRawPointer, bits: Int, count: Int, out: UnsafeMutableRawPointer) {
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
    x: UnsafePointer<Float>, columns: Int, block: Int, evenOdd: Bool, out: UnsafeMutableRawPointer
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

  static func multiplyInt8(
    packed: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, biases: UnsafeRawPointer,
    scaleRowBytes: Int, scaleFormat: Int, bits: Int, groupSize: Int, weightRows: Int, x: UnsafeRawPointer,
    xRowBytes: Int, xRows: Int, columns: Int, y: UnsafeMutablePointer<Float>, yStride: Int
  ) {
    let block = min(groupSize, 64)
    for r in 0..<xRows {
      let row = x + r * xRowBytes
      let a = (row + (columns + 3) / 4 * 4).assumingMemoryBound(to: Float.self)
      let c = a + columns / block
      for o in 0..<weightRows {
        var lanes = [Float](repeating: 0, count: 16)
        for j in 0..<columns / block {
          var product = 0
          for i in j * block..<(j + 1) * block {
            product +=
              quantum(packed + o * rowBytes, bits, i) * Int(row.load(fromByteOffset: i, as: Int8.self))
          }
          let scale = element(scales + o * scaleRowBytes, scaleFormat, j * block / groupSize)
          let bias = element(biases + o * scaleRowBytes, scaleFormat, j * block / groupSize)
          let sum = lanes[j % 16].addingProduct(Float(product), a[j] * scale)
          lanes[j % 16] = sum.addingProduct(bias, c[j])
        }
        y[r * yStride + o] = sum(lanes)
      }
    }
  }

  static func multiplyInt8Floating(
    packed: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, scaleRowBytes: Int, isNVFP4: Bool,
    weightRows: Int, x: UnsafeRawPointer, xRowBytes: Int, xRows: Int, columns: Int,
    y: UnsafeMutablePointer<Float>, yStride: Int
  ) {
    let group = isNVFP4 ? 16 : 32
    for r in 0..<xRows {
      let row = x + r * xRowBytes
      let a = (row + (columns + 3) / 4 * 4).assumingMemoryBound(to: Float.self)
      for o in 0..<weightRows {
        var lanes = [Float](repeating: 0, count: 16)
        for j in 0..<columns / group {
          // Twice an element is an integer.
          var product = 0
          for i in j * group..<(j + 1) * group {
            let doubled = Int(2 * e2m1(quantum(packed + o * rowBytes, 4, i)))
            product += doubled * Int(row.load(fromByteOffset: i, as: Int8.self))
          }
          let code = Int((scales + o * scaleRowBytes).load(fromByteOffset: j, as: UInt8.self))
          let scale = isNVFP4 ? e4m3(code) : powerOfTwo(code)
          lanes[j % 16] = lanes[j % 16].addingProduct(Float(product), scale * (0.5 * a[j * group / 32]))
        }
        y[r * yStride + o] = sum(lanes)
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
