// From the bytes of an audio clip file to what the encoder takes: frames, tokens, limits.

import Media
import Platform
import Support
import Testing

@Suite struct AudioInputTests {
  private let rules = MediaRules.Audio(marks: MediaMarks(opening: 1, soft: 2, closing: 3))

  private func sine(rate: Int, seconds: Double, channels: Int = 1) -> [UInt8] {
    let samples = (0..<Int(seconds * Double(rate))).flatMap { n in
      [Int16](
        repeating: Int16(8000 * sin(2 * Double.pi * 440 * Double(n) / Double(rate))), count: channels)
    }
    return WAVFile(channels: channels, rate: rate, data: WAVFile.pcm(samples)).bytes
  }

  private func input(
    _ bytes: [UInt8], claim: (_ bytes: Int) -> Bool = { _ in true }
  ) throws(AudioError) -> MediaInput {
    try rules.passage(bytes, claim: claim).inputs[0]
  }

  private func values(_ input: MediaInput) -> [Float] {
    if case .audio(let frames) = input.content { frames.values } else { [] }
  }

  @Test func `an audio clip has a frame every ten milliseconds and a token for every four frames`() throws {
    for (seconds, frames, tokens) in [(1.0, 99, 25), (0.02, 1, 1), (0.5, 49, 13), (30, 2999, 750)] {
      let input = try input(sine(rate: 16_000, seconds: seconds))
      guard case .audio(let mel) = input.content else { continue }
      #expect(mel.count == frames && mel.bins == 128 && input.tokenCount == tokens, "\(seconds)")
    }
    #expect([1, 4, 5, 2997, 3000].map(MediaRules.Audio.tokenCount) == [1, 1, 2, 750, 750])
  }

  @Test func `the same sound at other rates and with more channels is nearly the same input`() throws {
    let plain = values(try input(sine(rate: 16_000, seconds: 0.6)))
    for (rate, channels) in [(44_100, 1), (48_000, 2), (8000, 1), (96_000, 6), (22_050, 1)] {
      let other = values(try input(sine(rate: rate, seconds: 0.6, channels: channels)))
      #expect(other.count == plain.count)
      // The tone's own band, away from the ends, to a percent.
      for frame in 10..<50 {
        let band = frame * 128..<(frame + 1) * 128
        guard let loudest = band.max(by: { plain[$0] < plain[$1] }) else { continue }
        #expect(abs(plain[loudest] - other[loudest]) < 0.01, "\(rate) \(channels)")
      }
    }
  }

  @Test func `equal bytes have equal digests and other sounds have others`() throws {
    let one = try input(sine(rate: 16_000, seconds: 0.2))
    #expect(try input(sine(rate: 16_000, seconds: 0.2)).digest == one.digest)
    #expect(try input(sine(rate: 16_000, seconds: 0.21)).digest != one.digest)
  }

  @Test func `what a sound becomes is claimed, and a sound without it is refused`() throws {
    // Samples of 8 bits at a high rate become four times as many bytes.
    let bytes = WAVFile(rate: 96_000, bits: 8, data: [UInt8](repeating: 128, count: 96_000)).bytes
    var claims: [Int] = []
    _ = try input(bytes) {
      claims.append($0)
      return true
    }
    #expect(claims.count == 1 && claims[0] >= 6 * 96_000)
    #expect(throws: AudioError.noMemory(bytes: claims[0])) { try input(bytes) { _ in false } }
  }

  @Test func `sounds beyond thirty seconds or below a frame are refused`() {
    func failure(_ bytes: [UInt8]) -> AudioError? {
      do throws(AudioError) {
        _ = try input(bytes)
        return nil
      } catch {
        return error
      }
    }
    #expect(failure(sine(rate: 8000, seconds: 31)) == .tooLong(seconds: 31, limit: 30))
    #expect(failure(sine(rate: 16_000, seconds: 0.01)) == .tooShort(seconds: 0.01))
    #expect(
      AudioError.tooShort(seconds: 0.01).description
        == "the sound lasts 10 milliseconds; at least 11 are needed.")
    #expect(failure([0xFF, 0xFB, 0x90, 0x64]) == .unsupportedFormat("MP3"))
  }

  @Test(.enabled(if: TestData.isMeasuring, "only when asked"))
  func `processor time of thirty seconds`() throws {
    for (rate, channels) in [(16_000, 1), (44_100, 2), (48_000, 2), (96_000, 1), (192_000, 1)] {
      let bytes = sine(rate: rate, seconds: 30, channels: channels)
      var clip = AudioClip(samples: [], rate: rate)
      let reading = try threadSeconds { clip = try WAVReader.read(bytes) }
      var samples: [Float] = []
      let resampling = threadSeconds {
        samples = AudioResampler.resample(clip.samples, from: rate, to: 16_000)
      }
      var count = 0
      let transforming = threadSeconds { count = MelSpectrogram()(samples).count }
      print(
        "MEASURED \(rate) Hz, \(channels) channels: read \(reading), resample \(resampling), mel \(transforming) \(count)"
      )
    }
  }
}
