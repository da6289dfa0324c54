// Every encoding of a WAV file with literal samples, and what is wrong with bad files.

import Media
import Support
import Testing

@Suite struct WAVReaderTests {
  private func samples(_ file: WAVFile) throws -> [Float] { try WAVReader.read(file.bytes).samples }

  @Test func `integers of every width are full scale at 1`() throws {
    let eight = WAVFile(bits: 8, data: [0, 64, 128, 192, 255])
    #expect(try samples(eight) == [-1, -0.5, 0, 0.5, 0.9921875])
    let sixteen = WAVFile(data: WAVFile.pcm([-32768, -16384, 0, 1, 32767]))
    #expect(try samples(sixteen) == [-1, -0.5, 0, 0x1p-15, 1 - 0x1p-15] as [Float])
    let twentyFour = WAVFile(bits: 24, data: [0, 0, 0x80, 0xFF, 0xFF, 0xFF, 0, 0, 0x40, 0xFF, 0xFF, 0x7F])
    #expect(try samples(twentyFour) == [-1, -0x1p-23, 0.5, 1 - 0x1p-23] as [Float])
    let thirtyTwo = WAVFile(bits: 32, data: [0, 0, 0, 0x80, 0, 0, 0, 0x20, 0xFF, 0xFF, 0xFF, 0xFF])
    #expect(try samples(thirtyTwo) == [-1, 0.25, -0x1p-31])
    // Twelve bits lie in the upper part of two bytes.
    #expect(try samples(WAVFile(bits: 12, data: [0, 0x40])) == [0.5])
  }

  @Test func `floats are taken as they are`() throws {
    let values: [Float] = [-1, 0.25, 1.5, -0.0, 0x1p-140]
    #expect(try samples(WAVFile(tag: 3, bits: 32, data: WAVFile.floats(values))) == values)
    let doubles = WAVFile(tag: 3, bits: 64, data: WAVFile.doubles([0.5, -0.125, 1e-300]))
    #expect(try samples(doubles) == [0.5, -0.125, 0])
  }

  @Test func `floats that are no sound are refused with their place`() {
    for bad in [Float.nan, .infinity, -.infinity, 17, 32767] {
      let file = WAVFile(tag: 3, bits: 32, data: WAVFile.floats([0, 0.5, bad, 0]))
      guard case .invalidSample(frame: 2, _) = failure(file.bytes) else {
        Issue.record("\(bad): \(String(describing: failure(file.bytes)))")
        continue
      }
    }
    // Two infinities of opposite sign in one frame are no silence.
    let opposite = WAVFile(tag: 3, channels: 2, bits: 32, data: WAVFile.floats([.infinity, -.infinity]))
    #expect(failure(opposite.bytes) != nil)
  }

  @Test func `A-law and mu-law expand as G711 says`() throws {
    // 0xD5 and 0x55 are the smallest A-law codes of either sign, 0xAA and 0x2A the largest.
    let aLaw = WAVFile(tag: 6, bits: 8, data: [0xD5, 0x55, 0xAA, 0x2A, 0x80])
    #expect(try samples(aLaw) == [1, -1, 4032, -4032, 688].map { Float($0) / 4096 })
    let muLaw = WAVFile(tag: 7, bits: 8, data: [0xFF, 0x7F, 0x80, 0x00, 0xF0])
    #expect(try samples(muLaw) == [0, 0, 8031, -8031, 30].map { Float($0) / 8192 })
  }

