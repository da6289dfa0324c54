// Products of int8 activations with 4- and 8-bit affine weights by VPMADDUBSW, for many rows of x (prefill).
//
// Sixteen output rows are interleaved into a panel of nibbles: a pair of registers holds four consecutive nibbles of
// each of the sixteen outputs, so that one VPMADDUBSW with a broadcast of four activations advances eight dot
// products. Sums stay in sixteen bits for eight steps (see Int8Multiply).
//
//   panel of 32 packed bytes per output (64 4-bit weights or 32 8-bit ones), for each of its eight dwords:
//     [ low nibbles, outputs 0-7 | outputs 8-15 | high nibbles, outputs 0-7 | outputs 8-15 ]     128 bytes

package import KernelTypes
import _Builtin_intrinsics.intel

/// Bytes of scratch that `multiplyInt8Panel` needs, 32-byte aligned.
package func int8PanelBytes(_ columns: Int, _ block: Int) -> Int {
  // Nibbles of 16 outputs, their scales and biases, and 4 rows of 16 · 16 accumulators. 8-bit weights have two
  // nibbles each.
  32 * paddedColumns(columns) + 128 * (columns / block) + 4 * 16 * 64
}

/// As `multiplyInt8`, for at most one panel of 4- or 8-bit weights and at least four rows of x. Scalar twin:
/// `Reference.multiplyInt8`.
package func multiplyInt8Panel(
  _ all: QuantizedRows, _ x: Int8Activations, into y: Output, scratch: PanelScratch
) {
  let (bits, columns, groups, rowBytes) = (all.bits, all.columns, all.groups, all.rowBytes)
  let block = min(groups.size, Int8Block.limit)
  let blocks = columns / block
  let panel = scratch.base
  let factors = (panel + 32 * paddedColumns(columns)).assumingMemoryBound(to: Float.self)
  let totals = factors + 32 * blocks
  transposeFactors(groups.scales, groups, rows: all.count, blocks, into: factors)
  transposeFactors(groups.biases, groups, rows: all.count, blocks, into: factors + 16)
  interleave(all, into: panel)

  let a = paddedColumns(columns)
  let c = a + 4 * paddedBlocks(columns, block)
  // Bytes of the panel for a block.
  let stride = 16 * block * bits / 4
  // The next panel's weights are prefetched line by line in between, its few scales at once.
  let next = all.packed + all.count * rowBytes
  let last = scratch.aheadRows * rowBytes
  var (fetched, wanted) = (0, 0)
  let share = last / (blocks * ((x.count + 3) / 4)) + 1
  for line in 0..<(scratch.aheadRows * groups.rowBytes + 63) / 64 {
    prefetch(groups.scales + all.count * groups.rowBytes + 64 * line)
    prefetch(groups.biases + all.count * groups.rowBytes + 64 * line)
  }
  // Slots are written by their first block; those without one are zero.
  for slot in min(blocks, 16)..<16 {
    for i in 0..<4 {
      _mm256_storeu_ps(totals + 256 * i + 16 * slot, _mm256_setzero_ps())
      _mm256_storeu_ps(totals + 256 * i + 16 * slot + 8, _mm256_setzero_ps())
    }
  }
  let xStride = x.rowBytes
  var r = 0
  while r < x.count {
    // The last four rows may overlap those before them.
    r = min(r, x.count - 4)
    let row = x.base + r * xStride
    for j in 0..<blocks {
      wanted = min(wanted + share, last)
      while fetched < wanted {
        prefetch(next + fetched)
        fetched += 64
      }
      let weights = UnsafeRawPointer(panel + stride * j)
      let values = row + j * block
      var p: Sums
      switch (bits, block) {
      case (4, 64): p = fourRows4(weights, 64, values, xStride)
      case (4, _): p = fourRows4(weights, 32, values, xStride)
      case (_, 64): p = fourRows8(weights, 64, values, xStride)
      case (_, 32): p = fourRows8(weights, 32, values, xStride)
      default: p = fourRows8(weights, 16, values, xStride)
      }
      let (scale, sum) = (row + a + 4 * j, row + c + 4 * j)
      let (factor, target) = (factors + 32 * j, totals + 16 * (j & 15))
      if j < 16 {
        foldRows(&p, scale, sum, xStride, isFirst: true, factor, target)
      } else {
        foldRows(&p, scale, sum, xStride, isFirst: false, factor, target)
      }
    }
    for i in 0..<4 { storeSums(totals + 256 * i, all.count, y.base + (r + i) * y.stride) }
    r += 4
  }
}

