// The first part of Gemma 4's audio tower: two convolutions that halve time and frequency, and a projection.

import Compute
import Media

/// Spectrogram `[frames, bands]` → rows `[⌈⌈frames / 2⌉ / 2⌉, hidden]`:
///
///     x = relu(norm(convolution(x)))      twice; 3 · 3, stride 2, padding 1
///     x = input_proj_linear([frequency][channel] of x)
struct Gemma4AudioInput {
  /// A convolution with the norm over its channels.
  private struct Convolution {
    let weights: Linear  // [3 · 3 · input channels] → [output channels]
    let gain: [Float]
  }

  private let first, second: Convolution
  private let projection: Linear  // [frequencies · channels] → [hidden]
  /// Output channels of the convolutions.
  private let channels: [Int]
  private let bands: Int
  private let epsilon: Float
  private let compute: ComputeContext

  /// Rows of the output that are made together: the neighbourhoods of 64 rows take ten megabytes.
  private static let chunk = 64

  init(_ config: Gemma4AudioConfig, bands: Int, _ weights: LayerLoader) throws(ModelError) {
    first = try Self.convolution(from: 1, to: config.channels[0], weights.at("layer0"))
    second = try Self.convolution(from: config.channels[0], to: config.channels[1], weights.at("layer1"))
    projection = try weights.linear(
      ["input_proj_linear": config.hidden], from: Self.halved(Self.halved(bands)) * config.channels[1])
    channels = config.channels
    epsilon = config.epsilon
    self.bands = bands
    compute = weights.compute
  }

  static func halved(_ count: Int) -> Int { (count + 1) / 2 }

  /// MLX stores `[out][time][frequency][in]`, other checkpoints `[out][in][time][frequency]`.
  private static func convolution(
    from inputs: Int, to outputs: Int, _ weights: LayerLoader
  ) throws(ModelError) -> Convolution {
    let name = "conv.weight"
    let isForeign = inputs > 1 && weights.shape(of: name) == [outputs, inputs, 3, 3]
    let shape =
      inputs == 1 && weights.shape(of: name) == [outputs, 1, 3, 3] || isForeign
      ? [outputs, inputs, 3, 3] : [outputs, 3, 3, inputs]
    var values = try weights.floats(name, shape: shape)
    if isForeign {
      let stored = values
      for output in 0..<outputs {
        for place in 0..<9 {
          for input in 0..<inputs {
            values[(output * 9 + place) * inputs + input] = stored[(output * inputs + input) * 9 + place]
          }
        }
      }
    }
    let flat = TensorView(name: name, shape: [outputs, 9 * inputs], floats: values)
    return Convolution(
      weights: weights.linear(try weights.table(flat)), gain: try weights.norm("norm", outputs))
  }

  /// - Parameters:
  ///   - spectrogram: `[frames, bands]`.
  ///   - out: `[⌈⌈frames / 2⌉ / 2⌉, hidden]`.
  func callAsFunction(_ spectrogram: Rows, into out: Rows) {
    let (unfolded, middle, pixels, joined) = (
      ScratchBuffer(), ScratchBuffer(), ScratchBuffer(), ScratchBuffer()
    )
    let (frames, columns) = (Self.halved(spectrogram.count), Self.halved(bands))
    let last = Self.halved(columns)
    let plane = Plane(lines: spectrogram, channels: 1)
    var start = 0
    while start < out.count {
      let rows = start..<min(start + Self.chunk, out.count)
      // The lines between the convolutions that these rows need.
      let lines = max(0, 2 * rows.lowerBound - 1)..<min(frames, 2 * rows.upperBound)
      let between = middle.rows(lines.count * columns, channels[0])
      let around = unfolded.rows(lines.count * columns, 9)
      compute.unfold(plane, outputs: lines, into: around)
      run(first, around, into: between)

      let all = unfolded.rows(rows.count * last, 9 * channels[0])
      compute.unfold(
        Plane(pixels: between, width: columns, first: lines.lowerBound, height: frames), outputs: rows,
        into: all)
      let small = pixels.rows(rows.count * last, channels[1])
      run(second, all, into: small)
      let flat = joined.rows(rows.count, last * channels[1])
      compute.join(small, into: flat)
      projection(flat, into: out.rows(from: start, count: rows.count))
      start = rows.upperBound
    }
  }

  private func run(_ convolution: Convolution, _ x: Rows, into out: Rows) {
    convolution.weights(x, into: out)
    compute.layerNorm(out, gain: convolution.gain, epsilon: epsilon, into: out)
    compute.clamp(out, to: 0...Float.greatestFiniteMagnitude, into: out)
  }
}
