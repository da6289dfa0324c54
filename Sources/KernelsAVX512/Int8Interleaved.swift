// Products of int8 activations with affine weights that are kept as panels of sixteen outputs, for any number of rows.
//
// A panel is read from its first byte to its last, and a register of it holds a piece of each of the sixteen outputs: no
// lanes are summed, and one VPDPBUSD with a broadcast of four activations advances sixteen dot products.
//
// In order of the activations, the weights of a block are block / 4 registers of bytes. A plane of b bits packs them into
// n = block / 4 · b / 8 registers: bits b·k ..< b·k + b of the bytes of register i are those of register i + n·k
// (PanelMaking has the planes of a width).

package import KernelTypes
import _Builtin_intrinsics.intel

/// Rows from which a panel is kept, side by side. There is nothing to prefetch beside it.
@inline(__always)
func interleaveRows(_ weights: QuantizedRows, _ bits: Int, into out: UnsafeMutableRawPointer) {
  _ = interleave(
    weights.packed, rowBytes: weights.rowBytes, rows: weights.count, into: out, prefetching: weights.packed,
    upTo: weights.packed, 0)
}

@inline(__always)
private func copyRegisters(_ source: UnsafeRawPointer, _ count: Int, _ out: UnsafeMutableRawPointer) {
  for i in 0..<count / 64 { _mm512_storeu_si512(out + 64 * i, _mm512_loadu_si512(source + 64 * i)) }
}

/// - Parameter source: the registers of a block, of nibbles or bytes (`whole` bits).
@inline(never)
func writePlanes(
  _ source: UnsafeRawPointer, _ block: Int, _ whole: Int, low: Int, high: Int,
  _ out: UnsafeMutableRawPointer
) {
  let count = block / 4
  /// Register i of the bytes.
  func bytes(_ i: Int) -> __m512i {
    guard whole == 4 else { return _mm512_loadu_si512(source + 64 * i) }
    let words = _mm512_loadu_si512(source + 64 * (i % (count / 2)))
    return _mm512_and_si512(i < count / 2 ? words : _mm512_srli_epi32(words, 4), everyByte(15))
  }
  func write(_ width: Int, _ shift: Int, _ target: UnsafeMutableRawPointer) {
    let registers = count * width / 8
    for i in 0..<registers {
      var words = _mm512_setzero_si512()
      for k in 0..<8 / width {
        let field = _mm512_and_si512(
          _mm512_srl_epi32(bytes(i + registers * k), _mm_cvtsi64_si128(Int64(shift))),
          everyByte((1 << width) - 1))
        words = _mm512_or_si512(words, _mm512_sll_epi32(field, _mm_cvtsi64_si128(Int64(width * k))))
      }
      _mm512_storeu_si512(target + 64 * i, words)
    }
  }
  write(low, 0, out)
  if high > 0 { write(high, low, out + blockBytes(block, low)) }
}

@inline(__always)
private func everyByte(_ value: Int) -> __m512i {
  _mm512_set1_epi32(Int32(truncatingIfNeeded: 0x0101_0101 * value))
}

/// As `multiplyInt8`, to the bit. Scalar twin: `Reference.multiplyInt8`.
///
/// - Parameter scratch: `int8PanelBytes`.
package func multiplyInt8Interleaved(
  _ weights: PanelRows, _ x: Int8Activations, into y: Output, scratch: UnsafeMutableRawPointer
) {
  let (shape, panelBytes) = (weights.shape, int8InterleavedBytes(weights.shape))
  let block = blockSize(shape.groupSize)
  let totals = scratch.assumingMemoryBound(to: Float.self)
  let a = paddedColumns(shape.columns)
  let c = a + 4 * paddedBlocks(shape.columns, block)
  var (panel, output) = (weights.base, y)
  for o in stride(from: 0, to: weights.count, by: Panel.width) {
    let (count, next) = (min(Panel.width, weights.count - o), panel + panelBytes)
    if x.count >= 4 {
      let ahead = o + Panel.width < weights.count ? panelBytes : min(panelBytes, weights.aheadBytes)
      multiplyPanel(
        pass(panel, shape, x, scratch, prefetching: next, upTo: next + ahead, into: output, outputs: count),
        bits: wholeBits(shape), block: block, rows: x.count)
    } else {
      for r in 0..<x.count {
        let one: PanelRow = (
          panel: panel, blocks: shape.columns / block, isShared: shape.groupSize > block,
          x: x.base + r * x.rowBytes, a: a, c: c, totals: totals
        )
        multiplyRow(one, shape, block)
        _mm512_mask_storeu_ps(
          output.base + r * output.stride, tailMask(count), sumOfSlots(totals, one.blocks))
      }
    }
    panel = next
    output.base += Panel.width
  }
}