/// A panel of the outputs' packed rows; zeros for outputs that are not there.
@inline(__always)
private func interleave(_ weights: QuantizedRows, into panel: UnsafeMutableRawPointer) {
  let (packed, rowBytes) = (weights.packed, weights.rowBytes)
  let whole = weights.count == Panel.width ? rowBytes / 32 : 0
  for unit in 0..<whole {
    for half in 0..<2 {
      let (source, target) = (packed + 8 * half * rowBytes + 32 * unit, panel + 1024 * unit + 32 * half)
      interleave(source, rowBytes, 8, nil, target)
      interleave(source + 16, rowBytes, 8, nil, target + 512)
    }
  }
  for unit in 2 * whole..<(rowBytes + 31) / 32 * 2 {
    let mask = tailMask(min(4, max(0, rowBytes / 4 - 4 * unit))).lowHalf
    for half in 0..<2 {
      let (source, target) = (packed + 8 * half * rowBytes + 16 * unit, panel + 512 * unit + 32 * half)
      interleave(source, rowBytes, min(8, max(0, weights.count - 8 * half)), mask, target)
    }
  }
}

/// Scales or biases of the sixteen outputs, transposed: `out[32 · block + output]`. Zeros for outputs that are not there.
@inline(never)
func transposeFactors(
  _ source: UnsafeRawPointer, _ groups: Groups, rows: Int, _ blocks: Int,
  into out: UnsafeMutablePointer<Float>
) {
  let (stride, format, isShared) = (groups.rowBytes, groups.format, isShared(groups))
  var j = 0
  if rows == Panel.width && !isShared {
    while j + 8 <= blocks {
      for half in 0..<2 {
        let base = source + 8 * half * stride + format.bytes * j
        transpose8(base, stride, format, out + 32 * j + 8 * half)
      }
      j += 8
    }
  }
  while j < blocks {
    for o in 0..<16 {
      out[32 * j + o] = o < rows ? scalar(source + o * stride, format, isShared ? j / 2 : j) : 0
    }
    j += 1
  }
}

/// Eight numbers of each of eight rows: `out[32 · column + row]`.
@inline(__always)
private func transpose8(
  _ source: UnsafeRawPointer, _ stride: Int, _ format: FloatFormat, _ out: UnsafeMutablePointer<Float>
) {
  @inline(__always)
  func store(_ rows: (__m256i, __m256i, __m256i, __m256i), _ column: Int) {
    let target = UnsafeMutableRawPointer(out + 32 * column)
    let (c0, c1, c2, c3) = transposed(rows.0, rows.1, rows.2, rows.3)
    storeBytes(c0, target)
    storeBytes(c1, target + 128)
    storeBytes(c2, target + 256)
    storeBytes(c3, target + 384)
  }
  /// Columns 0 to 3 of rows i and i + 4, and columns 4 to 7.
  @inline(__always)
  func pair(_ i: Int) -> (__m256i, __m256i) {
    let (low, high) = (source + i * stride, source + (i + 4) * stride)
    if case .f32 = format {
      return (
        __m256i(lowHalf: load16(low), highHalf: load16(high)),
        __m256i(lowHalf: load16(low + 16), highHalf: load16(high + 16))
      )
    }
    let (a, b) = (load16(low), load16(high))
    return (
      _mm256_castps_si256(widen(_mm_unpacklo_epi64(a, b), format)),
      _mm256_castps_si256(widen(_mm_unpackhi_epi64(a, b), format))
    )
  }
  let (r0, r1, r2, r3) = (pair(0), pair(1), pair(2), pair(3))
  store((r0.0, r1.0, r2.0, r3.0), 0)
  store((r0.1, r1.1, r2.1, r3.1), 4)
}

