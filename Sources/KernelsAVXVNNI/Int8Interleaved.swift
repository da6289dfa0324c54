// Products of int8 activations with panels (Int8Panel), for any number of rows of x.
//
// Lanes belong to outputs, so none are summed. For slot s = j mod 16 of block j the sums of sixteen outputs stand side
// by side in memory; after the last block the slots are added in the tree of KernelsAVX2's Int8Multiply.

package import KernelTypes
import _Builtin_intrinsics.intel

/// Sums of outputs 0-7 and 8-15.
private typealias Halves = (__m256i, __m256i)
/// What PanelShapes takes.
typealias PanelRow = (
  panel: UnsafeRawPointer, shape: PanelShape, x: UnsafeRawPointer, totals: UnsafeMutablePointer<Float>
)
/// A panel's weights as nibbles or bytes, block after block, with `gap` bytes before those whose number has no bit of `inHead`.
typealias Pass = (
  weights: UnsafeRawPointer, isNibbles: Bool, gap: Int, inHead: Int, columns: Int, block: Int,
  factors: UnsafeMutablePointer<Float>, totals: UnsafeMutablePointer<Float>
)

/// As KernelsAVX2's `multiplyInt8`, to the bit, for kept panels. Scalar twin: `Reference.multiplyInt8`.
///
/// - Parameter scratch: as many bytes as KernelsAVX2's `int8PanelBytes`: weights as bytes, scales and biases as floats, and
///   the sums of four rows.
package func multiplyInt8Interleaved(
  _ weights: PanelRows, _ x: Int8Activations, into y: Output, scratch: UnsafeMutableRawPointer
) {
  let (shape, panelBytes) = (weights.shape, int8InterleavedBytes(weights.shape))
  let floats = (scratch + 16 * ((shape.columns + 63) & ~63)).assumingMemoryBound(to: Float.self)
  let totals = floats + 32 * (shape.columns / blockSize(shape.groupSize))
  var (panel, output) = (weights.base, y)
  for o in stride(from: 0, to: weights.count, by: Panel.width) {
    let count = min(Panel.width, weights.count - o)
    if x.count >= Panel.worthwhileRows {
      manyRows(unpacked(panel, shape, scratch, floats, totals), x, count, output)
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

@inline(__always)
private func load(_ base: UnsafePointer<Float>) -> __m256 { _mm256_loadu_ps(base) }

/// Slots 0 ... 15 of sixteen outputs, added up and stored for the first `count`.
@inline(__always)
private func storeSums(_ totals: UnsafeMutablePointer<Float>, _ count: Int, _ y: UnsafeMutablePointer<Float>)
{
  for half in 0..<2 {
    @inline(__always)
    func pair(_ s: Int) -> __m256 {
      load(totals + 16 * s + 8 * half) + load(totals + 16 * (s + 8) + 8 * half)
    }
    @inline(__always)
    func four(_ s: Int) -> __m256 { pair(s) + pair(s + 4) }
    let all = (four(0) + four(2)) + (four(1) + four(3))
    let left = Int32(truncatingIfNeeded: count - 8 * half)
    let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(left), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0))
    _mm256_maskstore_ps(y + 8 * half, mask, all)
  }
}

@inline(__always)
private func clearSlots(from blocks: Int, _ totals: UnsafeMutablePointer<Float>) {
  for slot in min(blocks, 16)..<16 {
    _mm256_storeu_ps(totals + 16 * slot, _mm256_setzero_ps())
    _mm256_storeu_ps(totals + 16 * slot + 8, _mm256_setzero_ps())
  }
}

/// Adds block `j` of eight outputs to its slot; slots without a block are zeroed beforehand.
@inline(__always)
private func fold(
  _ products: __m256i, _ scales: __m256, _ biases: __m256, _ a: UnsafeRawPointer, _ c: UnsafeRawPointer,
  isFirst: Bool, _ total: UnsafeMutablePointer<Float>
) {
  let factor = _mm256_mul_ps(_mm256_set1_ps(a.loadUnaligned(as: Float.self)), scales)
  let before = isFirst ? _mm256_setzero_ps() : load(total)
  let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), factor, before)
  _mm256_storeu_ps(total, _mm256_fmadd_ps(biases, _mm256_set1_ps(c.loadUnaligned(as: Float.self)), sum))
}

/// Scales or biases of outputs 0-7 and 8-15.
typealias Factors = (__m256, __m256)

