// The fine mode of matrix products: activations are quantized twice, and the integer kernels of the fast mode do the work.
//
// A row becomes two: its integers, and those of what it lost to them, 254 times finer at least. The sum of both products has
// activations of some sixteen bits. Weights are read once for both.

import KernelTypes

extension ComputeContext {
  /// Whether rows in a form are quantized twice.
  func doubles(_ layout: Int8Layout) -> Bool { mode == .fine && !layout.isWide }

  /// Quantizes rows into pairs: the integers of a row, and those of what it lost to them.
  func quantizeTwice(
    _ x: Rows, _ layout: Int8Layout, _ int8: Int8Kernels, into base: UnsafeMutableRawPointer, rowBytes: Int
  ) {
    forEachRow(x.count, work: 8 * x.columns) { range in
      withUnsafeTemporaryAllocation(of: Float.self, capacity: x.columns) { row in
        guard let rest = row.baseAddress else { return }
        for r in range {
          int8.quantize(x.row(r), x.columns, layout.block, layout.order, base + 2 * r * rowBytes)
          Portable.remainder(of: x.row(r), x.columns, layout.block, into: rest)
          int8.quantize(rest, x.columns, layout.block, layout.order, base + (2 * r + 1) * rowBytes)
        }
      }
    }
  }

  /// Rows of x whose pairs of products are held at once: enough for the kernels of many rows, few enough for the cache.
  private static let pairsAtOnce = 64

  /// The tile of outputs `rows` by rows that were quantized twice: the sums of their pairs of products.
  ///
  /// - Returns: as `multiplyInt8`.
  func multiplyTwice(
    _ part: WeightStack.Part, rows: Range<Int>, x quantized: QuantizedInput, xRows: Int, into y: Output,
    _ scratch: Scratch
  ) -> Bool {
    guard let layout = part.layout, let int8 = fastKernels else { return false }
    // The product's own scratch comes first.
    let columns = part.matrix.columns
    let room = int8.pointee.panelBytes(columns, layout.block) / 4 + Panel.width * columns / 4
    let first = (room + 15) & ~15
    let stride = (rows.count + 15) & ~15
    let atOnce = min(Self.pairsAtOnce, xRows)
    let both = scratch.floats(first + 2 * atOnce * stride) + first
    for r in Swift.stride(from: 0, to: xRows, by: atOnce) {
      let count = min(atOnce, xRows - r)
      var some = quantized
      some.first = 2 * (quantized.first + r)
      let products = Output(base: both, stride: stride)
      guard multiplyInt8(part, rows: rows, x: some, xRows: 2 * count, into: products, scratch) else {
        return false
      }
      for i in 0..<count {
        let (sum, target) = (both + 2 * i * stride, y.base + (r + i) * y.stride)
        kernels.add(sum + stride, rows.count, sum)
        target.update(from: sum, count: rows.count)
      }
    }
    return true
  }
}

extension Portable {
  /// What a row of whole blocks loses when it is quantized: `x - a · q`, with a and q of `Reference.quantizeInt8`.
  fileprivate static func remainder(
    of x: UnsafePointer<Float>, _ columns: Int, _ block: Int, into rest: UnsafeMutablePointer<Float>
  ) {
    // Added to a small number and taken away again, it leaves the nearest integer, the even one of two.
    let shift = Lanes(repeating: 0x1.8p23)
    for start in stride(from: 0, to: columns, by: block) {
      var largest = Lanes.zero
      for c in stride(from: start, to: start + block, by: lanes) {
        let value = load(x, c)
        largest.replace(with: value, where: value .> largest)
        largest.replace(with: -value, where: -value .> largest)
      }
      let top = largest.max()
      let inverse = Lanes(repeating: top > 0 ? 127 / top : 0)
      let scale = Lanes(repeating: top / 127)
      for c in stride(from: start, to: start + block, by: lanes) {
        let value = load(x, c)
        let rounded = (value * inverse + shift) - shift
        store(value - scale * rounded, rest, c)
      }
    }
  }
}
