// Decoders against Pillow's results, hostile files, and resizing.

import Platform
import Support
import Testing

@testable import Media

/// A line of `Fixtures/media/images.tsv`.
struct PictureCase: Sendable, CustomTestStringConvertible {
  let name: String
  let width, height: Int
  let digest: String
  var testDescription: String { name }

  var bytes: [UInt8] { get throws { try TestData.bytes(TestData.fixtures + "/media/" + name) } }

  static let all: [PictureCase] = lines("images.tsv").compactMap { fields in
    guard fields.count == 4, let width = Int(fields[1]), let height = Int(fields[2]) else { return nil }
    return PictureCase(name: fields[0], width: width, height: height, digest: fields[3])
  }

  static func lines(_ name: String) -> [[String]] {
    let bytes = (try? TestData.bytes(TestData.fixtures + "/media/" + name)) ?? []
    return bytes.split(separator: 10).map { line in
      line.split(separator: 9).map { String(decoding: $0, as: UTF8.self) }
    }
  }
}

private func digest(_ image: PixelImage) -> String { SHA256.hexadecimal(SHA256.digest(image.pixels)) }

@Suite struct ImageDecoderTests {
  @Test func `there are images of every kind`() { #expect(PictureCase.all.count == 79) }

  @Test(arguments: PictureCase.all)
  func `pixels are those of Pillow`(picture: PictureCase) throws {
    let image = try ImageDecoder.decode(picture.bytes)
    #expect(image.width == picture.width)
    #expect(image.height == picture.height)
    #expect(digest(image) == picture.digest)
  }

  @Test(arguments: PictureCase.lines("resized.tsv"))
  func `resized pixels are those of Pillow`(line: [String]) throws {
    let source = try ImageDecoder.decode(TestData.bytes(TestData.fixtures + "/media/jpeg-64x48-420.jpg"))
    let width = try #require(Int(line[0]))
    let height = try #require(Int(line[1]))
    #expect(digest(source.resized(width: width, height: height)) == line[2])
  }

  // MARK: Hostile files

  private func refusal(_ bytes: [UInt8]) -> MediaError? {
    do throws(MediaError) {
      _ = try ImageDecoder.decode(bytes)
      return nil
    } catch {
      return error
    }
  }

  @Test(arguments: [
    ([], "an empty file"), (Array("GIF89a".utf8), "GIF"), (Array("RIFF0000WEBPVP8 ".utf8), "WebP"),
    (Array("II*\0".utf8), "TIFF"), (Array("0000ftypheic".utf8), "HEIF or AVIF"),
    (Array("%PDF-1.7".utf8), "PDF"),
    (Array("hello".utf8), nil),
  ])
  func `other formats are refused by name`(bytes: [UInt8], name: String?) {
    #expect(refusal(bytes) == .unknownFormat(name))
  }

  private func chunk(_ name: String, _ body: [UInt8]) -> [UInt8] {
    func big(_ value: UInt32) -> [UInt8] {
      [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> UInt32($0)) }
    }
    let named = Array(name.utf8) + body
    return big(UInt32(body.count)) + named + big(CRC32().sum(named, named.indices))
  }

  private func png(width: [UInt8], height: [UInt8], depth: UInt8 = 8, data: [UInt8]) -> [UInt8] {
    PNG.signature + chunk("IHDR", width + height + [depth, 2, 0, 0, 0]) + chunk("IDAT", data)
      + chunk("IEND", [])
  }