/// The scales and biases of a head's group.
@inline(__always)
func factors(
  _ head: UnsafeRawPointer, _ group: Int, _ kind: PanelFactors, _ bits: Int
) -> (scales: Factors, biases: Factors) {
  @inline(__always)
  func both(_ base: UnsafeRawPointer, _ format: FloatFormat) -> Factors {
    (factors(base, format), factors(base + 8 * format.bytes, format))
  }
  @inline(__always)
  func product(_ a: Factors, _ b: Factors) -> Factors { (a.0 * b.0, a.1 * b.1) }
  switch kind {
  case .pairs(let format): return (both(head, format), both(head + factorBytes(format), format))
  case .halves:
    let (scales, middle) = (both(head + 32 * group, .f16), _mm256_set1_ps(middle(bits)))
    return (scales, product(scales, (middle, middle)))
  case .bytes:
    let codes = head + 64 + 32 * group
    return (
      product(both(head, .f16), (bytes(codes), bytes(codes + 8))),
      product(both(head + 32, .f16), (bytes(codes + 16), bytes(codes + 24)))
    )
  case .signedBytes:
    @inline(__always)
    func signed(_ i: Int) -> __m256 {
      let eight = (head + 64 + 16 * group + i).loadUnaligned(as: Int64.self)
      return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(eight)))
    }
    let (scales, middle) = (product(both(head, .f16), (signed(0), signed(8))), _mm256_set1_ps(middle(bits)))
    return (scales, product(scales, (middle, middle)))
  case .nibbles:
    let codes = head + 64 + 16 * group
    let eights = (codes.loadUnaligned(as: Int64.self), (codes + 8).loadUnaligned(as: Int64.self))
    @inline(__always)
    func nibbles(_ eight: Int64, _ shift: Int32) -> __m256 {
      let words = _mm256_srli_epi32(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(eight)), shift)
      return _mm256_cvtepi32_ps(_mm256_and_si256(words, _mm256_set1_epi32(15)))
    }
    return (
      product(both(head, .f16), (nibbles(eights.0, 0), nibbles(eights.1, 0))),
      product(both(head + 32, .f16), (nibbles(eights.0, 4), nibbles(eights.1, 4)))
    )
  }
}

/// Eight bytes as floats.
@inline(__always)
private func bytes(_ base: UnsafeRawPointer) -> __m256 {
  _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(base.loadUnaligned(as: Int64.self))))
}

/// Eight scales or biases.
@inline(__always)
func factors(_ base: UnsafeRawPointer, _ format: FloatFormat) -> __m256 {
  switch format {
  case .f32: return _mm256_loadu_ps(base.assumingMemoryBound(to: Float.self))
  case .f16: return _mm256_cvtph_ps(_mm_loadu_si128(base.assumingMemoryBound(to: __m128i.self)))
  case .bf16:
    let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(base.assumingMemoryBound(to: __m128i.self)))
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16))
  }
}

@inline(__always)
private func broadcast(_ x: UnsafeRawPointer) -> __m256i {
  _mm256_set1_epi32(x.loadUnaligned(as: Int32.self))
}

@inline(__always)
private func lowNibbles(_ bytes: __m256i) -> __m256i { _mm256_and_si256(bytes, _mm256_set1_epi8(15)) }

@inline(__always)
private func highNibbles(_ bytes: __m256i) -> __m256i {
  _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15))
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
  let (inHead, zero) = (headMask(kind, isShared: isShared), _mm256_setzero_ps())
  var (scales, biases) = ((zero, zero), (zero, zero))
  for j in 0..<blocks {
    if j & inHead == 0 {
      head = at
      at += kind.headBytes
    }
    if !isShared || j & 1 == 0 { (scales, biases) = factors(head, j & inHead, kind, low + high) }
    let values = x + j * block
    var products = planeSums(at, values, low, block)
    if high > 0 {
      let upper = planeSums(at + blockBytes(block, low), values, high, block)
      products = (
        _mm256_add_epi32(products.0, left(upper.0, low)), _mm256_add_epi32(products.1, left(upper.1, low))
      )
    }
    at += blockBytes(block, low + high)
    let (a, c, total) = (x + place.a + 4 * j, x + place.c + 4 * j, totals + 16 * (j & 15))
    fold(products.0, scales.0, biases.0, a, c, isFirst: j < 16, total)
    fold(products.1, scales.1, biases.1, a, c, isFirst: j < 16, total + 8)
  }
}

/// The products of a plane of `width` bits with a block of x.
@inline(__always)
private func planeSums(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ width: Int, _ block: Int) -> Halves {
  let zero = _mm256_setzero_si256()
  // Two chains for each half.
  var (s, t, u, v) = (zero, zero, zero, zero)
  switch width {
  case 4:
    for i in 0..<block / 8 {
      let (first, second) = (loadBytes(w + 64 * i), loadBytes(w + 64 * i + 32))
      let (low, high) = (broadcast(x + 4 * i), broadcast(x + block / 2 + 4 * i))
      s = dot(s, lowNibbles(first), low)
      t = dot(t, lowNibbles(second), low)
      u = dot(u, highNibbles(first), high)
      v = dot(v, highNibbles(second), high)
    }
  case 8:
    for i in 0..<block / 8 {
      let (low, high) = (broadcast(x + 8 * i), broadcast(x + 8 * i + 4))
      s = dot(s, loadBytes(w + 128 * i), low)
      t = dot(t, loadBytes(w + 128 * i + 32), low)
      u = dot(u, loadBytes(w + 128 * i + 64), high)
      v = dot(v, loadBytes(w + 128 * i + 96), high)
    }
  default:
    for i in 0..<block / 8 {
      let (low, high) = (broadcast(x + 8 * i), broadcast(x + 8 * i + 4))
      s = dot(s, field(w, width, block, 2 * i, 0), low)
      t = dot(t, field(w, width, block, 2 * i, 1), low)
      u = dot(u, field(w, width, block, 2 * i + 1, 0), high)
      v = dot(v, field(w, width, block, 2 * i + 1, 1), high)
    }
  }
  return (_mm256_add_epi32(s, u), _mm256_add_epi32(t, v))
}

