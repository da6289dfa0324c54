// Formats of audio that are known by their first bytes, so that an error can name them.

/// Recognises formats of audio by their first bytes; none of them but WAV has a reader.
package enum AudioFormat {
  /// The name of a format that is not WAV; nil for WAV and for what is unknown.
  package static func foreignName(_ bytes: [UInt8]) -> String? {
    for (offset, magic, name) in signatures
    where bytes.count >= offset && bytes[offset...].starts(with: magic) { return name }
    if has("OggS", in: bytes, at: 0) { return oggName(bytes) }
    if has("FORM", in: bytes, at: 0), has("AIFF", in: bytes, at: 8) || has("AIFC", in: bytes, at: 8) {
      return "AIFF"
    }
    return mpegName(bytes)
  }

  private static let signatures: [(offset: Int, magic: [UInt8], name: String)] = [
    (0, Array("ID3".utf8), "MP3"), (0, Array("fLaC".utf8), "FLAC"), (0, Array("#!AMR".utf8), "AMR"),
    (4, Array("ftyp".utf8), "MP4 or M4A (AAC)"), (0, [0x1A, 0x45, 0xDF, 0xA3], "WebM or Matroska"),
    (0, Array("caff".utf8), "Core Audio Format"), (0, Array(".snd".utf8), "Sun AU"),
    (0, Array("wvpk".utf8), "WavPack"), (0, Array("MAC ".utf8), "Monkey's Audio"),
    (0, [0x30, 0x26, 0xB2, 0x75], "Windows Media Audio"), (0, Array("RIFX".utf8), "big-endian WAV (RIFX)"),
    (0, Array("riff".utf8), "Wave64"), (8, Array("AVI ".utf8), "AVI video"),
  ]

  /// Whether `magic` is found at `offset`.
  static func has(_ magic: String, in bytes: [UInt8], at offset: Int) -> Bool {
    bytes.count >= offset && bytes[offset...].starts(with: magic.utf8)
  }

  /// What the first page's packet begins with, after a header of 27 bytes and its table of segments.
  private static func oggName(_ bytes: [UInt8]) -> String {
    guard bytes.count > 27 else { return "Ogg" }
    let start = 27 + Int(bytes[26])
    if has("OpusHead", in: bytes, at: start) { return "Opus" }
    if has("\u{1}vorbis", in: bytes, at: start) { return "Ogg Vorbis" }
    if has("\u{7F}FLAC", in: bytes, at: start) { return "FLAC in Ogg" }
    if has("Speex", in: bytes, at: start) { return "Speex" }
    return "Ogg"
  }

  /// MPEG audio without tags: eleven set bits, then version and layer.
  private static func mpegName(_ bytes: [UInt8]) -> String? {
    guard bytes.count >= 4, bytes[0] == 0xFF, bytes[1] & 0xE0 == 0xE0 else { return nil }
    if bytes[1] & 0xF6 == 0xF0 { return "AAC (ADTS)" }
    // A reserved version, bit rate or sample rate is no frame.
    guard bytes[1] & 0x18 != 0x08, bytes[2] & 0xF0 != 0xF0, bytes[2] & 0x0C != 0x0C else { return nil }
    switch bytes[1] >> 1 & 3 {
    case 1: return "MP3"
    case 2: return "MPEG audio layer II"
    case 3: return "MPEG audio layer I"
    default: return nil
    }
  }
}
