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
      return PolyphaseFilter(
        up: target, down: rate, curve: SharpCurve(lowRate: Double(min(rate, target)) / Double(rate)))(samples)
    }
    let band = Double(target) / 2 / Double(rate)
    let first = PolyphaseFilter(
      up: 1, down: factor, curve: WindowedSinc(pass: band, stop: 1 / Double(factor) - band))
    let second = PolyphaseFilter(
      up: target * factor, down: rate,
      curve: SharpCurve(lowRate: Double(target * factor) / Double(rate)))
    // Rounding up twice may give one sample too many.
    let count = (samples.count * target + rate - 1) / rate
    return Array(second(first(samples)).prefix(count))
  }
}

/// A low-pass filter whose outputs are `down / up` input samples apart.
private struct PolyphaseFilter<Curve: FilterCurve> {
  private let up: Int
  private let down: Int
  /// How many samples the filter reaches over on either side of an output.
  private let reach: Int
  private let curve: Curve

  init(up: Int, down: Int, curve: Curve) {
    let divisor = Self.commonDivisor(up, down)
    self.up = up / divisor
    self.down = down / divisor
    self.curve = curve
    reach = max(1, Int(curve.reach.rounded(.up)))
  }

  func callAsFunction(_ x: [Float]) -> [Float] {
    let count = (x.count * up + down - 1) / down
    var y = [Float](repeating: 0, count: count)
    let taps = 2 * reach
    // Phases repeat: with few of them their weights are made once. 2^20 floats are 4 MiB.
    let isRepeating = up <= min(count, (1 << 20) / taps)
    var rows = [Float](repeating: 0, count: isRepeating ? up * taps : taps)
    if isRepeating {
      for phase in 0..<up { putWeights(of: phase, into: &rows, at: phase * taps) }
    }
    var (position, phase) = (0, 0)
    for n in 0..<count {
      let first = position - reach + 1
      if !isRepeating { putWeights(of: phase, into: &rows, at: 0) }
      y[n] = Self.product(x, first, rows, isRepeating ? phase * taps : 0, taps)
      phase += down
      position += phase / up
      phase %= up
    }
    return y
  }

  /// Weights of the samples from `reach - 1` before to `reach` after the one an output follows by `phase / up`.
  private func putWeights(of phase: Int, into rows: inout [Float], at start: Int) {
    let offset = Double(phase) / Double(up) + Double(reach - 1)
    var sum: Float = 0
    for tap in 0..<2 * reach {
      let weight = curve.value(at: abs(Double(tap) - offset))
      rows[start + tap] = weight
      sum += weight
    }
    // Silence with an offset stays just that.
    let factor = 1 / sum
    for tap in 0..<2 * reach { rows[start + tap] *= factor }
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

/// One side of the impulse response of a low-pass filter, up to a factor.
private protocol FilterCurve {
  /// Where it ends, in samples of the input.
  var reach: Double { get }
  func value(at distance: Double) -> Float
}

/// A sinc in Kaiser's window. Frequencies are in cycles per sample.
private struct WindowedSinc: FilterCurve {
  let cutoff: Double
  let reach: Double

  /// Attenuation of the rejected band, decibels.
  private static let attenuation = 90.0
  private static let beta = 0.1102 * (attenuation - 8.7)
  private static let scale = 1 / bessel(beta)

  init(pass: Double, stop: Double) {
    cutoff = (pass + stop) / 2
    // Kaiser: taps - 1 = (A - 7.95) / (2.285 Δω).
    reach = (Self.attenuation - 7.95) / (2.285 * 2 * Double.pi * (stop - pass)) / 2
  }

  func value(at distance: Double) -> Float {
    guard distance < reach else { return 0 }
    let t = distance / reach
    let angle = 2 * Double.pi * cutoff * distance
    let sinc = distance == 0 ? 1 : sin(angle) / angle
    return Float(sinc * Self.bessel(Self.beta * (1 - t * t).squareRoot()) * Self.scale)
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

/// The filter of the last step, as sharp as it must be. It differs between rates only by its width, so one table does for
/// all of them; between two of its points is interpolated.
private struct SharpCurve: FilterCurve {
  let reach: Double
  /// Points of the table per sample of the input.
  private let density: Double
  private let values = Self.values

  private static let shape = WindowedSinc(pass: 0.455, stop: 0.5)
  /// Points per sample at the lower rate. With 512 per zero crossing a straight line between two is off by less than 2e-6
  /// of the peak.
  private static let density = (2 * shape.cutoff * 512).rounded(.up)
  private static let values = (0...Int((shape.reach * density).rounded(.up)) + 1).map {
    shape.value(at: Double($0) / density)
  }

  /// - Parameter lowRate: the lower of the two rates of the step, in units of the input's.
  init(lowRate: Double) {
    reach = Self.shape.reach / lowRate
    density = Self.density * lowRate
  }

  func value(at distance: Double) -> Float {
    let place = distance * density
    let index = Int(place)
    guard index + 1 < values.count else { return 0 }
    let (a, b) = (values[index], values[index + 1])
    return a + (b - a) * Float(place - Double(index))
  }
}
