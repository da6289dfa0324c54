// The tables of x86-64: AVX2, with AVX-VNNI's products of kept panels, and AVX-512, with AMX's products of many rows.

import KernelTypes

#if arch(x86_64)
  import KernelsAMX
  import KernelsAVX2
  import KernelsAVX512
  import KernelsAVXVNNI

  extension KernelTable {
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
      table.columns = KernelsAVX2.rowColumns
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
      table.erfGELU = KernelsAVX2.erfGELU
      table.integerAttention = IntegerAttention(
        quantize: KernelsAVX2.quantizeInt16, softmax: KernelsAVX2.attentionSoftmaxInt16,
        int16: .init(
          scores: KernelsAVX2.attentionScoresInt16, accumulate: KernelsAVX2.attentionAccumulateInt16),
        int8: .init(scores: KernelsAVX2.attentionScoresInt8, accumulate: KernelsAVX2.attentionAccumulateInt8))
      return table
    }()

    static let avxvnni: KernelTable = {
      var table = avx2
      table.int8?.interleaved = InterleavedKernels(
        panelBytes: KernelsAVXVNNI.int8InterleavedBytes, make: KernelsAVXVNNI.interleaveInt8,
        multiply: KernelsAVXVNNI.multiplyInt8Interleaved, columns: KernelsAVXVNNI.panelColumns)
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
        multiplyFloating: multiplyInt8Floating,
        wide: WideQuantizer(rowBytes: KernelsAVX512.wideRowBytes, quantize: KernelsAVX512.quantizeWide),
        interleaved: InterleavedKernels(
          panelBytes: KernelsAVX512.int8InterleavedBytes, make: KernelsAVX512.interleaveInt8,
          multiply: KernelsAVX512.multiplyInt8Interleaved, columns: KernelsAVX512.panelColumns,
          floating: FloatingPanelKernels(
            panelBytes: KernelsAVX512.floatingPanelBytes, make: KernelsAVX512.interleaveFloating,
            multiply: multiplyFloatingPanels)))
      table.scores = KernelsAVX512.attentionScores
      table.accumulate = KernelsAVX512.attentionAccumulate
      table.softmaxBlock = KernelsAVX512.attentionSoftmax
      table.attendShortly = KernelsAVX512.attendShortly
      table.gatedSilu = KernelsAVX512.gatedSilu
      table.gatedGELU = KernelsAVX512.gatedGELU
      table.erfGELU = KernelsAVX512.erfGELU
      table.splitOutliers = KernelsAVX512.splitOutliers
      table.columns = KernelsAVX2.rowColumns
      table.addOutliers = KernelsAVX512.addOutliers
      table.add = KernelsAVX512.add
      table.scale = KernelsAVX512.scale
      table.layerNorm = KernelsAVX512.layerNorm
      table.integerAttention = IntegerAttention(
        quantize: KernelsAVX512.quantizeInt16, softmax: KernelsAVX512.attentionSoftmaxInt16,
        int16: .init(
          scores: KernelsAVX512.attentionScoresInt16, accumulate: KernelsAVX512.attentionAccumulateInt16),
        int8: .init(
          scores: KernelsAVX512.attentionScoresInt8, accumulate: KernelsAVX512.attentionAccumulateInt8))
      return table
    }()

    /// Panels of E2M1 weights pay from some rows of x on, with the same bits.
    @Sendable private static func multiplyInt8Floating(
      _ weights: FloatingRows, _ x: Int8Activations, into y: Output
    ) {
      if weights.isWide {
        KernelsAVX512.multiplyWide(weights, x, into: y)
      } else if x.count < Panel.worthwhileRows {
        KernelsAVX2.multiplyInt8Floating(weights, x, into: y)
      } else {
        KernelsAVX512.multiplyInt8FloatingPanels(weights, x, into: y)
      }
    }

    @Sendable private static func multiplyFloatingPanels(
      _ weights: FloatingPanelRows, _ x: Int8Activations, into y: Output
    ) {
      if weights.mode.bits == 8 {
        KernelsAVX512.multiplyWidePanels(weights, x, into: y)
      } else {
        KernelsAVX512.multiplyFloatingPanels(weights, x, into: y)
      }
    }

    static let amx: KernelTable = {
      var table = avx512
      table.int8?.panelBytes = KernelsAMX.int8PanelBytes
      table.int8?.multiplyPanel = KernelsAMX.multiplyInt8Panel
      table.int8?.interleaved?.multiply = KernelsAMX.multiplyInt8Interleaved
      return table
    }()
  }
#endif
