// Products of int8 activations with 4- and 8-bit affine weights by VPDPBUSD, for many rows of x (prefill).
//
// Sixteen output rows are interleaved into a panel: a register holds four consecutive bytes of each of the sixteen
// outputs, so one VPDPBUSD with a broadcast of four activations advances sixteen dot products.
//
//   panel, 4 bits, for each block:  [ low nibbles of packed dword 0, outputs 0-15 | dword 1 | ... | high nibbles of
//                                     dword 0 | dword 1 | ... ]                     64 bytes each
//   panel, 8 bits:                  [ dword 0, outputs 0-15 | dword 1 | ... ]
//   factors:                        [ scales of block 0, outputs 0-15 | block 1 | ... ]  [ biases likewise ]

import _Builtin_intrinsics.intel

/// Columns of a panel: 4-bit weights are interleaved 128 at a time.
@inline(__always)
private func panelColumns(_ columns: Int) -> Int { (columns + 127) & ~127 }

/// Bytes of scratch that `multiplyInt8Panel` needs, 64-byte aligned.
package func int8PanelBytes(columns: Int, block: Int) -> Int {
  // Panel, scales and biases of 16 outputs; 8 rows of 16 accumulators; two buffers of a transposition.
  16 * panelColumns(columns) + 128 * paddedBlocks(columns, block) + 8 * 16 * 64 + 2 * 16 * 64
}

/// As `multiplyInt8`, for `weightRows` of at most 16. `aheadRows` weight rows, the first of them `ahead` rows behind
/// this panel's first, will be wanted soon: they are asked for along the way.
package func multiplyInt8Panel(
  packed: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, biases: UnsafeRawPointer,
  scaleRowBytes: Int, scaleFormat: Int, bits: Int, groupSize: Int, weightRows: Int, x: UnsafeRawPointer,
  xStride: Int, xRows: Int, columns: Int, y: UnsafeMutablePointer<Float>, yStride: Int,
  scratch: UnsafeMutableRawPointer, ahead: Int, aheadRows: Int
) {
  let block = min(groupSize, 64)
  let blocks = columns / block
  let biasOffset = 16 * paddedBlocks(columns, block)
  let panel = scratch
  let factors = (panel + 16 * panelColumns(columns)).assumingMemoryBound(to: Float.self)
  let totals = factors + 2 * biasOffset
  let buffer = UnsafeMutableRawPointer(totals + 8 * 16 * 16)

  interleaveFactors(scales, scaleRowBytes, scaleFormat, weightRows, blocks, groupSize > 64, buffer, factors)
  interleaveFactors(
    biases, scaleRowBytes, scaleFormat, weightRows, blocks, groupSize > 64, buffer, factors + biasOffset)
  if bits == 4 {
    interleave4(packed, rowBytes, weightRows, columns, block, buffer, panel)
  } else {
    interleave8(packed, rowBytes, weightRows, columns, buffer, panel)
  }

  let mask = tailMask(weightRows)
  let a = paddedColumns(columns)
  let c = a + 4 * paddedBlocks(columns, block)
  // The next panel's weights are asked for line by line in between, its few scales at once.
  let next = packed + ahead * rowBytes
  let last = aheadRows * rowBytes
  var (asked, wanted) = (0, 0)
  let share = last / (blocks * ((xRows + 7) / 8)) + 1
  for line in 0..<(aheadRows * scaleRowBytes + 63) / 64 {
    prefetch(scales + ahead * scaleRowBytes + 64 * line)
    prefetch(biases + ahead * scaleRowBytes + 64 * line)
  }
  var r = 0
  while r < xRows {
    let rows = min(8, xRows - r)
    // Two or three rows are computed as four, five to seven as eight, the last of them again.
    for i in 0..<(rows == 1 ? 1 : rows <= 4 ? 4 : 8) {
      // Slots are written by their first block; those without one are zero.
      for slot in min(blocks, 16)..<16 { _mm512_storeu_ps(totals + 256 * i + 16 * slot, _mm512_setzero_ps()) }
    }
    for j in 0..<blocks {
      wanted = min(wanted + share, last)
      while asked < wanted {
        prefetch(next + asked)
        asked += 64
      }
      let row = x + r * xStride
      let weights = UnsafeRawPointer(panel + 16 * block * j)
      let (factor, target) = (factors + 16 * j, totals + 16 * (j & 15))
      let (isFirst, x0) = (j < 16, row + j * block)
      if rows == 1 {
        oneRow(weights, block / 4, x0, row, a + 4 * j, c + 4 * j, isFirst, factor, biasOffset, target)
      } else if rows <= 4 {
        fourRows(
          weights, block / 4, x0, xStride, rows - 1, row, a + 4 * j, c + 4 * j, isFirst, factor, biasOffset,
          target)
      } else {
        eightRows(
          weights, block / 4, x0, xStride, rows - 1, row, a + 4 * j, c + 4 * j, isFirst, factor, biasOffset,
          target)
      }
    }
    for i in 0..<rows {
      _mm512_mask_storeu_ps(y + (r + i) * yStride, mask, sumOfSlots(totals + 256 * i))
    }
    r += rows
  }
}

