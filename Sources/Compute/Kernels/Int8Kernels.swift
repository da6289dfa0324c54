// The integer kernels of the fast compute mode: activations as int8 per block, weights as stored.

import KernelTypes

/// How activations meet quantized weights.
package enum ComputeMode: String, Sendable, CaseIterable {
  /// float32 activations: results differ from the checkpoint's own arithmetic by rounding only.
  case exact
  /// Activations of some sixteen bits, as two int8 of each (`FineMultiply`), where `fast` has int8: what is left of its error
  /// is less than a hundredth.
  case fine
  /// int8 activations per block of at most 64 where weights are affine, MXFP4 or NVFP4: several times the
  /// speed, a relative error of about 1 % per product, an eighth of what 4-bit weights themselves cost. Twelve bits where they
  /// are MXFP8, or FP8 with scales of 128, on CPUs with AVX-512.
  case fast
}

/// The integer kernels of one instruction set; the bytes of a row of activations are their own business.
struct Int8Kernels: Sendable {
  /// Bytes of one quantized row.
  var rowBytes: @Sendable (_ columns: Int, _ block: Int) -> Int
  /// Quantizes one row, `[even | odd]` for 4-bit weights.
  var quantize:
    @Sendable (
      _ x: UnsafePointer<Float>, _ columns: Int, _ block: Int, _ order: Int8Order,
      _ out: UnsafeMutableRawPointer
    ) -> Void
  /// Products with affine weights of every width.
  var multiply: KernelTable.Product<QuantizedRows, Int8Activations>
  /// Bytes of scratch of the panel kernels.
  var panelBytes: @Sendable (_ columns: Int, _ block: Int) -> Int
  /// As `multiply` (to the bit) for at most `Panel.width` weight rows of 4 or 8 bits and at least `Panel.worthwhileRows`
  /// rows of x.
  var multiplyPanel:
    @Sendable (_ weights: QuantizedRows, _ x: Int8Activations, _ y: Output, _ scratch: PanelScratch) -> Void
  /// Rewrites `count` elements of 2, 3, 5 and 6 bits as nibbles (up to 4 bits) or bytes; `count` is a multiple of 32.
  var repack:
    @Sendable (_ packed: UnsafeRawPointer, _ bits: Int, _ count: Int, _ out: UnsafeMutableRawPointer) -> Void
  /// Products with weights in a floating mode that `takes` names, for any number of rows.
  var multiplyFloating: KernelTable.Product<FloatingRows, Int8Activations>
  /// The activations of E4M3 weights, where this instruction set does not multiply these in float32.
  var wide: WideQuantizer?
  /// For weights in panels, where this instruction set has them.
  var interleaved: InterleavedKernels?

  /// Whether `multiplyFloating` takes some weights: E2M1 elements, and with `wide` E4M3 ones whose scales are fine enough.
  func takes(_ weights: FloatingRows) -> Bool { weights.hasIntegers && (wide != nil || !weights.isWide) }
}

extension FloatingRows {
  /// Whether small integers hold what counts of the elements.
  var hasIntegers: Bool { isWide || [.mxfp4, .nvfp4].contains(mode) }
}

/// Rounds activations to integers of twelve bits, in blocks of 32.
struct WideQuantizer: Sendable {
  /// Bytes of one quantized row.
  var rowBytes: @Sendable (_ columns: Int) -> Int
  /// Quantizes one row.
  var quantize: @Sendable (_ x: UnsafePointer<Float>, _ columns: Int, _ out: UnsafeMutableRawPointer) -> Void
}

/// The integer kernels of affine weights in panels; a panel's bytes are the kernels' own business.
struct InterleavedKernels: Sendable {
  /// Bytes of a panel.
  var panelBytes: @Sendable (_ shape: PanelShape) -> Int
  /// Makes the panel of at most `Panel.width` rows of nibbles (up to 4 bits) or bytes, but for heads that are no pairs; scratch
  /// as for `Int8Kernels.multiplyPanel`.
  var make:
    @Sendable (
      _ weights: QuantizedRows, _ shape: PanelShape, _ out: UnsafeMutableRawPointer,
      _ scratch: UnsafeMutableRawPointer
    ) -> Void
  /// As `Int8Kernels.multiply` (to the bit).
  var multiply:
    @Sendable (
      _ weights: PanelRows, _ x: Int8Activations, _ y: Output, _ scratch: UnsafeMutableRawPointer
    ) -> Void
  /// As `KernelTable.columns`.
  var columns: @Sendable (_ weights: PanelRows, _ out: WeightColumns) -> Void
  /// For weights in the floating modes, where this instruction set keeps them in panels, too.
  var floating: FloatingPanelKernels?
}

/// The integer kernels in panels of those weights that `Int8Kernels.multiplyFloating` takes.
struct FloatingPanelKernels: Sendable {
  /// Bytes of a panel.
  var panelBytes: @Sendable (_ mode: FloatingMode, _ columns: Int) -> Int
  /// Makes the panel of at most `Panel.width` rows; scratch as for `Int8Kernels.multiplyPanel`.
  var make:
    @Sendable (
      _ weights: FloatingRows, _ out: UnsafeMutableRawPointer, _ scratch: UnsafeMutableRawPointer
    ) -> Void
  /// As `Int8Kernels.multiplyFloating` (to the bit).
  var multiply: KernelTable.Product<FloatingPanelRows, Int8Activations>
}
