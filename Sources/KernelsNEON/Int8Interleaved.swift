// Products of int8 activations with panels (Int8Panel), for any number of rows of x.
//
// Lanes belong to outputs, so none are summed. For slot s = j mod 16 of block j the sums of sixteen outputs stand side
// by side in memory; after the last block the slots are added in the tree of Int8Multiply.

package import KernelTypes

/// Four registers of sums, of outputs 0-3, 4-7, 8-11 and 12-15.
typealias Quad = (Sums, Sums, Sums, Sums)
/// Eight registers of sums before neighbours are added.
typealias Eight = (Sums, Sums, Sums, Sums, Sums, Sums, Sums, Sums)
/// What PanelShapes takes.
typealias PanelRow = (
  panel: UnsafeRawPointer, shape: PanelShape, x: UnsafeRawPointer, totals: UnsafeMutablePointer<Float>
)
/// A panel's weights as nibbles or bytes, block after block, with `gap` bytes before those whose number has no bit of `inHead`.
typealias Pass = (
  weights: UnsafeRawPointer, bits: Int, gap: Int, inHead: Int, columns: Int, block: Int,
  factors: UnsafeMutablePointer<Float>, totals: UnsafeMutablePointer<Float>
)

/// As `multiplyInt8`, to the bit, for kept panels. Scalar twin: `Reference.multiplyInt8`.
///
/// - Parameter scratch: `int8PanelBytes`.
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

/// As `multiplyInt8`, for at most one panel of 4- or 8-bit weights and at least four rows of x. Scalar twin:
/// `Reference.multiplyInt8`.
package func multiplyInt8Panel(
  _ weights: QuantizedRows, _ x: Int8Activations, into y: Output, scratch: PanelScratch
) {
  let block = blockSize(weights.groups.size)
  let place = room(scratch.base, weights.columns)
  let blocks = weights.columns / block
  interleave(weights, flip: weights.bits == 8 ? 128 : 0, into: scratch.base)
  for o in 0..<Panel.width {
    let at = min(o, weights.count - 1) * weights.groups.rowBytes
    let (scales, biases) = (weights.groups.scales + at, weights.groups.biases + at)
    for j in 0..<blocks {
      let group = j * block / weights.groups.size
      place.factors[32 * j + o] = scalar(scales, weights.groups.format, group)
      place.factors[32 * j + 16 + o] = scalar(biases, weights.groups.format, group)
    }
  }
  prefetchBytes(weights.packed + weights.count * weights.rowBytes, scratch.aheadRows * weights.rowBytes)
  let pass: Pass = (
    weights: UnsafeRawPointer(scratch.base), bits: weights.bits, gap: 0, inHead: 0,
    columns: weights.columns, block: block, factors: place.factors, totals: place.totals(blocks)
  )
  manyRows(pass, x, weights.count, y)
}

/// Where scales and biases of a panel are in scratch, and after those of `blocks` blocks the sums.
@inline(__always)
private func room(_ scratch: UnsafeMutableRawPointer, _ columns: Int)
  -> (factors: UnsafeMutablePointer<Float>, totals: (_ blocks: Int) -> UnsafeMutablePointer<Float>)
{
  let factors = (scratch + 16 * paddedColumns(columns)).assumingMemoryBound(to: Float.self)
  return (factors, { factors + 32 * $0 })
}

/// Slots 0 ... 15 of sixteen outputs, added up and stored for the first `count`.
@inline(__always)
private func storeSums(_ totals: UnsafeMutablePointer<Float>, _ count: Int, _ y: UnsafeMutablePointer<Float>)
{
  for g in 0..<4 {
    @inline(__always)
    func slot(_ s: Int) -> Four { four(totals, 16 * s + 4 * g) }
    @inline(__always)
    func two(_ s: Int) -> Four { slot(s) + slot(s + 8) }
    @inline(__always)
    func pairs(_ s: Int) -> Four { two(s) + two(s + 4) }
    let all = (pairs(0) + pairs(2)) + (pairs(1) + pairs(3))
    if 4 * g + 4 <= count {
      store(all, y + 4 * g)
    } else {
      for lane in 0..<max(0, count - 4 * g) { y[4 * g + lane] = all[lane] }
    }
  }
}

