// What the files of a folder should be, as far as it was written down: SHA-256 beside a download.
//
// Three places are known:
//
//   SHA256SUMS                                        `<hex>  <name>` per line, as sha256sum writes it
//   .cache/huggingface/download/<name>.metadata       three lines; the second is the SHA-256 of a large file
//   …/snapshots/<commit>/<name> → …/blobs/<hex>       the Hub's own cache: the link's target is called by it
//
// The Hub names small files by Git's SHA-1 instead: 40 digits, which are passed over.

package import Platform

/// The known digests of a folder's files.
package struct Checksums: Sendable {
  private let folder: String
  /// From SHA256SUMS: name → digits.
  private var listed: [String: String] = [:]

  private static let limit = 1 << 20

  /// Reads SHA256SUMS where it exists.
  package init(folder: String) {
    self.folder = folder
    guard let bytes = try? File.read(folder + "/SHA256SUMS", limit: Self.limit) else { return }
    for line in bytes.split(separator: UInt8(ascii: "\n")) {
      // A star before the name marks a binary file.
      let name = line.dropFirst(64).drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "*") }
      guard let digits = Self.digest(line.prefix(64)), !name.isEmpty else { continue }
      let trimmed = name.last == UInt8(ascii: "\r") ? name.dropLast() : name
      let plain = trimmed.starts(with: "./".utf8) ? trimmed.dropFirst(2) : trimmed
      listed[String(decoding: plain, as: UTF8.self)] = digits
    }
  }

  /// Lower-case digits of the SHA-256 that the file should have; nil where none is given.
  package func expected(_ name: String) -> String? {
    if let digits = listed[name] { return digits }
    let metadata = folder + "/.cache/huggingface/download/" + name + ".metadata"
    if let bytes = try? File.read(metadata, limit: Self.limit) {
      let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
      if lines.count >= 2, let digits = Self.digest(lines[1]) { return digits }
    }
    let target = File.resolved(folder + "/" + name)?.split(separator: "/") ?? []
    guard target.count >= 2, target[target.count - 2].utf8.elementsEqual("blobs".utf8) else { return nil }
    return target.last.flatMap { Self.digest(Array($0.utf8)[...]) }
  }

  /// 64 hexadecimal digits as lower-case text; nil for anything else.
  private static func digest(_ bytes: ArraySlice<UInt8>) -> String? {
    let trimmed = bytes.last == UInt8(ascii: "\r") ? bytes.dropLast() : bytes
    guard trimmed.count == 64 else { return nil }
    var digits: [UInt8] = []
    for byte in trimmed {
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): digits.append(byte)
      case UInt8(ascii: "A")...UInt8(ascii: "F"): digits.append(byte | 0x20)
      default: return nil
      }
    }
    return String(decoding: digits, as: UTF8.self)
  }

  /// The SHA-256 of the file as it is.
  ///
  /// - Parameter progress: called with the bytes read so far, and with the size.
  package func actual(
    _ name: String, progress: (_ done: Int, _ total: Int) -> Void = { _, _ in }
  ) throws(PlatformError) -> String {
    let file = try MappedFile(folder + "/" + name)
    var hash = SHA256()
    let step = 1 << 22
    for start in stride(from: 0, to: file.bytes.count, by: step) {
      let end = min(file.bytes.count, start + step)
      hash.update(UnsafeRawBufferPointer(rebasing: file.bytes[start..<end]))
      progress(end, file.bytes.count)
    }
    return SHA256.hexadecimal(hash.finish())
  }
}