/// The tree of `sum` over sixteen registers instead of sixteen lanes.
@inline(__always)
private func sumOfSlots(_ slots: UnsafeMutablePointer<Float>) -> __m512 {
  @inline(__always)
  func two(_ i: Int) -> __m512 { _mm512_add_ps(load(slots, 16 * i), load(slots, 16 * (i + 8))) }
  @inline(__always)
  func four(_ i: Int) -> __m512 { _mm512_add_ps(two(i), two(i + 4)) }
  return _mm512_add_ps(_mm512_add_ps(four(0), four(2)), _mm512_add_ps(four(1), four(3)))
}

/// 16 × 16 dwords. Interleaving register i with i + 8 moves one bit of the row number into the lane number;
/// after four rounds they have changed places.
@inline(__always)
private func transpose(_ source: UnsafeMutableRawPointer, to target: UnsafeMutableRawPointer) {
  let low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0)
  let high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8)
  let other = source + 1024
  for round in 0..<4 {
    let from = round & 1 == 0 ? source : other
    let to = round == 3 ? target : round & 1 == 0 ? other : source
    for i in 0..<8 {
      let (one, two) = (_mm512_loadu_si512(from + 64 * i), _mm512_loadu_si512(from + 64 * (i + 8)))
      _mm512_storeu_si512(to + 128 * i, _mm512_permutex2var_epi32(one, low, two))
      _mm512_storeu_si512(to + 128 * i + 64, _mm512_permutex2var_epi32(one, high, two))
    }
  }
}

/// Scales or biases of the sixteen outputs: `out[16 · block + output]`, zeros for outputs that are not there.
@inline(never)
func interleaveFactors(
  _ source: UnsafeRawPointer, _ stride: Int, _ format: Int, _ rows: Int, _ blocks: Int, _ isShared: Bool,
  _ buffer: UnsafeMutableRawPointer, _ out: UnsafeMutablePointer<Float>
) {
  var first = 0
  while first < blocks {
    for o in 0..<16 {
      let factors =
        o < rows ? coefficients(source + o * stride, format, first, blocks, isShared) : _mm512_setzero_ps()
      _mm512_storeu_ps(buffer + 64 * o, factors)
    }
    transpose(buffer, to: UnsafeMutableRawPointer(out + 16 * first))
    first += 16
  }
}

/// Nibbles are interleaved as they are packed, 128 of a row at a time, and split afterwards.
@inline(never)
func interleave4(
  _ packed: UnsafeRawPointer, _ rowBytes: Int, _ rows: Int, _ columns: Int, _ block: Int,
  _ buffer: UnsafeMutableRawPointer, _ panel: UnsafeMutableRawPointer
) {
  let nibbles = _mm512_set1_epi32(0x0F0F_0F0F)
  let half = block / 8
  var first = 0
  while first < columns {
    let mask = tailMask(min(16, (columns - first) / 8))
    for o in 0..<16 {
      let words =
        o < rows
        ? _mm512_maskz_loadu_epi32(mask, packed + o * rowBytes + first / 2) : _mm512_setzero_si512()
      _mm512_storeu_si512(buffer + 64 * o, words)
    }
    transpose(buffer, to: buffer)
    for d in 0..<16 {
      let word = _mm512_loadu_si512(buffer + 64 * d)
      let low = panel + 16 * first + 64 * (2 * d - d % half)
      _mm512_storeu_si512(low, _mm512_and_si512(word, nibbles))
      _mm512_storeu_si512(low + 64 * half, _mm512_and_si512(_mm512_srli_epi32(word, 4), nibbles))
    }
    first += 128
  }
}

@inline(never)
func interleave8(
  _ packed: UnsafeRawPointer, _ rowBytes: Int, _ rows: Int, _ columns: Int, _ buffer: UnsafeMutableRawPointer,
  _ panel: UnsafeMutableRawPointer
) {
  var first = 0
  while first < columns {
    let mask = tailMask(min(16, (columns - first) / 4))
    for o in 0..<16 {
      let words =
        o < rows ? _mm512_maskz_loadu_epi32(mask, packed + o * rowBytes + first) : _mm512_setzero_si512()
      _mm512_storeu_si512(buffer + 64 * o, words)
    }
    transpose(buffer, to: panel + 16 * first)
    first += 64
  }
}

@inline(__always)
private func broadcast(_ x: UnsafeRawPointer, _ dword: Int) -> __m512i {
  _mm512_set1_epi32((x + 4 * dword).loadUnaligned(as: Int32.self))
}

/// One block's contribution to a row's sixteen outputs.
@inline(__always)
private func fold(
  _ products: __m512i, _ row: UnsafeRawPointer, _ a: Int, _ c: Int, _ isFirst: Bool,
  _ factor: UnsafeMutablePointer<Float>, _ biasOffset: Int, _ total: UnsafeMutablePointer<Float>
) {
  let scale = _mm512_mul_ps(_mm512_set1_ps((row + a).loadUnaligned(as: Float.self)), load(factor, 0))
  let before = isFirst ? _mm512_setzero_ps() : load(total, 0)
  let product = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scale, before)
  let sum = _mm512_set1_ps((row + c).loadUnaligned(as: Float.self))
  _mm512_storeu_ps(total, _mm512_fmadd_ps(load(factor, biasOffset), sum, product))
}

