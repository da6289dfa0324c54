// Files of the kernel, such as those below /proc.

/// Text files that the kernel makes when they are read, whose size is unknown before.
package enum PseudoFile {
  /// The lines of such a file; none when it cannot be read. At most 1 MiB is read.
  package static func lines(_ path: String) -> [Substring] {
    String(decoding: bytes(path), as: UTF8.self).split(separator: "\n")
  }

  /// The bytes of such a file, likewise.
  package static func bytes(_ path: String) -> [UInt8] {
    guard let descriptor = try? SystemFiles().openForReading(path) else { return [] }
    defer { SystemFiles().close(descriptor) }
    var text: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 1 << 14)
    while text.count < 1 << 20 {
      let count = chunk.withUnsafeMutableBytes { read(Int32(descriptor), $0.baseAddress, $0.count) }
      if count < 0 && errno == EINTR { continue }
      guard count > 0 else { break }
      text += chunk[..<count]
    }
    return text
  }
}
