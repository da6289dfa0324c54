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

import KernelTypes

/// The kernels of one instruction set.
struct IntegerAttention: Sendable {
  /// One function for each width of the stored elements.
  struct Width: Sendable {
    /// Scores of query rows against the keys of a block, `[rows][32]`.
    var scores:
      @Sendable (_ queries: IntegerQueries, _ keys: IntegerBlock, _ out: UnsafeMutablePointer<Float>) -> Void
    /// `sums[r] = factors[r] · sums[r] + weightScales[r] · Σ weights[r][j] · values[j]`; weights as `softmax` leaves them.
    var accumulate: @Sendable (_ rows: AttentionRows, _ values: IntegerBlock) -> Void
  }

  /// Rounds `count` floats to `x ≈ scale · out` with `|out| <= limit`, and returns the scale, which is infinite or NaN
  /// when one of them is. `out` has room for an even count, and zero after an odd one.
  var quantize:
    @Sendable (
      _ x: UnsafePointer<Float>, _ count: Int, _ limit: Float, _ out: UnsafeMutablePointer<Int16>
    ) -> Float
  /// One step of a running softmax (`KernelTable.softmaxBlock`); the weights times their values' scales, `[32]`, are rounded.
  var softmax: @Sendable (_ rows: AttentionRows, _ valueScales: UnsafePointer<Float>) -> Void
  var int16: Width
  var int8: Width
}

extension IntegerAttention {
  /// The scalar twins, around a softmax of floats.
  static func scalar(
    softmax:
      @escaping @Sendable (UnsafeMutablePointer<Float>, Range<Int>, UnsafeMutablePointer<Float>) -> Float
  ) -> Self {
    Self(
      quantize: { quantized($0, $1, $2, into: $3) },
      softmax: { rows, valueScales in
        for r in 0..<rows.count {
          let row = rows.scores + blockTokens * r
          rows.factors[r] = softmax(row, rows.seen, rows.states + 2 * r)
          rows.weightScales[r] = roundWeights(row, rows.seen, valueScales)
        }
      },
      int16: Width(
        scores: { scored($0, $1, as: Int16.self, into: $2) },
        accumulate: { accumulated($0, $1, as: Int16.self) }),
      int8: Width(
        scores: { scored($0, $1, as: Int8.self, into: $2) },
        accumulate: { accumulated($0, $1, as: Int8.self) }))
  }

  private static func quantized(
    _ x: UnsafePointer<Float>, _ count: Int, _ limit: Float, into out: UnsafeMutablePointer<Int16>
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
    for j in 0..<blockTokens { row[j] = seen.contains(j) ? row[j] * valueScales[j] : 0 }
    let integers = UnsafeMutableRawPointer(row).assumingMemoryBound(to: Int16.self)
    return withUnsafeTemporaryAllocation(of: Int16.self, capacity: blockTokens) { rounded in
      guard let rounded = rounded.baseAddress else { return 0 }
      let scale = quantized(row, blockTokens, IntegerLimit.weight, into: rounded)
      integers.update(from: rounded, count: blockTokens)
      return scale
    }
  }

  private static func scored<Element: FixedWidthInteger>(
    _ queries: IntegerQueries, _ block: IntegerBlock, as: Element.Type, into out: UnsafeMutablePointer<Float>
  ) {
    let (keys, headDim) = (block.base.assumingMemoryBound(to: Element.self), block.headDim)
    for r in 0..<queries.count {
      for j in 0..<blockTokens {
        var sum: Float = 0
        for first in stride(from: 0, to: headDim, by: IntegerLimit.products) {
          var products = 0
          for d in first..<min(headDim, first + IntegerLimit.products) {
            products +=
              Int(queries.base[r * queries.stride + d])
              * Int(keys[IntegerBlock.keyIndex(position: j, element: d)])
          }
          sum += Float(products)
        }
        out[r * blockTokens + j] = sum * queries.scales[r] * block.scales[j]
      }
    }
  }

  private static func accumulated<Element: FixedWidthInteger>(
    _ rows: AttentionRows, _ block: IntegerBlock, as: Element.Type
  ) {
    let (values, headDim) = (block.base.assumingMemoryBound(to: Element.self), block.headDim)
    for r in 0..<rows.count {
      let weights = UnsafeRawPointer(rows.scores + blockTokens * r).assumingMemoryBound(to: Int16.self)
      for d in 0..<headDim {
        var products = 0
        for j in rows.seen {
          products +=
            Int(weights[j]) * Int(values[IntegerBlock.valueIndex(position: j, element: d, headDim: headDim)])
        }
        let at = r * headDim + d
        rows.sums[at] = rows.sums[at] * rows.factors[r] + Float(products) * rows.weightScales[r]
      }
    }
  }
}
