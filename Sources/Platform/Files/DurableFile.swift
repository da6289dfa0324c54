// Files that survive a crash: whole or not at all. Every failure is told, so that nobody is promised what is not there.

extension FileSystem {
  /// Makes or replaces a file. After a crash at any moment it is the old one or the new one, never a part.
  ///
  /// Only the owner can read it. While it is written its name ends in `.tmp`.
  ///
  /// - Throws: when the new file may not be there after a crash; the old one, or the new one, is.
  package func writeDurably(_ bytes: [UInt8], folder: String, name: String) throws(PlatformError) {
    let path = folder + "/" + name
    let temporary = path + ".tmp"
    let descriptor = try open(temporary, O_WRONLY | O_CREAT | O_TRUNC, "create")
    do throws(PlatformError) {
      defer { close(descriptor) }
      try write(bytes, to: descriptor, at: 0, path: temporary)
      try check(synchronize(descriptor), "write", temporary)
    } catch {
      _ = unlink(temporary)
      throw error
    }
    do throws(PlatformError) {
      try check(rename(temporary, to: path), "rename", temporary)
    } catch {
      _ = unlink(temporary)
      throw error
    }
    try synchronizeFolder(folder)
  }

  /// Removes a file; one that is not there is no error.
  ///
  /// - Throws: when the file may be there after a crash.
  package func removeDurably(folder: String, name: String) throws(PlatformError) {
    try remove(folder + "/" + name)
    try synchronizeFolder(folder)
  }

  /// Removes a file that may come back after a loss of power; one that is not there is no error.
  package func remove(_ path: String) throws(PlatformError) {
    guard !path.utf8.contains(0) else { throw .file(action: "remove", path: path, code: EINVAL) }
    let result = unlink(path)
    if result != -Int(ENOENT) { try check(result, "remove", path) }
  }

  /// Makes a folder that only its owner can enter, unless it is there; its parent must be.
  package func makeFolder(_ path: String) throws(PlatformError) {
    guard !path.utf8.contains(0) else { throw .file(action: "create", path: path, code: EINVAL) }
    let result = mkdir(path)
    let isNew = result != -Int(EEXIST)
    if isNew {
      try check(result, "create the folder", path)
    } else {
      close(try open(path, O_RDONLY | O_DIRECTORY, "open the folder"))
    }
    do throws(PlatformError) {
      // Also where it was there: an earlier process may have ended before this step.
      try synchronizeFolder(File.parent(of: path))
    } catch {
      // Somebody else made it in a folder that this process may not read.
      guard !isNew, case .file(_, _, EACCES) = error else { throw error }
    }
  }

  /// Names of the entries of a folder, sorted by their bytes, without `.` and `..`.
  package func names(in folder: String) throws(PlatformError) -> [String] {
    guard !folder.utf8.contains(0) else { throw .file(action: "list", path: folder, code: EINVAL) }
    var names: [String] = []
    try check(list(folder, into: &names), "list", folder)
    return names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
  }

  /// Reads a regular file of at most `limit` bytes.
  package func read(_ path: String, limit: Int) throws(PlatformError) -> [UInt8] {
    let descriptor = try openForReading(path)
    defer { close(descriptor) }
    return try read(descriptor, path, limit: limit)
  }

  /// Reads an open file; its path is for errors.
  func read(_ descriptor: Int, _ path: String, limit: Int) throws(PlatformError) -> [UInt8] {
    let size = try regularFacts(descriptor, path).bytes
    guard size <= limit else { throw .tooLarge(path: path, bytes: size, limit: limit) }
    return try read(descriptor, count: size, path)
  }

  /// The first bytes of a regular file that is no link, and what the system knows of it: at most `count` bytes, fewer
  /// when it is shorter.
  package func beginning(_ path: String, count: Int) throws(PlatformError) -> (
    bytes: [UInt8], facts: FileFacts
  ) {
    let descriptor = try openForReading(path, O_NOFOLLOW)
    defer { close(descriptor) }
    let facts = try regularFacts(descriptor, path)
    return (try read(descriptor, count: min(count, facts.bytes), path), facts)
  }

  /// Opens a file and takes its lock, which goes when the descriptor is closed.
  ///
  /// - Throws: when another process holds it (`EWOULDBLOCK`), or the file cannot be made.
  package func openLocked(_ path: String) throws(PlatformError) -> Int {
    let descriptor = try open(path, O_RDWR | O_CREAT, "create")
    do throws(PlatformError) {
      try check(lock(descriptor), "lock (is another server using the folder?)", path)
    } catch {
      close(descriptor)
      throw error
    }
    return descriptor
  }

  // MARK: Open files

