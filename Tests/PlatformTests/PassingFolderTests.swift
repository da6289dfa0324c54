// Folders that are not kept, and what is left of them.

import Platform
import Testing

@Suite struct PassingFolderTests {
  @Test func `a folder that only its owner can enter goes with its last reference`() throws {
    var folder: PassingFolder? = try PassingFolder()
    let path = try #require(folder?.path)
    try File.replace(path + "/a", with: Array("private".utf8))
    #expect(try File.names(in: path) == ["a", "lock"])
    var status = stat()
    #expect(lstat(path, &status) == 0 && status.st_mode & 0o777 == 0o700)
    folder = nil
    #expect(!File.exists(path))
  }

  @Test func `what a process has left goes at the next start, and what one uses stays`() throws {
    let used = try PassingFolder()
    let left = PassingFolder.freePath()
    let target = PassingFolder.freePath() + ".other"
    try SystemFiles().makeFolder(target)
    defer { try? File.removeAll(target) }
    try File.replace(target + "/kept", with: [1])
    try SystemFiles().makeFolder(left)
    try SystemFiles().makeFolder(left + "/files")
    try File.replace(left + "/files/a.data", with: Array("private".utf8))
    #expect(symlink(target, left + "/files/link") == 0)
    let link = PassingFolder.freePath()
    #expect(symlink(target, link) == 0)
    defer { unlink(link) }
    // It holds its lock.
    let lock = try FolderLock(folder: target)
    PassingFolder.removeAbandoned()
    #expect(!File.exists(left))
    #expect(File.exists(used.path + "/lock"))
    #expect(File.exists(target + "/kept") && File.exists(link))
    withExtendedLifetime((used, lock)) {}
  }

  @Test func `a file without a name is in no folder`() throws {
    let before = Set(try File.names(in: PassingFolder.place))
    let file = try NamelessFile(Array("private".utf8))
    let mine = try File.names(in: PassingFolder.place).filter {
      $0.hasSuffix(".file") && !before.contains($0)
    }
    #expect(mine == [])
    var status = stat()
    #expect(fstat(Int32(file.descriptor), &status) == 0)
    #expect(status.st_size == 7 && status.st_nlink == 0)
  }
}
