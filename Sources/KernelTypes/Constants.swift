// The numbers that kernels and their callers have to agree on, each once. They are constants in the loops of the
// instruction-set modules, so their bodies are inlinable.

/// Positions of a block of keys and values.
@inlinable @inline(__always)
package var blockTokens: Int { 32 }

/// Panels: rows of weights side by side, which integer kernels multiply with many rows of x.
@usableFromInline package enum Panel {
  /// Rows of weights in a panel, and so outputs that are computed at once.
  @inlinable @inline(__always)
  package static var width: Int { 16 }
  /// From how many rows of x on a panel pays that is made for one product: making it costs what two rows cost.
  @inlinable @inline(__always)
  package static var worthwhileRows: Int { 4 }
}

/// Blocks of int8 activations.
@usableFromInline package enum Int8Block {
  /// Elements with one scale, at most: a group of 128 weights is two blocks.
  @inlinable @inline(__always)
  package static var limit: Int { 64 }
}

/// Elements of a row of activations that tower over the others (`Compute/Operations/Outliers`), as a list: how many there are,
/// then their places, then their values, each four bytes.
@usableFromInline package enum OutlierList {
  /// An outlier has more than this share of the sum of squares of a row of so many columns: it is larger than three times the
  /// row's root mean square; the bound is higher in rows of less than 288 columns or more than 2,304. So a row has fewer
  /// outliers than `limit`.
  @inlinable @inline(__always)
  package static func share(_ columns: Int) -> Float { 1 / Float(min(max(columns / 9, 32), limit)) }
  @inlinable @inline(__always)
  package static var limit: Int { 256 }
  /// Elements of a list.
  @inlinable @inline(__always)
  package static var length: Int { 1 + 2 * limit }
  /// Outputs whose weights stand side by side when outliers are added.
  @inlinable @inline(__always)
  package static var outputs: Int { 64 }
}

/// Bounds of attention in integers (`Compute/Kernels/IntegerAttention`).
@usableFromInline package enum IntegerLimit {
  /// The largest rounded query, and element of q16.
  @inlinable @inline(__always)
  package static var element: Float { 4_095 }
  /// The largest rounded weight: 32 · 16,383 · 4,095 < 2^31.
  @inlinable @inline(__always)
  package static var weight: Float { 16_383 }
  /// Products of elements up to 4,095 that fit 32 bits: 128 · 4,095² < 2^31.
  @inlinable @inline(__always)
  package static var products: Int { 128 }
}

/// Attention of a row to the rows just before it.
@usableFromInline package enum LocalAttention {
  /// Distances at most, the row's own included: their scores fit a few registers.
  @inlinable @inline(__always)
  package static var distances: Int { 32 }
}

/// The fit of GELU's tail: Φ(-a) ≈ e^(-a²/2) · Σ cᵢ tⁱ with t = 1 / (1 + slope · a), a >= 0.
@usableFromInline package enum GELUFit {
  @inlinable @inline(__always)
  package static var slope: Float { 0.23 }
  @inlinable @inline(__always)
  package static var c0: Float { -2.776_276_4e-05 }
  @inlinable @inline(__always)
  package static var c1: Float { 0.092_378_46 }
  @inlinable @inline(__always)
  package static var c2: Float { 0.085_762_873 }
  @inlinable @inline(__always)
  package static var c3: Float { 0.119_514_264 }
  @inlinable @inline(__always)
  package static var c4: Float { -0.032_920_744 }
  @inlinable @inline(__always)
  package static var c5: Float { 0.301_473_68 }
  @inlinable @inline(__always)
  package static var c6: Float { -0.278_127_79 }
  @inlinable @inline(__always)
  package static var c7: Float { 0.290_414_57 }
  @inlinable @inline(__always)
  package static var c8: Float { -0.078_467_555 }
}
