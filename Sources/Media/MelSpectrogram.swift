// Logarithms of the energy in mel bands over time: what Gemma's audio tower takes.
//
// Source: transformers' Gemma 4 feature extractor. Half a frame of silence comes first, so that frame 0 is centred on
// sample 0. Magnitudes, not powers; triangles over hertz with peak 1; the floor is added, not a lower bound.

import Platform

/// Settings of the extractor; the defaults are Gemma 4's.
package struct MelSettings: Sendable, Equatable {
  /// Samples per second.
  package var rate = 16_000
  /// Samples of a frame, and from one frame to the next.
  package var frameLength = 320
  package var hop = 160
  /// A power of two, at least `frameLength`: frames are padded with zeros.
  package var transformLength = 512
  package var bands = 128
  /// Hertz.
  package var lowest = 0.0
  package var highest = 8000.0
  /// Added before the logarithm.
  package var floor = 0.001

  package init() {}
}

/// Window, transform and bands, made once.
package struct MelSpectrogram: Sendable {
  package let settings: MelSettings
  /// Floats, as the source rounds them: near the floor the difference shows in the fourth digit.
  private let window: [Float]
  private let transform: FourierTransform
  private let bands: [Band]

  /// A triangle over the transform's bins.
  private struct Band: Sendable {
    let first: Int
    let weights: [Double]
  }

  /// - Precondition: `transformLength` is a power of two and at least `frameLength`; sizes are positive.
  package init(_ settings: MelSettings = MelSettings()) {
    self.settings = settings
    let length = Double(settings.frameLength)
    window = (0..<settings.frameLength).map { Float(0.5 - 0.5 * cos(2 * Double.pi * Double($0) / length)) }
    transform = FourierTransform(size: settings.transformLength)
    bands = Self.bands(settings)
  }

  private static func bands(_ settings: MelSettings) -> [Band] {
    func mel(_ hertz: Double) -> Double { 2595 * log10(1 + hertz / 700) }
    func hertz(_ mel: Double) -> Double { 700 * (pow(10, mel / 2595) - 1) }
    let (low, high) = (mel(settings.lowest), mel(settings.highest))
    let edges = (0..<settings.bands + 2).map {
      hertz(low + (high - low) * Double($0) / Double(settings.bands + 1))
    }
    let bins = (0...settings.transformLength / 2).map {
      Double($0) * Double(settings.rate) / Double(settings.transformLength)
    }
    return (0..<settings.bands).map { band in
      let (left, centre, right) = (edges[band], edges[band + 1], edges[band + 2])
      // The lowest triangles are narrower than a bin and may contain none.
      let inside = bins.indices.filter { bins[$0] > left && bins[$0] < right }
      let weights = inside.map {
        min((bins[$0] - left) / (centre - left), (right - bins[$0]) / (right - centre))
      }
      return Band(first: inside.first ?? 0, weights: weights)
    }
  }

  /// Frames of an audio clip: those that end before its last sample.
  package func frameCount(samples: Int) -> Int {
    let first = settings.frameLength - settings.frameLength / 2 + 1
    return samples < first ? 0 : (samples - first) / settings.hop + 1
  }

  /// `[frames, bands]`, one row after the other.
  package func callAsFunction(_ samples: [Float]) -> [Float] {
    let frames = frameCount(samples: samples.count)
    var out: [Float] = []
    out.reserveCapacity(frames * settings.bands)
    var real = [Double](repeating: 0, count: settings.transformLength)
    var imaginary = real
    var magnitudes = [Double](repeating: 0, count: settings.transformLength / 2 + 1)
    for frame in 0..<frames {
      let start = frame * settings.hop - settings.frameLength / 2
      for i in real.indices {
        let isInside = i < settings.frameLength && start + i >= 0
        real[i] = isInside ? Double(window[i] * samples[start + i]) : 0
        imaginary[i] = 0
      }
      transform(&real, &imaginary)
      for bin in magnitudes.indices {
        magnitudes[bin] = (real[bin] * real[bin] + imaginary[bin] * imaginary[bin]).squareRoot()
      }
      for band in bands {
        var sum = 0.0
        for (offset, weight) in band.weights.enumerated() { sum += weight * magnitudes[band.first + offset] }
        out.append(Float(log(sum + settings.floor)))
      }
    }
    return out
  }
}
