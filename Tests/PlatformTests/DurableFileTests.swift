// Files that survive a crash, and the lock on a folder.

import Platform
import Testing

@Suite struct DurableFileTests {
  @Test func `a file is made, replaced and removed, and nothing else is left`() throws {
    let folder = try TemporaryFolder()
    try SystemFiles().writeDurably([1, 2, 3], folder: folder.path, name: "a")
    #expect(try File.read(folder.path + "/a", limit: 10) == [1, 2, 3])
    try SystemFiles().writeDurably([], folder: folder.path, name: "a")
    #expect(try File.read(folder.path + "/a", limit: 10) == [])
    #expect(try File.names(in: folder.path) == ["a"])
    var status = stat()
    #expect(stat(folder.path + "/a", &status) == 0)
    #expect(status.st_mode & 0o777 == 0o600)
    try SystemFiles().removeDurably(folder: folder.path, name: "a")
    try SystemFiles().removeDurably(folder: folder.path, name: "a")
    #expect(try File.names(in: folder.path) == [])
  }

  @Test func `a write that is impossible is an error and leaves the old file`() throws {
    let folder = try TemporaryFolder()
    #expect(throws: PlatformError.self) {
      try SystemFiles().writeDurably([1], folder: folder.path + "/none", name: "a")
    }
    #expect(throws: PlatformError.self) {
      try SystemFiles().writeDurably([1], folder: folder.path, name: "a\0b")
    }
    #expect(throws: PlatformError.self) { try SystemFiles().removeDurably(folder: folder.path, name: "a\0b") }
    #expect(try File.names(in: folder.path) == [])
  }

  @Test func `a folder is made once and found again`() throws {
    let folder = try TemporaryFolder()
    let inner = folder.path + "/inner"
    try SystemFiles().makeFolder(inner)
    try SystemFiles().makeFolder(inner)
    #expect(File.isDirectory(inner))
    rmdir(inner)
    _ = folder.file("inner", [])
    #expect(throws: PlatformError.self) { try SystemFiles().makeFolder(inner) }
    #expect(throws: PlatformError.self) { try SystemFiles().makeFolder(folder.path + "/no/where") }
  }

  @Test func `one owner holds a folder until it goes`() throws {
    let folder = try TemporaryFolder()
    var lock: FolderLock? = try FolderLock(folder: folder.path)
    #expect(throws: PlatformError.self) { try FolderLock(folder: folder.path) }
    #expect(lock != nil)
    lock = nil
    _ = try FolderLock(folder: folder.path)
  }
}
