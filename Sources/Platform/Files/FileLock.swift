// A lock that a file stands for, by flock: programs in other languages keep to it too.

/// The right to change what a file stands for; the kernel takes it back when the process ends, however. The file stays:
/// whoever waits for the lock has it open.
package final class FileLock: Sendable {
  /// One alone, or several readers.
  package enum Kind: Sendable { case exclusive, shared }

  private let descriptor: Int32

  private init(descriptor: Int32) { self.descriptor = descriptor }

  deinit { close(descriptor) }

  /// Takes the lock if nobody holds it; nil when somebody does.
  ///
  /// - Throws: when the file cannot be made, or the file system knows no locks.
  package static func take(_ path: String, _ kind: Kind = .exclusive) throws(PlatformError) -> FileLock? {
    guard !path.utf8.contains(0) else { throw .file(action: "lock", path: path, code: EINVAL) }
    let operation = (kind == .exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB
    // A lock file may be deleted between the two steps, though nobody should.
    for _ in 0..<100 {
      let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o664)
      guard descriptor >= 0 else {
        if errno == EINTR { continue }
        throw .file(action: "create", path: path, code: errno)
      }
      let lock = FileLock(descriptor: descriptor)
      guard flock(descriptor, operation) == 0 else {
        if errno == EINTR { continue }
        if errno == EWOULDBLOCK { return nil }
        throw .file(action: "lock", path: path, code: errno)
      }
      var status = stat()
      if fstat(descriptor, &status) == 0, status.st_nlink > 0 { return lock }
    }
    throw .file(action: "lock", path: path, code: EBUSY)
  }

  /// The processes that hold the lock of a file, as far as the system tells: Linux does.
  package static func holders(of path: String) -> [Int] {
    #if os(Linux)
      guard let file = File.status(path)?.identity.last else { return [] }
      // `1: FLOCK  ADVISORY  READ 1234 08:01:5678 0 EOF`
      let all: [Int] = PseudoFile.lines("/proc/locks").compactMap { line in
        let words = line.split(separator: " ")
        guard words.count > 5, words[1] == "FLOCK", let inode = words[5].split(separator: ":").last,
          UInt64(inode) == file
        else { return nil }
        return Int(words[4])
      }
      // A process may hold it more than once.
      return Set(all).sorted()
    #else
      return []
    #endif
  }
}