// MARK: Many rows of x

/// A panel for many rows: scales and biases as floats, and narrow weights as bytes, in scratch.
@inline(never)
func unpacked(
  _ panel: UnsafeRawPointer, _ shape: PanelShape, _ scratch: UnsafeMutableRawPointer,
  _ floats: UnsafeMutablePointer<Float>, _ totals: UnsafeMutablePointer<Float>
) -> Pass {
  let (block, inHead) = (blockSize(shape.groupSize), shape.factors.groups - 1)
  let isWhole = shape.bits == wholeBits(shape)
  let headBytes = shape.factors.headBytes
  var (at, head, target, out) = (panel, panel, floats, scratch)
  for group in 0..<shape.columns / shape.groupSize {
    if group & inHead == 0 {
      head = at
      at += headBytes
    }
    let (scales, biases) = factors(head, group & inHead, shape.factors, shape.bits)
    for _ in 0..<shape.groupSize / block {
      _mm256_storeu_ps(target, scales.0)
      _mm256_storeu_ps(target + 8, scales.1)
      _mm256_storeu_ps(target + 16, biases.0)
      _mm256_storeu_ps(target + 24, biases.1)
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
    weights: isWhole ? panel + headBytes : UnsafeRawPointer(scratch), isNibbles: isWhole && shape.bits == 4,
    gap: isWhole ? headBytes : 0, inHead: headMask(shape.factors, isShared: shape.groupSize > block),
    columns: shape.columns, block: block, factors: floats, totals: totals
  )
}

/// At least four rows of x by the first `count` outputs of a panel.
@inline(__always)
private func manyRows(_ p: Pass, _ x: Int8Activations, _ count: Int, _ y: Output) {
  switch (p.isNibbles, p.block) {
  case (true, 64): many4x64(p, x, count, y)
  case (true, _): many4x32(p, x, count, y)
  case (false, 64): many8x64(p, x, count, y)
  case (false, 32): many8x32(p, x, count, y)
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
      let s = fourRows(w, row + j * block, x.rowBytes, block: block, isNibbles: isNibbles)
      w += blockBytes(block, isNibbles ? 4 : 8)
      let factor = p.factors + 32 * j
      let (scales, biases) = ((load(factor), load(factor + 8)), (load(factor + 16), load(factor + 24)))
      @inline(__always)
      func finish(_ sums: Halves, _ i: Int, isFirst: Bool) {
        let (a, c) = (row + i * x.rowBytes + place.a + 4 * j, row + i * x.rowBytes + place.c + 4 * j)
        let total = p.totals + 256 * i + 16 * (j & 15)
        fold(sums.0, scales.0, biases.0, a, c, isFirst: isFirst, total)
        fold(sums.1, scales.1, biases.1, a, c, isFirst: isFirst, total + 8)
      }
      // One branch for all rows.
      if j < 16 {
        finish(s.0, 0, isFirst: true)
        finish(s.1, 1, isFirst: true)
        finish(s.2, 2, isFirst: true)
        finish(s.3, 3, isFirst: true)
      } else {
        finish(s.0, 0, isFirst: false)
        finish(s.1, 1, isFirst: false)
        finish(s.2, 2, isFirst: false)
        finish(s.3, 3, isFirst: false)
      }
    }
    for i in 0..<4 { storeSums(p.totals + 256 * i, count, y.base + (r + i) * y.stride) }
    r += 4
  }
}

/// The sums of sixteen outputs for four rows of x.
@inline(__always)
private func fourRows(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ stride: Int, block: Int, isNibbles: Bool
) -> (Halves, Halves, Halves, Halves) {
  let none: Halves = (_mm256_setzero_si256(), _mm256_setzero_si256())
  var (s0, s1, s2, s3) = (none, none, none, none)
  @inline(__always)
  func add(_ weights: Halves, _ x: UnsafeRawPointer) {
    @inline(__always)
    func add(_ s: inout Halves, _ i: Int) {
      let values = broadcast(x + i * stride)
      s = (dot(s.0, weights.0, values), dot(s.1, weights.1, values))
    }
    add(&s0, 0)
    add(&s1, 1)
    add(&s2, 2)
    add(&s3, 3)
  }
  // Low nibbles meet the first half of a block of x, high ones the second.
  for i in 0..<block / (isNibbles ? 8 : 4) {
    let weights = (loadBytes(w + 64 * i), loadBytes(w + 64 * i + 32))
    if isNibbles {
      add((lowNibbles(weights.0), lowNibbles(weights.1)), x + 4 * i)
      add((highNibbles(weights.0), highNibbles(weights.1)), x + block / 2 + 4 * i)
    } else {
      add(weights, x + 4 * i)
    }
  }
  return (s0, s1, s2, s3)
}
