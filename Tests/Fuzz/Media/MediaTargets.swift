// Images and audio. Bounds are small, so that an input is cheap.

import Driver

@testable import Media

@_cdecl("fuzz_media_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(
    count, arguments,
    [
      "png": MediaTargets.png, "jpeg": MediaTargets.image, "wav": MediaTargets.wav, "flac": MediaTargets.flac,
      "resample": MediaTargets.resample,
    ])
}

enum MediaTargets {
  private static let pixels = 1 << 12

  /// Once as it is, once with check sums that are right, so that what is after them is reached.
  static func png(_ bytes: [UInt8]) {
    image(bytes)
    image(repaired(bytes))
  }

  static func image(_ bytes: [UInt8]) {
    guard let image = try? ImageDecoder.decode(bytes, limits: ImageLimits(pixels: pixels)) else { return }
    check(image.width * image.height <= pixels, "an image keeps its bound")
  }

  /// The PNG with the check sum of every whole chunk put right.
  private static func repaired(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    var at = PNG.signature.count
    let crc = CRC32()
    while at + 12 <= bytes.count {
      let length = bytes[at..<at + 4].reduce(0) { $0 << 8 | Int($1) }
      guard length <= bytes.count - at - 12 else { break }
      let end = at + 8 + length
      let sum = crc.sum(bytes, at + 4..<end)
      for place in 0..<4 { bytes[end + place] = UInt8(truncatingIfNeeded: sum >> UInt32(24 - 8 * place)) }
      at = end + 4
    }
    return bytes
  }

  static func wav(_ bytes: [UInt8]) {
    guard let clip = try? WAVReader.read(bytes, limits: AudioLimits(bytes: 1 << 16, seconds: 1)) else {
      return
    }
    check(!clip.samples.isEmpty && clip.samples.count <= clip.rate, "an audio clip keeps its bound")
  }

  /// Once as it is, once without a look at check sums, so that what they guard is reached.
  static func flac(_ bytes: [UInt8]) {
    for comparesSums in [true, false] {
      guard
        let clip = try? FLACReader.read(
          bytes, limits: AudioLimits(bytes: 1 << 16, seconds: 1), comparesSums: comparesSums)
      else { continue }
      check(!clip.samples.isEmpty && clip.samples.count <= clip.rate, "an audio clip keeps its bound")
      check(clip.samples.allSatisfy { $0.isFinite }, "an audio clip has numbers")
    }
  }

  /// A filter is made for every pair of rates, which takes longer than reading: the first two bytes say the rate of the
  /// others.
  static func resample(_ bytes: [UInt8]) {
    guard bytes.count > 2 else { return }
    let rate = 1000 + (Int(bytes[0]) << 8 | Int(bytes[1])) * 3
    let samples = bytes.dropFirst(2).map { Float($0) / 128 - 1 }
    let found = AudioResampler.resample(samples, from: rate, to: 16_000)
    check(found.count == (samples.count * 16_000 + rate - 1) / rate, "a resampled sound keeps its length")
    check(found.allSatisfy { $0.isFinite }, "a resampled sound has numbers")
  }
}
