// Products of int8 activations with 4- and 8-bit affine weights by VPDPBUSD, for many rows of x (prefill).
//
// Sixteen output rows are interleaved into a panel: register d holds four consecutive bytes of each of the
// sixteen outputs, so one VPDPBUSD with a broadcast of four activations advances sixteen dot products. Building
// a panel costs about as much as multiplying eight rows with it.

import _Builtin_intrinsics.intel

/// Bytes of scratch that `multiplyInt8Panel` needs, 64-byte aligned.
package func int8PanelBytes(columns: Int, block: Int) -> Int {
  // Panel, scales and biases of 16 outputs; 8 rows of 16 accumulators; a transposition buffer.
  16 * paddedColumns(columns) + 128 * (columns / block) + 8 * 16 * 64 + 2 * 16 * 64
}

/// As `multiplyInt8`, for `weightRows` of at most 16.
package func multiplyInt8Panel(
  packed: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, biases: UnsafeRawPointer,
  scaleRowBytes: Int, scaleFormat: Int, bits: Int, groupSize: Int, weightRows: Int, x: UnsafeRawPointer,
  xStride: Int, xRows: Int, columns: Int, y: UnsafeMutablePointer<Float>, yStride: Int,
  scratch: UnsafeMutableRawPointer, ahead _: Int
) {
  let block = min(groupSize, 64)
  let blocks = columns / block
  let panel = scratch
  let factors = (panel + 16 * paddedColumns(columns)).assumingMemoryBound(to: Float.self)
  let totals = factors + 32 * blocks
  let buffer = UnsafeMutableRawPointer(totals + 8 * 16 * 16)

  for o in 0..<16 {
    let isUsed = o < weightRows
    let (s, b) = (scales + o * scaleRowBytes, biases + o * scaleRowBytes)
    for j in 0..<blocks {
      let group = j * block / groupSize
      factors[32 * j + o] = isUsed ? scalar(s, scaleFormat, group) : 0
      factors[32 * j + 16 + o] = isUsed ? scalar(b, scaleFormat, group) : 0
    }
  }
  for unit in 0..<(columns + 63) / 64 {
    for o in 0..<16 {
      let row =
        o < weightRows
        ? unitWeights(packed + o * rowBytes, unit, columns, bits, block) : _mm512_setzero_si512()
      _mm512_storeu_si512(buffer + 64 * o, row)
    }
    transpose(buffer, to: panel + 1024 * unit)
  }

  let mask = tailMask(weightRows)
  let a = paddedColumns(columns)
  let c = a + 4 * paddedBlocks(columns, block)
  var r = 0
  while r < xRows {
    let rows = min(8, xRows - r)
    for slot in 0..<16 * rows { _mm512_storeu_ps(totals + 16 * slot, _mm512_setzero_ps()) }
    for j in 0..<blocks {
      let source = x + r * xStride
      let target = totals + 16 * (j & 15)
      let factor = factors + 32 * j
      let weights = UnsafeRawPointer(panel + 16 * block * j)
      if rows == 8 {
        eightRows(
          weights, block / 4, source + j * block, xStride, source, a + 4 * j, c + 4 * j, factor, target)
      } else {
        for i in 0..<rows {
          let row = source + i * xStride
          oneRow(weights, block / 4, row + j * block, row, a + 4 * j, c + 4 * j, factor, target + 256 * i)
        }
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

@inline(__always)
private func broadcast(_ x: UnsafeRawPointer, _ dword: Int) -> __m512i {
  _mm512_set1_epi32((x + 4 * dword).loadUnaligned(as: Int32.self))
}

/// One block's contribution to a row's sixteen outputs.
@inline(__always)
private func fold(
  _ products: __m512i, _ row: UnsafeRawPointer, _ a: Int, _ c: Int, _ factor: UnsafeMutablePointer<Float>,
  _ total: UnsafeMutablePointer<Float>
) {
  let scale = _mm512_mul_ps(_mm512_set1_ps((row + a).loadUnaligned(as: Float.self)), load(factor, 0))
  let product = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scale, load(total, 0))
  let sum = _mm512_set1_ps((row + c).loadUnaligned(as: Float.self))
  _mm512_storeu_ps(total, _mm512_fmadd_ps(load(factor, 16), sum, product))
}

@inline(__always)
private func oneRow(
  _ weights: UnsafeRawPointer, _ dwords: Int, _ x: UnsafeRawPointer, _ row: UnsafeRawPointer, _ a: Int,
  _ c: Int,
  _ factor: UnsafeMutablePointer<Float>, _ total: UnsafeMutablePointer<Float>
) {
  var products = _mm512_setzero_si512()
  for d in 0..<dwords {
    products = _mm512_dpbusd_epi32(products, _mm512_loadu_si512(weights + 64 * d), broadcast(x, d))
  }
  fold(products, row, a, c, factor, total)
}

@inline(__always)
private func eightRows(
  _ weights: UnsafeRawPointer, _ dwords: Int, _ x0: UnsafeRawPointer, _ stride: Int, _ row: UnsafeRawPointer,
  _ a: Int, _ c: Int, _ factor: UnsafeMutablePointer<Float>, _ total: UnsafeMutablePointer<Float>
) {
  let zero = _mm512_setzero_si512()
  var (p0, p1, p2, p3) = (zero, zero, zero, zero)
  var (p4, p5, p6, p7) = (zero, zero, zero, zero)
  let (x1, x2, x3) = (x0 + stride, x0 + 2 * stride, x0 + 3 * stride)
  let x4 = x0 + 4 * stride
  let (x5, x6, x7) = (x4 + stride, x4 + 2 * stride, x4 + 3 * stride)
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
  fold(p0, row, a, c, factor, total)
  fold(p1, row + stride, a, c, factor, total + 256)
  fold(p2, row + 2 * stride, a, c, factor, total + 512)
  fold(p3, row + 3 * stride, a, c, factor, total + 768)
  fold(p4, row + 4 * stride, a, c, factor, total + 1024)
  fold(p5, row + 5 * stride, a, c, factor, total + 1280)
  fold(p6, row + 6 * stride, a, c, factor, total + 1536)
  fold(p7, row + 7 * stride, a, c, factor, total + 1792)
}