// MARK: Many rows of x

/// A panel for the kernels of many rows: as it is, or in scratch with its weights as nibbles or bytes and its scales as floats.
///
/// For few rows the next panel is prefetched into the second-level cache: the first has no room for two beside x and the sums
/// (8 rows from memory: 21 GB/s, 16 with the first level, 11 without). Many rows leave it time to come to the first.
@inline(never)
func pass(
  _ panel: UnsafeRawPointer, _ shape: PanelShape, _ x: Int8Activations, _ scratch: UnsafeMutableRawPointer,
  prefetching next: UnsafeRawPointer, upTo last: UnsafeRawPointer, into y: Output, outputs: Int
) -> Pass {
  let (bits, columns, whole) = (shape.bits, shape.columns, wholeBits(shape))
  let block = blockSize(shape.groupSize)
  let (headBytes, perGroup) = (shape.factors.headBytes, shape.groupSize / block)
  let (blocks, a, weights) = (columns / block, paddedColumns(columns), blockBytes(block, bits))
  // Weights in scratch are at a distance from the sums at which loads do not look, modulo 4 KiB, like what was just stored:
  // with the near prefetches 512 rows of x are 5 to 7 % faster so. Eight would not pay for the copy.
  let isMany = x.count >= 32
  let (inHead, isShared) = (shape.factors.groups - 1, perGroup > 1)
  var p: Pass = (
    panel: panel + headBytes, gap: headBytes,
    gapShift: headMask(shape.factors, isShared: isShared).nonzeroBitCount, blocks: blocks, x: x.base,
    stride: x.rowBytes, a: a, c: a + 4 * paddedBlocks(columns, block), factors: panel,
    factorStep: headBytes + perGroup * weights, factorShift: isShared ? 1 : 0, scaleFormat: .f32,
    totals: (scratch + int8PanelBytes(columns, block) - totalBytes()).assumingMemoryBound(to: Float.self),
    next: next, last: last, share: (last - next) / (blocks * passCount(x.count)) + 1, isFar: !isMany, y: y,
    mask: tailMask(outputs)
  )
  let isWhole = bits == whole
  let isMoved = !isWhole || isMany
  if case .pairs(let format) = shape.factors, !isMoved {
    p.scaleFormat = format
    return p
  }
  var (at, head, out) = (panel, panel, scratch)
  var floats = scratch + 16 * paddedColumns(columns)
  if isMoved { (p.panel, p.gap) = (UnsafeRawPointer(scratch), 0) }
  (p.factors, p.factorStep) = (UnsafeRawPointer(floats), 128)
  for group in 0..<columns / shape.groupSize {
    if group & inHead == 0 {
      head = at
      at += headBytes
    }
    let (scale, bias) = factors(head, group & inHead, shape.factors, bits)
    _mm512_storeu_ps(floats, scale)
    _mm512_storeu_ps(floats + 64, bias)
    floats += 128
    guard isMoved else {
      at += perGroup * weights
      continue
    }
    for _ in 0..<perGroup {
      if isWhole { copyRegisters(at, weights, out) } else { unpack(at, bits, block, whole, out) }
      out += blockBytes(block, whole)
      at += weights
    }
  }
  return p
}

