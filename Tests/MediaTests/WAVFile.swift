// WAV files made piece by piece, right ones and wrong ones.

import Media

/// The bytes of a WAV file.
struct WAVFile {
  var form = "RIFF"
  /// Overrides the size in the file's header.
  var formSize: UInt32?
  var tag = 1
  var channels = 1
  var rate = 16_000
  var bits = 16
  var blockAlignment: Int?
  /// Behind the sixteen bytes of `fmt `.
  var extra: [UInt8] = []
  /// Whole chunks between `fmt ` and `data`, and after `data`.
  var before: [UInt8] = []
  var after: [UInt8] = []
  /// Overrides the size in the header of `data`.
  var dataSize: UInt32?
  var data: [UInt8] = []

  var bytes: [UInt8] {
    let alignment = blockAlignment ?? channels * ((bits + 7) / 8)
    let format =
      Self.little(tag, 2) + Self.little(channels, 2) + Self.little(rate, 4)
      + Self.little(rate * alignment, 4) + Self.little(alignment, 2) + Self.little(bits, 2) + extra
    let body =
      Array("WAVE".utf8) + Self.chunk("fmt ", format) + before
      + Self.chunk("data", data, size: dataSize) + after
    return Array(form.utf8) + Self.little(Int(formSize ?? UInt32(body.count)), 4) + body
  }

  static func little(_ value: Int, _ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
  }

  static func chunk(_ name: String, _ content: [UInt8], size: UInt32? = nil) -> [UInt8] {
    Array(name.utf8) + little(Int(size ?? UInt32(content.count)), 4) + content
      + (content.count % 2 == 1 ? [0] : [])
  }

  /// 16-bit samples.
  static func pcm(_ samples: [Int16]) -> [UInt8] { samples.flatMap { little(Int($0), 2) } }

  static func floats(_ samples: [Float]) -> [UInt8] { samples.flatMap { little(Int($0.bitPattern), 4) } }

  static func doubles(_ samples: [Double]) -> [UInt8] {
    samples.flatMap { value in (0..<8).map { UInt8(truncatingIfNeeded: value.bitPattern >> UInt64(8 * $0)) } }
  }
}

/// What reading throws; nil when it succeeds.
func failure(_ bytes: [UInt8], _ limits: AudioLimits = AudioLimits()) -> AudioError? {
  do throws(AudioError) {
    _ = try WAVReader.read(bytes, limits: limits)
    return nil
  } catch {
    return error
  }
}
