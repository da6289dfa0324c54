// The files below a folder, by path: no link is followed, and no other file system is entered.

/// What is below a folder.
package struct FolderWalk: Sendable {
  /// A regular file.
  package struct Entry: Sendable, Equatable {
    /// Relative to the folder, with `/` between names.
    package let path: String
    package let bytes: Int
    /// Nanoseconds since 1970 of the last change.
    package let modified: Int64
    package let inode: UInt64
  }

  /// Sorted by their paths' bytes.
  package private(set) var files: [Entry] = []
  /// What was left out, with the reason.
  package private(set) var skipped: [(path: String, reason: String)] = []
  /// Whether there was more than is taken.
  package private(set) var isCut = false

  /// Deepest folder below the first one.
  private static let depth = 64

  /// - Parameters:
  ///   - limit: most files.
  ///   - enters: whether a file or folder is wanted; asked with its relative path, and whether it is a folder.
  package init(
    _ folder: String, limit: Int, enters: (_ path: String, _ isFolder: Bool) -> Bool
  ) throws(PlatformError) {
    var status = stat()
    guard lstat(folder, &status) == 0 || stat(folder, &status) == 0 else {
      throw .file(action: "open", path: folder, code: errno)
    }
    var pending = [(path: "", depth: 0)]
    // The first folder may be a link; its device is that of what it leads to.
    guard stat(folder, &status) == 0 else { throw .file(action: "open", path: folder, code: errno) }
    let device = status.st_dev
    while let (path, depth) = pending.popLast() {
      let names: [String]
      do throws(PlatformError) {
        names = try File.names(in: path.isEmpty ? folder : folder + "/" + path)
      } catch {
        if path.isEmpty { throw error }
        skipped.append((path, "\(error)"))
        continue
      }
      for name in names {
        let inner = path.isEmpty ? name : path + "/" + name
        guard lstat(folder + "/" + inner, &status) == 0 else {
          // Such names are repaired when they are read, and then are nobody's.
          if name.unicodeScalars.contains("\u{FFFD}"), enters(inner, false) {
            skipped.append((inner, "its name is not UTF-8"))
          }
          continue
        }
        switch status.st_mode & S_IFMT {
        case S_IFDIR:
          guard enters(inner, true) else { continue }
          guard status.st_dev == device else {
            skipped.append((inner, "another file system"))
            continue
          }
          guard depth < Self.depth else {
            skipped.append((inner, "too deep"))
            continue
          }
          pending.append((inner, depth + 1))
        case S_IFREG:
          guard enters(inner, false) else { continue }
          guard files.count < limit else {
            isCut = true
            continue
          }
          files.append(Self.entry(inner, status))
        case S_IFLNK: if enters(inner, false) { skipped.append((inner, "a symbolic link")) }
        default: skipped.append((inner, "not a regular file"))
        }
      }
    }
    files.sort { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
  }

  private static func entry(_ path: String, _ status: stat) -> Entry {
    #if canImport(Darwin)
      let time = status.st_mtimespec
    #else
      let time = status.st_mtim
    #endif
    let nanoseconds = Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    return Entry(path: path, bytes: Int(status.st_size), modified: nanoseconds, inode: UInt64(status.st_ino))
  }
}
