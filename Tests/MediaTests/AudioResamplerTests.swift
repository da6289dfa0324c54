// The resampler against exact sines, sweeps of a reference, and for what it must reject.

import JSON
import Media
import Platform
import Support
import Testing

@Suite struct AudioResamplerTests {
  /// `count` samples of a sine.
  private func sine(_ hertz: Double, rate: Int, count: Int, amplitude: Double = 0.5) -> [Float] {
    (0..<count).map { Float(amplitude * sin(2 * Double.pi * hertz * Double($0) / Double(rate) + 0.3)) }
  }

  /// Outputs at either end for which the filter reaches beyond the input.
  private func margin(_ rate: Int) -> Int { 70 * 16_000 / min(rate, 16_000) }

  /// Decibels of `exact` over the difference, without the ends.
  private func ratio(_ found: [Float], _ exact: [Float], margin: Int) -> Double {
    guard found.count == exact.count, found.count > 3 * margin else { return -.infinity }
    var (signal, noise) = (0.0, 1e-30)
    for i in margin..<found.count - margin {
      signal += Double(exact[i]) * Double(exact[i])
      noise += (Double(found[i]) - Double(exact[i])) * (Double(found[i]) - Double(exact[i]))
    }
    return 10 * log10(signal / noise)
  }

  /// Common rates, the extremes, and some whose ratio to 16,000 has no small terms.
  private static let rates = [
    1000, 8000, 11_025, 12_000, 15_999, 16_001, 22_050, 24_000, 32_000, 44_100, 48_000, 63_999, 88_200,
    96_000,
    192_000, 767_999, 768_000,
  ]

  @Test(arguments: rates)
  func `sines below the band edge come out as sines`(rate: Int) {
    let edge = 0.455 * Double(min(rate, 16_000))
    for share in [0.01, 0.3, 0.7, 0.99] {
      let input = sine(share * edge, rate: rate, count: rate / 4)
      let exact = sine(share * edge, rate: 16_000, count: (rate / 4 * 16_000 + rate - 1) / rate)
      let decibels = ratio(
        AudioResampler.resample(input, from: rate, to: 16_000), exact, margin: margin(rate))
      #expect(decibels > 80, "\(share * edge) Hz at \(rate): \(decibels) dB")
    }
  }

  @Test(arguments: rates.filter { $0 > 16_000 })
  func `what is above half the new rate is rejected`(rate: Int) {
    let half = Double(rate) / 2
    for hertz in [8000.5, 8500, 12_000, 15_999, 16_001, 24_000, 0.99 * half]
    where hertz > 8000 && hertz < half {
      let input = sine(hertz, rate: rate, count: rate / 8)
      let output = AudioResampler.resample(input, from: rate, to: 16_000)
      let peak = output[margin(rate)..<output.count - margin(rate)].reduce(0) { max($0, abs($1)) }
      // 80 dB below 0.5.
      #expect(peak < 5e-5, "\(hertz) Hz at \(rate): \(20 * log10(Double(peak) / 0.5)) dB")
    }
  }

  @Test func `a constant stays that constant, to its ends but for the filter's length`() {
    for rate in [8000, 44_100, 96_000, 767_999] {
      let output = AudioResampler.resample([Float](repeating: 0.25, count: rate / 4), from: rate, to: 16_000)
      #expect(output.count == (rate / 4 * 16_000 + rate - 1) / rate)
      #expect(output[margin(rate)..<output.count - margin(rate)].allSatisfy { abs($0 - 0.25) < 1e-6 })
    }
  }

  @Test func `an impulse comes out where it went in`() {
    var impulse = [Float](repeating: 0, count: 4800)
    impulse[2400] = 1
    let output = AudioResampler.resample(impulse, from: 48_000, to: 16_000)
    #expect(output.indices.max { output[$0] < output[$1] } == 800)
    for i in 1...200 { #expect(abs(output[800 - i] - output[800 + i]) < 1e-6) }
  }

  @Test func `equal rates and no samples change nothing`() {
    #expect(AudioResampler.resample([0.1, -0.2], from: 16_000, to: 16_000) == [0.1, -0.2])
    #expect(AudioResampler.resample([], from: 44_100, to: 16_000) == [])
    #expect(AudioResampler.resample([1], from: 48_000, to: 16_000).count == 1)
    #expect(AudioResampler.resample([1], from: 768_000, to: 16_000).count == 1)
  }

  @Test func `sweeps agree with the reference resampler by more than 60 dB`() throws {
    let document = try JSONValue(
      parsing: try File.read(TestData.fixtures + "/sound/resampled.json", limit: 1 << 24))
    let cases = try #require(document["cases"]?.arrayValue)
    #expect(cases.count == 6)
    for item in cases {
      let rate = try #require(item["rate"]?.intValue)
      let end = try #require(item["sweep_to"]?.doubleValue)
      let first = try #require(item["first"]?.intValue)
      let expected = try #require(item["samples"]?.arrayValue).compactMap { $0.doubleValue.map { Float($0) } }
      // x = 0.5 sin(2π (50 t + (end - 50) t²)) for half a second: from 50 hertz to `end`.
      let input = (0..<rate / 2).map { n -> Float in
        let t = Double(n) / Double(rate)
        return Float(0.5 * sin(2 * Double.pi * (50 * t + (end - 50) * t * t)))
      }
      let output = AudioResampler.resample(input, from: rate, to: 16_000)
      let decibels = ratio(Array(output[first..<first + expected.count]), expected, margin: 0)
      #expect(decibels > 60, "\(rate): \(decibels) dB")
    }
  }
}
