// `mlxserve media`: what the decoders make of an image or an audio clip.

import JSON
import Media
import Pipeline
import Platform

enum MediaCommand {
  private static let fileLimit = 256 << 20

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let path = try flags.required(.file, hint: "a PNG, JPEG or WAV file")
    let bytes = try File.read(path, limit: fileLimit)
    let isAudio = bytes.dropFirst(8).starts(with: "WAVE".utf8)
    Terminal.print((isAudio ? try audio(bytes, flags) : try image(bytes, flags)).text)
    return 0
  }

  private static func image(_ bytes: [UInt8], _ flags: ParsedFlags) throws -> JSONValue {
    let begin = Instant.now
    let image = try ImageDecoder.decode(PictureFile.decodable(bytes))
    let decoding = Instant.now.seconds(since: begin)
    let tokens = flags[.imageTokens] ?? 280
    let grid = PatchGrid(patch: 16, pooling: 3, tokens: tokens, positions: 10_240)
    let size = try grid.size(width: image.width, height: image.height, tokens: tokens)
    let resizing = Instant.now
    let resized = image.resized(width: size.width, height: size.height)
    let seconds = Instant.now.seconds(since: resizing)
    if let target = flags[.raw] {
      try OutputFile.write((flags[.resized] ? resized : image).pixels, to: target)
    }
    return [
      "format": .string(try ImageDecoder.foreignName(bytes) ?? ImageDecoder.format(of: bytes).rawValue),
      "bytes": .int(bytes.count),
      "width": .int(image.width), "height": .int(image.height),
      "resized_width": .int(resized.width), "resized_height": .int(resized.height),
      "tokens": .int(grid.tokenCount(width: resized.width, height: resized.height)),
      "decode_seconds": rounded(decoding), "resize_seconds": rounded(seconds),
    ]
  }

  /// With `--raw` the samples that the spectrogram is made of: 16,000 per second, 32-bit floats, low byte first.
  private static func audio(_ bytes: [UInt8], _ flags: ParsedFlags) throws -> JSONValue {
    let begin = Instant.now
    let clip = try WAVReader.read(bytes)
    let decoding = Instant.now.seconds(since: begin)
    let settings = MelSettings()
    let resampling = Instant.now
    let samples = AudioResampler.resample(clip.samples, from: clip.rate, to: settings.rate)
    let seconds = Instant.now.seconds(since: resampling)
    if let target = flags[.raw] {
      try OutputFile.write(
        samples.flatMap { sample in
          (0..<4).map { UInt8(truncatingIfNeeded: sample.bitPattern >> UInt32(8 * $0)) }
        }, to: target)
    }
    let frames = MelSpectrogram(settings).frameCount(samples: samples.count)
    return [
      "format": "WAV", "bytes": .int(bytes.count), "rate": .int(clip.rate),
      "samples": .int(clip.samples.count), "resampled_rate": .int(settings.rate),
      "resampled_samples": .int(samples.count),
      "tokens": .int(MediaRules.Audio.tokenCount(frames: frames)),
      "decode_seconds": rounded(decoding), "resample_seconds": rounded(seconds),
    ]
  }

  /// To a tenth of a millisecond.
  private static func rounded(_ seconds: Double) -> JSONValue { .double((seconds * 1e4).rounded() / 1e4) }
}
