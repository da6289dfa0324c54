// The transform of real frames against the sum that defines it, and the frames of a spectrum.

import Platform
import Support
import Testing

@testable import Media

@Suite struct FrameTransformTests {
  @Test(arguments: [1, 2, 3, 4, 5, 8, 12, 30, 400, 480])
  func `power is that of the defining sum, frame by frame`(size: Int) {
    var random = SeededGenerator(seed: 5)
    let frames = (0..<16).map { _ in (0..<size).map { _ in Float.random(in: -1...1, using: &random) } }
    var real = (0..<size).map { i in FrameTransform.Lanes((0..<8).map { frames[$0][i] }) }
    var imaginary = (0..<size).map { i in FrameTransform.Lanes((8..<16).map { frames[$0][i] }) }
    let powers = FrameTransform(size: size).power(&real, &imaginary)
    #expect(powers.first.count == size / 2 + 1)
    for (index, frame) in frames.enumerated() {
      for bin in 0...size / 2 {
        var (re, im) = (0.0, 0.0)
        for (i, x) in frame.enumerated() {
          let angle = -2 * Double.pi * Double(bin * i % size) / Double(size)
          re += Double(x) * cos(angle)
          im += Double(x) * sin(angle)
        }
        let found = (index < 8 ? powers.first : powers.second)[bin][index % 8]
        #expect(abs(Double(found) - re * re - im * im) < 1e-4 * Double(size), "\(size) \(index) \(bin)")
      }
    }
  }

  @Test func `a frame is the same whichever are asked for with it, but for rounding`() {
    var random = SeededGenerator(seed: 6)
    let samples = (0..<9000).map { _ in Float.random(in: -1...1, using: &random) }
    let spectrum = SpeechSpectrum(bands: 80)
    let peak = spectrum.peak(of: samples)
    let all = spectrum.frames(0..<80, of: samples, peak: peak).values
    let some = spectrum.frames(7..<12, of: samples, peak: peak).values
    #expect(some.count == 5 * 80)
    #expect(zip(all[(7 * 80)..<(12 * 80)], some).allSatisfy { abs($0 - $1) < 1e-5 })
    // 56 frames of sound, then silence.
    #expect(SpeechSpectrum.frameCount(samples: samples.count) == 56)
    #expect(Set(all[(58 * 80)...]).count == 1)
    #expect(all[(58 * 80)...].first == (peak - 8 + 4) / 4)
  }

  @Test func `silence has frames, and a loud tone is loudest in its band`() {
    let spectrum = SpeechSpectrum(bands: 80)
    #expect(spectrum.peak(of: []) == -10)
    #expect(spectrum.frames(0..<2, of: [0, 0], peak: -10).values.allSatisfy { $0 == -1.5 })
    let tone = (0..<3200).map { Float(0.5 * sin(2 * Double.pi * 1000 * Double($0) / 16_000)) }
    let row = spectrum.frames(10..<11, of: tone, peak: spectrum.peak(of: tone)).values
    // Bands are 37.2 hertz of the linear scale apart: the 26th is centred on 1004.
    #expect(row.indices.max { row[$0] < row[$1] } == 26)
  }
}
