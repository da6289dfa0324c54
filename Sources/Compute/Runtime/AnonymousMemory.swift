// Zeroed memory straight from the operating system: pages cost nothing until they are first touched.

import Platform

/// A private mapping; unmapped when the last reference goes. Owned by one thread at a time.
final class AnonymousMemory {
  let start: UnsafeMutableRawPointer
  let byteCount: Int

  /// - Parameter purpose: what the memory is for, in the words of the error message.
  init(byteCount: Int, purpose: String) throws(ComputeError) {
    guard byteCount > 0 else { throw .invalidSize(what: "bytes of \(purpose)", value: byteCount) }
    // NORESERVE: the KV cache is sized for the worst case, which most runs never touch.
    let flags = MAP_PRIVATE | MAP_ANON | MAP_NORESERVE
    guard let start = mmap(nil, byteCount, PROT_READ | PROT_WRITE, flags, -1, 0), start != MAP_FAILED else {
      throw .outOfMemory(purpose: purpose, bytes: byteCount)
    }
    (self.start, self.byteCount) = (start, byteCount)
  }

  /// Gives pages back; they are zero when they are next touched. Page-aligned offsets.
  func discard(_ range: Range<Int>) {
    #if canImport(Darwin)
      // Its advice leaves open whether pages become zeros: new ones take their place.
      let flags = MAP_PRIVATE | MAP_ANON | MAP_NORESERVE | MAP_FIXED
      _ = mmap(start + range.lowerBound, range.count, PROT_READ | PROT_WRITE, flags, -1, 0)
    #else
      madvise(start + range.lowerBound, range.count, Int32(MADV_DONTNEED))
    #endif
  }

  /// Asks for large pages: one entry of the processor's address translation instead of 512.
  func preferLargePages() {
    #if os(Linux)
      // Transparent huge pages on demand; a system without them ignores it.
      madvise(start, byteCount, Int32(MADV_HUGEPAGE))
    #endif
  }

  /// Has the system take small pages, also where it takes large ones unasked.
  func refuseLargePages() {
    #if os(Linux)
      madvise(start, byteCount, Int32(MADV_NOHUGEPAGE))
    #endif
  }

  deinit { munmap(start, byteCount) }
}
