// The checksum that finds damaged files, and what is asked about files.

import Platform
import Support
import Testing

@Suite struct ChecksumTests {
  @Test func `every change of a single byte changes the sum`() {
    for count in [1, 7, 31, 32, 33, 64, 100] {
      var bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 37) }
      let sum = Checksum.of(bytes)
      for place in bytes.indices {
        for bit in 0..<8 {
          bytes[place] ^= 1 << UInt8(bit)
          #expect(Checksum.of(bytes) != sum, "byte \(place), bit \(bit) of \(count)")
          bytes[place] ^= 1 << UInt8(bit)
        }
      }
      #expect(Checksum.of(bytes) == sum)
    }
  }

  @Test func `lengths and orders count, and a slice has the sum of its bytes`() {
    #expect(Checksum.of([UInt8]()) != Checksum.of([UInt8(0)]))
    #expect(Checksum.of([UInt8](repeating: 0, count: 32)) != Checksum.of([UInt8](repeating: 0, count: 64)))
    let bytes = (0..<96).map { UInt8($0) }
    #expect(Checksum.of(Array(bytes[32..<64] + bytes[..<32])) != Checksum.of(Array(bytes[..<64])))
    #expect(Checksum.of(bytes[5..<80]) == Checksum.of(Array(bytes[5..<80])))
  }

  @Test func `random damage is found`() {
    var random = SeededGenerator(seed: 8)
    for _ in 0..<2000 {
      let bytes = (0..<Int.random(in: 1...200, using: &random)).map { _ in
        UInt8.random(in: 0...255, using: &random)
      }
      let other = mutated(bytes, using: &random)
      #expect(bytes == other || Checksum.of(bytes) != Checksum.of(other))
    }
  }
}

@Suite struct FileFactsTests {
  private let files = SystemFiles()

  @Test func `size, age and beginning of a file`() throws {
    let folder = try TemporaryFolder()
    let path = folder.file("a", Array(0..<100))
    #expect(try files.beginning(path, count: 3).bytes == [0, 1, 2])
    #expect(try files.beginning(path, count: 1000).bytes.count == 100)
    var times = [timeval(tv_sec: 1000, tv_usec: 0), timeval(tv_sec: 1000, tv_usec: 0)]
    #expect(utimes(path, &times) == 0)
    let facts = try files.beginning(path, count: 0).facts
    #expect(facts.bytes == 100 && facts.modified == 1000 && facts.isRegular)
    #expect(files.touch(path) == 0)
    #expect(try files.beginning(path, count: 0).facts.modified > 1_000_000)
  }

  @Test func `what is no regular file has no facts`() throws {
    let folder = try TemporaryFolder()
    #expect(symlink("/etc/hosts", folder.path + "/link") == 0)
    for path in [folder.path, folder.path + "/none", "a\0b", folder.path + "/link"] {
      #expect(throws: PlatformError.self) { try files.beginning(path, count: 1) }
    }
  }
}
