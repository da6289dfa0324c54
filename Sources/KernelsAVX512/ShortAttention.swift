// Attention over a short text in AVX-512, in float32: to round its queries, keys and values to integers, and to lay them out in
// blocks, takes several times as long as all of its products.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `out[r] = softmax(scale · q[r] · keysᵀ) · values` for all rows and query heads. Scalar twin: `Reference.attendShortly`.
package func attendShortly(_ text: ShortText, _ scratch: UnsafeMutablePointer<Float>, into out: Output) {
  let (tokens, headDim, stride) = (text.tokens, text.headDim, text.stride)
  let keys = scratch  // [headDim][32]
  let weights = keys + headDim * blockTokens  // [4][32]
  transpose(text, into: keys, weights + 4 * blockTokens)
  let zero = _mm512_setzero_ps()
  let none: EightSums = (zero, zero, zero, zero, zero, zero, zero, zero)
  let fourWeights = fourRows(weights, blockTokens)
  for head in 0..<text.group {
    let (queries, target) = (text.queries + head * headDim, out.base + head * headDim)
    var r = 0
    while r < tokens {
      // Where fewer than four are left the last one stands for the others: it is written again.
      let (r1, r2, r3) = (min(r + 1, tokens - 1), min(r + 2, tokens - 1), min(r + 3, tokens - 1))
      let rows = (queries + r * stride, queries + r1 * stride, queries + r2 * stride, queries + r3 * stride)
      let scores = adding(none, rows, 0, headDim, keys, blockTokens)
      softmax(scores.0, scores.1, tokens, weights)
      softmax(scores.2, scores.3, tokens, weights + blockTokens)
      softmax(scores.4, scores.5, tokens, weights + 2 * blockTokens)
      softmax(scores.6, scores.7, tokens, weights + 3 * blockTokens)
      var d = 0
      while d < headDim {
        let sums = adding(none, fourWeights, 0, tokens, text.values + d, stride)
        store(sums.0, sums.1, target + r * out.stride + d)
        store(sums.2, sums.3, target + r1 * out.stride + d)
        store(sums.4, sums.5, target + r2 * out.stride + d)
        store(sums.6, sums.7, target + r3 * out.stride + d)
        d += 32
      }
      r += 4
    }
  }
}

@inline(__always)
private func store(_ low: __m512, _ high: __m512, _ out: UnsafeMutablePointer<Float>) {
  _mm512_storeu_ps(out, low)
  _mm512_storeu_ps(out + 16, high)
}

/// The softmax of a row's scores, those of the first `tokens` keys.
@inline(__always)
private func softmax(_ low: __m512, _ high: __m512, _ tokens: Int, _ out: UnsafeMutablePointer<Float>) {
  let hidden = _mm512_set1_ps(-Float.infinity)
  let s0 = _mm512_mask_mov_ps(hidden, tailMask(min(16, tokens)), low)
  let s1 = _mm512_mask_mov_ps(hidden, tailMask(max(0, tokens - 16)), high)
  let m16 = _mm512_max_ps(s0, s1)
  let m8 = _mm256_max_ps(m16.lowHalf, m16.highHalf)
  let m4 = _mm_max_ps(m8.lowHalf, m8.highHalf)
  let top = _mm512_set1_ps(max(max(m4[0], m4[1]), max(m4[2], m4[3])))
  let (e0, e1) = (exponential(_mm512_sub_ps(s0, top)), exponential(_mm512_sub_ps(s1, top)))
  let share = _mm512_set1_ps(1 / sum(_mm512_add_ps(e0, e1)))
  store(_mm512_mul_ps(e0, share), _mm512_mul_ps(e1, share), out)
}

/// Keys by dimension, times the scale, with zeros in place of tokens that are not there.
///
/// - Parameter squares: two of 16 × 16.
@inline(__always)
private func transpose(
  _ text: ShortText, into keys: UnsafeMutablePointer<Float>, _ squares: UnsafeMutablePointer<Float>
) {
  let scale = _mm512_set1_ps(text.scale)
  for first in [0, 16] {
    let rows = min(16, max(0, text.tokens - first))
    var d = 0
    while d < text.headDim {
      let (a, b) = (squares, squares + 256)
      for row in 0..<rows {
        _mm512_storeu_ps(a + 16 * row, _mm512_mul_ps(load(text.keys, (first + row) * text.stride + d), scale))
      }
      for row in rows..<16 { _mm512_storeu_ps(a + 16 * row, _mm512_setzero_ps()) }
      unshuffle(a, into: b, 16)
      unshuffle(b, into: a, 16)
      unshuffle(a, into: b, 16)
      unshuffle(b, into: keys + d * blockTokens + first, blockTokens)
      d += 16
    }
  }
}

/// The even elements of neighbouring rows side by side, then the odd ones: an element's address, as bits of row and column, turns
/// right by one. Four times make columns of rows.
@inline(__always)
private func unshuffle(
  _ rows: UnsafeMutablePointer<Float>, into out: UnsafeMutablePointer<Float>, _ stride: Int
) {
  for i in 0..<8 {
    let both = SIMD32<Float>(lowHalf: load(rows, 32 * i), highHalf: load(rows, 32 * i + 16))
    _mm512_storeu_ps(out + i * stride, both.evenHalf)
    _mm512_storeu_ps(out + (8 + i) * stride, both.oddHalf)
  }
}
