// From pixels to the inputs of a tower: what a processor does with values, and the convolution that takes patches.

import Compute
import Media

/// Values of pixels as a tower takes them, `(value · factor - mean) / deviation` of each channel.
struct PixelScale {
  /// `[channel][value]`.
  private let table: [Float]

  /// - Parameter config: of the image processor.
  init(_ config: ConfigFields) throws(ModelError) {
    let factor =
      try config.bool("do_rescale", default: true)
      ? Float(try config.double("rescale_factor", in: 1e-9...1e3, default: 1.0 / 255)) : 1
    let normalizes = try config.bool("do_normalize", default: true)
    func channels(
      _ key: String, _ usual: Double, in range: ClosedRange<Double>
    ) throws(ModelError) -> [Float] {
      guard normalizes, config.has(key) else { return [Float](repeating: Float(usual), count: 3) }
      return try config.doubles(key, count: 3, in: range).map { Float($0) }
    }
    let means = try channels("image_mean", normalizes ? 0.5 : 0, in: -1e3...1e3)
    let deviations = try channels("image_std", normalizes ? 0.5 : 1, in: 1e-6...1e3)
    table = (0..<3).flatMap { channel in
      (0..<256).map { (Float($0) * factor - means[channel]) / deviations[channel] }
    }
  }

  /// A square of an image, `[side][side][3]`.
  ///
  /// - Precondition: the square lies within the image.
  func patch(_ image: PixelImage, x: Int, y: Int, side: Int) -> [Float] {
    var values: [Float] = []
    values.reserveCapacity(side * side * 3)
    for row in y..<y + side {
      let first = (row * image.width + x) * 3
      for index in 0..<side * 3 { values.append(table[index % 3 * 256 + Int(image.pixels[first + index])]) }
    }
    return values
  }
}

extension ResamplingFilter {
  /// The one that an image processor names.
  init(_ config: ConfigFields, usual: ResamplingFilter) throws(ModelError) {
    let number = try config.int("resample", in: 0...5, default: usual.rawValue)
    guard let filter = ResamplingFilter(rawValue: number) else {
      throw .unsupportedSetting(
        key: config.name(of: "resample"), value: "\(number)",
        supported: "1 (Lanczos), 2 (bilinear), 3 (bicubic)")
    }
    self = filter
  }
}

extension Rows {
  /// Puts neighbouring patches beside each other: every square of `side · side` becomes a row, its patches by rows and
  /// their elements innermost.
  ///
  /// - Parameters:
  ///   - columns: patches of a row of the image, whose rows follow each other.
  ///   - out: `[count / side², side² · elements]`.
  func join(columns: Int, side: Int, into out: Rows) {
    let across = columns / side
    for token in 0..<out.count {
      for part in 0..<side * side {
        let (row, column) = (token / across * side + part / side, token % across * side + part % side)
        copyRow(
          row * columns + column, to: out.columns(from: part * self.columns, count: self.columns), at: token)
      }
    }
  }
}

extension LayerLoader {
  /// A convolution whose windows do not overlap, as a linear map of `[y][x][channel]`. MLX stores `[out][y][x][channel]`,
  /// other checkpoints `[out][channel][y][x]`.
  ///
  /// - Parameter frames: pictures of a window; all of them are one still image here. Stored before y and x.
  func patchEmbedding(_ name: String, rows: Int, patch: Int, frames: Int? = nil) throws(ModelError) -> Linear
  {
    let (weight, columns) = (name + ".weight", patch * patch * 3)
    let window = (frames.map { [$0] } ?? []) + [patch, patch]
    let isForeign = shape(of: weight) == [rows, 3] + window
    let stored = try tensor(weight, shape: isForeign ? [rows, 3] + window : [rows] + window + [3])
    let flat: TensorView
    if !isForeign, frames == nil {
      guard let matrix = stored.reshaped([rows, columns]) else {
        throw .missingTensor(name: stored.name, because: "its size overflows")
      }
      flat = matrix
    } else {
      flat = TensorView(
        name: stored.name, shape: [rows, columns],
        floats: Self.stillWeights(
          try computing(try stored.floats()), rows: rows, places: patch * patch, frames: frames ?? 1,
          isForeign: isForeign))
    }
    let bias = has(name + ".bias") ? try tensor(name + ".bias", shape: [rows]) : nil
    return try linear([WeightTensors(weight: flat, bias: bias, rows: rows, columns: columns)])
  }

  /// `[out][place][channel]`, the sum over all frames.
  private static func stillWeights(
    _ stored: [Float], rows: Int, places: Int, frames: Int, isForeign: Bool
  ) -> [Float] {
    var values = [Float](repeating: 0, count: rows * places * 3)
    for row in 0..<rows {
      for frame in 0..<frames {
        for place in 0..<places {
          for channel in 0..<3 {
            let from =
              isForeign
              ? ((row * 3 + channel) * frames + frame) * places + place
              : ((row * frames + frame) * places + place) * 3 + channel
            values[(row * places + place) * 3 + channel] += stored[from]
          }
        }
      }
    }
    return values
  }
}
