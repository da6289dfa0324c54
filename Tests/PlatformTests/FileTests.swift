// Small files: what is read, what is refused, and that nothing waits for ever.

import Testing

@testable import Platform

@Suite struct FileTests {
  let folder: TemporaryFolder

  init() throws { folder = try TemporaryFolder() }

  @Test func `a file is read whole`() throws {
    let path = folder.file("a", Array("hello".utf8))
    #expect(try File.read(path, limit: 5) == Array("hello".utf8))
  }

  @Test func `a lock that is about to be given up is had, and one that is kept is not`() async throws {
    let path = folder.file("lock", [])
    let files = SystemFiles()
    let (first, second) = (files.open(path, O_RDWR), files.open(path, O_RDWR))
    #expect(first >= 0 && second >= 0)
    defer { files.close(second) }
    #expect(files.lock(first) == 0)
    #expect(files.lock(second) == -Int(EWOULDBLOCK))
    async let had = files.lock(second)
    files.close(first)
    #expect(await had == 0)
  }

  @Test func `an empty file is no bytes`() throws {
    #expect(try File.read(folder.file("empty", []), limit: 0) == [])
  }

  @Test func `a file above the limit is refused before it is read`() throws {
    let path = folder.file("a", Array("hello".utf8))
    #expect(throws: PlatformError.tooLarge(path: path, bytes: 5, limit: 4)) { try File.read(path, limit: 4) }
  }

  @Test func `a missing file is named in the error`() {
    let path = folder.path + "/none"
    let error = #expect(throws: PlatformError.self) { try File.read(path, limit: 10) }
    #expect(error?.description == "cannot open \(path): No such file or directory")
  }

  @Test(.timeLimit(.minutes(1))) func `a FIFO without a writer is refused and does not wait`() {
    let path = folder.path + "/fifo"
    #expect(mkfifo(path, 0o600) == 0)
    #expect(throws: PlatformError.notARegularFile(path: path)) { try File.read(path, limit: 10) }
  }

  @Test func `a folder is not a file`() {
    #expect(throws: PlatformError.notARegularFile(path: folder.path)) {
      try File.read(folder.path, limit: 10)
    }
    #expect(File.isDirectory(folder.path))
    #expect(!File.isDirectory(folder.file("a", [])))
  }

  @Test func `a path with a NUL byte opens nothing`() throws {
    let path = folder.file("a", [1]) + "\0.txt"
    #expect(throws: PlatformError.file(action: "open", path: path, code: EINVAL)) {
      try File.read(path, limit: 10)
    }
    #expect(!File.exists(path))
    #expect(!File.isDirectory(folder.path + "\0"))
    #expect(File.resolved(path) == nil)
    #expect(throws: PlatformError.self) { try File.names(in: folder.path + "\0") }
  }

  @Test func `names are sorted by their bytes`() throws {
    for name in ["b", "a", "B", "é", ".hidden"] { _ = folder.file(name, []) }
    #expect(try File.names(in: folder.path) == [".hidden", "B", "a", "b", "é"])
  }

  @Test func `symbolic links are resolved`() throws {
    let path = folder.file("target", [1])
    #expect(symlink(path, folder.path + "/link") == 0)
    #expect(File.resolved(folder.path + "/link") == File.resolved(path))
    #expect(File.resolved(folder.path + "/none") == nil)
  }

  @Test func `a link that points to itself is an error`() {
    let path = folder.path + "/loop"
    #expect(symlink(path, path) == 0)
    #expect(throws: PlatformError.file(action: "open", path: path, code: ELOOP)) {
      try File.read(path, limit: 10)
    }
  }
}
