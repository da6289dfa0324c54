// The kernels as a table of concrete functions over raw pointers, picked once at start.
//
// Every instruction set fills the same table; what it does not speed up it takes from the portable one.
// All kernels obey the same rule, from which "the same bits whatever runs beside it" follows: the float
// operations behind one output element, and their order, depend only on that element's own inputs and sizes,
// never on how many rows or outputs are computed in the same call.

#if arch(x86_64)
  import KernelsAVX2
  import KernelsAVX512
#endif

/// Element formats of dense weights and of quantization scales, as kernels are told them.
enum FloatFormat {
  static let f32 = 0
  static let f16 = 1
  static let bf16 = 2

  /// The code of a dtype; nil when it is no float that kernels read.
  static func code(of dtype: DType) -> Int? {
    switch dtype {
    case .f32: f32
    case .f16: f16
    case .bf16: bf16
    default: nil
    }
  }
}

/// The floating quantization modes, as kernels are told them.
enum FloatingMode {
  static let mxfp4 = 0
  static let mxfp8 = 1
  static let nvfp4 = 2

  /// The code of a mode; nil for affine.
  static func code(of mode: Quantization.Mode) -> Int? {
    switch mode {
    case .affine: nil
    case .mxfp4: mxfp4
    case .mxfp8: mxfp8
    case .nvfp4: nvfp4
    }
  }
}

/// Pointers to weights, scales and biases may have any alignment; activations are aligned to 4 bytes.
struct KernelTable: Sendable {
  /// Dequantizes consecutive elements of a packed row from a group border on: `out[i] = scale · q[i] + bias`.
  ///
  /// `(packed, scales, biases, scaleFormat, bits, groupSize, count, out)`; `count` is a multiple of 32.
  typealias Unpack =
    @Sendable (
      UnsafeRawPointer, UnsafeRawPointer, UnsafeRawPointer, Int, Int, Int, Int, UnsafeMutablePointer<Float>
    ) -> Void

  /// Dequantizes consecutive elements of a row in a floating mode: `out[i] = scale · element[i]`:
  /// `(packed, scales, mode, count, out)`; mode is a code of `FloatingMode`, `count` whole groups.
  typealias UnpackFloating =
    @Sendable (
      UnsafeRawPointer, UnsafeRawPointer, Int, Int, UnsafeMutablePointer<Float>
    ) -> Void

  /// Widens `count` f16 or bf16 elements: `(source, format, count, out)`.
  typealias Widen = @Sendable (UnsafeRawPointer, Int, Int, UnsafeMutablePointer<Float>) -> Void

  /// `y[r · yStride + o] = weights[o] · x[r]` for float32 weights:
  /// `(weights, weightRowBytes, weightRows, x, xStride, xRows, columns, y, yStride)`.
  typealias Multiply =
    @Sendable (
      UnsafeRawPointer, Int, Int, UnsafePointer<Float>, Int, Int, Int, UnsafeMutablePointer<Float>, Int
    ) -> Void

  /// As `Multiply` after `Unpack` (to the bit), for few rows of x, without writing the unpacked weights:
  /// `(packed, rowBytes, scales, biases, scaleRowBytes, scaleFormat, groupSize, weightRows,
  /// x, xStride, xRows, columns, y, yStride)`. `xRows` is at most `fusedRows`.
  typealias MultiplyPacked =
    @Sendable (
      UnsafeRawPointer, Int, UnsafeRawPointer, UnsafeRawPointer, Int, Int, Int, Int,
      UnsafePointer<Float>, Int, Int, Int, UnsafeMutablePointer<Float>, Int
    ) -> Void

  /// As `Multiply` after `UnpackFloating` (to the bit), for few rows of x:
  /// `(packed, rowBytes, scales, scaleRowBytes, mode, weightRows, x, xStride, xRows, columns, y, yStride)`.
  typealias MultiplyFloating =
    @Sendable (
      UnsafeRawPointer, Int, UnsafeRawPointer, Int, Int, Int, UnsafePointer<Float>, Int, Int, Int,
      UnsafeMutablePointer<Float>, Int
    ) -> Void

  /// As `Multiply` after `Widen` (to the bit), for few rows of x:
  /// `(weights, weightRowBytes, format, weightRows, x, xStride, xRows, columns, y, yStride)`.
  typealias MultiplyHalf =
    @Sendable (
      UnsafeRawPointer, Int, Int, Int, UnsafePointer<Float>, Int, Int, Int, UnsafeMutablePointer<Float>, Int
    ) -> Void

  /// Scores of query rows against the 32 keys of a block: `out[r · 32 + j] = Σ q[r][d] · keys[d][j]`:
  /// `(queries, queryStride, queryRows, keys, headDim, out)`.
  typealias Scores =
    @Sendable (
      UnsafePointer<Float>, Int, Int, UnsafePointer<Float>, Int, UnsafeMutablePointer<Float>
    ) -> Void

