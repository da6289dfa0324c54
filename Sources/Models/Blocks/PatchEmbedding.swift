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

extension LayerLoader {
  /// A convolution whose windows do not overlap, as a linear map of `[y][x][channel]`. MLX stores `[out][y][x][channel]`,
  /// other checkpoints `[out][channel][y][x]`.
  func patchEmbedding(_ name: String, rows: Int, patch: Int) throws(ModelError) -> Linear {
    let (weight, columns) = (name + ".weight", patch * patch * 3)
    let isForeign = shape(of: weight) == [rows, 3, patch, patch]
    let flat: TensorView
    if isForeign {
      let stored = try floats(weight, shape: [rows, 3, patch, patch])
      var values = [Float](repeating: 0, count: stored.count)
      for row in 0..<rows {
        for channel in 0..<3 {
          for place in 0..<patch * patch {
            let from = row * columns + channel * patch * patch + place
            values[row * columns + place * 3 + channel] = stored[from]
          }
        }
      }
      flat = TensorView(name: weight, shape: [rows, columns], floats: values)
    } else {
      let stored = try tensor(weight, shape: [rows, patch, patch, 3])
      guard let matrix = stored.reshaped([rows, columns]) else {
        throw .missingTensor(name: stored.name, because: "its size overflows")
      }
      flat = matrix
    }
    let bias = has(name + ".bias") ? try tensor(name + ".bias", shape: [rows]) : nil
    return try linear([WeightTensors(weight: flat, bias: bias, rows: rows, columns: columns)])
  }
}
