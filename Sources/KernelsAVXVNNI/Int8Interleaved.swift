// What PanelRows does with registers in AVX-VNNI: eight of a panel's sixteen outputs each.

import KernelTypes
import _Builtin_intrinsics.intel

/// Sums of outputs 0-7 and 8-15.
typealias PanelSums = (__m256i, __m256i)

@inline(__always)
private func load(_ base: UnsafePointer<Float>) -> __m256 { _mm256_loadu_ps(base) }

/// Slots 0 ... 15 of sixteen outputs, added up and stored for the first `count`.
@inline(__always)
func storeSums(_ totals: UnsafeMutablePointer<Float>, _ count: Int, _ y: UnsafeMutablePointer<Float>) {
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
func clearSlots(from blocks: Int, _ totals: UnsafeMutablePointer<Float>) {
  for slot in min(blocks, 16)..<16 {
    _mm256_storeu_ps(totals + 16 * slot, _mm256_setzero_ps())
    _mm256_storeu_ps(totals + 16 * slot + 8, _mm256_setzero_ps())
  }
}

/// Adds block `j` of sixteen outputs to its slot; slots without a block are zeroed beforehand.
@inline(__always)
func fold(
  _ products: PanelSums, _ scales: Factors, _ biases: Factors, _ a: UnsafeRawPointer, _ c: UnsafeRawPointer,
  isFirst: Bool, _ total: UnsafeMutablePointer<Float>
) {
  @inline(__always)
  func fold(
    _ products: __m256i, _ scales: __m256, _ biases: __m256, _ total: UnsafeMutablePointer<Float>
  ) {
    let factor = _mm256_mul_ps(_mm256_set1_ps(a.loadUnaligned(as: Float.self)), scales)
    let before = isFirst ? _mm256_setzero_ps() : load(total)
    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), factor, before)
    _mm256_storeu_ps(total, _mm256_fmadd_ps(biases, _mm256_set1_ps(c.loadUnaligned(as: Float.self)), sum))
  }
  fold(products.0, scales.0, biases.0, total)
  fold(products.1, scales.1, biases.1, total + 8)
}

/// Nothing: bytes are multiplied as unsigned ones.
@inline(__always)
func completed(
  _ products: PanelSums, _ x: UnsafeRawPointer, _ block: Int, _ columns: Int, _ j: Int
) -> PanelSums { products }

/// Scales or biases of outputs 0-7 and 8-15.
typealias Factors = (__m256, __m256)

@inline(__always)
var noFactors: Factors { (_mm256_setzero_ps(), _mm256_setzero_ps()) }

@inline(__always)
func factors(_ base: UnsafeMutablePointer<Float>) -> Factors { (load(base), load(base + 8)) }

@inline(__always)
func store(_ factors: Factors, _ base: UnsafeMutablePointer<Float>) {
  _mm256_storeu_ps(base, factors.0)
  _mm256_storeu_ps(base + 8, factors.1)
}

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

// MARK: Products

/// The sums of a block's two planes, of which the second has bits from `low` on.
@inline(__always)
func added(_ lower: PanelSums, _ upper: PanelSums, shifted low: Int) -> PanelSums {
  (_mm256_add_epi32(lower.0, left(upper.0, low)), _mm256_add_epi32(lower.1, left(upper.1, low)))
}

/// The products of a plane of `width` bits with a block of x.
@inline(__always)
func planeSums(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ width: Int, _ block: Int) -> PanelSums {
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

/// The sums of sixteen outputs for four rows of x.
@inline(__always)
func fourRows(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ stride: Int, block: Int, isNibbles: Bool
) -> (PanelSums, PanelSums, PanelSums, PanelSums) {
  let none: PanelSums = (_mm256_setzero_si256(), _mm256_setzero_si256())
  var (s0, s1, s2, s3) = (none, none, none, none)
  @inline(__always)
  func add(_ weights: PanelSums, _ x: UnsafeRawPointer) {
    @inline(__always)
    func add(_ s: inout PanelSums, _ i: Int) {
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
