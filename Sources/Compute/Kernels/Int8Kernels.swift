// The integer kernels of the fast compute mode: activations as int8 per block, weights as stored.

/// How activations meet quantized weights.
package enum ComputeMode: String, Sendable, CaseIterable {
  /// float32 activations: results differ from the checkpoint's own arithmetic by rounding only.
  case exact
  /// int8 activations per block of at most 64 where weights are affine, MXFP4 or NVFP4: several times the
  /// speed, a relative error of about 1 % per product, an eighth of what 4-bit weights themselves cost.
  case fast
}

/// Rows of int8 activations; the bytes of a row are the kernels' own business.
struct Int8Kernels: Sendable {
  /// Bytes of one quantized row: `(columns, block)`.
  typealias RowBytes = @Sendable (Int, Int) -> Int

  /// Quantizes one row: `(x, columns, block, evenOdd, out)`; `evenOdd` for 4-bit weights.
  typealias Quantize = @Sendable (UnsafePointer<Float>, Int, Int, Bool, UnsafeMutableRawPointer) -> Void

  /// `(packed, rowBytes, scales, biases, scaleRowBytes, scaleFormat, bits, groupSize, weightRows,
  /// x, xRowBytes, xRows, columns, y, yStride)`; every width.
  typealias Multiply =
    @Sendable (
      UnsafeRawPointer, Int, UnsafeRawPointer, UnsafeRawPointer, Int, Int, Int, Int, Int,
      UnsafeRawPointer, Int, Int, Int, UnsafeMutablePointer<Float>, Int
    ) -> Void

  /// From how many rows of x on a panel pays: what it costs to make is what two rows cost.
  static let panelRows = 4

  /// As `Multiply` (to the bit) for at most 16 weight rows of 4 or 8 bits and at least `panelRows` rows of x, with
  /// 64-byte aligned scratch; last, how many of the weight rows behind them will be wanted soon.
  typealias MultiplyPanel =
    @Sendable (
      UnsafeRawPointer, Int, UnsafeRawPointer, UnsafeRawPointer, Int, Int, Int, Int, Int,
      UnsafeRawPointer, Int, Int, Int, UnsafeMutablePointer<Float>, Int, UnsafeMutableRawPointer, Int
    ) -> Void

  /// Bytes of scratch of the panel kernel: `(columns, block)`.
  typealias PanelBytes = @Sendable (Int, Int) -> Int

  /// Rewrites weights of 2, 3, 5 and 6 bits as nibbles or bytes: `(packed, bits, count, out)`; `count` is a multiple
  /// of 32, and up to 4 bits become nibbles.
  typealias Repack = @Sendable (UnsafeRawPointer, Int, Int, UnsafeMutableRawPointer) -> Void

  /// Products with E2M1 weights of a floating mode, for any number of rows:
  /// `(packed, rowBytes, scales, scaleRowBytes, isNVFP4, weightRows, x, xRowBytes, xRows, columns, y, yStride)`.
  typealias MultiplyFloating =
    @Sendable (
      UnsafeRawPointer, Int, UnsafeRawPointer, Int, Bool, Int, UnsafeRawPointer, Int, Int, Int,
      UnsafeMutablePointer<Float>, Int
    ) -> Void

  var rowBytes: RowBytes
  var quantize: Quantize
  var multiply: Multiply
  var panelBytes: PanelBytes
  var multiplyPanel: MultiplyPanel
  var repack: Repack
  var multiplyFloating: MultiplyFloating
  /// For affine weights in panels, where this instruction set has them.
  var interleaved: InterleavedKernels?
}

/// The forms in which rows of activations are quantized; weights of a stack may need several.
struct Int8Layout: Equatable {
  /// Elements per scale: 32 or 64.
  let block: Int
  /// Bits of a weight as the kernels multiply it: 4 or 8. Others are rewritten as the next of these.
  let bits: Int
  /// Even elements of a block before odd ones.
  let evenOdd: Bool

  /// The form that `matrix` needs; nil when no integer kernel takes it, or its rows are so short that the error of
  /// one scale for all of a row shows (docs/decisions/005) and its time does not.
  init?(_ matrix: WeightStorage) {
    guard case .quantized(let packed) = matrix, packed.columns > 64 else { return nil }
    switch packed.mode {
    case .affine: block = min(packed.groupSize, 64)
    // Two groups of 16 make a block.
    case .mxfp4,
      .nvfp4 where packed.columns % 32 == 0:
      block = 32
    case .mxfp8, .nvfp4: return nil
    }
    bits = packed.bits <= 4 ? 4 : 8
    evenOdd = bits == 4
  }

  static let count = 4
  /// Distinguishes the forms, in `0 ..< count`.
  var index: Int { (block == 64 ? 2 : 0) + (evenOdd ? 1 : 0) }
}