  /// Opens a regular file that is there for reading and writing.
  package func openForWriting(_ path: String) throws(PlatformError) -> Int {
    let descriptor = try open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW, "open")
    do throws(PlatformError) {
      _ = try regularFacts(descriptor, path)
    } catch {
      close(descriptor)
      throw error
    }
    return descriptor
  }

  /// Opens a file to write after its last byte, or makes it.
  package func openToAppend(_ path: String) throws(PlatformError) -> (number: Int, count: Int) {
    let descriptor = try open(path, O_RDWR | O_CREAT | O_NONBLOCK | O_NOFOLLOW, "open")
    do throws(PlatformError) {
      return (descriptor, try regularFacts(descriptor, path).bytes)
    } catch {
      close(descriptor)
      throw error
    }
  }

  /// Makes an empty file, or empties one that is there.
  package func create(_ path: String) throws(PlatformError) -> Int {
    try open(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, "create")
  }

  /// Writes all of `bytes` at an offset; the path is for errors.
  package func write(
    _ bytes: [UInt8], to descriptor: Int, at offset: Int, path: String
  ) throws(PlatformError) {
    var written = 0
    while written < bytes.count {
      let count = bytes.withUnsafeBytes { buffer in
        write(descriptor, UnsafeRawBufferPointer(rebasing: buffer[written...]), at: offset + written)
      }
      if count == -Int(EINTR) { continue }
      try check(count == 0 ? -Int(EIO) : count, "write", path)
      written += count
    }
  }

  /// Makes what was written to an open file outlive a loss of power.
  package func flush(_ descriptor: Int, path: String) throws(PlatformError) {
    try check(synchronize(descriptor), "write", path)
  }

  /// Cuts an open file.
  package func cut(_ descriptor: Int, to count: Int, path: String) throws(PlatformError) {
    try check(truncate(descriptor, to: count), "cut", path)
  }

  /// Gives a written and flushed file its name, for good.
  package func publish(_ temporary: String, folder: String, name: String) throws(PlatformError) {
    try check(rename(temporary, to: folder + "/" + name), "rename", temporary)
    try synchronizeFolder(folder)
  }

  /// Maps a regular file; nil when it is empty.
  package func mapped(_ path: String) throws(PlatformError) -> SharedBytes? {
    let descriptor = try openForReading(path, O_NOFOLLOW)
    defer { close(descriptor) }
    let count = try regularFacts(descriptor, path).bytes
    guard count > 0 else { return nil }
    var bytes: SharedBytes?
    try check(map(descriptor, count, into: &bytes), "map", path)
    return bytes
  }

  // MARK: Steps

  /// The C library would read only as far as a NUL byte, and open something else.
  private func open(_ path: String, _ flags: Int32, _ action: String) throws(PlatformError) -> Int {
    guard !path.utf8.contains(0) else { throw .file(action: action, path: path, code: EINVAL) }
    while true {
      let descriptor = open(path, flags)
      if descriptor != -Int(EINTR) { return try check(descriptor, action, path) }
    }
  }

  /// Without `O_NONBLOCK`, opening a FIFO waits for a writer for ever; regular files ignore it.
  func openForReading(_ path: String, _ flags: Int32 = 0) throws(PlatformError) -> Int {
    try open(path, O_RDONLY | O_NONBLOCK | flags, "open")
  }

  func regularFacts(_ descriptor: Int, _ path: String) throws(PlatformError) -> FileFacts {
    var facts = FileFacts()
    try check(examine(descriptor, &facts), "examine", path)
    guard facts.isRegular else { throw .notARegularFile(path: path) }
    return facts
  }

  private func read(_ descriptor: Int, count size: Int, _ path: String) throws(PlatformError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: size)
    let filled = try read(descriptor, into: &bytes, at: 0, path)
    bytes.removeLast(size - filled)
    return bytes
  }

  /// Fills `bytes` from `offset` of the file on; fewer are read where it ends.
  func read(
    _ descriptor: Int, into bytes: inout [UInt8], at offset: Int, _ path: String
  ) throws(PlatformError) -> Int {
    var filled = 0
    while filled < bytes.count {
      let count = bytes.withUnsafeMutableBytes { buffer in
        read(descriptor, UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]), at: offset + filled)
      }
      if count == -Int(EINTR) { continue }
      try check(count, "read", path)
      if count == 0 { break }
      filled += count
    }
    return filled
  }

  /// Makes the names in a folder last. A file system that has no such call (`EINVAL`) does it by itself or never.
  package func synchronizeFolder(_ path: String) throws(PlatformError) {
    let descriptor = try open(path, O_RDONLY | O_DIRECTORY, "open the folder")
    defer { close(descriptor) }
    let result = synchronize(descriptor)
    if result != -Int(EINVAL) { try check(result, "flush the folder", path) }
  }

  @discardableResult
  private func check(_ result: Int, _ action: String, _ path: String) throws(PlatformError) -> Int {
    guard result < 0 else { return result }
    throw .file(action: action, path: path, code: Int32(truncatingIfNeeded: -result))
  }
}
