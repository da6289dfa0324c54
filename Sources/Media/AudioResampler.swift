// Changes the sample rate of an audio clip, for any two rates: a windowed sinc as an anti-aliasing filter, evaluated at
// the phases that the outputs fall on (polyphase).
//
// Source: Kaiser's window and its estimate of the length (Oppenheim and Schafer, "Discrete-Time Signal Processing",
// 7.5). The band up to 0.91 of the lower rate's half is kept, everything from that half on is rejected by 90 dB.

import Platform

/// Audio at the rate that the model was trained with.
package enum AudioResampler {
  /// Output n is the input at time n / target; what is outside the input counts as silence.
  ///
  /// - Returns: `samples.count · target / rate` samples, rounded up.
  /// - Precondition: rates are positive.
  package static func resample(_ samples: [Float], from rate: Int, to target: Int) -> [Float] {
    guard rate != target, !samples.isEmpty else { return samples }
    // A sharp filter at a high rate would be long. One that only keeps the band up to half the target free of
    // aliases is short, and leaves the sharp one less to do.
    let factor = rate / (2 * target)
    guard factor > 1 else {
      return PolyphaseFilter(up: target, down: rate, lowRate: Double(min(rate, target)) / Double(rate))(
        samples)
    }
    let band = Double(target) / 2 / Double(rate)
    let first = PolyphaseFilter(up: 1, down: factor, pass: band, stop: 1 / Double(factor) - band)
    let second = PolyphaseFilter(
      up: target * factor, down: rate, lowRate: Double(target * factor) / Double(rate))
    // Rounding up twice may give one sample too many.
    let count = (samples.count * target + rate - 1) / rate
    return Array(second(first(samples)).prefix(count))
  }
}

/// A low-pass filter whose outputs are `down / up` input samples apart. Frequencies are in cycles per input sample.
private struct PolyphaseFilter {
  private let up: Int
  private let down: Int
  /// How many samples the filter reaches over on either side of an output.
  private let reach: Int
  private let curve: Curve

  /// Attenuation of the rejected band, decibels.
  private static let attenuation = 90.0

  /// A filter as sharp as the last step needs: `lowRate` is the lower of its two rates in units of the input's.
  init(up: Int, down: Int, lowRate: Double) {
    self.init(up: up, down: down, pass: 0.455 * lowRate, stop: 0.5 * lowRate)
  }

  init(up: Int, down: Int, pass: Double, stop: Double) {
    let divisor = Self.commonDivisor(up, down)
    self.up = up / divisor
    self.down = down / divisor
    // Kaiser: taps - 1 = (A - 7.95) / (2.285 Δω).
    let taps = (Self.attenuation - 7.95) / (2.285 * 2 * Double.pi * (stop - pass))
    reach = max(1, Int((taps / 2).rounded(.up)))
    curve = Curve(cutoff: (pass + stop) / 2, reach: reach, attenuation: Self.attenuation)
  }

  func callAsFunction(_ x: [Float]) -> [Float] {
    let count = (x.count * up + down - 1) / down
    var y = [Float](repeating: 0, count: count)
    let taps = 2 * reach
    // Phases repeat: with few of them their weights are made once. 2^20 floats are 4 MiB.
    let isRepeating = up <= (1 << 20) / taps
    var rows: [Float] = []
    if isRepeating {
      rows.reserveCapacity(up * taps)
      for phase in 0..<up { rows += weights(phase) }
    }
    var (position, phase) = (0, 0)
    for n in 0..<count {
      let first = position - reach + 1
      if isRepeating {
        y[n] = Self.product(x, first, rows, phase * taps, taps)
      } else {
        y[n] = Self.product(x, first, weights(phase), 0, taps)
      }
      phase += down
      position += phase / up
      phase %= up
    }
    return y
  }

  /// Weights of the samples from `reach - 1` before to `reach` after the one an output follows by `phase / up`.
  private func weights(_ phase: Int) -> [Float] {
    let offset = Double(phase) / Double(up) + Double(reach - 1)
    var row = [Float](repeating: 0, count: 2 * reach)
    var sum: Float = 0
    for tap in row.indices {
      row[tap] = curve.value(at: abs(Double(tap) - offset))
      sum += row[tap]
    }
    // Silence with an offset stays just that.
    let factor = 1 / sum
    for tap in row.indices { row[tap] *= factor }
    return row
  }

  /// `Σ x[first + t] · rows[start + t]` over the taps that fall on a sample.
  private static func product(_ x: [Float], _ first: Int, _ rows: [Float], _ start: Int, _ taps: Int) -> Float
  {
    let end = min(taps, x.count - first)
    var t = max(0, -first)
    var sums = SIMD8<Float>.zero
    while t + 8 <= end {
      let (i, j) = (first + t, start + t)
      let a = SIMD8(x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4], x[i + 5], x[i + 6], x[i + 7])
      let b = SIMD8(
        rows[j], rows[j + 1], rows[j + 2], rows[j + 3], rows[j + 4], rows[j + 5], rows[j + 6], rows[j + 7])
      sums += a * b
      t += 8
    }
    while t < end {
      sums[0] += x[first + t] * rows[start + t]
      t += 1
    }
    return sums.sum()
  }

  private static func commonDivisor(_ a: Int, _ b: Int) -> Int {
    var (a, b) = (a, b)
    while b != 0 { (a, b) = (b, a % b) }
    return a
  }
}

/// One side of a sinc in Kaiser's window, as a table between whose points is interpolated.
private struct Curve {
  private let values: [Float]
  /// Points per input sample.
  private let density: Double

  /// With 512 points per zero crossing a straight line between two is off by less than 2e-6 of the peak.
  private static let pointsPerCrossing = 512.0

  init(cutoff: Double, reach: Int, attenuation: Double) {
    density = (2 * cutoff * Self.pointsPerCrossing).rounded(.up)
    let beta = 0.1102 * (attenuation - 8.7)
    let scale = 1 / Self.bessel(beta)
    let last = reach * Int(density)
    values = (0...last + 1).map { index in
      guard index < last else { return 0 }
      let t = Double(index) / Double(last)
      let angle = 2 * Double.pi * cutoff * Double(index) / Double(last) * Double(reach)
      let sinc = index == 0 ? 1 : sin(angle) / angle
      return Float(sinc * Self.bessel(beta * (1 - t * t).squareRoot()) * scale)
    }
  }

  func value(at distance: Double) -> Float {
    let place = distance * density
    let index = Int(place)
    guard index + 1 < values.count else { return 0 }
    let (a, b) = (values[index], values[index + 1])
    return a + (b - a) * Float(place - Double(index))
  }

  /// The modified Bessel function of order zero, by its series.
  private static func bessel(_ x: Double) -> Double {
    var (sum, term) = (1.0, 1.0)
    for k in 1...40 {
      let factor = x / Double(2 * k)
      term *= factor * factor
      sum += term
    }
    return sum
  }
}
