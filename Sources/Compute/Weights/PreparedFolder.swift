// The folder of prepared weights: files that are whole or not there, and together no larger than they may be.

package import Platform

/// A folder that holds prepared weights. One process changes it at a time; any number read it.
package struct PreparedFolder: Sendable {
  package let path: String
  private let files: any FileSystem

  private static let ending = ".panels"
  private static let unfinished = ".panels.tmp"

  package init(path: String, files: any FileSystem = SystemFiles()) {
    (self.path, self.files) = (path, files)
  }

  /// A file that is being written.
  struct Draft {
    fileprivate let files: any FileSystem
    fileprivate let descriptor: Int
    fileprivate let path: String

    func write(_ bytes: [UInt8], at offset: Int) throws(PlatformError) {
      try files.write(bytes, to: descriptor, at: offset, path: path)
    }

    /// What has been written.
    func bytes() throws(PlatformError) -> SharedBytes {
      guard let bytes = try files.mapped(path) else {
        throw .file(action: "read", path: path, code: EIO)
      }
      return bytes
    }
  }

  /// Deletes files until the others have at most `limit` bytes: unfinished ones, then those that were made longest ago.
  ///
  /// - Parameter name: a file that will be replaced, and does not count.
  func makeRoom(_ limit: Int, besides name: String) throws(PlatformError) {
    let lock = try FolderLock(folder: path, files: files)
    defer { _ = lock }
    var kept: [(path: String, facts: FileFacts)] = []
    for found in try files.names(in: path) where found != name {
      let path = path + "/" + found
      if found.hasSuffix(Self.unfinished) {
        try files.remove(path)
      } else if found.hasSuffix(Self.ending) {
        kept.append((path, try files.beginning(path, count: 0).facts))
      }
    }
    kept.sort { $0.facts.modified > $1.facts.modified }
    var sum = kept.map(\.facts.bytes).sumOfSizes
    while sum > limit, let oldest = kept.popLast() {
      try files.remove(oldest.path)
      sum -= oldest.facts.bytes
      Log.info("prepared weights made room", ["file": oldest.path, "bytes": "\(oldest.facts.bytes)"])
    }
  }

  /// Makes or replaces a file: after a crash at any moment it is the old one or the new one, or none.
  func write(_ name: String, _ fill: (Draft) throws(PlatformError) -> Void) throws(PlatformError) {
    let lock = try FolderLock(folder: path, files: files)
    defer { _ = lock }
    let temporary = path + "/" + name + ".tmp"
    let descriptor = try files.create(temporary)
    do throws(PlatformError) {
      defer { files.close(descriptor) }
      try fill(Draft(files: files, descriptor: descriptor, path: temporary))
      try files.flush(descriptor, path: temporary)
      try files.publish(temporary, folder: path, name: name)
      // It was written in small pages.
      File.forget(path + "/" + name)
    } catch {
      _ = files.unlink(temporary)
      throw error
    }
  }

  /// Deletes what was prepared of a checkpoint, for whichever kernels.
  ///
  /// - Returns: bytes that are free now; 0 where there was nothing.
  package func remove(identity: [UInt8]) throws(PlatformError) -> Int {
    guard File.isDirectory(path) else { return 0 }
    let lock = try FolderLock(folder: path, files: files)
    defer { _ = lock }
    let beginning = PreparedPanels.beginning(identity: identity)
    var freed = 0
    for name in try files.names(in: path) where name.hasPrefix(beginning) {
      freed += try files.beginning(path + "/" + name, count: 0).facts.bytes
      try files.remove(path + "/" + name)
    }
    return freed
  }
}
