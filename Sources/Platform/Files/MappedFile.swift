// A file mapped read-only into memory: checkpoint weights are used where the page cache holds them.

/// Unmapped when the last reference goes.
///
/// `@unchecked Sendable`: the mapping is read-only and never changes after `init`. A file that another
/// process truncates while it is mapped raises SIGBUS on access; see `Signals.reportFaults`.
package final class MappedFile: @unchecked Sendable {
  package let path: String
  /// All bytes of the file; empty for an empty file. Page-aligned.
  package let bytes: UnsafeRawBufferPointer
  /// What the file was when it was mapped.
  package let facts: FileFacts

  /// - Parameter prefersLargePages: asks for large pages, where the file system keeps files in such: what is read from
  ///   one end to the other again and again then needs one entry of the processor's address translation instead of 512.
  package init(_ path: String, prefersLargePages: Bool = false) throws(PlatformError) {
    let files = SystemFiles()
    let descriptor = try files.openForReading(path)
    defer { files.close(descriptor) }
    facts = try files.regularFacts(descriptor, path)
    let size = facts.bytes
    self.path = path
    guard size > 0 else {
      bytes = UnsafeRawBufferPointer(start: nil, count: 0)
      return
    }
    guard let start = Self.map(descriptor, size, prefersLargePages: prefersLargePages) else {
      throw .file(action: "map", path: path, code: errno)
    }
    bytes = UnsafeRawBufferPointer(start: start, count: size)
  }

  /// The first bytes of an open file; nil where the system refuses, which `errno` tells.
  ///
  /// - Parameter prefersLargePages: as above.
  static func map(_ descriptor: Int, _ size: Int, prefersLargePages: Bool) -> UnsafeMutableRawPointer? {
    let place = prefersLargePages ? alignedPlace(size) : nil
    let flags = place == nil ? MAP_SHARED : MAP_SHARED | MAP_FIXED
    guard let start = mmap(place, size, PROT_READ, flags, Int32(descriptor), 0), start != MAP_FAILED else {
      let code = errno
      if let place { munmap(place, size) }
      errno = code
      return nil
    }
    #if os(Linux)
      // A system without them ignores it, and a file that is in the page cache already stays there as it is.
      if prefersLargePages { madvise(start, size, Int32(MADV_HUGEPAGE)) }
    #endif
    return start
  }

  /// Addresses for a mapping that begins at a large page; nil where there are none, and the system may choose.
  private static func alignedPlace(_ size: Int) -> UnsafeMutableRawPointer? {
    let largePage = 2 << 20
    let page = sysconf(Int32(_SC_PAGESIZE))
    let (whole, overflow) = size.addingReportingOverflow(largePage + page)
    let flags = MAP_PRIVATE | MAP_ANON | MAP_NORESERVE
    guard !overflow, let all = mmap(nil, whole, PROT_NONE, flags, -1, 0), all != MAP_FAILED else {
      return nil
    }
    let start = all.alignedUp(toMultipleOf: largePage)
    let end = (start + size).alignedUp(toMultipleOf: page)
    if start > all { munmap(all, start - all) }
    if all + whole > end { munmap(end, all + whole - end) }
    return start
  }

  /// Takes the pages of `part`, and what else is in them, out of this process's memory, if they are this file's. They stay in
  /// the page cache, and come back when they are read.
  package func letGo(_ part: UnsafeRawBufferPointer) {
    guard let base = bytes.baseAddress, let start = part.baseAddress, !part.isEmpty, start >= base,
      start + part.count <= base + bytes.count
    else { return }
    let page = sysconf(Int32(_SC_PAGESIZE))
    let first = start.alignedDown(toMultipleOf: page)
    let end = (start + part.count).alignedUp(toMultipleOf: page)
    madvise(UnsafeMutableRawPointer(mutating: first), end - first, Int32(MADV_DONTNEED))
  }

  deinit {
    if let start = bytes.baseAddress { munmap(UnsafeMutableRawPointer(mutating: start), bytes.count) }
  }
}
