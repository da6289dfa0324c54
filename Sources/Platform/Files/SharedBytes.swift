// Bytes that nobody changes and that stay in place as long as somebody holds them: a mapped file, or a copy.

/// `@unchecked Sendable`: nothing writes to the bytes after `init`.
package final class SharedBytes: @unchecked Sendable {
  /// 64-byte aligned.
  package let bytes: UnsafeRawBufferPointer
  private let isMapped: Bool

  /// Takes over a mapping; it is unmapped with the last reference.
  init(mapping start: UnsafeMutableRawPointer, count: Int) {
    bytes = UnsafeRawBufferPointer(start: start, count: count)
    isMapped = true
  }

  /// A copy of some bytes.
  package init(copying source: [UInt8]) {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, source.count), alignment: 64)
    copy.copyBytes(from: source)
    bytes = UnsafeRawBufferPointer(start: copy.baseAddress, count: source.count)
    isMapped = false
  }

  package var count: Int { bytes.count }

  /// A copy of some of the bytes, as far as they are there.
  package func copy(_ range: Range<Int>) -> [UInt8] {
    Array(bytes[range.clamped(to: 0..<bytes.count)])
  }

  /// Gives away where the lines are, without their line feeds, until it is told to stop. Empty lines are left out, and so is a
  /// last one without a line feed unless `takesRest` says otherwise.
  private func forEachLine(takesRest: Bool, _ take: (Range<Int>) -> Bool) {
    var start = 0
    while let end = bytes[start...].firstIndex(of: 0x0A) {
      if end > start, !take(start..<end) { return }
      start = end + 1
    }
    if takesRest, start < bytes.count { _ = take(start..<bytes.count) }
  }

  /// How many lines there are, `most` at most: their places take 16 bytes each, which a caller may have to claim.
  package func lineCount(takesRest: Bool, upTo most: Int = .max) -> Int {
    var count = 0
    forEachLine(takesRest: takesRest) { _ in
      count += 1
      return count < most
    }
    return count
  }

  /// Where the lines are, as `lineCount` counts them.
  ///
  /// - Parameter count: how many there are, if that is known: then they take no room to grow.
  package func lines(takesRest: Bool, count: Int = 0) -> [Range<Int>] {
    var lines: [Range<Int>] = []
    lines.reserveCapacity(count)
    forEachLine(takesRest: takesRest) { line in
      lines.append(line)
      return true
    }
    return lines
  }

  deinit {
    guard let start = bytes.baseAddress else { return }
    let memory = UnsafeMutableRawPointer(mutating: start)
    if isMapped { munmap(memory, bytes.count) } else { memory.deallocate() }
  }
}

extension Checksum {
  /// The checksum of bytes that are shared, such as those of a mapped file.
  package static func of(_ bytes: SharedBytes) -> UInt64 { withExtendedLifetime(bytes) { of(bytes.bytes) } }
}
