// Attention over keys and values stored as integers: what its kernels compute, and their scalar twins.
//
// Products of int16 with int16 add up in 32 bits, which vector units do twice as fast as products of float32. Queries
// are rounded once per row, and the weights of a block's values once per row and block, each with its own scale. The
// sums of integers are exact, so only their scaling has an order:
//
//   score(j)  = (Σ q·k) · query's scale · key's scale            q, k at most 4,095: 128 products fit 32 bits
//   sum(d)    = factor · sum(d) + (Σ p·v) · scale of the weights  p at most 16,383: 32 products with v fit
//
// where p is the softmax's weight times its value's scale, rounded. All instruction sets give the same bits.

/// The kernels of one instruction set.
struct IntegerAttention: Sendable {
  /// Scores of query rows against the 32 keys of a block:
  /// `(queries, queryStride, queryRows, queryScales, keys, keyScales [32], headDim, ahead, out [rows][32])`. Queries are
  /// padded with a zero to an even `headDim`; `queryStride` counts elements. As many bytes as the keys have are wanted
  /// next at `ahead`.
  typealias Scores =
    @Sendable (
      UnsafePointer<Int16>, Int, Int, UnsafePointer<Float>, UnsafeRawPointer, UnsafePointer<Float>, Int,
      UnsafeRawPointer, UnsafeMutablePointer<Float>
    ) -> Void

  /// One step of a running softmax (`KernelTable.SoftmaxBlock`) for rows that see the same keys. The weights of
  /// `from ..< to`, times their values' scales, are rounded and left as 32 int16 at the beginning of each row of scores,
  /// zeros outside: `(scores [rows][32], rows, from, to, valueScales [32], states [rows][2], factors [rows],
  /// weightScales [rows])`; all 32 scores are readable.
  typealias Softmax =
    @Sendable (
      UnsafeMutablePointer<Float>, Int, Int, Int, UnsafePointer<Float>, UnsafeMutablePointer<Float>,
      UnsafeMutablePointer<Float>, UnsafeMutablePointer<Float>
    ) -> Void

  /// `out[r] = factors[r] · out[r] + weightScales[r] · Σ weights[r][j] · values[j]`, of which those outside of
  /// `from ..< to` are zero: `(weights, weightScales [rows], rows, from, to, values, headDim, factors [rows], ahead,
  /// out [rows][headDim])`; weights as `Softmax` leaves them, `ahead` as in `Scores`. 128 bytes behind the values are
  /// readable.
  typealias Accumulate =
    @Sendable (
      UnsafePointer<Float>, UnsafePointer<Float>, Int, Int, Int, UnsafeRawPointer, Int, UnsafePointer<Float>,
      UnsafeRawPointer, UnsafeMutablePointer<Float>
    ) -> Void

  /// Rounds `count` floats to `x ≈ scale · out` with `|out| <= limit`, and returns the scale, which is infinite or NaN
  /// when one of them is: `(x, count, limit, out)`. `out` has room for an even count, and zero behind an odd one.
  typealias Quantize =
    @Sendable (UnsafePointer<Float>, Int, Float, UnsafeMutablePointer<Int16>) -> Float

  /// One function for each width of the stored elements.
  struct Width: Sendable {
    var scores: Scores
    var accumulate: Accumulate
  }

  var quantize: Quantize
  var softmax: Softmax
  var int16: Width
  var int8: Width

  /// The largest rounded query, and element of q16.
  static let elementLimit: Float = 4_095
  /// The largest rounded weight: 32 · 16,383 · 4,095 < 2^31.
  static let weightLimit: Float = 16_383
  /// Products of elements up to 4,095 that fit 32 bits: 128 · 4,095² < 2^31.
  static let exactProducts = 128
}

