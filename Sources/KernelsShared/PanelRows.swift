// Products of int8 activations with kept panels, for any number of rows of x: at the levels whose registers have some of a panel's
// sixteen outputs. Int8Interleaved has what a level does with its registers.
//
// Lanes belong to outputs, so none are summed. For slot s = j mod 16 of block j the sums of sixteen outputs stand side by side in
// memory; after the last block the slots are added in the tree of `multiplyInt8`.

package import KernelTypes

/// What PanelShapes takes.
typealias PanelRow = (
  panel: UnsafeRawPointer, shape: PanelShape, x: UnsafeRawPointer, totals: UnsafeMutablePointer<Float>
)
/// A panel's weights as nibbles or bytes, block after block, with `gap` bytes before those whose number has no bit of `inHead`.
/// `bits` is 0 where narrow weights were unpacked to bytes.
typealias Pass = (
  weights: UnsafeRawPointer, bits: Int, gap: Int, inHead: Int, columns: Int, block: Int,
  factors: UnsafeMutablePointer<Float>, totals: UnsafeMutablePointer<Float>
)

/// As `multiplyInt8`, to the bit, for kept panels. Scalar twin: `Reference.multiplyInt8`.
///
/// - Parameter scratch: `int8PanelBytes`: weights as bytes, scales and biases as floats, and the sums of four rows.
package func multiplyInt8Interleaved(
  _ weights: PanelRows, _ x: Int8Activations, into y: Output, scratch: UnsafeMutableRawPointer
) {
  let (shape, panelBytes) = (weights.shape, int8InterleavedBytes(weights.shape))
  let totals = room(scratch, shape.columns).totals(shape.columns / blockSize(shape.groupSize))
  var (panel, output) = (weights.base, y)
  for o in stride(from: 0, to: weights.count, by: Panel.width) {
    let count = min(Panel.width, weights.count - o)
    if x.count >= Panel.worthwhileRows {
      manyRows(unpacked(panel, shape, scratch), x, count, output)
    } else {
      for r in 0..<x.count {
        multiplyRow(
          (panel: panel, shape: shape, x: x.base + r * x.rowBytes, totals: totals), shape,
          blockSize(shape.groupSize))
        storeSums(totals, count, output.base + r * output.stride)
      }
    }
    panel += panelBytes
    output.base += Panel.width
  }
}

/// Where scales and biases of a panel are in scratch, and after those of `blocks` blocks the sums.
@inline(__always)
func room(_ scratch: UnsafeMutableRawPointer, _ columns: Int)
  -> (factors: UnsafeMutablePointer<Float>, totals: (_ blocks: Int) -> UnsafeMutablePointer<Float>)
{
  let factors = (scratch + 16 * paddedColumns(columns)).assumingMemoryBound(to: Float.self)
  return (factors, { factors + 32 * $0 })
}

// MARK: One row of x

/// - Parameters:
///   - low: bits of the first plane.
///   - high: bits of the second, or 0.
@inline(__always)
func panelRow(_ p: PanelRow, low: Int, high: Int, block: Int, _ kind: PanelFactors) {
  let (shape, x, totals) = (p.shape, p.x, p.totals)
  let (blocks, place, isShared) = (
    shape.columns / block, places(shape.columns, block), shape.groupSize > block
  )
  clearSlots(from: blocks, totals)
  var (at, head) = (p.panel, p.panel)
  let inHead = headMask(kind, isShared: isShared)
  var (scales, biases) = (noFactors, noFactors)
  for j in 0..<blocks {
    if j & inHead == 0 {
      head = at
      at += kind.headBytes
    }
    if !isShared || j & 1 == 0 { (scales, biases) = factors(head, j & inHead, kind, low + high) }
    let values = x + j * block
    var products = planeSums(at, values, low, block)
    if high > 0 {
      products = added(products, planeSums(at + blockBytes(block, low), values, high, block), shifted: low)
    }
    if low == 8 { products = completed(products, x, block, shape.columns, j) }
    at += blockBytes(block, low + high)
    fold(
      products, scales, biases, x + place.a + 4 * j, x + place.c + 4 * j, isFirst: j < 16,
      totals + 16 * (j & 15))
  }
}

// MARK: Many rows of x

