// Small files read whole, and questions about paths.

/// Files by path. A path with a NUL byte is refused: the C library would open what stands before it.
package enum File {
  /// Reads a regular file of at most `limit` bytes.
  package static func read(_ path: String, limit: Int) throws(PlatformError) -> [UInt8] {
    try SystemFiles().read(path, limit: limit)
  }

  /// Reads a regular file of at most `limit` bytes below a folder. No component may be `.` or `..`, and none may be a
  /// symbolic link: the file is where the path says, even if somebody changes the folder meanwhile.
  package static func read(
    _ components: [String], below folder: String, limit: Int
  ) throws(PlatformError) -> [UInt8] {
    let path = folder + "/" + components.joined(separator: "/")
    func check(_ result: Int32) throws(PlatformError) -> Int32 {
      guard result >= 0 else { throw .file(action: "open", path: path, code: errno) }
      return result
    }
    guard let name = components.last, isPath(path),
      components.allSatisfy({ !["", ".", ".."].contains($0) && !$0.utf8.contains(UInt8(ascii: "/")) })
    else { throw .file(action: "open", path: path, code: EINVAL) }
    var parent = try check(open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY))
    defer { close(parent) }
    for component in components.dropLast() {
      let next = try check(openat(parent, component, O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW))
      close(parent)
      parent = next
    }
    let descriptor = try check(openat(parent, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW))
    defer { close(descriptor) }
    return try SystemFiles().read(Int(descriptor), path, limit: limit)
  }

  /// What is at the path, links followed. It takes no descriptor.
  package static func facts(_ path: String) throws(PlatformError) -> FileFacts {
    var status = stat()
    guard isPath(path), stat(path, &status) == 0 else {
      throw .file(action: "examine", path: path, code: isPath(path) ? errno : EINVAL)
    }
    return FileFacts(status)
  }

  /// Reads a regular file, links followed, in pieces of `pieceBytes`, the last one shorter, until `take` returns false.
  ///
  /// - Parameter start: called once with what the file is; when it returns false, nothing is read.
  /// - Returns: the bytes of all pieces; nil when it was ended before the end of the file.
  package static func forEachPiece(
    of path: String, pieceBytes: Int, start: (FileFacts) -> Bool, take: (ArraySlice<UInt8>) -> Bool
  ) throws(PlatformError) -> Int? {
    let files = SystemFiles()
    let descriptor = try files.openForReading(path)
    defer { files.close(descriptor) }
    guard start(try files.regularFacts(descriptor, path)) else { return nil }
    var piece = [UInt8](repeating: 0, count: max(1, pieceBytes))
    var done = 0
    while true {
      let count = try files.read(descriptor, into: &piece, at: done, path)
      done += count
      if count == 0 { return done }
      guard take(piece[..<count]) else { return nil }
    }
  }

  /// Takes a flushed file out of the page cache, so that the next one who maps it chooses the size of its pages. Does
  /// nothing where the system cannot.
  package static func forget(_ path: String) {
    #if os(Linux)
      let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
      guard descriptor >= 0 else { return }
      posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED)
      close(descriptor)
    #endif
  }

  /// The bytes of a text without the mark that some editors put before UTF-8.
  package static func withoutMark(_ text: [UInt8]) -> [UInt8] {
    text.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(text.dropFirst(3)) : text
  }

  /// Whether there is something at the path, links followed; false also where the way to it is closed.
  package static func exists(_ path: String) -> Bool { isPath(path) && access(path, F_OK) == 0 }

  /// Whether the path, links followed, is a folder.
  package static func isDirectory(_ path: String) -> Bool {
    var status = stat()
    return isPath(path) && stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Whether others than the owner may read or write the file; false when it does not exist.
  package static func isOpenToOthers(_ path: String) -> Bool {
    var status = stat()
    return isPath(path) && stat(path, &status) == 0 && status.st_mode & (S_IRWXG | S_IRWXO) != 0
  }

  /// Names of the entries of a folder, sorted by their bytes, without `.` and `..`.
  package static func names(in folder: String) throws(PlatformError) -> [String] {
    try SystemFiles().names(in: folder)
  }

  /// The absolute path with symbolic links resolved; nil when it does not exist.
  package static func resolved(_ path: String) -> String? {
    guard isPath(path), let real = realpath(path, nil) else { return nil }
    defer { free(real) }
    return String(cString: real)
  }

  /// The C library would read only as far as a NUL byte, and open something else.
  /// The folder that a path is in: `.` for a bare name, `/` for what is in the root.
  package static func parent(of path: String) -> String {
    var rest = path.utf8[...]
    while rest.last == UInt8(ascii: "/"), rest.count > 1 { rest = rest.dropLast() }
    let slash = rest.lastIndex(of: UInt8(ascii: "/"))
    return slash.map { $0 == rest.startIndex ? "/" : String(decoding: rest[..<$0], as: UTF8.self) } ?? "."
  }

  /// The last component of a path.
  package static func name(of path: String) -> String {
    path.split(separator: "/").last.map(String.init) ?? path
  }

  private static func isPath(_ path: String) -> Bool { !path.utf8.contains(0) }
}

extension Sequence<Int> {
  /// The sum of sizes that files have; the largest number where it is larger: a file with holes may say anything.
  package var sumOfSizes: Int {
    reduce(0) { sum, size in
      let (next, overflow) = sum.addingReportingOverflow(size)
      return overflow ? .max : next
    }
  }
}