  /// Folds one block's scores into a running softmax: turns `scores[from ..< to]` into weights relative to
  /// the new maximum, updates `state` (maximum, sum) and returns the factor for what was summed before:
  /// `(scores, from, to, state)`. All 32 scores are readable.
  typealias SoftmaxBlock =
    @Sendable (UnsafeMutablePointer<Float>, Int, Int, UnsafeMutablePointer<Float>) -> Float

  /// `out[r] = factors[r] · out[r] + Σ weights[r][j] · values[j]` over j in `from ..< to`, in order, for rows that see
  /// the same keys: `(weights [rows][32], rows, from, to, values, headDim, factors [rows], out [rows][headDim])`.
  typealias Accumulate =
    @Sendable (
      UnsafePointer<Float>, Int, Int, Int, UnsafePointer<Float>, Int, UnsafePointer<Float>,
      UnsafeMutablePointer<Float>
    ) -> Void

  /// `out = x / sqrt(mean(x²) + epsilon) · gain`: `(x, gain, epsilon, columns, out)`; out may be x.
  typealias RMSNorm =
    @Sendable (
      UnsafePointer<Float>, UnsafePointer<Float>, Float, Int, UnsafeMutablePointer<Float>
    ) -> Void

  /// Convolves every column over rows that follow each other: `out = Σ weights[j] · x[j]`, j in `0 ..< taps`:
  /// `(x, xStride, taps, weights [taps][columns], columns, out)`.
  typealias Convolve =
    @Sendable (
      UnsafePointer<Float>, Int, Int, UnsafePointer<Float>, Int, UnsafeMutablePointer<Float>
    ) -> Void

  /// One head's attention to a row and the rows before it; key d is at `keys - d · stride`:
  /// `(query, keys, values, stride, relative, relativeStride, distances, size, cap, out)`.
  typealias AttendLocally =
    @Sendable (
      UnsafePointer<Float>, UnsafePointer<Float>, UnsafePointer<Float>, Int, UnsafePointer<Float>, Int, Int,
      Int,
      Float, UnsafeMutablePointer<Float>
    ) -> Void

  /// Rotates the pairs (i, i + half) of one head: `(x, cosines, sines, half)`.
  typealias Rotate =
    @Sendable (UnsafeMutablePointer<Float>, UnsafePointer<Float>, UnsafePointer<Float>, Int) -> Void

  /// `out = activation(gate) · up`: `(gate, up, count, out)`; out may be gate.
  typealias GatedActivation =
    @Sendable (
      UnsafePointer<Float>, UnsafePointer<Float>, Int, UnsafeMutablePointer<Float>
    ) -> Void

  /// `x += y`: `(y, count, x)`.
  typealias Add = @Sendable (UnsafePointer<Float>, Int, UnsafeMutablePointer<Float>) -> Void

  /// Changes x by one number, `x = factor · x` or `x = cap · tanh(x / cap)`: `(number, count, x)`.
  typealias InPlace = @Sendable (Float, Int, UnsafeMutablePointer<Float>) -> Void

  var unpack: Unpack
  var unpackFloating: UnpackFloating
  var widen: Widen
  var multiply: Multiply
  /// Fused kernels of this table, if any, and the most rows of x they take.
  var fusedRows = 0
  var multiply4: MultiplyPacked?
  var multiply8: MultiplyPacked?
  var multiplyHalf: MultiplyHalf?
  var multiplyFloating: MultiplyFloating?
  /// The integer kernels of the fast mode, where this instruction set has them.
  var int8: Int8Kernels?
  var scores: Scores
  var softmaxBlock: SoftmaxBlock
  var accumulate: Accumulate
  /// Attention over a cache of q16 or q8.
  var integerAttention: IntegerAttention
  var rmsNorm: RMSNorm
  var rotate: Rotate
  var gatedSilu: GatedActivation
  var gatedGELU: GatedActivation
  /// `out = up / (1 + e^-gate)`; up may be gate.
  var gatedSigmoid: GatedActivation
  var layerNorm: RMSNorm
  var convolve: Convolve
  var attendLocally: AttendLocally
  var add: Add
  var scale: InPlace
  var softcap: InPlace
}

extension KernelTable {
  /// Swift SIMD types at the compiler's baseline.
  static let portable = KernelTable(
    unpack: Portable.unpack, unpackFloating: Portable.unpackFloating, widen: Portable.widen,
    multiply: Portable.multiply, scores: Portable.scores, softmaxBlock: Portable.softmaxBlock,
    accumulate: Portable.accumulate, integerAttention: .scalar(softmax: Portable.softmaxBlock),
    rmsNorm: Portable.rmsNorm, rotate: Portable.rotate, gatedSilu: Portable.gatedSilu,
    gatedGELU: Portable.gatedGELU, gatedSigmoid: Portable.gatedSigmoid, layerNorm: Portable.layerNorm,
    convolve: Portable.convolve, attendLocally: Portable.attendLocally, add: Portable.add,
    scale: Portable.scale, softcap: Portable.softcap)

