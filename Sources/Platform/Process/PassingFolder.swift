// What is not kept: files and folders that go with the process, however it ends.

/// A folder in `TMPDIR`, or else in /tmp, that only its owner can enter and whose name nobody knows beforehand. It goes when
/// this ends or the process does: a shell waits for that, and what it could not remove goes at the next start.
package final class PassingFolder: Sendable {
  /// Where folders and files are that are not kept.
  package static var place: String { Environment.value("TMPDIR").flatMap { $0.isEmpty ? nil : $0 } ?? "/tmp" }
  private static let prefix = "mlxserve-temporary-"

  package let path: String
  /// Whoever has it knows that the folder's process is gone.
  private let lock: FolderLock
  /// Nil where there is no shell.
  private let shell: (process: pid_t, pipe: Int32)?

  /// A path that is free.
  package static func freePath() -> String {
    "\(place)/\(prefix)\(UInt64.random(in: 0...UInt64.max))\(UInt64.random(in: 0...UInt64.max))"
  }

  /// Makes the folder.
  package init(_ path: String = PassingFolder.freePath()) throws(PlatformError) {
    // It has its name only once it has its lock: another process may look for folders without one just now.
    let unlocked = "\(Self.place)/.\(path.split(separator: "/").last ?? "")"
    guard mkdir(unlocked, 0o700) == 0 else {
      throw .file(action: "make the folder", path: unlocked, code: errno)
    }
    lock = try FolderLock(folder: unlocked)
    guard rename(unlocked, path) == 0 else { throw .file(action: "make the folder", path: path, code: errno) }
    self.path = path
    shell = try? ChildProcess.removeAtOurEnd(path)
  }

  deinit {
    try? File.removeAll(path)
    if let shell { ChildProcess.stopWaiting(shell) }
  }

  /// Removes the folders of this user that processes have left which were killed together with their shells.
  package static func removeAbandoned() {
    let place = place
    for name in (try? File.names(in: place)) ?? [] where name.hasPrefix(prefix) {
      let path = place + "/" + name
      var status = stat()
      guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(),
        let lock = try? FolderLock(folder: path)
      else { continue }
      withExtendedLifetime(lock) { try? File.removeAll(path) }
    }
  }
}

/// A file in the same place that has no name: it goes with its last descriptor.
package final class NamelessFile {
  /// Open for reading and writing.
  package let descriptor: Int

  /// - Throws: where the bytes cannot be written.
  package init(_ bytes: [UInt8]) throws(PlatformError) {
    let files = SystemFiles()
    let path = "\(PassingFolder.freePath()).file"
    descriptor = try files.create(path)
    // Before there is anything in it.
    _ = files.unlink(path)
    try files.write(bytes, to: descriptor, at: 0, path: path)
  }

  deinit { SystemFiles().close(descriptor) }
}
