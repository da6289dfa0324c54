// What one layer keeps of a sequence between steps: keys and values, or a state of fixed size.

/// The cache that one layer asks for. `KVCache` stores keys and values, `StateCache` stores states.
package enum LayerCache: Sendable, Equatable {
  /// Keys and values of every position: they grow with the sequence, and earlier positions stay as they were.
  case keysValues(KVLayerShape)
  /// A state of one size, however long the sequence is: every step overwrites it.
  case recurrent(StateShape)
}

extension Sequence<LayerCache> {
  /// The layers that cache keys and values, in order: the layers of a `KVCache`.
  package var keysValues: [KVLayerShape] {
    compactMap { if case .keysValues(let shape) = $0 { shape } else { nil } }
  }

  /// The layers that keep a state, in order: the layers of a `StateCache`.
  package var recurrent: [StateShape] {
    compactMap { if case .recurrent(let shape) = $0 { shape } else { nil } }
  }
}

/// What one recurrent layer keeps of a sequence, in float32: the inputs that its short convolution still needs, and
/// the matrix that its recurrence updates (Mamba 2, gated delta nets; a vector is a matrix of one column).
package struct StateShape: Sendable, Equatable {
  /// The inputs that the causal convolution looks back on: one less than it has taps; 0 without a convolution.
  package var convolutionRows: Int
  /// Elements of one of these inputs.
  package var convolutionChannels: Int
  package var heads: Int
  /// Rows of one head's matrix.
  package var keyDim: Int
  /// Columns of one head's matrix.
  package var valueDim: Int

  package init(
    convolutionRows: Int = 0, convolutionChannels: Int = 0, heads: Int, keyDim: Int, valueDim: Int
  ) {
    self.convolutionRows = convolutionRows
    self.convolutionChannels = convolutionChannels
    self.heads = heads
    self.keyDim = keyDim
    self.valueDim = valueDim
  }

  /// Bytes of one sequence's state, without padding.
  ///
  /// - Throws: `invalidSize` when a size is out of range or the product overflows.
  package func byteCount() throws(ComputeError) -> Int {
    let convolution = try floats([convolutionRows, convolutionChannels], from: 0)
    let (sum, overflow) = convolution.addingReportingOverflow(
      try floats([heads, keyDim, valueDim], from: 1))
    let (bytes, overflows) = sum.multipliedReportingOverflow(by: MemoryLayout<Float>.size)
    guard !overflow, !overflows else { throw .invalidSize(what: "recurrent state", value: sum) }
    return bytes
  }

  private func floats(_ sizes: [Int], from least: Int) throws(ComputeError) -> Int {
    var count = 1
    for size in sizes {
      guard (least...1 << 20).contains(size) else { throw .invalidSize(what: "recurrent state", value: size) }
      let (product, overflow) = count.multipliedReportingOverflow(by: size)
      guard !overflow else { throw .invalidSize(what: "recurrent state", value: size) }
      count = product
    }
    return count
  }
}
