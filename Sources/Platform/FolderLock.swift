// A folder that one process owns.

/// The right of one process to write into a folder; the kernel takes it back when the process ends, however.
package final class FolderLock: Sendable {
  private let descriptor: Int32

  /// - Throws: when another process holds it (`EWOULDBLOCK`), or the folder cannot be written to.
  package init(folder: String) throws(PlatformError) {
    let path = folder + "/lock"
    guard !path.utf8.contains(0) else { throw .file(action: "lock", path: path, code: EINVAL) }
    descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw .file(action: "create", path: path, code: errno) }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      let code = errno
      close(descriptor)
      throw .file(action: "lock (is another server using the folder?)", path: path, code: code)
    }
  }

  deinit { close(descriptor) }
}