  @Test func `a header of four hundred megapixels is refused before memory is taken`() {
    let side: [UInt8] = [0, 0, 0x4E, 0x20]
    #expect(
      refusal(png(width: side, height: side, data: []))
        == .tooManyPixels(width: 20_000, height: 20_000, limit: 50_331_648))
  }

  @Test func `a header that promises more than the data can hold is refused before memory is taken`() {
    let side: [UInt8] = [0, 0, 0x18, 0]
    #expect(
      refusal(png(width: side, height: side, data: [0x78, 0x9C, 1, 2, 3]))
        == .damaged(format: "PNG", problem: "its compressed data ends early or contradicts itself"))
  }

  @Test func `sixteen bits per sample count against the memory of rows`() {
    let side: [UInt8] = [0, 0, 0x1B, 0x58]
    #expect(
      refusal(png(width: side, height: side, depth: 16, data: []))
        == .tooManyPixels(width: 7000, height: 7000, limit: 44_739_242))
  }

  @Test(arguments: [
    "png-2-8.png", "png-3-4-adam7.png", "jpeg-37x29-420.jpg", "jpeg-37x29-420-progressive.jpg",
  ])
  func `a file cut anywhere is refused`(name: String) throws {
    let bytes = try TestData.bytes(TestData.fixtures + "/media/" + name)
    // The last bytes of a JPEG are its end marker and perhaps padding: without them the image is whole.
    for count in stride(from: 0, to: bytes.count - 16, by: 7) {
      #expect(refusal(Array(bytes[..<count])) != nil, "cut at \(count)")
    }
  }

  @Test func `a wrong check sum is refused`() throws {
    var bytes = try TestData.bytes(TestData.fixtures + "/media/png-2-8.png")
    bytes[20] ^= 1
    #expect(refusal(bytes) == .damaged(format: "PNG", problem: "a check sum is wrong"))
  }

  @Test func `a JPEG of a thousand scans is refused`() throws {
    let bytes = try TestData.bytes(TestData.fixtures + "/media/jpeg-grey-progressive.jpg")
    let start = try #require(bytes.indices.first { bytes[$0...].starts(with: [0xFF, 0xDA]) })
    let end = try #require(
      bytes[(start + 2)...].indices.first { index in
        bytes[index] == 0xFF && index + 1 < bytes.count && bytes[index + 1] != 0
      })
    let scan = Array(bytes[start..<end])
    let bomb = Array(bytes[..<start]) + Array(repeatElement(scan, count: 1000).joined()) + [0xFF, 0xD9]
    #expect(refusal(bomb) == .damaged(format: "JPEG", problem: "it has more than 100 scans"))
  }

  @Test func `a JPEG whose scans walk over it too often is refused`() throws {
    let bytes = try TestData.bytes(TestData.fixtures + "/media/jpeg-grey-progressive.jpg")
    var whole = JPEGDecoder(bytes, ImageLimits(pixels: .max))
    try whole.readSegments()
    let component = try #require(whole.components.first)
    let blocks = (component.width + 7) / 8 * ((component.height + 7) / 8)
    // Its first scan is within the bound, the second not.
    #expect(
      throws: MediaError.damaged(
        format: "JPEG", problem: "its 2 scans are more work than an image of this size can be")
    ) {
      var decoder = JPEGDecoder(bytes, ImageLimits(pixels: .max), visits: blocks)
      try decoder.readSegments()
    }
  }

  @Test func `memory is claimed once, enough for the picture, and an image without it is refused`() throws {
    for picture in PictureCase.all {
      var claims: [Int] = []
      _ = try ImageDecoder.decode(
        picture.bytes,
        limits: ImageLimits {
          claims.append($0)
          return true
        })
      #expect(claims.count == 1)
      let bytes = try #require(claims.first)
      #expect(bytes >= 2 * 3 * picture.width * picture.height)
      #expect(throws: MediaError.noMemory(bytes: bytes)) {
        try ImageDecoder.decode(picture.bytes, limits: ImageLimits { _ in false })
      }
    }
  }

  @Test func `bringing a picture to size is claimed too, most of all for a narrow one`() throws {
    let grid = PatchGrid(patch: 16, pooling: 3, tokens: 280, positions: 10_240)
    let rules = GridImages(marks: MediaMarks(opening: 1, soft: 2, closing: 3), grid: grid)
    let picture = try #require(PictureCase.all.first { $0.width > 8 && $0.height > 8 })
    var claims: [Int] = []
    let input = try rules.passage(
      picture.bytes,
      limits: ImageLimits {
        claims.append($0)
        return true
      })
    #expect(claims.count == 2 && claims[1] >= input.byteCount)
    #expect(throws: MediaError.noMemory(bytes: claims[1])) {
      try rules.passage(picture.bytes, limits: ImageLimits { $0 != claims[1] })
    }
    // Each of its rows becomes 48 pixels wide before they are made fewer.
    let tall = PixelImage(width: 1, height: 50_000, pixels: [UInt8](repeating: 9, count: 150_000))
    let size = try grid.size(width: tall.width, height: tall.height, tokens: grid.tokens)
    #expect(tall.bytesToResize(width: size.width, height: size.height) > 3 * size.width * tall.height)
    #expect(tall.bytesToResize(width: .max / 4, height: 9) == .max)
  }

  @Test func `mutated files give an image or an error`() throws {
    var random = SeededGenerator(seed: 20_26)
    let files = try PictureCase.all.filter { $0.width * $0.height < 3000 }.map { try $0.bytes }
    var whole = 0
    for _ in 0..<3000 {
      let file = files[Int.random(in: 0..<files.count, using: &random)]
      if let image = try? ImageDecoder.decode(
        mutated(file, using: &random), limits: ImageLimits(pixels: 1 << 20))
      {
        whole += 1
        #expect(image.pixels.count == image.width * image.height * 3)
      }
    }
    #expect(whole > 0)
  }

  @Test func `compressed data may not lie about its length`() {
    // One stored block of five bytes.
    let stream: [UInt8] = [0x78, 0x01, 1, 5, 0, 0xFA, 0xFF, 1, 2, 3, 4, 5, 0, 0x28, 0, 0x10]
    #expect(Inflate.zlib(stream, count: 5) == [1, 2, 3, 4, 5])
    #expect(Inflate.zlib(stream, count: 4) == [1, 2, 3, 4])
    #expect(Inflate.zlib(stream, count: 6) == nil)
    var wrong = stream
    wrong[15] = 0x11
    #expect(Inflate.zlib(wrong, count: 5) == nil)
  }
}
