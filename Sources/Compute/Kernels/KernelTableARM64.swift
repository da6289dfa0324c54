// The tables of arm64: NEON for all, and of the levels above it the integer products.

import KernelTypes

#if arch(arm64)
  import KernelsDotprod
  import KernelsI8MM
  import KernelsNEON

  extension KernelTable {
    static let neon: KernelTable = {
      var table = portable
      table.unpack = KernelsNEON.unpackAffine
      table.unpackFloating = KernelsNEON.unpackFloating
      table.widen = KernelsNEON.widenHalf
      table.multiply = KernelsNEON.multiplyF32
      table.fusedRows = KernelsNEON.fusedRowLimit
      table.multiply4 = KernelsNEON.multiplyQ4
      table.multiply8 = KernelsNEON.multiplyQ8
      table.multiplyHalf = KernelsNEON.multiplyHalf
      table.multiplyFloating = KernelsNEON.multiplyFloating
      table.int8 = Int8Kernels(
        rowBytes: KernelsNEON.int8RowBytes, quantize: KernelsNEON.quantizeInt8,
        multiply: KernelsNEON.multiplyInt8, panelBytes: KernelsNEON.int8PanelBytes,
        multiplyPanel: KernelsNEON.multiplyInt8Panel, repack: KernelsNEON.repack,
        multiplyFloating: KernelsNEON.multiplyInt8Floating,
        interleaved: InterleavedKernels(
          panelBytes: KernelsNEON.int8InterleavedBytes, make: KernelsNEON.interleaveInt8,
          multiply: KernelsNEON.multiplyInt8Interleaved, columns: KernelsNEON.panelColumns))
      table.scores = KernelsNEON.attentionScores
      table.accumulate = KernelsNEON.attentionAccumulate
      table.integerAttention = IntegerAttention(
        quantize: KernelsNEON.quantizeInt16,
        softmax: { rows, valueScales in
          for r in 0..<rows.count {
            let row = rows.scores + blockTokens * r
            rows.factors[r] = Portable.softmaxBlock(row, rows.seen, rows.states + 2 * r)
            rows.weightScales[r] = KernelsNEON.roundWeights(row, rows.seen, valueScales)
          }
        },
        int16: .init(
          scores: KernelsNEON.attentionScoresInt16, accumulate: KernelsNEON.attentionAccumulateInt16),
        int8: .init(scores: KernelsNEON.attentionScoresInt8, accumulate: KernelsNEON.attentionAccumulateInt8))
      return table
    }()

    static let dotprod: KernelTable = {
      var table = neon
      table.int8?.multiply = KernelsDotprod.multiplyInt8
      table.int8?.multiplyPanel = KernelsDotprod.multiplyInt8Panel
      table.int8?.multiplyFloating = KernelsDotprod.multiplyInt8Floating
      table.int8?.interleaved = InterleavedKernels(
        panelBytes: KernelsDotprod.int8InterleavedBytes, make: KernelsDotprod.interleaveInt8,
        multiply: KernelsDotprod.multiplyInt8Interleaved, columns: KernelsDotprod.panelColumns)
      return table
    }()

    static let i8mm: KernelTable = {
      var table = neon
      table.int8?.multiply = KernelsI8MM.multiplyInt8
      table.int8?.multiplyPanel = KernelsI8MM.multiplyInt8Panel
      table.int8?.multiplyFloating = KernelsI8MM.multiplyInt8Floating
      table.int8?.interleaved = InterleavedKernels(
        panelBytes: KernelsI8MM.int8InterleavedBytes, make: KernelsI8MM.interleaveInt8,
        multiply: KernelsI8MM.multiplyInt8Interleaved, columns: KernelsI8MM.panelColumns)
      return table
    }()
  }
#endif