@inline(__always)
private func oneRow(
  _ weights: UnsafeRawPointer, _ dwords: Int, _ x: UnsafeRawPointer, _ row: UnsafeRawPointer, _ a: Int,
  _ c: Int, _ isFirst: Bool, _ factor: UnsafeMutablePointer<Float>, _ biasOffset: Int,
  _ total: UnsafeMutablePointer<Float>
) {
  var products = _mm512_setzero_si512()
  for d in 0..<dwords {
    products = _mm512_dpbusd_epi32(products, _mm512_loadu_si512(weights + 64 * d), broadcast(x, d))
  }
  fold(products, row, a, c, isFirst, factor, biasOffset, total)
}

/// Row i of four is row min(i, `last`).
@inline(__always)
private func fourRows(
  _ weights: UnsafeRawPointer, _ dwords: Int, _ x0: UnsafeRawPointer, _ stride: Int, _ last: Int,
  _ row: UnsafeRawPointer, _ a: Int, _ c: Int, _ isFirst: Bool, _ factor: UnsafeMutablePointer<Float>,
  _ biasOffset: Int, _ total: UnsafeMutablePointer<Float>
) {
  let zero = _mm512_setzero_si512()
  var (p0, p1, p2, p3) = (zero, zero, zero, zero)
  let (s1, s2, s3) = (min(1, last) * stride, min(2, last) * stride, min(3, last) * stride)
  for d in 0..<dwords {
    let w = _mm512_loadu_si512(weights + 64 * d)
    p0 = _mm512_dpbusd_epi32(p0, w, broadcast(x0, d))
    p1 = _mm512_dpbusd_epi32(p1, w, broadcast(x0 + s1, d))
    p2 = _mm512_dpbusd_epi32(p2, w, broadcast(x0 + s2, d))
    p3 = _mm512_dpbusd_epi32(p3, w, broadcast(x0 + s3, d))
  }
  fold(p0, row, a, c, isFirst, factor, biasOffset, total)
  fold(p1, row + s1, a, c, isFirst, factor, biasOffset, total + 256)
  fold(p2, row + s2, a, c, isFirst, factor, biasOffset, total + 512)
  fold(p3, row + s3, a, c, isFirst, factor, biasOffset, total + 768)
}

/// Row i of eight is row min(i, `last`), with `last` at least 4.
@inline(__always)
private func eightRows(
  _ weights: UnsafeRawPointer, _ dwords: Int, _ x0: UnsafeRawPointer, _ stride: Int, _ last: Int,
  _ row: UnsafeRawPointer, _ a: Int, _ c: Int, _ isFirst: Bool, _ factor: UnsafeMutablePointer<Float>,
  _ biasOffset: Int, _ total: UnsafeMutablePointer<Float>
) {
  let zero = _mm512_setzero_si512()
  var (p0, p1, p2, p3) = (zero, zero, zero, zero)
  var (p4, p5, p6, p7) = (zero, zero, zero, zero)
  let (s5, s6, s7) = (min(5, last) * stride, min(6, last) * stride, min(7, last) * stride)
  let (x1, x2, x3) = (x0 + stride, x0 + 2 * stride, x0 + 3 * stride)
  let (x4, x5, x6, x7) = (x0 + 4 * stride, x0 + s5, x0 + s6, x0 + s7)
  for d in 0..<dwords {
    let w = _mm512_loadu_si512(weights + 64 * d)
    p0 = _mm512_dpbusd_epi32(p0, w, broadcast(x0, d))
    p1 = _mm512_dpbusd_epi32(p1, w, broadcast(x1, d))
    p2 = _mm512_dpbusd_epi32(p2, w, broadcast(x2, d))
    p3 = _mm512_dpbusd_epi32(p3, w, broadcast(x3, d))
    p4 = _mm512_dpbusd_epi32(p4, w, broadcast(x4, d))
    p5 = _mm512_dpbusd_epi32(p5, w, broadcast(x5, d))
    p6 = _mm512_dpbusd_epi32(p6, w, broadcast(x6, d))
    p7 = _mm512_dpbusd_epi32(p7, w, broadcast(x7, d))
  }
  fold(p0, row, a, c, isFirst, factor, biasOffset, total)
  fold(p1, row + stride, a, c, isFirst, factor, biasOffset, total + 256)
  fold(p2, row + 2 * stride, a, c, isFirst, factor, biasOffset, total + 512)
  fold(p3, row + 3 * stride, a, c, isFirst, factor, biasOffset, total + 768)
  fold(p4, row + 4 * stride, a, c, isFirst, factor, biasOffset, total + 1024)
  fold(p5, row + s5, a, c, isFirst, factor, biasOffset, total + 1280)
  fold(p6, row + s6, a, c, isFirst, factor, biasOffset, total + 1536)
  fold(p7, row + s7, a, c, isFirst, factor, biasOffset, total + 1792)
}
