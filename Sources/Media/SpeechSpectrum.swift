// Logarithms of the power in mel bands over time: what Whisper hears.
//
// Sources: arXiv:2212.04356 and its log_mel_spectrogram; the mel scale is Slaney's, linear below 1000 Hz, and each triangle
// has the area 1. The transform has 400 points, and its last frame is dropped. A recording is followed by silence.

import Platform

/// Window, transform and bands, made once.
package struct SpeechSpectrum: Sendable {
  /// Samples per second.
  package static let rate = 16_000
  /// Samples from one frame to the next: 10 ms.
  package static let hop = 160
  private static let frameLength = 400
  /// Logarithms are bounded below by this much less than the loudest.
  private static let range: Float = 8
  /// The logarithm of the power of silence.
  private static let silence: Float = -10

  package let bands: Int
  private let window: [Float]
  private let transform = FrameTransform(size: frameLength)
  private let triangles: [(first: Int, weights: [Float])]

  /// - Precondition: `bands` is positive.
  package init(bands: Int) {
    self.bands = bands
    window = (0..<Self.frameLength).map {
      Float(0.5 - 0.5 * cos(2 * Double.pi * Double($0) / Double(Self.frameLength)))
    }
    triangles = Self.triangles(bands)
  }

  private static func triangles(_ bands: Int) -> [(first: Int, weights: [Float])] {
    let (linear, step) = (3.0 / 200, log(6.4) / 27)
    func mel(_ hertz: Double) -> Double {
      hertz < 1000 ? linear * hertz : 15 + log(hertz / 1000) / step
    }
    func hertz(_ mel: Double) -> Double { mel < 15 ? mel / linear : 1000 * exp(step * (mel - 15)) }
    let top = mel(Double(rate) / 2)
    let edges = (0..<bands + 2).map { hertz(top * Double($0) / Double(bands + 1)) }
    let bins = (0...frameLength / 2).map { Double($0 * rate) / Double(frameLength) }
    return (0..<bands).map { band in
      let (left, centre, right) = (edges[band], edges[band + 1], edges[band + 2])
      let inside = bins.indices.filter { bins[$0] > left && bins[$0] < right }
      let weights = inside.map { bin in
        let height = min((bins[bin] - left) / (centre - left), (right - bins[bin]) / (right - centre))
        return Float(height * 2 / (right - left))
      }
      return (inside.first ?? 0, weights)
    }
  }

  /// Frames of a recording.
  package static func frameCount(samples: Int) -> Int { samples / hop }

  /// The largest logarithm of a recording, which what a model hears is relative to.
  package func peak(of samples: [Float]) -> Float {
    let frames = samples.count / Self.hop
    var peak = Self.silence
    for start in stride(from: 0, to: frames, by: 1600) {
      peak = max(peak, logarithms(samples, start..<min(start + 1600, frames)).max() ?? peak)
    }
    return peak
  }

  /// Some frames as a model hears them, `[frames][bands]`; those behind the end are silent.
  ///
  /// - Parameter peak: of the whole recording.
  package func frames(_ frames: Range<Int>, of samples: [Float], peak: Float) -> MelFrames {
    let floor = peak - Self.range
    return MelFrames(
      count: frames.count, bins: bands,
      values: logarithms(samples, frames).map { (max($0, floor) + 4) / 4 })
  }

  /// Sixteen frames at a time.
  private func logarithms(_ samples: [Float], _ frames: Range<Int>) -> [Float] {
    var out = [Float](repeating: Self.silence, count: frames.count * bands)
    let length = Self.frameLength
    var real = [FrameTransform.Lanes](repeating: .zero, count: length)
    var imaginary = real
    for first in stride(from: frames.lowerBound, to: frames.upperBound, by: 16) {
      // Half a frame before the last sample silence begins.
      guard first * Self.hop - length / 2 < samples.count else { break }
      for lane in 0..<8 {
        fill(&real, lane, samples, frame: first + lane)
        fill(&imaginary, lane, samples, frame: first + lane + 8)
      }
      let powers = transform.power(&real, &imaginary)
      for (half, power) in [powers.first, powers.second].enumerated() {
        for band in 0..<bands {
          var sum = FrameTransform.Lanes.zero
          let triangle = triangles[band]
          for (offset, weight) in triangle.weights.enumerated() {
            sum += weight * power[triangle.first + offset]
          }
          for lane in 0..<8 {
            let frame = first + 8 * half + lane
            guard frame < frames.upperBound else { break }
            out[(frame - frames.lowerBound) * bands + band] = log10(max(sum[lane], 1e-10))
          }
        }
      }
    }
    return out
  }

  /// A frame around its centre: what is before the first sample mirrors what follows it.
  private func fill(_ lanes: inout [FrameTransform.Lanes], _ lane: Int, _ samples: [Float], frame: Int) {
    let start = frame * Self.hop - Self.frameLength / 2
    for i in 0..<Self.frameLength {
      let at = abs(start + i)
      lanes[i][lane] = at < samples.count ? samples[at] * window[i] : 0
    }
  }
}
