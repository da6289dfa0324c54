// Outliers of activations in AVX-512, and rows that are added and normalised beside them. What rounds is that of the portable
// forms and never fused, so that every machine computes the same bits.

package import KernelTypes
import _Builtin_intrinsics.intel

/// Copies a row without its outliers, which go to a list. Scalar twin: `Reference.splitOutliers`.
package func splitOutliers(
  _ x: UnsafePointer<Float>, _ columns: Int, into rest: UnsafeMutablePointer<Float>,
  _ list: UnsafeMutablePointer<UInt32>
) {
  var sums = _mm512_setzero_ps()
  for c in stride(from: 0, to: columns, by: 16) {
    let value = load(x, c)
    _mm512_storeu_ps(rest + c, value)
    sums = _mm512_add_ps(sums, _mm512_mul_ps(value, value))
  }
  let bound = sum(sums) * OutlierList.share(columns)
  var count = 0
  // Numbers whose squares are none have no outliers. Those of others are ordered as their bits are.
  if bound.isFinite {
    let bits = _mm512_castps_si512(_mm512_set1_ps(bound))
    for c in stride(from: 0, to: columns, by: 16) {
      let value = load(x, c)
      let square = _mm512_castps_si512(_mm512_mul_ps(value, value))
      var mask = _mm512_movepi32_mask(_mm512_sub_epi32(bits, square))
      while mask != 0, count < OutlierList.limit {
        let column = c + mask.trailingZeroBitCount
        list[1 + count] = UInt32(truncatingIfNeeded: column)
        list[1 + OutlierList.limit + count] = x[column].bitPattern
        rest[column] = 0
        count += 1
        mask &= mask - 1
      }
    }
  }
  list[0] = UInt32(truncatingIfNeeded: count)
}

/// `y += value · column` for the outliers of each row, in their order, and then `y += bias`. Scalar twin:
/// `Reference.addOutliers`.
package func addOutliers(
  _ rows: OutlierRows, _ weights: UnsafePointer<Float>, bias: UnsafePointer<Float>?, _ outputs: Int,
  into y: Output
) {
  for r in 0..<rows.count {
    let (list, target) = (rows.base + r * OutlierList.length, y.base + r * y.stride)
    let count = Int(list[0])
    if outputs == 64 {
      var sums = registers(of: load(target, 0))
      for i in 1..<4 { set(&sums, i, load(target, 16 * i)) }
      for index in 0..<count {
        let value = _mm512_set1_ps(Float(bitPattern: list[1 + OutlierList.limit + index]))
        let column = weights + Int(list[1 + index]) * OutlierList.outputs
        for i in 0..<4 {
          set(&sums, i, _mm512_add_ps(get(&sums, i), _mm512_mul_ps(value, load(column, 16 * i))))
        }
      }
      if let bias { for i in 0..<4 { set(&sums, i, _mm512_add_ps(get(&sums, i), load(bias, 16 * i))) } }
      for i in 0..<4 { _mm512_storeu_ps(target + 16 * i, get(&sums, i)) }
    } else {
      for o in stride(from: 0, to: outputs, by: 16) {
        let mask = tailMask(min(16, outputs - o))
        var sum = load(target, o, mask)
        for index in 0..<count {
          let value = _mm512_set1_ps(Float(bitPattern: list[1 + OutlierList.limit + index]))
          let column = weights + Int(list[1 + index]) * OutlierList.outputs
          sum = _mm512_add_ps(sum, _mm512_mul_ps(value, load(column, o, mask)))
        }
        if let bias { sum = _mm512_add_ps(sum, load(bias, o, mask)) }
        _mm512_mask_storeu_ps(target + o, mask, sum)
      }
    }
  }
}

// MARK: Rows

/// `x += y`. Scalar twin: `Reference.add`.
package func add(_ y: UnsafePointer<Float>, _ count: Int, to x: UnsafeMutablePointer<Float>) {
  for i in stride(from: 0, to: count, by: 16) {
    let mask = tailMask(min(16, count - i))
    _mm512_mask_storeu_ps(x + i, mask, _mm512_add_ps(load(x, i, mask), load(y, i, mask)))
  }
}

/// `x = factor · x`. Scalar twin: `Reference.scale`.
package func scale(_ factor: Float, _ count: Int, _ x: UnsafeMutablePointer<Float>) {
  let factors = _mm512_set1_ps(factor)
  for i in stride(from: 0, to: count, by: 16) {
    let mask = tailMask(min(16, count - i))
    _mm512_mask_storeu_ps(x + i, mask, _mm512_mul_ps(factors, load(x, i, mask)))
  }
}

/// `out = (x - mean) / sqrt(variance + epsilon) · gain`; out may be x. Sums have eight lanes, as the portable form's. Scalar twin:
/// `Reference.layerNorm`.
package func layerNorm(
  _ x: UnsafePointer<Float>, _ gain: UnsafePointer<Float>, _ epsilon: Float, _ columns: Int,
  into out: UnsafeMutablePointer<Float>
) {
  let whole = columns & ~7
  var total = _mm256_setzero_ps()
  for c in stride(from: 0, to: whole, by: 8) { total = _mm256_add_ps(total, _mm256_loadu_ps(x + c)) }
  if whole < columns {
    total = _mm256_add_ps(total, load(x, whole, tailMask(columns - whole)).lowHalf)
  }
  let mean = sumOfEight(total) / Float(columns)
  let center = _mm256_set1_ps(mean)
  var squares = _mm256_setzero_ps()
  for c in stride(from: 0, to: whole, by: 8) {
    let v = _mm256_sub_ps(_mm256_loadu_ps(x + c), center)
    squares = _mm256_add_ps(squares, _mm256_mul_ps(v, v))
  }
  var rest: Float = 0
  for c in whole..<columns { rest += (x[c] - mean) * (x[c] - mean) }
  let factor = 1 / ((sumOfEight(squares) + rest) / Float(columns) + epsilon).squareRoot()
  for c in stride(from: 0, to: columns, by: 16) {
    let mask = tailMask(min(16, columns - c))
    let centred = _mm512_sub_ps(load(x, c, mask), _mm512_set1_ps(mean))
    let scaled = _mm512_mul_ps(centred, _mm512_set1_ps(factor))
    _mm512_mask_storeu_ps(out + c, mask, _mm512_mul_ps(scaled, load(gain, c, mask)))
  }
}

@inline(__always)
private func sumOfEight(_ v: __m256) -> Float {
  let four = v.lowHalf + v.highHalf
  let two = four.lowHalf + four.highHalf
  return two[0] + two[1]
}