@inline(__always)
private func load16(_ base: UnsafeRawPointer) -> __m128i {
  _mm_loadu_si128(base.assumingMemoryBound(to: __m128i.self))
}

/// Four dwords of eight rows, transposed: dword d of all rows in the d-th result. Register i has rows i and i + 4 side
/// by side, so that nothing changes its half: a cycle has room for one such shuffle, and for two others.
@inline(__always)
private func transposed(_ r0: __m256i, _ r1: __m256i, _ r2: __m256i, _ r3: __m256i)
  -> (__m256i, __m256i, __m256i, __m256i)
{
  let (a0, a1) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpackhi_epi32(r0, r1))
  let (a2, a3) = (_mm256_unpacklo_epi32(r2, r3), _mm256_unpackhi_epi32(r2, r3))
  return (
    _mm256_unpacklo_epi64(a0, a2), _mm256_unpackhi_epi64(a0, a2), _mm256_unpacklo_epi64(a1, a3),
    _mm256_unpackhi_epi64(a1, a3)
  )
}

/// 16 bytes of eight rows, transposed by dwords and split into nibbles.
///
/// - Parameter mask: of the dwords that a row still has, and after them perhaps the mapping ends; nil for all.
@inline(__always)
private func interleave(
  _ source: UnsafeRawPointer, _ stride: Int, _ rows: Int, _ mask: __m128i?, _ target: UnsafeMutableRawPointer
) {
  @inline(__always)
  func row(_ i: Int) -> __m128i {
    guard let mask else { return load16(source + i * stride) }
    guard i < rows else { return _mm_setzero_si128() }
    return _mm_maskload_epi32((source + i * stride).assumingMemoryBound(to: Int32.self), mask)
  }
  @inline(__always)
  func pair(_ i: Int) -> __m256i { __m256i(lowHalf: row(i), highHalf: row(i + 4)) }
  let (d0, d1, d2, d3) = transposed(pair(0), pair(1), pair(2), pair(3))
  @inline(__always)
  func store(_ dword: Int, _ bytes: __m256i) {
    storeBytes(lowNibbles(bytes), target + 128 * dword)
    storeBytes(highNibbles(bytes), target + 128 * dword + 64)
  }
  store(0, d0)
  store(1, d1)
  store(2, d2)
  store(3, d3)
}

/// Sums a row's sixteen slots in the tree of a register's lanes, and stores its first `count` outputs.
@inline(__always)
private func storeSums(
  _ slots: UnsafeMutablePointer<Float>, _ count: Int, _ y: UnsafeMutablePointer<Float>
) {
  for half in 0..<2 {
    let base = slots + 8 * half
    @inline(__always)
    func two(_ i: Int) -> __m256 { _mm256_add_ps(load(base, 16 * i), load(base, 16 * (i + 8))) }
    @inline(__always)
    func four(_ i: Int) -> __m256 { _mm256_add_ps(two(i), two(i + 4)) }
    let sum = _mm256_add_ps(_mm256_add_ps(four(0), four(2)), _mm256_add_ps(four(1), four(3)))
    let left = min(8, max(0, count - 8 * half))
    if left == 8 {
      _mm256_storeu_ps(y + 8 * half, sum)
    } else if left > 0 {
      _mm256_maskstore_ps(y + 8 * half, tailMask(left), sum)
    }
  }
}

@inline(__always)
private func broadcast(_ x: UnsafeRawPointer, _ at: Int) -> __m256i {
  _mm256_set1_epi32((x + at).loadUnaligned(as: Int32.self))
}