/// A block of planes as nibbles or bytes (`whole` bits).
@inline(never)
func unpack(
  _ w: UnsafeRawPointer, _ bits: Int, _ block: Int, _ whole: Int, _ out: UnsafeMutableRawPointer
) {
  let count = block / 4
  let low = bits < 4 ? 2 : 4
  let upper = w + blockBytes(block, low)
  /// Register i of the bytes of a plane.
  @inline(__always)
  func field(_ plane: UnsafeRawPointer, _ width: Int, _ i: Int) -> __m512i {
    let registers = count * width / 8
    let words = _mm512_loadu_si512(plane + 64 * (i % registers))
    let shifted = _mm512_srl_epi32(words, _mm_cvtsi64_si128(Int64(width * (i / registers))))
    return _mm512_and_si512(shifted, everyByte((1 << width) - 1))
  }
  @inline(__always)
  func bytes(_ i: Int) -> __m512i {
    let first = field(w, low, i)
    return bits == low ? first : _mm512_or_si512(first, left(field(upper, bits - low, i), low))
  }
  if whole == 8 {
    for i in 0..<count { _mm512_storeu_si512(out + 64 * i, bytes(i)) }
  } else {
    for i in 0..<count / 2 {
      _mm512_storeu_si512(out + 64 * i, _mm512_or_si512(bytes(i), left(bytes(i + count / 2), 4)))
    }
  }
}

// MARK: One row of x

/// What PanelShapes takes. `a` and `c` are where the row of x has its scales and its sums.
///
/// Row by row while the panel is in the first-level cache: a row takes less than half of the time that the panel took to
/// get there, so rows in pairs would not be worth their own functions.
typealias PanelRow = (
  panel: UnsafeRawPointer, blocks: Int, isShared: Bool, x: UnsafeRawPointer, a: Int, c: Int,
  totals: UnsafeMutablePointer<Float>
)

/// - Parameters:
///   - low: bits of the first plane.
///   - high: bits of the second, or 0.
@inline(__always)
func panelRow(_ p: PanelRow, low: Int, high: Int, block: Int, _ kind: PanelFactors) {
  var (at, head) = (p.panel, p.panel)
  var (scale, bias) = (_mm512_setzero_ps(), _mm512_setzero_ps())
  // A group of 128 is two blocks of 64 with the same scale.
  let isShared = block == 64 && p.isShared
  let inHead = headMask(kind, isShared: isShared)
  for j in 0..<p.blocks {
    if j & inHead == 0 {
      head = at
      if kind.groups > 1 { prefetchLater(at, kind.headBytes) }
      at += kind.headBytes
    }
    if kind.groups > 1 { prefetchLater(at, blockBytes(block, low + high)) }
    if !isShared || j & 1 == 0 { (scale, bias) = factors(head, j & inHead, kind, low + high) }
    let x = p.x + j * block
    var products = plane(at, x, low, block, _mm512_castps_si512(widener))
    if high > 0 {
      let upper = plane(at + blockBytes(block, low), x, high, block, _mm512_setzero_si512())
      products = _mm512_add_epi32(products, left(upper, low))
    }
    at += blockBytes(block, low + high)
    let slot = 16 * (j & 15)
    let before = j < 16 ? _mm512_setzero_ps() : load(p.totals, slot)
    let (a, c) = (p.x + p.a + 4 * j, p.x + p.c + 4 * j)
    _mm512_storeu_ps(p.totals + slot, folded(widened(products), scale, bias, a, c, before))
  }
  // Slots without a block are zero.
  for slot in min(p.blocks, 16)..<slots(p.blocks) {
    _mm512_storeu_ps(p.totals + 16 * slot, _mm512_setzero_ps())
  }
}

/// Prefetches what stands 4 KiB after `count` bytes of a panel, a constant: where scales have to be unpacked, the processor
/// does not look far enough ahead by itself.
@inline(__always)
private func prefetchLater(_ at: UnsafeRawPointer, _ count: Int) {
  for line in 0..<count / 64 { prefetchFar(at + 4096 + 64 * line) }
}

/// As `factors`, for what both levels of x86 share.
@inline(__always)
func sixteenFactors(
  _ head: UnsafeRawPointer, _ group: Int, _ kind: PanelFactors, _ bits: Int
) -> (scales: SIMD16<Float>, biases: SIMD16<Float>) { factors(head, group, kind, bits) }