/// A panel for many rows: scales and biases as floats, and narrow weights as bytes, in scratch.
@inline(never)
func unpacked(_ panel: UnsafeRawPointer, _ shape: PanelShape, _ scratch: UnsafeMutableRawPointer) -> Pass {
  let (block, inHead) = (blockSize(shape.groupSize), shape.factors.groups - 1)
  let (isWhole, headBytes) = (shape.bits == wholeBits(shape), shape.factors.headBytes)
  let place = room(scratch, shape.columns)
  var (at, head, target, out) = (panel, panel, place.factors, scratch)
  for group in 0..<shape.columns / shape.groupSize {
    if group & inHead == 0 {
      head = at
      at += headBytes
    }
    let (scales, biases) = factors(head, group & inHead, shape.factors, shape.bits)
    for _ in 0..<shape.groupSize / block {
      store(scales, target)
      store(biases, target + 16)
      target += 32
    }
    for _ in 0..<shape.groupSize / block {
      switch shape.bits {
      case 2: unpackPlanes(at, block, low: 2, high: 0, out)
      case 3: unpackPlanes(at, block, low: 2, high: 1, out)
      case 4 where !isWhole: unpackPlanes(at, block, low: 4, high: 0, out)
      case 5: unpackPlanes(at, block, low: 4, high: 1, out)
      case 6: unpackPlanes(at, block, low: 4, high: 2, out)
      default: break
      }
      out += blockBytes(block, 8)
      at += blockBytes(block, shape.bits)
    }
  }
  return (
    weights: isWhole ? panel + headBytes : UnsafeRawPointer(scratch), bits: isWhole ? shape.bits : 0,
    gap: isWhole ? headBytes : 0, inHead: headMask(shape.factors, isShared: shape.groupSize > block),
    columns: shape.columns, block: block, factors: place.factors,
    totals: place.totals(shape.columns / block)
  )
}

/// At least four rows of x by the first `count` outputs of a panel.
@inline(__always)
func manyRows(_ p: Pass, _ x: Int8Activations, _ count: Int, _ y: Output) {
  switch (p.bits, p.block) {
  case (4, 64): many4x64(p, x, count, y)
  case (4, _): many4x32(p, x, count, y)
  case (_, 64): many8x64(p, x, count, y)
  case (_, 32): many8x32(p, x, count, y)
  default: many8x16(p, x, count, y)
  }
}

@inline(never)
func many4x64(_ p: Pass, _ x: Int8Activations, _ count: Int, _ y: Output) {
  many(p, x, count, y, isNibbles: true, block: 64)
}

@inline(never)
func many4x32(_ p: Pass, _ x: Int8Activations, _ count: Int, _ y: Output) {
  many(p, x, count, y, isNibbles: true, block: 32)
}

@inline(never)
func many8x64(_ p: Pass, _ x: Int8Activations, _ count: Int, _ y: Output) {
  many(p, x, count, y, isNibbles: false, block: 64)
}

@inline(never)
func many8x32(_ p: Pass, _ x: Int8Activations, _ count: Int, _ y: Output) {
  many(p, x, count, y, isNibbles: false, block: 32)
}

@inline(never)
func many8x16(_ p: Pass, _ x: Int8Activations, _ count: Int, _ y: Output) {
  many(p, x, count, y, isNibbles: false, block: 16)
}

@inline(__always)
private func many(
  _ p: Pass, _ x: Int8Activations, _ count: Int, _ y: Output, isNibbles: Bool, block: Int
) {
  let (blocks, place) = (p.columns / block, places(p.columns, block))
  for i in 0..<4 { clearSlots(from: blocks, p.totals + 256 * i) }
  var r = 0
  while r < x.count {
    // The last four rows may overlap those before them.
    r = min(r, x.count - 4)
    let row = x.base + r * x.rowBytes
    var w = p.weights
    for j in 0..<blocks {
      if j > 0, j & p.inHead == 0 { w += p.gap }
      let products = fourRows(w, row + j * block, x.rowBytes, block: block, isNibbles: isNibbles)
      w += blockBytes(block, isNibbles ? 4 : 8)
      let (scales, biases) = (factors(p.factors + 32 * j), factors(p.factors + 32 * j + 16))
      @inline(__always)
      func finish(_ sums: PanelSums, _ i: Int, isFirst: Bool) {
        let from = row + i * x.rowBytes
        let all = p.bits == 8 ? completed(sums, from, block, p.columns, j) : sums
        fold(
          all, scales, biases, from + place.a + 4 * j, from + place.c + 4 * j, isFirst: isFirst,
          p.totals + 256 * i + 16 * (j & 15))
      }
      // One branch for all rows.
      if j < 16 {
        finish(products.0, 0, isFirst: true)
        finish(products.1, 1, isFirst: true)
        finish(products.2, 2, isFirst: true)
        finish(products.3, 3, isFirst: true)
      } else {
        finish(products.0, 0, isFirst: false)
        finish(products.1, 1, isFirst: false)
        finish(products.2, 2, isFirst: false)
        finish(products.3, 3, isFirst: false)
      }
    }
    for i in 0..<4 { storeSums(p.totals + 256 * i, count, y.base + (r + i) * y.stride) }
    r += 4
  }
}
