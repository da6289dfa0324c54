// Short causal convolutions over time, as recurrent layers have them before their state: a sequence goes on with the
// inputs that its last step left in the cache.
//
//     out[t][c] = bias[c] + Σ weights[c][i] · x[t - taps + 1 + i][c],   0 <= i < taps
//
// The newest input meets the last tap, and before a sequence are zeros.

import KernelTypes

/// A convolution of every channel by itself.
package struct ShortConvolution: Sendable {
  package let channels: Int
  package let taps: Int
  /// `[block][taps][channels of the block]`: a tile computes a block of channels.
  private let weights: [Float]
  /// `[channels]`, or empty.
  private let bias: [Float]
  /// Whether outputs go through silu.
  fileprivate let isActivated: Bool

  /// Channels of a block, but for the last.
  private static let blockChannels = 512

  /// - Parameters:
  ///   - weights: `[channels, taps]`, the last tap that of the newest input.
  ///   - bias: `[channels]`, or empty.
  ///   - isActivated: whether outputs go through silu.
  /// - Precondition: as many weights as `taps` says for each channel.
  package init(weights: [Float], bias: [Float] = [], taps: Int, isActivated: Bool) {
    precondition(
      taps > 0 && weights.count % taps == 0 && (bias.isEmpty || bias.count * taps == weights.count),
      "convolution: shapes differ")
    let channels = weights.count / taps
    var ordered: [Float] = []
    ordered.reserveCapacity(weights.count)
    for first in stride(from: 0, to: channels, by: Self.blockChannels) {
      let block = first..<min(channels, first + Self.blockChannels)
      for tap in 0..<taps { ordered += block.map { weights[$0 * taps + tap] } }
    }
    self.weights = ordered
    (self.bias, self.taps, self.channels) = (bias, taps, channels)
    self.isActivated = isActivated
  }

  fileprivate var blocks: Int { (channels + Self.blockChannels - 1) / Self.blockChannels }

  fileprivate func block(_ index: Int) -> Range<Int> {
    index * Self.blockChannels..<min(channels, (index + 1) * Self.blockChannels)
  }

  /// Calls `body` with the weights of some channels, `[taps][channels]`, and their biases.
  fileprivate func withParameters(
    _ block: Range<Int>, _ body: (_ weights: UnsafePointer<Float>, _ bias: UnsafePointer<Float>?) -> Void
  ) {
    weights.withUnsafeBufferPointer { weights in
      bias.withUnsafeBufferPointer { bias in
        guard let weights = weights.baseAddress else { return }
        body(
          weights + block.lowerBound * taps,
          bias.isEmpty ? nil : bias.baseAddress.map { $0 + block.lowerBound })
      }
    }
  }
}

extension ComputeContext {
  /// Convolves each span of the step with the inputs before it, and leaves its last inputs for the next step.
  ///
  /// - Parameters:
  ///   - x: `[rows, channels]`.
  ///   - layer: counted over the recurrent layers.
  ///   - out: `[rows, channels]`, other memory than x.
  package func convolve(
    _ x: Rows, by convolution: ShortConvolution, layer: Int, of states: StateCache, at layout: StepLayout,
    into out: Rows
  ) {
    let shape = states.shape[layer]
    precondition(
      x.columns == convolution.channels && out.columns == x.columns && out.count == x.count
        && out.base != x.base && x.count == layout.rows && shape.convolutionRows == convolution.taps - 1
        && shape.convolutionChannels == x.columns, "convolve: shapes differ")
    let blocks = convolution.blocks
    pool.run(tiles: layout.spans.count * blocks) { tile, worker in
      let span = layout.spans[tile / blocks]
      guard let slot = span.slot, span.count > 0 else { return }
      let block = convolution.block(tile % blocks)
      convolve(
        x.rows(from: span.row, count: span.count).columns(from: block.lowerBound, count: block.count),
        by: convolution, block,
        history: states.convolution(layer, of: slot).columns(from: block.lowerBound, count: block.count),
        into: out.rows(from: span.row, count: span.count).columns(from: block.lowerBound, count: block.count),
        workerScratch[worker])
    }
  }

  /// Some channels of one span.
  private func convolve(
    _ x: Rows, by convolution: ShortConvolution, _ block: Range<Int>, history: Rows, into out: Rows,
    _ scratch: Scratch
  ) {
    let (taps, before) = (convolution.taps, convolution.taps - 1)
    // The first rows look back on what the cache has: they are put after it.
    let joined = scratch.rows(2 * before, x.columns)
    let first = min(before, x.count)
    for row in 0..<before { history.copyRow(row, to: joined, at: row) }
    for row in 0..<first { x.copyRow(row, to: joined, at: before + row) }
    convolution.withParameters(block) { weights, bias in
      for row in 0..<x.count {
        let (source, start) = row < before ? (joined, row) : (x, row - before)
        let window = Activations(base: source.row(start), stride: source.stride, count: taps)
        let target = out.row(row)
        kernels.convolve(window, weights, x.columns, target)
        if let bias { kernels.add(bias, x.columns, target) }
        if convolution.isActivated { kernels.gatedSigmoid(target, target, x.columns, target) }
      }
    }
    for row in 0..<before {
      if x.count >= before {
        x.copyRow(x.count - before + row, to: history, at: row)
      } else {
        joined.copyRow(x.count + row, to: history, at: row)
      }
    }
  }
}