/// The scales and biases of a head's group.
@inline(__always)
func factors(
  _ head: UnsafeRawPointer, _ group: Int, _ kind: PanelFactors, _ bits: Int
) -> (scales: __m512, biases: __m512) {
  switch kind {
  case .pairs(let format): return (factors(head, format), factors(head + factorBytes(format), format))
  case .halves:
    let scales = factors(head + 32 * group, .f16)
    return (scales, _mm512_mul_ps(scales, _mm512_set1_ps(middle(bits))))
  case .bytes:
    let codes = head + 64 + 32 * group
    return (
      _mm512_mul_ps(factors(head, .f16), bytes(codes)),
      _mm512_mul_ps(factors(head + 32, .f16), bytes(codes + 16))
    )
  case .signedBytes:
    let codes = _mm512_cvtepi8_epi32((head + 64 + 16 * group).loadUnaligned(as: __m128i.self))
    let scales = _mm512_mul_ps(factors(head, .f16), _mm512_cvtepi32_ps(codes))
    return (scales, _mm512_mul_ps(scales, _mm512_set1_ps(middle(bits))))
  case .nibbles:
    let codes = _mm512_cvtepu8_epi32((head + 64 + 16 * group).loadUnaligned(as: __m128i.self))
    let low = _mm512_cvtepi32_ps(_mm512_and_si512(codes, _mm512_set1_epi32(15)))
    return (
      _mm512_mul_ps(factors(head, .f16), low),
      _mm512_mul_ps(factors(head + 32, .f16), _mm512_cvtepi32_ps(_mm512_srli_epi32(codes, 4)))
    )
  }
}

/// Sixteen bytes as floats.
@inline(__always)
private func bytes(_ base: UnsafeRawPointer) -> __m512 {
  _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(base.loadUnaligned(as: __m128i.self)))
}

/// Sixteen scales or biases.
@inline(__always)
func factors(_ base: UnsafeRawPointer, _ format: FloatFormat) -> __m512 {
  switch format {
  case .f32: return _mm512_loadu_ps(base)
  case .f16: return _mm512_cvtph_ps(base.loadUnaligned(as: __m256i.self))
  case .bf16:
    let words = _mm512_cvtepu16_epi32(base.loadUnaligned(as: __m256i.self))
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16))
  }
}

@inline(__always)
private func left(_ sums: __m512i, _ bits: Int) -> __m512i {
  _mm512_slli_epi32(sums, UInt32(truncatingIfNeeded: bits))
}

@inline(__always)
private func right(_ sums: __m512i, _ bits: Int) -> __m512i {
  _mm512_srai_epi32(sums, UInt32(truncatingIfNeeded: bits))
}

/// The products of a plane of `width` bits with a block of x, `first` added.
///
/// Fields are multiplied where they stand in their bytes, as 2^(width · k) times their value: the sum of each k is a
/// multiple of that, and one shift of it takes the place of one for each register.
@inline(__always)
private func plane(
  _ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ width: Int, _ block: Int, _ first: __m512i
) -> __m512i {
  let zero = _mm512_setzero_si512()
  let count = block * width / 32
  var (s0, s1, s2, s3) = (first, zero, zero, zero)
  @inline(__always)
  func add(_ sum: inout __m512i, _ weights: __m512i, _ i: Int) {
    sum = _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32((x + 4 * i).loadUnaligned(as: Int32.self)))
  }
  @inline(__always)
  func field(_ words: __m512i, _ k: Int) -> __m512i {
    _mm512_and_si512(words, everyByte(((1 << width) - 1) << (width * k)))
  }
  for i in 0..<count {
    let words = _mm512_loadu_si512(w + 64 * i)
    if width == 8 {
      // Two chains of sums, or each product would wait for the one before.
      if i & 1 == 0 { add(&s0, words, i) } else { add(&s1, words, i) }
    } else {
      add(&s0, field(words, 0), i)
      add(&s1, field(words, 1), i + count)
    }
    if width <= 2 {
      add(&s2, field(words, 2), i + 2 * count)
      add(&s3, field(words, 3), i + 3 * count)
    }
    if width == 1 {
      let upper = _mm512_srli_epi32(words, 4)
      add(&s0, field(upper, 0), i + 4 * count)
      add(&s1, field(upper, 1), i + 5 * count)
      add(&s2, field(upper, 2), i + 6 * count)
      add(&s3, field(upper, 3), i + 7 * count)
    }
  }
  if width == 8 { return _mm512_add_epi32(s0, s1) }
  let two = _mm512_add_epi32(s0, right(s1, width))
  return width == 4
    ? two : _mm512_add_epi32(two, _mm512_add_epi32(right(s2, 2 * width), right(s3, 3 * width)))
}
