// The kernels as a table of concrete functions over raw pointers, picked once at start.
//
// Every instruction set fills the same table (KernelTableX86, KernelTableARM64); what it does not speed up it takes from the
// portable one.
// All kernels obey the same rule, from which "the same bits whatever runs beside it" follows: the float
// operations that make one output element, and their order, depend only on that element's own inputs and sizes,
// never on how many rows or outputs are computed in the same call.

import KernelTypes

/// The kernels of one instruction set. What they read and write is described where its types are declared (`KernelTypes`).
struct KernelTable: Sendable {
  /// `y[r][o] = weights[o] · x[r]`.
  typealias Product<Weights, X> = @Sendable (_ weights: Weights, _ x: X, _ y: Output) -> Void

  /// `out = f(gate) · up` for `count` elements; out may be gate.
  typealias GatedActivation =
    @Sendable (
      _ gate: UnsafePointer<Float>, _ up: UnsafePointer<Float>, _ count: Int,
      _ out: UnsafeMutablePointer<Float>
    ) -> Void

  /// Normalises one row and multiplies it with a gain; out may be x.
  typealias Norm =
    @Sendable (
      _ x: UnsafePointer<Float>, _ gain: UnsafePointer<Float>, _ epsilon: Float, _ columns: Int,
      _ out: UnsafeMutablePointer<Float>
    ) -> Void

  // MARK: Weights as float32

  /// Each row of affine weights: `out[i] = scale · q[i] + bias`.
  var unpack: @Sendable (_ weights: QuantizedRows, _ y: Output) -> Void
  /// Each row of weights in a floating mode: `out[i] = scale · element[i]`.
  var unpackFloating: @Sendable (_ weights: FloatingRows, _ y: Output) -> Void
  /// `count` elements of f16 or bf16.
  var widen:
    @Sendable (
      _ source: UnsafeRawPointer, _ format: FloatFormat, _ count: Int, _ out: UnsafeMutablePointer<Float>
    ) -> Void

  // MARK: Products

  /// Products with float32 weights.
  var multiply: Product<FloatRows, Activations>
  /// The most rows of x that the fused kernels take: those that do not write the unpacked weights, and agree to the bit with
  /// unpacking and `multiply`. 0 where there are none.
  var fusedRows = 0
  /// Fused, for affine weights of 4 and 8 bits.
  var multiply4, multiply8: Product<QuantizedRows, Activations>?
  /// Fused, for f16 and bf16 weights.
  var multiplyHalf: Product<FloatRows, Activations>?
  /// Fused, for weights in a floating mode.
  var multiplyFloating: Product<FloatingRows, Activations>?
  /// The integer kernels of the fast mode, where this instruction set has them.
  var int8: Int8Kernels?

  // MARK: Attention

  /// Scores of query rows against the keys of a block, `[rows][32]`: `out[r][j] = Σ q[r][d] · keys[d][j]`.
  var scores:
    @Sendable (_ queries: Activations, _ keys: FloatBlock, _ out: UnsafeMutablePointer<Float>) -> Void
  /// Folds the scores of a block that a row sees into its running softmax: turns them into weights relative to the new
  /// maximum, updates `state` (maximum, sum) and returns the factor for what was summed before. All 32 scores are readable.
  var softmaxBlock:
    @Sendable (
      _ scores: UnsafeMutablePointer<Float>, _ seen: Range<Int>, _ state: UnsafeMutablePointer<Float>
    ) -> Float
  /// `sums[r] = factors[r] · sums[r] + Σ weights[r][j] · values[j]` over the seen j, in order.
  var accumulate: @Sendable (_ rows: AttentionRows, _ values: FloatBlock) -> Void
  /// `out[r] = softmax(scale · q[r] · keysᵀ) · values` in float32, for short texts in the fast mode; nil where the kernels of a
  /// cache take them.
  var attendShortly:
    (@Sendable (_ text: ShortText, _ scratch: UnsafeMutablePointer<Float>, _ out: Output) -> Void)?
  /// Attention over a cache of q16 or q8.
  var integerAttention: IntegerAttention
  /// One head's attention to a row and the rows before it.
  var attendLocally: @Sendable (_ head: LocalHead, _ out: UnsafeMutablePointer<Float>) -> Void

  // MARK: Rows

