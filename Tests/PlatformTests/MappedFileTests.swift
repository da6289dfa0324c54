// Files mapped into memory.

import Testing

@testable import Platform

@Suite struct MappedFileTests {
  let folder: TemporaryFolder

  init() throws { folder = try TemporaryFolder() }

  @Test func `pages that were let go are read again, and memory that is no part of the file is left alone`()
    throws
  {
    let content = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
    let folder = try TemporaryFolder()
    let file = try MappedFile(folder.file("a", content))
    #expect(file.bytes.elementsEqual(content))
    file.letGo(UnsafeRawBufferPointer(rebasing: file.bytes[1000..<90_000]))
    file.letGo(UnsafeRawBufferPointer(rebasing: file.bytes[5..<5]))
    #expect(file.bytes.elementsEqual(content))
    content.withUnsafeBytes { file.letGo($0) }
    #expect(file.bytes.elementsEqual(content))
  }

  @Test func `the mapping holds the file's bytes`() throws {
    let content = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    let file = try MappedFile(folder.file("a", content))
    #expect(file.bytes.elementsEqual(content))
  }

  @Test func `the mapping is page-aligned`() throws {
    let file = try MappedFile(folder.file("a", [1]))
    let address = try #require(file.bytes.baseAddress)
    #expect(Int(bitPattern: address) % Int(getpagesize()) == 0)
  }

  @Test func `an empty file maps to no bytes`() throws {
    let file = try MappedFile(folder.file("empty", []))
    #expect(file.bytes.isEmpty)
  }

  @Test func `a deleted file stays readable while it is mapped`() throws {
    let path = folder.file("a", [1, 2, 3])
    let file = try MappedFile(path)
    unlink(path)
    #expect(Array(file.bytes) == [1, 2, 3])
  }

  @Test func `a missing file and a folder are refused`() {
    #expect(throws: PlatformError.self) { try MappedFile(folder.path + "/none") }
    #expect(throws: PlatformError.notARegularFile(path: folder.path)) { try MappedFile(folder.path) }
  }
}