  /// The scalar twins.
  static let reference = KernelTable(
    unpack: Reference.unpack, unpackFloating: Reference.unpackFloating, widen: Reference.widen,
    multiply: Reference.multiply, int8: Reference.int8, scores: Reference.scores,
    softmaxBlock: Reference.softmaxBlock,
    accumulate: Reference.accumulate, integerAttention: .scalar(softmax: Reference.softmaxBlock),
    rmsNorm: Reference.rmsNorm, rotate: Reference.rotate, gatedSilu: Reference.gatedSilu,
    gatedGELU: Reference.gatedGELU, gatedSigmoid: Reference.gatedSigmoid, layerNorm: Reference.layerNorm,
    convolve: Reference.convolve, attendLocally: Reference.attendLocally, add: Reference.add,
    scale: Reference.scale, softcap: Reference.softcap)

  static func table(for isa: ISA) -> KernelTable {
    switch isa {
    case .portable: portable
    #if arch(x86_64)
      case .avx2: avx2
      case .avx512: avx512
    #else
      case .avx2, .avx512: portable
    #endif
    }
  }

  #if arch(x86_64)
    static let avx2: KernelTable = {
      var table = portable
      table.unpack = KernelsAVX2.unpackAffine
      table.unpackFloating = KernelsAVX2.unpackFloating
      table.widen = KernelsAVX2.widenHalf
      table.multiply = KernelsAVX2.multiplyF32
      table.fusedRows = KernelsAVX2.fusedRowLimit
      table.multiply4 = KernelsAVX2.multiplyQ4
      table.multiply8 = KernelsAVX2.multiplyQ8
      table.multiplyHalf = KernelsAVX2.multiplyHalf
      table.multiplyFloating = KernelsAVX2.multiplyFloating
      table.int8 = Int8Kernels(
        rowBytes: KernelsAVX2.int8RowBytes, quantize: KernelsAVX2.quantizeInt8,
        multiply: KernelsAVX2.multiplyInt8, panelBytes: KernelsAVX2.int8PanelBytes,
        multiplyPanel: KernelsAVX2.multiplyInt8Panel, repack: KernelsAVX2.repack,
        multiplyFloating: KernelsAVX2.multiplyInt8Floating)
      table.scores = KernelsAVX2.attentionScores
      table.accumulate = KernelsAVX2.attentionAccumulate
      table.softmaxBlock = KernelsAVX2.attentionSoftmax
      table.gatedSilu = KernelsAVX2.gatedSilu
      table.gatedGELU = KernelsAVX2.gatedGELU
      table.integerAttention = IntegerAttention(
        quantize: KernelsAVX2.quantizeInt16, softmax: KernelsAVX2.attentionSoftmaxInt16,
        int16: .init(
          scores: KernelsAVX2.attentionScoresInt16, accumulate: KernelsAVX2.attentionAccumulateInt16),
        int8: .init(scores: KernelsAVX2.attentionScoresInt8, accumulate: KernelsAVX2.attentionAccumulateInt8))
      return table
    }()

    static let avx512: KernelTable = {
      var table = portable
      table.unpack = KernelsAVX512.unpackAffine
      table.widen = KernelsAVX512.widenHalf
      // Every CPU with AVX-512 has AVX2 and F16C; what rounds once gives the same bits at any width.
      table.unpackFloating = KernelsAVX2.unpackFloating
      table.multiply = KernelsAVX512.multiplyF32
      table.fusedRows = KernelsAVX512.fusedRowLimit
      table.multiply4 = KernelsAVX512.multiplyQ4
      table.multiply8 = KernelsAVX512.multiplyQ8
      table.multiplyHalf = KernelsAVX512.multiplyHalf
      table.multiplyFloating = KernelsAVX512.multiplyFloating
      table.int8 = Int8Kernels(
        rowBytes: KernelsAVX512.int8RowBytes, quantize: KernelsAVX512.quantizeInt8,
        multiply: KernelsAVX2.multiplyInt8,
        panelBytes: KernelsAVX512.int8PanelBytes,
        multiplyPanel: KernelsAVX512.multiplyInt8Panel, repack: KernelsAVX2.repack,
        multiplyFloating: KernelsAVX2.multiplyInt8Floating,
        interleaved: InterleavedKernels(
          panelBytes: KernelsAVX512.int8InterleavedBytes, make: KernelsAVX512.interleaveInt8,
          multiply: KernelsAVX512.multiplyInt8Interleaved))
      table.scores = KernelsAVX512.attentionScores
      table.accumulate = KernelsAVX512.attentionAccumulate
      table.softmaxBlock = KernelsAVX512.attentionSoftmax
      table.gatedSilu = KernelsAVX512.gatedSilu
      table.gatedGELU = KernelsAVX512.gatedGELU
      table.integerAttention = IntegerAttention(
        quantize: KernelsAVX512.quantizeInt16, softmax: KernelsAVX512.attentionSoftmaxInt16,
        int16: .init(
          scores: KernelsAVX512.attentionScoresInt16, accumulate: KernelsAVX512.attentionAccumulateInt16),
        int8: .init(
          scores: KernelsAVX512.attentionScoresInt8, accumulate: KernelsAVX512.attentionAccumulateInt8))
      return table
    }()
  #endif
}
