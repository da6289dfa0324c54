// A file that grows at its end, such as a download: what is there already can be read again, or thrown away.

/// For one thread.
package final class GrowingFile {
  private let path: String
  private let descriptor: Int32
  /// Bytes that are in it.
  package private(set) var count: Int

  /// Opens the file, or makes it; a symbolic link is refused.
  ///
  /// - Parameter mode: of a new one, less what the umask takes.
  package init(_ path: String, mode: UInt16 = 0o666) throws(PlatformError) {
    guard !path.utf8.contains(0) else { throw .file(action: "open", path: path, code: EINVAL) }
    self.path = path
    descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode_t(mode))
    count = 0
    guard descriptor >= 0 else { throw .file(action: "open", path: path, code: errno) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .file(action: "examine", path: path, code: errno) }
    guard status.st_mode & S_IFMT == S_IFREG else { throw .notARegularFile(path: path) }
    count = Int(status.st_size)
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Appends to what is there.
  package func append(_ bytes: ArraySlice<UInt8>) throws(PlatformError) {
    var rest = bytes
    while !rest.isEmpty {
      let written = rest.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(count)) }
      if written < 0 && errno == EINTR { continue }
      guard written > 0 else {
        throw .file(action: "write", path: path, code: written < 0 ? errno : ENOSPC)
      }
      count += written
      rest = rest.dropFirst(written)
    }
  }

  /// Throws away all but the first bytes.
  package func cut(to bytes: Int) throws(PlatformError) {
    guard ftruncate(descriptor, off_t(bytes)) == 0 else {
      throw .file(action: "shorten", path: path, code: errno)
    }
    count = bytes
  }

  /// Gives away what is there, piece by piece, until `receive` says false.
  package func read(_ receive: (ArraySlice<UInt8>) -> Bool) throws(PlatformError) {
    var chunk = [UInt8](repeating: 0, count: 1 << 20)
    var offset = 0
    while offset < count {
      let found = chunk.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
      if found < 0 && errno == EINTR { continue }
      guard found > 0 else { throw .file(action: "read", path: path, code: found < 0 ? errno : EIO) }
      offset += found
      guard receive(chunk[..<found]) else { return }
    }
  }

  /// Makes the bytes outlive a loss of power.
  package func synchronize() throws(PlatformError) {
    let result = SystemFiles().synchronize(Int(descriptor))
    guard result >= 0 else {
      throw .file(action: "write", path: path, code: Int32(truncatingIfNeeded: -result))
    }
  }
}