/// Adds block `j` of sixteen outputs to its slot; slots without a block are zeroed beforehand.
@inline(__always)
private func fold(
  _ products: Quad, _ scales: (Four, Four, Four, Four), _ biases: (Four, Four, Four, Four), _ a: Float,
  _ c: Float, isFirst: Bool, _ total: UnsafeMutablePointer<Float>
) {
  @inline(__always)
  func add(_ sums: Sums, _ scale: Four, _ bias: Four, _ at: Int) {
    let before = isFirst ? .zero : four(total, at)
    let sum = fused(floats(sums), scale * Four(repeating: a), before)
    store(fused(bias, Four(repeating: c), sum), total + at)
  }
  add(products.0, scales.0, biases.0, 0)
  add(products.1, scales.1, biases.1, 4)
  add(products.2, scales.2, biases.2, 8)
  add(products.3, scales.3, biases.3, 12)
}

@inline(__always)
private func clearSlots(from blocks: Int, _ totals: UnsafeMutablePointer<Float>) {
  for slot in min(blocks, 16)..<16 { for g in 0..<4 { store(.zero, totals + 16 * slot + 4 * g) } }
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
  let (inHead, zero) = (headMask(kind, isShared: isShared), Four.zero)
  var (scales, biases) = ((zero, zero, zero, zero), (zero, zero, zero, zero))
  for j in 0..<blocks {
    if j & inHead == 0 {
      head = at
      at += kind.headBytes
    }
    if !isShared || j & 1 == 0 {
      @inline(__always)
      func four(_ first: Int) -> (scales: Four, biases: Four) {
        factors(head, j & inHead, kind, low + high, first)
      }
      let (a, b, c, d) = (four(0), four(4), four(8), four(12))
      scales = (a.scales, b.scales, c.scales, d.scales)
      biases = (a.biases, b.biases, c.biases, d.biases)
    }
    let values = x + j * block
    var products = planeSums(at, values, low, block)
    if high > 0 {
      let upper = planeSums(at + blockBytes(block, low), values, high, block)
      let shift = Int32(truncatingIfNeeded: low)
      products = (
        products.0 &+ upper.0 &<< shift, products.1 &+ upper.1 &<< shift, products.2 &+ upper.2 &<< shift,
        products.3 &+ upper.3 &<< shift
      )
    }
    if low == 8 { products = flipped(products, x + place.sums, j) }
    at += blockBytes(block, low + high)
    let a = (x + place.a + 4 * j).loadUnaligned(as: Float.self)
    let c = (x + place.c + 4 * j).loadUnaligned(as: Float.self)
    fold(products, scales, biases, a, c, isFirst: j < 16, totals + 16 * (j & 15))
  }
}

/// What bytes that were multiplied as signed ones lack.
@inline(__always)
private func flipped(_ p: Quad, _ sums: UnsafeRawPointer, _ j: Int) -> Quad {
  let more = Sums(repeating: (sums + 4 * j).loadUnaligned(as: Int32.self) &<< 7)
  return (p.0 &+ more, p.1 &+ more, p.2 &+ more, p.3 &+ more)
}

/// Eight bytes of x beside eight registers of a panel: for the first four of them, and for the others.
@inline(__always)
private func broadcast(_ x: UnsafeRawPointer) -> (Bytes, Bytes) {
  if isPaired {
    let all = unsafeBitCast(SIMD2<UInt64>(repeating: x.loadUnaligned(as: UInt64.self)), to: Bytes.self)
    return (all, all)
  }
  let first = SIMD4<UInt32>(repeating: x.loadUnaligned(as: UInt32.self))
  let second = SIMD4<UInt32>(repeating: (x + 4).loadUnaligned(as: UInt32.self))
  return (unsafeBitCast(first, to: Bytes.self), unsafeBitCast(second, to: Bytes.self))
}

