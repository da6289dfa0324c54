// A file of a repository: where it is, how long it is, and what its bytes are called.

import JSON
import Platform

/// What the bytes of a file must be.
package enum FileDigest: Sendable, Hashable {
  /// Of large files.
  case sha256(String)
  /// Git's name for a blob, of small files.
  case gitBlob(String)

  /// The hexadecimal digits; the name of the blob in the cache.
  package var digits: String {
    switch self {
    case .sha256(let digits), .gitBlob(let digits): digits
    }
  }

  static func isHexadecimal(_ text: String, count: Int) -> Bool {
    text.utf8.count == count
      && text.utf8.allSatisfy {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
          || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
      }
  }
}

/// The digest of a file that comes piece by piece.
struct FileHash {
  private var sha256: SHA256?
  private var sha1: SHA1?

  init(_ digest: FileDigest, bytes: Int) {
    switch digest {
    case .sha256: sha256 = SHA256()
    case .gitBlob: sha1 = SHA1.ofGitBlob(bytes: bytes)
    }
  }

  mutating func update(_ bytes: ArraySlice<UInt8>) {
    sha256?.update(bytes)
    sha1?.update(bytes)
  }

  /// Hexadecimal digits.
  var digits: String { SHA256.hexadecimal(sha256?.finish() ?? sha1?.finish() ?? []) }
}

/// An entry of a repository's tree.
package struct RepositoryFile: Sendable, Hashable {
  /// Below the repository's folder, with `/` between the parts; leads nowhere else.
  package let path: String
  package let bytes: Int
  package let digest: FileDigest

  var parts: [String] { path.split(separator: "/").map(String.init) }

  /// Most bytes of a file: few enough that the sum over all files of a repository cannot overflow.
  static let mostBytes = 1 << 42

  init(path: String, bytes: Int, digest: FileDigest) throws(HubError) {
    guard Self.isSafe(path) else { throw .unsafePath(path) }
    guard (0...Self.mostBytes).contains(bytes) else {
      throw .badAnswer(what: "the list of files", problem: "\(HubError.plain(path)) has \(bytes) bytes")
    }
    (self.path, self.bytes, self.digest) = (path, bytes, digest)
  }

  /// Whether a path names something inside a folder, for any system: no `..`, no drive, no share, nothing absolute.
  static func isSafe(_ path: String) -> Bool {
    let bytes = path.utf8.map { $0 == UInt8(ascii: "\\") ? UInt8(ascii: "/") : $0 }
    guard (1...4096).contains(bytes.count), bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }),
      !path.utf8.contains(UInt8(ascii: "\\"))
    else { return false }
    let isDrive = bytes.count >= 2 && bytes[1] == UInt8(ascii: ":")
    return !isDrive
      && bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).allSatisfy { part in
        (1...255).contains(part.count) && !part.elementsEqual(".".utf8) && !part.elementsEqual("..".utf8)
      }
  }

  /// From an entry of the hub's answer; nil for a folder.
  ///
  /// - Throws: when the entry is not as they are, or its name leads elsewhere.
  static func read(_ entry: JSONValue) throws(HubError) -> RepositoryFile? {
    guard entry["type"]?.stringValue == "file" else { return nil }
    guard let path = entry["path"]?.stringValue, let size = entry["size"]?.intValue, size >= 0 else {
      throw .badAnswer(what: "the list of files", problem: "an entry has no path or no size")
    }
    guard let large = entry["lfs"], large.objectValue != nil else {
      return try file(path, size, git: entry["oid"]?.stringValue, sha256: nil)
    }
    return try file(path, large["size"]?.intValue ?? size, git: nil, sha256: large["oid"]?.stringValue)
  }

  /// From what the hub's own tools have written into the cache: `trees/<commit>.json`.
  static func read(path: String, cached entry: JSONValue) throws(HubError) -> RepositoryFile {
    try file(
      path, entry["lfs_size"]?.intValue ?? entry["size"]?.intValue ?? -1, git: entry["blob_id"]?.stringValue,
      sha256: entry["lfs_sha256"]?.stringValue)
  }

  private static func file(
    _ path: String, _ bytes: Int, git: String?, sha256: String?
  ) throws(HubError) -> RepositoryFile {
    if bytes >= 0, let sha256, FileDigest.isHexadecimal(sha256, count: 64) {
      return try RepositoryFile(path: path, bytes: bytes, digest: .sha256(sha256))
    }
    if bytes >= 0, sha256 == nil, let git, FileDigest.isHexadecimal(git, count: 40) {
      return try RepositoryFile(path: path, bytes: bytes, digest: .gitBlob(git))
    }
    guard isSafe(path) else { throw .unsafePath(path) }
    throw .badAnswer(what: "the list of files", problem: "\(HubError.plain(path)) has no digest")
  }
}
