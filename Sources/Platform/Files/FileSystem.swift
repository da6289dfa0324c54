// The system calls by which a store keeps files, so that a test can put a disk that fails in the system's place.

/// Each call answers as the kernel does: a descriptor, a count of bytes or 0, and below 0 the negated error number.
package protocol FileSystem: Sendable {
  /// Opens a file or a folder; what it makes, only its owner can read.
  func open(_ path: String, _ flags: Int32) -> Int
  /// Reads at an offset; fewer bytes than the buffer holds are no error.
  func read(_ descriptor: Int, _ buffer: UnsafeMutableRawBufferPointer, at offset: Int) -> Int
  /// Writes at an offset; fewer bytes than given are no error.
  func write(_ descriptor: Int, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int
  /// Cuts an open file to its first `count` bytes.
  func truncate(_ descriptor: Int, to count: Int) -> Int
  /// Maps the first `count` bytes of an open file, at least one.
  func map(_ descriptor: Int, _ count: Int, into bytes: inout SharedBytes?) -> Int
  /// What an open file is.
  func examine(_ descriptor: Int, _ facts: inout FileFacts) -> Int
  /// Makes the bytes of a file, or the names in a folder, outlive a loss of power.
  func synchronize(_ descriptor: Int) -> Int
  /// Takes the lock on an open file if nobody holds it; it goes with the descriptor.
  func lock(_ descriptor: Int) -> Int
  /// Gives a descriptor back.
  func close(_ descriptor: Int)
  /// Gives a file another name, in place of the file that had it.
  func rename(_ path: String, to target: String) -> Int
  /// Takes the name of a file away.
  func unlink(_ path: String) -> Int
  /// Makes a folder that only its owner can enter.
  func mkdir(_ path: String) -> Int
  /// Takes an empty folder away.
  func rmdir(_ path: String) -> Int
  /// Makes a file look as if it was changed now.
  func touch(_ path: String) -> Int
  /// Appends the names in a folder, in no order and without `.` and `..`: opendir, readdir and closedir in one.
  func list(_ folder: String, into names: inout [String]) -> Int
}

/// What the system knows of an open file.
package struct FileFacts: Sendable, Equatable {
  package var bytes = 0
  /// Seconds since 1970 of the last change.
  package var modified = 0.0
  /// Whether it is a file of bytes: no folder, device or pipe.
  package var isRegular = false
  /// Where it lies: the file system, and its number there. A file that takes another's name has another number.
  package var device: UInt64 = 0
  package var number: UInt64 = 0
  /// Nanoseconds since 1970 of the last change of its bytes, name or attributes: unlike `modified`, nobody can set it.
  package var changed: Int64 = 0

  package init() {}

  init(_ status: stat) {
    #if canImport(Darwin)
      let (time, change) = (status.st_mtimespec, status.st_ctimespec)
    #else
      let (time, change) = (status.st_mtim, status.st_ctim)
    #endif
    bytes = Int(status.st_size)
    modified = Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    isRegular = status.st_mode & S_IFMT == S_IFREG
    device = UInt64(truncatingIfNeeded: status.st_dev)
    number = UInt64(truncatingIfNeeded: status.st_ino)
    changed = Int64(change.tv_sec) &* 1_000_000_000 &+ Int64(change.tv_nsec)
  }
}

/// The file system of the machine.
package struct SystemFiles: FileSystem {
  package init() {}

  package func open(_ path: String, _ flags: Int32) -> Int {
    answer(Int(Platform.open(path, flags | O_CLOEXEC, 0o600)))
  }

  package func read(_ descriptor: Int, _ buffer: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
    answer(pread(Int32(descriptor), buffer.baseAddress, buffer.count, off_t(offset)))
  }

  package func write(_ descriptor: Int, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
    answer(pwrite(Int32(descriptor), bytes.baseAddress, bytes.count, off_t(offset)))
  }

  package func truncate(_ descriptor: Int, to count: Int) -> Int {
    answer(Int(ftruncate(Int32(descriptor), off_t(count))))
  }

  package func map(_ descriptor: Int, _ count: Int, into bytes: inout SharedBytes?) -> Int {
    // Smaller ones gain nothing, and an index may have many of them.
    let isLarge = count >= 16 << 20
    guard let start = MappedFile.map(descriptor, count, prefersLargePages: isLarge) else {
      return -Int(errno)
    }
    bytes = SharedBytes(mapping: start, count: count)
    return 0
  }

  package func examine(_ descriptor: Int, _ facts: inout FileFacts) -> Int {
    var status = stat()
    guard fstat(Int32(descriptor), &status) == 0 else { return -Int(errno) }
    facts = FileFacts(status)
    return 0
  }

  package func synchronize(_ descriptor: Int) -> Int {
    #if canImport(Darwin)
      // fsync leaves the bytes in the drive's own cache there.
      if fcntl(Int32(descriptor), F_FULLFSYNC) == 0 { return 0 }
    #endif
    return answer(Int(fsync(Int32(descriptor))))
  }

  /// Waits a little: a process that is being started shares the lock of a file that is closed here, until it runs its
  /// program.
  package func lock(_ descriptor: Int) -> Int {
    for _ in 0..<Self.lockAttempts - 1 {
      if flock(Int32(descriptor), LOCK_EX | LOCK_NB) == 0 { return 0 }
      guard errno == EWOULDBLOCK else { break }
      usleep(Self.lockPause)
    }
    return answer(Int(flock(Int32(descriptor), LOCK_EX | LOCK_NB)))
  }

  private static let lockAttempts = 21
  /// Microseconds.
  private static let lockPause: UInt32 = 10_000

  package func close(_ descriptor: Int) { _ = Platform.close(Int32(descriptor)) }

  package func rename(_ path: String, to target: String) -> Int {
    answer(Int(Platform.rename(path, target)))
  }

  package func unlink(_ path: String) -> Int { answer(Int(Platform.unlink(path))) }

  package func mkdir(_ path: String) -> Int { answer(Int(Platform.mkdir(path, 0o700))) }

  package func rmdir(_ path: String) -> Int { answer(Int(Platform.rmdir(path))) }

  package func touch(_ path: String) -> Int { answer(Int(utimes(path, nil))) }

  package func list(_ folder: String, into names: inout [String]) -> Int {
    guard let handle = opendir(folder) else { return -Int(errno) }
    defer { closedir(handle) }
    while true {
      // The end and a fault answer alike; only this tells them apart.
      errno = 0
      guard let entry = readdir(handle) else { return -Int(errno) }
      let name = withUnsafePointer(to: &entry.pointee.d_name) { field in
        field.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: field.pointee)) {
          String(cString: $0)
        }
      }
      if name != "." && name != ".." { names.append(name) }
    }
  }

  private func answer(_ result: Int) -> Int { result < 0 ? -Int(errno) : result }
}
