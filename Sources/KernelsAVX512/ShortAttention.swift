// Attention over a short text in AVX-512, in float32: to round its queries, keys and values to integers, and to lay them out in
// blocks, takes several times as long as all of its products.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `out[r] = softmax(scale · q[r] · keysᵀ) · values` for some rows and all query heads. Scalar twin:
/// `Reference.attendShortly`.
package func attendShortly(_ text: ShortText, _ scratch: UnsafeMutablePointer<Float>, into out: Output) {
  let (tokens, headDim, stride) = (text.tokens, text.headDim, text.stride)
  let width = (tokens + 31) & ~31
  let keys = scratch  // [headDim][width]
  let weights = keys + headDim * width  // [4][width]
  transpose(text, into: keys, width, weights + 4 * width)
  let none = registers(of: _mm512_setzero_ps())
  let fourWeights = fourRows(weights, width)
  for head in 0..<text.group {
    let (queries, target) = (text.queries + head * headDim, out.base + head * headDim)
    var r = 0
    while r < text.rows {
      // Where fewer than four are left the last one stands for the others: it is written again.
      let last = text.rows - 1
      let (r1, r2, r3) = (min(r + 1, last), min(r + 2, last), min(r + 3, last))
      let rows = (queries + r * stride, queries + r1 * stride, queries + r2 * stride, queries + r3 * stride)
      var j = 0
      while j < width {
        var sums = none
        add(to: &sums, rows, 0, headDim, keys + j, width)
        store(&sums, weights + j, width)
        j += 32
      }
      for row in 0..<4 { softmax(weights + row * width, tokens) }
      var d = 0
      while d < headDim {
        var sums = none
        add(to: &sums, fourWeights, 0, tokens, text.values + d, stride)
        store(get(&sums, 0), get(&sums, 1), target + r * out.stride + d)
        store(get(&sums, 2), get(&sums, 3), target + r1 * out.stride + d)
        store(get(&sums, 4), get(&sums, 5), target + r2 * out.stride + d)
        store(get(&sums, 6), get(&sums, 7), target + r3 * out.stride + d)
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

/// The softmax of a row's scores in their place.
@inline(__always)
private func softmax(_ scores: UnsafeMutablePointer<Float>, _ count: Int) {
  let hidden = _mm512_set1_ps(-Float.infinity)
  let (whole, mask) = ((count - 1) & ~15, tailMask((count - 1) % 16 + 1))
  // The last sixteen, of which some may be no scores.
  let rest = _mm512_mask_mov_ps(hidden, mask, load(scores, whole))
  var largest = rest
  var j = 0
  while j < whole {
    largest = _mm512_max_ps(largest, load(scores, j))
    j += 16
  }
  let eight = _mm256_max_ps(largest.lowHalf, largest.highHalf)
  let four = _mm_max_ps(eight.lowHalf, eight.highHalf)
  let top = _mm512_set1_ps(max(max(four[0], four[1]), max(four[2], four[3])))
  let last = exponential(_mm512_sub_ps(rest, top))
  _mm512_storeu_ps(scores + whole, last)
  var total = last
  j = 0
  while j < whole {
    let e = exponential(_mm512_sub_ps(load(scores, j), top))
    _mm512_storeu_ps(scores + j, e)
    total = _mm512_add_ps(total, e)
    j += 16
  }
  let share = _mm512_set1_ps(1 / sum(total))
  j = 0
  while j <= whole {
    _mm512_storeu_ps(scores + j, _mm512_mul_ps(load(scores, j), share))
    j += 16
  }
}

/// Keys by dimension, times the scale, with zeros in place of tokens that are not there.
///
/// - Parameters:
///   - width: floats of a dimension.
///   - squares: two of 16 × 16.
@inline(__always)
private func transpose(
  _ text: ShortText, into keys: UnsafeMutablePointer<Float>, _ width: Int,
  _ squares: UnsafeMutablePointer<Float>
) {
  let scale = _mm512_set1_ps(text.scale)
  let (a, b) = (squares, squares + 256)
  var first = 0
  while first < width {
    let rows = min(16, max(0, text.tokens - first))
    var d = 0
    while d < text.headDim {
      for row in 0..<rows {
        _mm512_storeu_ps(a + 16 * row, _mm512_mul_ps(load(text.keys, (first + row) * text.stride + d), scale))
      }
      for row in rows..<16 { _mm512_storeu_ps(a + 16 * row, _mm512_setzero_ps()) }
      unshuffle(a, into: b, 16)
      unshuffle(b, into: a, 16)
      unshuffle(a, into: b, 16)
      unshuffle(b, into: keys + d * width + first, width)
      d += 16
    }
    first += 16
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
