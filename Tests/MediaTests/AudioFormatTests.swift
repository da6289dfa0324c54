// Other formats are named by their first bytes.

import Media
import Testing

@Suite struct AudioFormatTests {
  private func ogg(_ packet: String) -> [UInt8] {
    Array("OggS".utf8) + [UInt8](repeating: 0, count: 22) + [1, 19] + Array(packet.utf8)
  }

  @Test func `formats that are no WAV are named`() {
    let files: [(bytes: [UInt8], name: String)] = [
      (Array("ID3\u{4}".utf8), "MP3"), ([0xFF, 0xFB, 0x90, 0x64], "MP3"), ([0xFF, 0xF3, 0x40, 0xC0], "MP3"),
      ([0xFF, 0xFD, 0x90, 0x04], "MPEG audio layer II"), ([0xFF, 0xF1, 0x50, 0x80], "AAC (ADTS)"),
      (Array("fLaC\0".utf8), "FLAC"), (ogg("OpusHead"), "Opus"), (ogg("\u{1}vorbis"), "Ogg Vorbis"),
      (ogg("\u{7F}FLAC"), "FLAC in Ogg"), (ogg("Speex   "), "Speex"), (ogg("?"), "Ogg"),
      (Array("OggS".utf8), "Ogg"), ([0, 0, 0, 32] + Array("ftypM4A ".utf8), "MP4 or M4A (AAC)"),
      ([0x1A, 0x45, 0xDF, 0xA3], "WebM or Matroska"), (Array("FORM\0\0\0\u{10}AIFF".utf8), "AIFF"),
      (Array("FORM\0\0\0\u{10}AIFC".utf8), "AIFF"), (Array("#!AMR\n".utf8), "AMR"),
      (Array("caff".utf8), "Core Audio Format"), (Array(".snd".utf8), "Sun AU"),
      (Array("RIFX".utf8), "big-endian WAV (RIFX)"), (Array("RIFF\0\0\0\0AVI ".utf8), "AVI video"),
    ]
    for (bytes, name) in files {
      #expect(AudioFormat.foreignName(bytes) == name)
      #expect(failure(bytes) == .unsupportedFormat(name))
    }
  }

  @Test func `what is unknown has no name`() {
    for bytes: [UInt8] in [[], [0xFF], [0xFF, 0xFF, 0xFF, 0xFF], [0xFF, 0xFB, 0xF0, 0], [1, 2, 3, 4, 5]] {
      #expect(AudioFormat.foreignName(bytes) == nil)
      #expect(failure(bytes) == .unrecognised)
    }
    #expect(AudioFormat.foreignName(WAVFile(data: [0, 0]).bytes) == nil)
  }

  @Test func `an error says what to send instead`() {
    #expect(
      AudioError.unsupportedFormat("MP3").description
        == "this is MP3, and only WAV is read. Send a WAV file, for example from: "
        + "ffmpeg -i INPUT -ac 1 -ar 16000 -c:a pcm_s16le OUTPUT.wav")
  }
}