extension IntegerAttention {
  /// The scalar twins, around a softmax of floats.
  static func scalar(softmax: @escaping KernelTable.SoftmaxBlock) -> Self {
    Self(
      quantize: { quantized($0, $1, $2, $3) },
      softmax: { scores, rows, from, to, valueScales, states, factors, weightScales in
        for r in 0..<rows {
          let row = scores + KVCache.blockTokens * r
          factors[r] = softmax(row, from, to, states + 2 * r)
          weightScales[r] = roundWeights(row, from..<to, valueScales)
        }
      },
      int16: Width(
        scores: { scored($0, $1, $2, $3, $4.assumingMemoryBound(to: Int16.self), $5, $6, $8) },
        accumulate: { accumulated($0, $1, $2, $3..<$4, $5.assumingMemoryBound(to: Int16.self), $6, $7, $9) }),
      int8: Width(
        scores: { scored($0, $1, $2, $3, $4.assumingMemoryBound(to: Int8.self), $5, $6, $8) },
        accumulate: { accumulated($0, $1, $2, $3..<$4, $5.assumingMemoryBound(to: Int8.self), $6, $7, $9) }))
  }

  private static func quantized(
    _ x: UnsafePointer<Float>, _ count: Int, _ limit: Float, _ out: UnsafeMutablePointer<Int16>
  ) -> Float {
    // As bits, magnitudes are ordered too, with NaN above all.
    var top = Float.zero
    for i in 0..<count where x[i].magnitude.bitPattern > top.bitPattern { top = x[i].magnitude }
    // Numbers so small that `limit / top` would be none, and those without a size, become zeros.
    let inverse = top >= 0x1p-100 && top < .infinity ? limit / top : 0
    for i in 0..<count { out[i] = inverse == 0 ? 0 : Int16((x[i] * inverse).rounded(.toNearestOrEven)) }
    if count % 2 == 1 { out[count] = 0 }
    return top * (1 / limit)
  }

  /// Rounds the seen weights of a row, times the scales of their values, in their own place. Returns the scale.
  private static func roundWeights(
    _ row: UnsafeMutablePointer<Float>, _ seen: Range<Int>, _ valueScales: UnsafePointer<Float>
  ) -> Float {
    for j in 0..<KVCache.blockTokens { row[j] = seen.contains(j) ? row[j] * valueScales[j] : 0 }
    let integers = UnsafeMutableRawPointer(row).assumingMemoryBound(to: Int16.self)
    return withUnsafeTemporaryAllocation(of: Int16.self, capacity: KVCache.blockTokens) { rounded in
      guard let rounded = rounded.baseAddress else { return 0 }
      let scale = quantized(row, KVCache.blockTokens, weightLimit, rounded)
      integers.update(from: rounded, count: KVCache.blockTokens)
      return scale
    }
  }

  private static func scored<Element: FixedWidthInteger>(
    _ queries: UnsafePointer<Int16>, _ queryStride: Int, _ rows: Int, _ queryScales: UnsafePointer<Float>,
    _ keys: UnsafePointer<Element>, _ keyScales: UnsafePointer<Float>, _ headDim: Int,
    _ out: UnsafeMutablePointer<Float>
  ) {
    for r in 0..<rows {
      for j in 0..<KVCache.blockTokens {
        var sum: Float = 0
        for first in stride(from: 0, to: headDim, by: exactProducts) {
          var products = 0
          for d in first..<min(headDim, first + exactProducts) {
            products +=
              Int(queries[r * queryStride + d]) * Int(keys[KVLayer.keyIndex(position: j, element: d)])
          }
          sum += Float(products)
        }
        out[r * KVCache.blockTokens + j] = sum * queryScales[r] * keyScales[j]
      }
    }
  }

  private static func accumulated<Element: FixedWidthInteger>(
    _ weights: UnsafePointer<Float>, _ weightScales: UnsafePointer<Float>, _ rows: Int, _ seen: Range<Int>,
    _ values: UnsafePointer<Element>, _ headDim: Int, _ factors: UnsafePointer<Float>,
    _ out: UnsafeMutablePointer<Float>
  ) {
    for r in 0..<rows {
      let row = UnsafeRawPointer(weights + KVCache.blockTokens * r).assumingMemoryBound(to: Int16.self)
      for d in 0..<headDim {
        var products = 0
        for j in seen {
          products += Int(row[j]) * Int(values[KVLayer.valueIndex(position: j, element: d, headDim: headDim)])
        }
        let at = r * headDim + d
        out[at] = out[at] * factors[r] + Float(products) * weightScales[r]
      }
    }
  }
}