/// One block's contribution to eight outputs of a row.
@inline(__always)
private func fold(
  _ products: __m256i, _ a: __m256, _ c: __m256, isFirst: Bool, _ factor: UnsafeMutablePointer<Float>,
  _ total: UnsafeMutablePointer<Float>
) {
  let scale = _mm256_mul_ps(a, load(factor, 0))
  let before = isFirst ? _mm256_setzero_ps() : load(total, 0)
  let product = _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), scale, before)
  _mm256_storeu_ps(total, _mm256_fmadd_ps(load(factor, 16), c, product))
}

@inline(__always)
private func widened(_ sums: __m256i) -> __m256i { _mm256_madd_epi16(sums, _mm256_set1_epi16(1)) }

/// Sums of sixteen outputs of four rows of x: of row r in registers 2 · r and 2 · r + 1.
private typealias Sums = IntegerRegisters

/// Adds up to eight steps of one plane of nibbles for four rows and sixteen outputs.
@inline(__always)
private func plane(_ weights: UnsafeRawPointer, _ steps: Int, _ x: UnsafeRawPointer, _ stride: Int) -> Sums {
  var sums = registers(of: _mm256_setzero_si256())
  @inline(__always)
  func step(_ d: Int, _ add: (_ sum: __m256i, _ products: __m256i) -> __m256i) {
    let (low, high) = (loadBytes(weights + 128 * d), loadBytes(weights + 128 * d + 32))
    for r in 0..<4 {
      let values = broadcast(x + r * stride, 4 * d)
      set(&sums, 2 * r, add(get(&sums, 2 * r), _mm256_maddubs_epi16(low, values)))
      set(&sums, 2 * r + 1, add(get(&sums, 2 * r + 1), _mm256_maddubs_epi16(high, values)))
    }
  }
  step(0) { $1 }
  for d in 1..<steps { step(d, _mm256_add_epi16) }
  for i in 0..<8 { set(&sums, i, widened(get(&sums, i))) }
  return sums
}

@inline(__always)
private func foldRows(
  _ p: inout Sums, _ a: UnsafeRawPointer, _ c: UnsafeRawPointer, _ stride: Int, isFirst: Bool,
  _ factor: UnsafeMutablePointer<Float>, _ total: UnsafeMutablePointer<Float>
) {
  for r in 0..<4 {
    let scale = _mm256_set1_ps((a + r * stride).loadUnaligned(as: Float.self))
    let sum = _mm256_set1_ps((c + r * stride).loadUnaligned(as: Float.self))
    fold(get(&p, 2 * r), scale, sum, isFirst: isFirst, factor, total + 256 * r)
    fold(get(&p, 2 * r + 1), scale, sum, isFirst: isFirst, factor + 8, total + 256 * r + 8)
  }
}

@inline(__always)
private func fourRows4(_ weights: UnsafeRawPointer, _ block: Int, _ x: UnsafeRawPointer, _ stride: Int)
  -> Sums
{
  var sums = plane(weights, block / 8, x, stride)
  var high = plane(weights + 64, block / 8, x + block / 2, stride)
  for i in 0..<8 { set(&sums, i, _mm256_add_epi32(get(&sums, i), get(&high, i))) }
  return sums
}

@inline(__always)
private func fourRows8(_ weights: UnsafeRawPointer, _ block: Int, _ x: UnsafeRawPointer, _ stride: Int)
  -> Sums
{
  var sums = registers(of: _mm256_setzero_si256())
  let steps = min(8, block / 4)
  for segment in 0..<block / (4 * steps) {
    let (w, y) = (weights + 1024 * segment, x + 32 * segment)
    var low = plane(w, steps, y, stride)
    var high = plane(w + 64, steps, y, stride)
    for i in 0..<8 {
      set(
        &sums, i,
        _mm256_add_epi32(get(&sums, i), _mm256_add_epi32(get(&low, i), _mm256_slli_epi32(get(&high, i), 4))))
    }
  }
  return sums
}