  @Test func `channels are averaged, up to 32 of them`() throws {
    let stereo = WAVFile(channels: 2, data: WAVFile.pcm([16384, 0, -32768, -16384]))
    #expect(try samples(stereo) == [0.25, -0.75])
    let many = WAVFile(channels: 32, data: WAVFile.pcm((0..<32).map { $0 == 7 ? 32000 : 0 }))
    #expect(try samples(many) == [1000 * 0x1p-15] as [Float])
    #expect(
      failure(WAVFile(channels: 33, data: WAVFile.pcm([Int16](repeating: 0, count: 33))).bytes)
        == .invalidHeader(field: "number of channels", found: 33, expected: "1...32"))
    #expect(
      failure(WAVFile(channels: 0, data: [0, 0]).bytes)
        == .invalidHeader(field: "number of channels", found: 0, expected: "1...32"))
  }

  @Test func `sample rates from 1000 to 768000 are read`() throws {
    for rate in [1000, 11_025, 44_100, 767_999, 768_000] {
      #expect(try WAVReader.read(WAVFile(rate: rate, data: [0, 0]).bytes).rate == rate)
    }
    for rate in [0, 999, 768_001, Int(UInt32.max)] {
      #expect(
        failure(WAVFile(rate: rate, data: [0, 0]).bytes)
          == .invalidHeader(field: "sample rate", found: rate, expected: "1000...768000"))
    }
  }

  @Test func `the extensible format names its encoding in an identifier`() throws {
    func extra(_ tag: Int, suffix: [UInt8] = [0, 0, 0, 0, 16, 0, 128, 0, 0, 170, 0, 56, 155, 113]) -> [UInt8]
    {
      WAVFile.little(22, 2) + WAVFile.little(20, 2) + WAVFile.little(4, 4) + WAVFile.little(tag, 2) + suffix
    }
    let pcm = WAVFile(tag: 0xFFFE, bits: 24, extra: extra(1), data: [0, 0, 0x40])
    #expect(try samples(pcm) == [0.5])
    let floats = WAVFile(tag: 0xFFFE, bits: 32, extra: extra(3), data: WAVFile.floats([0.75]))
    #expect(try samples(floats) == [0.75])
    let other = WAVFile(tag: 0xFFFE, extra: extra(1, suffix: [UInt8](repeating: 9, count: 14)), data: [0, 0])
    #expect(failure(other.bytes) == .unsupportedEncoding("an encoding with an identifier of its own"))
    #expect(
      failure(WAVFile(tag: 0xFFFE, extra: [0, 0], data: [0, 0]).bytes)
        == .invalidHeader(
          field: "'fmt ' size", found: 18, expected: "at least 40 for the extensible format"))
  }

  @Test func `other chunks are skipped, odd ones with their padding`() throws {
    let list = WAVFile.chunk("LIST", Array("INFOISFT".utf8) + [5, 0, 0, 0] + Array("odd!\0".utf8) + [0])
    let odd = WAVFile.chunk("junk", [1, 2, 3])
    var file = WAVFile(data: WAVFile.pcm([8192]))
    file.before = list + odd
    file.after = odd + list
    #expect(try samples(file) == [0.25])
    // A second format after the first means nothing.
    file.before += WAVFile.chunk("fmt ", [9, 9])
    #expect(try samples(file) == [0.25])
  }

  @Test func `streamed files have sizes of 0 or very large ones`() throws {
    for (form, size) in [
      (UInt32.max, UInt32.max), (0, 0), (36, 0), (.max, 0), (0x7FFF_F024, 0x7FFF_F000), (0, .max),
    ] {
      var file = WAVFile(formSize: form, data: WAVFile.pcm([8192, -8192]))
      file.dataSize = size
      #expect(try samples(file) == [0.25, -0.25], "\(form) \(size)")
    }
    // Here the file's size says that the chunk is empty and others follow.
    var empty = WAVFile()
    empty.after = WAVFile.chunk("junk", [1, 2, 3, 4])
    #expect(failure(empty.bytes) == .noSamples)
  }

  @Test func `RF64 and BW64 take the size of their ds64 chunk`() throws {
    func large(_ form: String, _ dataSize: Int, suffix: [UInt8] = []) -> [UInt8] {
      let sizes =
        WAVFile.little(0, 8) + WAVFile.little(dataSize, 8) + WAVFile.little(2, 8) + WAVFile.little(0, 4)
      let format =
        WAVFile.little(1, 2) + WAVFile.little(1, 2) + WAVFile.little(16_000, 4) + WAVFile.little(32_000, 4)
        + WAVFile.little(2, 2) + WAVFile.little(16, 2)
      let head: [UInt8] = Array(form.utf8) + [255, 255, 255, 255] + Array("WAVE".utf8)
      return head
        + WAVFile.chunk("ds64", sizes) + WAVFile.chunk("fmt ", format)
        + WAVFile.chunk("data", WAVFile.pcm([8192, -8192]), size: .max) + suffix
    }
    #expect(try WAVReader.read(large("RF64", 4, suffix: [1, 2, 3])).samples == [0.25, -0.25])
    #expect(try WAVReader.read(large("BW64", 4)).samples == [0.25, -0.25])
    #expect(try WAVReader.read(large("RF64", 0)).samples == [0.25, -0.25])
    #expect(failure(large("RF64", 5)) == .truncated(chunk: "data", expected: 5, found: 4))
    #expect(
      failure(large("RF64", .max)) == .truncated(chunk: "data", expected: UInt64(Int.max), found: 4))
  }

  @Test func `a file that was cut off is refused, wherever it was`() {
    let whole = WAVFile(data: WAVFile.pcm([1, 2, 3])).bytes
    #expect(failure(whole) == nil)
    for count in whole.indices { #expect(failure(Array(whole[..<count])) != nil, "\(count)") }
    #expect(failure(Array(whole[..<48])) == .truncated(chunk: "data", expected: 6, found: 4))
    #expect(failure(Array(whole[..<40])) == .missingChunk("data"))
    #expect(failure(Array(whole[..<30])) == .truncated(chunk: "fmt ", expected: 16, found: 10))
    #expect(failure(Array(whole[..<11])) == .unrecognised)
  }

  @Test func `bytes after the last whole frame are left out`() throws {
    let file = WAVFile(channels: 2, data: WAVFile.pcm([16384, 0, 5]) + [7])
    #expect(try samples(file) == [0.25])
    #expect(failure(WAVFile(channels: 2, data: WAVFile.pcm([5])).bytes) == .noSamples)
    #expect(failure(WAVFile().bytes) == .noSamples)
  }

  @Test func `wrong headers are refused with the field and what it should be`() {
    let silence: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0]
    #expect(
      failure(WAVFile(bits: 33, data: silence).bytes)
        == .invalidHeader(field: "bits per sample", found: 33, expected: "1...32 for PCM"))
    #expect(
      failure(WAVFile(bits: 0, data: silence).bytes)
        == .invalidHeader(field: "bits per sample", found: 0, expected: "1...32 for PCM"))
    #expect(
      failure(WAVFile(tag: 3, bits: 16, data: silence).bytes)
        == .invalidHeader(field: "bits per sample", found: 16, expected: "32 or 64 for floats"))
    #expect(
      failure(WAVFile(tag: 7, bits: 16, data: silence).bytes)
        == .invalidHeader(field: "bits per sample", found: 16, expected: "8 for A-law and mu-law"))
    #expect(
      failure(WAVFile(channels: 2, blockAlignment: 3, data: silence).bytes)
        == .invalidHeader(field: "block alignment", found: 3, expected: "4, for 2 channels of 16 bits"))
    #expect(failure(WAVFile(tag: 0x11, bits: 4, data: silence).bytes) == .unsupportedEncoding("IMA ADPCM"))
    #expect(failure(WAVFile(tag: 0x55, data: silence).bytes) == .unsupportedEncoding("MP3"))
    #expect(failure(WAVFile(tag: 999, data: silence).bytes) == .unsupportedEncoding("encoding 999"))
    let noFormat =
      Array("RIFF".utf8) + [16, 0, 0, 0] + Array("WAVE".utf8) + WAVFile.chunk("data", [0, 0, 0, 0])
    #expect(failure(noFormat) == .missingChunk("fmt "))
  }

  @Test func `length and bytes are limited`() throws {
    let second = WAVFile(rate: 1000, data: [UInt8](repeating: 0, count: 60_000))
    #expect(try WAVReader.read(second.bytes).seconds == 30)
    let longer = WAVFile(rate: 1000, data: [UInt8](repeating: 0, count: 60_002)).bytes
    #expect(failure(longer) == .tooLong(seconds: 30.001, limit: 30))
    #expect(
      failure(longer).map(\.description)
        == "the sound lasts 30.1 seconds; at most 30 are taken. Cut it into pieces of at most 30 seconds.")
    #expect(
      failure(longer, AudioLimits(bytes: 1000)) == .tooManyBytes(longer.count, limit: 1000))
  }

  @Test func `mutated files end in samples or in an error`() {
    var random = SeededGenerator(seed: 71)
    var file = WAVFile(channels: 2, bits: 24, data: (0..<60).map { UInt8($0) })
    file.before = WAVFile.chunk("LIST", [1, 2, 3, 4, 5])
    let seeds = [
      file.bytes, WAVFile(tag: 3, bits: 64, data: WAVFile.doubles([0.1, 0.2])).bytes,
      WAVFile(tag: 7, bits: 8, data: [1, 2, 3]).bytes,
    ]
    var read = 0
    for round in 0..<6000 {
      let bytes = mutated(seeds[round % seeds.count], using: &random)
      guard let clip = try? WAVReader.read(bytes) else { continue }
      read += 1
      #expect(clip.samples.count <= bytes.count && clip.samples.allSatisfy { abs($0) <= 16 })
    }
    #expect(read > 100 && read < 5900)
  }
}
