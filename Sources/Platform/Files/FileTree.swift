// Folders, symbolic links and free space, as a cache of downloads needs them; what is made has the modes of the umask.

/// What the system knows of a path.
package struct PathStatus: Sendable, Equatable {
  /// What is there.
  package enum Kind: Sendable { case file, folder, link, other }

  package let kind: Kind
  package let bytes: Int
  /// Bytes on the disk.
  package let allocatedBytes: Int
  /// Names the file itself: paths that are links of one file have it in common.
  package let identity: [UInt64]
  /// Seconds since 1970 of the last change and of the last use.
  package let modified: Double
  package let used: Double
}

extension File {
  /// Nil when nothing is there.
  package static func status(_ path: String, followingLinks: Bool = true) -> PathStatus? {
    var status = stat()
    guard !path.utf8.contains(0), (followingLinks ? stat(path, &status) : lstat(path, &status)) == 0 else {
      return nil
    }
    let kind: PathStatus.Kind =
      switch status.st_mode & S_IFMT {
      case S_IFREG: .file
      case S_IFDIR: .folder
      case S_IFLNK: .link
      default: .other
      }
    #if canImport(Darwin)
      let (modified, used) = (status.st_mtimespec, status.st_atimespec)
    #else
      let (modified, used) = (status.st_mtim, status.st_atim)
    #endif
    func seconds(_ time: timespec) -> Double { Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9 }
    return PathStatus(
      kind: kind, bytes: Int(status.st_size), allocatedBytes: Int(status.st_blocks) * 512,
      identity: [UInt64(truncatingIfNeeded: status.st_dev), UInt64(truncatingIfNeeded: status.st_ino)],
      modified: seconds(modified), used: seconds(used))
  }

  /// Makes the folder and those above it that are missing.
  package static func makeFolders(_ path: String) throws(PlatformError) {
    let parts = path.split(separator: "/")
    var place = path.hasPrefix("/") ? "" : "."
    for part in parts {
      place += "/" + part
      guard !isDirectory(place), mkdir(place, 0o777) != 0, errno != EEXIST else { continue }
      throw .file(action: "create the folder", path: place, code: errno)
    }
    guard isDirectory(path) else { throw .file(action: "open the folder", path: path, code: ENOTDIR) }
  }

  /// Makes folders, one inside the other, below one that exists. None of them may be a symbolic link, which would lead
  /// out of it.
  package static func makeFolders(_ components: some Sequence<String>, below folder: String)
    throws(PlatformError)
  {
    var place = folder
    for component in components {
      place += "/" + component
      let made = mkdir(place, 0o777)
      guard made != 0 else { continue }
      guard errno == EEXIST else { throw .file(action: "create the folder", path: place, code: errno) }
      guard status(place, followingLinks: false)?.kind == .folder else {
        throw .file(action: "enter", path: place, code: ENOTDIR)
      }
    }
  }

  /// Makes a symbolic link, in place of the file or link that has the name.
  package static func makeLink(_ path: String, to target: String) throws(PlatformError) {
    let temporary = path + temporaryEnding()
    guard !temporary.utf8.contains(0), !target.utf8.contains(0) else {
      throw .file(action: "link", path: path, code: EINVAL)
    }
    guard symlink(target, temporary) == 0 else { throw .file(action: "link", path: path, code: errno) }
    guard rename(temporary, path) == 0 else {
      let code = errno
      unlink(temporary)
      throw .file(action: "link", path: path, code: code)
    }
  }

  /// What a symbolic link says; nil for anything else.
  package static func linkTarget(_ path: String) -> String? {
    guard !path.utf8.contains(0) else { return nil }
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = buffer.withUnsafeMutableBytes { bytes -> Int in
      guard let start = bytes.baseAddress else { return 0 }
      return readlink(path, start.assumingMemoryBound(to: CChar.self), bytes.count)
    }
    guard count > 0, count < buffer.count else { return nil }
    return String(decoding: buffer[..<count], as: UTF8.self)
  }

  /// Gives a file another name, in place of the file that had it.
  package static func move(_ path: String, to target: String) throws(PlatformError) {
    guard !path.utf8.contains(0), !target.utf8.contains(0), rename(path, target) == 0 else {
      throw .file(action: "rename", path: path, code: errno)
    }
  }

  /// Writes a file whole, in place of the one that has the name: a reader finds the old one or the new one.
  ///
  /// - Parameter mode: less what the umask takes.
  package static func replace(_ path: String, with bytes: [UInt8], mode: UInt16 = 0o666) throws(PlatformError)
  {
    let temporary = path + temporaryEnding()
    do throws(PlatformError) {
      let file = try GrowingFile(temporary, mode: mode)
      try file.append(bytes[...])
      try file.synchronize()
      try move(temporary, to: path)
    } catch {
      if !temporary.utf8.contains(0) { unlink(temporary) }
      throw error
    }
  }

  /// Several may write the same file at once; the last one wins.
  private static func temporaryEnding() -> String {
    "." + String(UInt64.random(in: 0...UInt64.max), radix: 36) + ".mlxserve-tmp"
  }

  /// Removes a file, a link or a folder with all that is in it; links are not followed. What is not there is no error.
  package static func removeAll(_ path: String) throws(PlatformError) {
    guard let kind = status(path, followingLinks: false)?.kind else { return }
    if kind == .folder {
      for name in try names(in: path) { try removeAll(path + "/" + name) }
    }
    guard kind == .folder ? rmdir(path) == 0 : unlink(path) == 0 else {
      if errno == ENOENT { return }
      throw .file(action: "remove", path: path, code: errno)
    }
  }

  /// Bytes that this user may still write to the file system of a folder; nil when the system does not say.
  package static func freeBytes(_ folder: String) -> Int? {
    var status = statvfs()
    guard !folder.utf8.contains(0), statvfs(folder, &status) == 0 else { return nil }
    let (bytes, overflow) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
    return overflow ? Int.max : Int(clamping: bytes)
  }

  /// Whether this process may make files in a folder.
  package static func isWritable(_ folder: String) -> Bool {
    !folder.utf8.contains(0) && access(folder, W_OK) == 0
  }

  /// Whether a path matches a pattern of the shell, in which a star crosses `/`.
  package static func matches(_ path: String, pattern: String) -> Bool { fnmatch(pattern, path, 0) == 0 }
}
