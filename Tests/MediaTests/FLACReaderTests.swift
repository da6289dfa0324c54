// FLAC against the WAV files that it was made of, one for each way to code a channel, and hostile files.

import Media
import Platform
import Support
import Testing

@Suite struct FLACReaderTests {
  private static let folder = TestData.fixtures + "/sound/flac"
  static let names = ((try? File.names(in: folder)) ?? []).filter { $0.hasSuffix(".flac") }.sorted()
    .map { String($0.dropLast(5)) }

  private func bytes(_ name: String) throws -> [UInt8] {
    try File.read(Self.folder + "/" + name, limit: 1 << 20)
  }

  @Test func `there is a file for each way to code a channel`() {
    #expect(
      Self.names == ["constant", "deep", "fixed", "left", "lpc", "middle", "right", "verbatim", "wasted"])
  }

  @Test(arguments: names)
  func `samples are those of the WAV file`(name: String) throws {
    let expected = try WAVReader.read(try bytes(name + ".wav"))
    let found = try FLACReader.read(try bytes(name + ".flac"))
    #expect(found.rate == expected.rate)
    #expect(found.samples.count == expected.samples.count)
    #expect(zip(found.samples, expected.samples).allSatisfy { abs($0 - $1) < 1e-6 })
  }

  @Test func `no damage is decoded, and none ends the process`() throws {
    var random = SeededGenerator(seed: 11)
    for name in Self.names {
      let whole = try bytes(name + ".flac")
      let sound = try FLACReader.read(whole)
      for _ in 0..<60 {
        var damaged = whole
        let place = Int.random(in: 4..<damaged.count, using: &random)
        damaged[place] ^= UInt8.random(in: 1...255, using: &random)
        // The digest and the counts of the metadata are not looked at; a frame is as it was, or refused.
        if let found = try? FLACReader.read(damaged) {
          #expect(place < 42 || found.samples.count <= sound.samples.count, "\(name) \(place)")
        }
        let cut = Array(whole.prefix(Int.random(in: 0..<whole.count, using: &random)))
        #expect((try? FLACReader.read(cut))?.samples.count ?? 0 < sound.samples.count, "\(name) \(cut.count)")
      }
    }
  }

  @Test func `length, memory and what is no FLAC are bounded before they are taken`() throws {
    let file = try bytes("lpc.flac")
    #expect(throws: AudioError.self) { try FLACReader.read(file, limits: AudioLimits(seconds: 0)) }
    #expect(throws: AudioError.tooManyBytes(file.count, limit: 10)) {
      try FLACReader.read(file, limits: AudioLimits(bytes: 10))
    }
    #expect(throws: AudioError.noMemory(bytes: 8 << 16)) { try FLACReader.read(file, claim: { _ in false }) }
    #expect(throws: AudioError.unrecognised) { try FLACReader.read(Array("RIFF".utf8)) }
    for count in [4, 8, 41, 42] {
      #expect(throws: AudioError.self) { try FLACReader.read(Array(file.prefix(count))) }
    }
  }
}
