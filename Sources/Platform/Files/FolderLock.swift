// A folder that one process owns.

/// The right of one process to write into a folder; the kernel takes it back when the process ends, however.
package final class FolderLock: Sendable {
  private let files: any FileSystem
  private let descriptor: Int

  /// - Throws: when another process holds it (`EWOULDBLOCK`), or the folder cannot be written to.
  package init(folder: String, files: any FileSystem = SystemFiles()) throws(PlatformError) {
    self.files = files
    descriptor = try files.openLocked(folder + "/lock")
  }

  deinit { files.close(descriptor) }
}
