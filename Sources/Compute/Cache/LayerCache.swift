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

/// What one recurrent layer keeps of a sequence, in float32: the inputs that its short convolution still needs, the
/// matrix that its recurrence updates (Mamba 2, gated delta nets; a vector is a matrix of one column), and what the
/// recurrence needs of the positions since the last border of blocks, which are not yet in the matrix.
package struct StateShape: Sendable, Equatable {
  /// The inputs that the causal convolution looks back on: one less than it has taps; 0 without a convolution.
  package var convolutionRows: Int
  /// Elements of one of these inputs.
  package var convolutionChannels: Int
  /// 0, with both other sizes of the matrices, in layers that have a convolution alone.
  package var heads: Int
  /// Rows of one head's matrix.
  package var keyDim: Int
  /// Columns of one head's matrix.
  package var valueDim: Int
  /// Floats of one position since the last border of blocks; 0 where every position goes into the matrix at once.
  package var recentChannels: Int

  package init(
    convolutionRows: Int = 0, convolutionChannels: Int = 0, heads: Int, keyDim: Int, valueDim: Int,
    recentChannels: Int = 0
  ) {
    (self.convolutionRows, self.convolutionChannels) = (convolutionRows, convolutionChannels)
    (self.heads, self.keyDim, self.valueDim) = (heads, keyDim, valueDim)
    self.recentChannels = recentChannels
  }

  /// Elements of the three parts: of the convolution, the matrices, and the recent positions.
  ///
  /// - Throws: `invalidSize` when a size is out of range, a product overflows, or there is nothing to keep.
  func parts() throws(ComputeError) -> (convolution: Int, state: Int, recent: Int) {
    let convolution = try floats([convolutionRows, convolutionChannels], from: 0)
    let isConvolutionAlone = convolution > 0 && [heads, keyDim, valueDim] == [0, 0, 0]
    let state = try floats([heads, keyDim, valueDim], from: isConvolutionAlone ? 0 : 1)
    return (convolution, state, try floats([KVCache.blockTokens, recentChannels], from: 0))
  }

  /// Bytes of one sequence's state, without padding.
  ///
  /// - Throws: as `parts`, and when the sum overflows.
  package func byteCount() throws(ComputeError) -> Int {
    let parts = try parts()
    var sum = 0
    for part in [parts.convolution, parts.state, parts.recent] {
      let (bytes, overflow) = part.multipliedReportingOverflow(by: MemoryLayout<Float>.size)
      let (next, overflows) = sum.addingReportingOverflow(bytes)
      guard !overflow, !overflows else { throw .invalidSize(what: "recurrent state", value: part) }
      sum = next
    }
    return sum
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
