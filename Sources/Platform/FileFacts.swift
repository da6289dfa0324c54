// What a folder's keeper asks about files: size, age, the first bytes.

extension File {
  /// Size and time of the last change; nil for what is not there, or no regular file.
  package static func facts(_ path: String) -> (bytes: Int, modified: Double)? {
    var status = stat()
    guard !path.utf8.contains(0), lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      return nil
    }
    #if canImport(Darwin)
      let time = status.st_mtimespec
    #else
      let time = status.st_mtim
    #endif
    return (Int(status.st_size), Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9)
  }

  /// The first bytes of a regular file: at most `count`, fewer when it is shorter.
  package static func beginning(_ path: String, count: Int) throws(PlatformError) -> [UInt8] {
    let descriptor = try openForReading(path)
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: min(count, try regularSize(of: descriptor, path: path)))
    let found = bytes.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, 0) }
    guard found >= 0 else { throw .file(action: "read", path: path, code: errno) }
    bytes.removeLast(bytes.count - found)
    return bytes
  }

  /// Makes a file look as if it was changed now.
  package static func touch(_ path: String) {
    guard !path.utf8.contains(0) else { return }
    utimes(path, nil)
  }
}
