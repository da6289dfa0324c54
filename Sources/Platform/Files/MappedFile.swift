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

  package init(_ path: String) throws(PlatformError) {
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
    guard let start = mmap(nil, size, PROT_READ, MAP_SHARED, Int32(descriptor), 0), start != MAP_FAILED else {
      throw .file(action: "map", path: path, code: errno)
    }
    bytes = UnsafeRawBufferPointer(start: start, count: size)
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
