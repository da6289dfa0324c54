// Files that survive a crash: whole or not at all.

extension File {
  /// Makes or replaces a file. After a crash at any moment it is the old one or the new one, never a part.
  ///
  /// Only the owner can read it. While it is written it has the name with `.tmp` behind it.
  package static func writeDurably(_ bytes: [UInt8], folder: String, name: String) throws(PlatformError) {
    let path = folder + "/" + name
    let temporary = path + ".tmp"
    guard !path.utf8.contains(0) else { throw .file(action: "write", path: path, code: EINVAL) }
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw .file(action: "create", path: temporary, code: errno) }
    let code = writeAll(bytes, to: descriptor)
    close(descriptor)
    guard code == 0 else {
      unlink(temporary)
      throw .file(action: "write", path: temporary, code: code)
    }
    guard rename(temporary, path) == 0 else {
      throw .file(action: "rename", path: temporary, code: errno)
    }
    syncFolder(folder)
  }

  /// Removes a file; one that is not there is no error.
  package static func removeDurably(folder: String, name: String) throws(PlatformError) {
    let path = folder + "/" + name
    guard !path.utf8.contains(0) else { throw .file(action: "remove", path: path, code: EINVAL) }
    guard unlink(path) == 0 || errno == ENOENT else {
      throw .file(action: "remove", path: path, code: errno)
    }
    syncFolder(folder)
  }

  /// Makes a folder that only its owner can enter, unless it is there; its parent must be.
  package static func makeFolder(_ path: String) throws(PlatformError) {
    guard !path.utf8.contains(0) else { throw .file(action: "create", path: path, code: EINVAL) }
    guard mkdir(path, 0o700) == 0 || (errno == EEXIST && isDirectory(path)) else {
      throw .file(action: "create the folder", path: path, code: errno)
    }
  }

  /// Writes and flushes to the device; the error number, or 0.
  private static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Int32 {
    var written = 0
    while written < bytes.count {
      let count = bytes.withUnsafeBytes { buffer in
        pwrite(
          descriptor, buffer.baseAddress.map { $0 + written }, buffer.count - written, off_t(written))
      }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { return count < 0 ? errno : EIO }
      written += count
    }
    #if canImport(Darwin)
      // fsync leaves the bytes in the drive's own cache there.
      if fcntl(descriptor, F_FULLFSYNC) == 0 { return 0 }
    #endif
    return fsync(descriptor) == 0 ? 0 : errno
  }

  /// Makes names in a folder last. File systems that cannot do it are not worse off than before.
  private static func syncFolder(_ path: String) {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return }
    fsync(descriptor)
    close(descriptor)
  }
}