  /// `out = x / sqrt(mean(x²) + epsilon) · gain`.
  var rmsNorm: Norm
  /// `out = (x - mean) / sqrt(variance + epsilon) · gain`.
  var layerNorm: Norm
  /// Rotates the pairs (i, i + half) of one head.
  var rotate:
    @Sendable (
      _ x: UnsafeMutablePointer<Float>, _ cosines: UnsafePointer<Float>, _ sines: UnsafePointer<Float>,
      _ half: Int
    ) -> Void
  var gatedSilu: GatedActivation
  var gatedGELU: GatedActivation
  /// `out = up / (1 + e^-gate)`; up may be gate.
  var gatedSigmoid: GatedActivation
  /// `x = gelu(x)` with the error function, x · (1 + erf(x / √2)) / 2.
  var erfGELU: @Sendable (_ count: Int, _ x: UnsafeMutablePointer<Float>) -> Void
  /// Convolves every column over rows that follow each other: `out = Σ weights[j] · x[j]`, weights `[x.count][columns]`.
  var convolve:
    @Sendable (
      _ x: Activations, _ weights: UnsafePointer<Float>, _ columns: Int, _ out: UnsafeMutablePointer<Float>
    ) -> Void
  /// Copies a row without its outliers, which go to a list (`OutlierList`) in the order of their columns; columns are a
  /// multiple of 16.
  var splitOutliers:
    @Sendable (
      _ x: UnsafePointer<Float>, _ columns: Int, _ rest: UnsafeMutablePointer<Float>,
      _ list: UnsafeMutablePointer<UInt32>
    ) -> Void
  /// Some columns of at most `OutlierList.outputs` rows as floats, `scale · q + bias`.
  var columns: @Sendable (_ weights: QuantizedRows, _ out: WeightColumns) -> Void
  /// `y += value · column` for the outliers of each row, in their order, and then `y += bias`, for at most
  /// `OutlierList.outputs` outputs.
  var addOutliers:
    @Sendable (
      _ rows: OutlierRows, _ weights: UnsafePointer<Float>, _ bias: UnsafePointer<Float>?, _ outputs: Int,
      _ y: Output
    ) -> Void
  /// `x += y`.
  var add: @Sendable (_ y: UnsafePointer<Float>, _ count: Int, _ x: UnsafeMutablePointer<Float>) -> Void
  /// `x = factor · x`.
  var scale: @Sendable (_ factor: Float, _ count: Int, _ x: UnsafeMutablePointer<Float>) -> Void
  /// `x = cap · tanh(x / cap)`.
  var softcap: @Sendable (_ cap: Float, _ count: Int, _ x: UnsafeMutablePointer<Float>) -> Void
}

extension KernelTable {
  /// Swift SIMD types at the compiler's baseline.
  static let portable = KernelTable(
    unpack: Portable.unpack, unpackFloating: Portable.unpackFloating, widen: Portable.widen,
    multiply: Portable.multiply, scores: Portable.scores, softmaxBlock: Portable.softmaxBlock,
    accumulate: Portable.accumulate, integerAttention: .scalar(softmax: Portable.softmaxBlock),
    attendLocally: Portable.attendLocally, rmsNorm: Portable.rmsNorm, layerNorm: Portable.layerNorm,
    rotate: Portable.rotate, gatedSilu: Portable.gatedSilu, gatedGELU: Portable.gatedGELU,
    gatedSigmoid: Portable.gatedSigmoid, erfGELU: Portable.erfGELU, convolve: Portable.convolve,
    splitOutliers: Portable.splitOutliers, columns: Reference.columns, addOutliers: Portable.addOutliers,
    add: Portable.add, scale: Portable.scale, softcap: Portable.softcap)

  /// The scalar twins.
  static let reference = KernelTable(
    unpack: Reference.unpack, unpackFloating: Reference.unpackFloating, widen: Reference.widen,
    multiply: Reference.multiply, int8: Reference.int8, scores: Reference.scores,
    softmaxBlock: Reference.softmaxBlock, accumulate: Reference.accumulate,
    integerAttention: .scalar(softmax: Reference.softmaxBlock), attendLocally: Reference.attendLocally,
    rmsNorm: Reference.rmsNorm, layerNorm: Reference.layerNorm, rotate: Reference.rotate,
    gatedSilu: Reference.gatedSilu, gatedGELU: Reference.gatedGELU, gatedSigmoid: Reference.gatedSigmoid,
    erfGELU: Reference.erfGELU, convolve: Reference.convolve,
    splitOutliers: Reference.splitOutliers, columns: Reference.columns, addOutliers: Reference.addOutliers,
    add: Reference.add, scale: Reference.scale, softcap: Reference.softcap)

  static func table(for isa: ISA) -> KernelTable {
    switch isa {
    #if arch(x86_64)
      case .avx2: avx2
      case .avxvnni: avxvnni
      case .avx512: avx512
      case .amx: amx
    #elseif arch(arm64)
      case .neon: neon
      case .dotprod: dotprod
      case .i8mm: i8mm
    #endif
    default: portable
    }
  }
}