@inline(__always)
private func add(_ s: inout Eight, _ values: (Bytes, Bytes), _ weights: (_ index: Int) -> Bytes) {
  s.0 = dot(s.0, weights(0), values.0)
  s.1 = dot(s.1, weights(1), values.0)
  s.2 = dot(s.2, weights(2), values.0)
  s.3 = dot(s.3, weights(3), values.0)
  s.4 = dot(s.4, weights(4), values.1)
  s.5 = dot(s.5, weights(5), values.1)
  s.6 = dot(s.6, weights(6), values.1)
  s.7 = dot(s.7, weights(7), values.1)
}

/// The products of a plane of `width` bits with a block of x.
@inline(__always)
private func planeSums(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ width: Int, _ block: Int) -> Quad {
  let zero = Sums.zero
  var s: Eight = (zero, zero, zero, zero, zero, zero, zero, zero)
  switch width {
  case 8: for k in 0..<block / 8 { add(&s, broadcast(x + 8 * k)) { bytes(w + 128 * k + 16 * $0) } }
  case 4:
    for k in 0..<block / 16 {
      let v = w + 128 * k
      let (a, b, c, d) = (codes(v), codes(v + 16), codes(v + 32), codes(v + 48))
      let (e, f, g, h) = (codes(v + 64), codes(v + 80), codes(v + 96), codes(v + 112))
      @inline(__always)
      func pick(_ i: Int) -> Codes {
        switch i {
        case 0: a
        case 1: b
        case 2: c
        case 3: d
        case 4: e
        case 5: f
        case 6: g
        default: h
        }
      }
      add(&s, broadcast(x + 8 * k)) { lowNibbles(pick($0)) }
      add(&s, broadcast(x + block / 2 + 8 * k)) { highNibbles(pick($0)) }
    }
  default:
    for k in 0..<block / 8 { add(&s, broadcast(x + 8 * k)) { signed(field(w, width, block, 8 * k + $0)) } }
  }
  if isPaired { return (addPairs(s.0, s.1), addPairs(s.2, s.3), addPairs(s.4, s.5), addPairs(s.6, s.7)) }
  return (s.0 &+ s.4, s.1 &+ s.5, s.2 &+ s.6, s.3 &+ s.7)
}

// MARK: Many rows of x

/// A kept panel for many rows: scales and biases as floats, and narrow weights as bytes, in scratch.
@inline(never)
func unpacked(_ panel: UnsafeRawPointer, _ shape: PanelShape, _ scratch: UnsafeMutableRawPointer) -> Pass {
  let (block, headBytes) = (blockSize(shape.groupSize), shape.factors.headBytes)
  let (blocks, isWhole) = (shape.columns / block, shape.bits == wholeBits(shape))
  let place = room(scratch, shape.columns)
  var (at, head, target) = (panel, panel, place.factors)
  var out = scratch
  for group in 0..<shape.columns / shape.groupSize {
    let inHead = group % shape.factors.groups
    if inHead == 0 {
      head = at
      at += headBytes
    }
    for _ in 0..<shape.groupSize / block {
      for i in 0..<4 {
        let four = factors(head, inHead, shape.factors, shape.bits, 4 * i)
        store(four.scales, target + 4 * i)
        store(four.biases, target + 16 + 4 * i)
      }
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
    columns: shape.columns, block: block, factors: place.factors, totals: place.totals(blocks)
  )
}

/// At least four rows of x by the first `count` outputs of a panel.
@inline(__always)
private func manyRows(_ p: Pass, _ x: Int8Activations, _ count: Int, _ y: Output) {
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
      let factor = p.factors + 32 * j
      let scales = (four(factor, 0), four(factor, 4), four(factor, 8), four(factor, 12))
      let biases = (four(factor, 16), four(factor, 20), four(factor, 24), four(factor, 28))
      @inline(__always)
      func finish(_ sums: Quad, _ i: Int, isFirst: Bool) {
        let from = row + i * x.rowBytes
        let a = (from + place.a + 4 * j).loadUnaligned(as: Float.self)
        let c = (from + place.c + 4 * j).loadUnaligned(as: Float.self)
        // Bytes of narrow weights were not made signed: they are.
        let all = p.bits == 8 ? flipped(sums, from + place.sums, j) : sums
        fold(all, scales, biases, a, c, isFirst: isFirst, p.totals + 256 * i + 16 * (j & 15))
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
