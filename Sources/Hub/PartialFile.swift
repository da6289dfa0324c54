// A file on its way into the cache: what has come of it, and the digest of that.

import Platform

/// For one thread.
final class PartialFile {
  let file: RepositoryFile
  private let growing: GrowingFile
  private var hash: FileHash
  /// More came than the file has.
  private(set) var isTooLong = false
  /// Told the bytes that are there.
  private let report: (Int) -> Void

  var count: Int { growing.count }
  var missingBytes: Int { file.bytes - growing.count }

  /// Opens what an earlier try has left, and computes its digest.
  ///
  /// - Throws: `cancelled` too.
  init(
    _ file: RepositoryFile, path: String, isUnwanted: () -> Bool, report: @escaping (Int) -> Void
  ) throws(HubError) {
    (self.file, self.report) = (file, report)
    hash = FileHash(file.digest, bytes: file.bytes)
    do {
      growing = try GrowingFile(path)
      if growing.count > file.bytes { try growing.cut(to: 0) }
      var read = 0
      var hash = FileHash(file.digest, bytes: file.bytes)
      try growing.read { bytes in
        hash.update(bytes)
        read += bytes.count
        report(read)
        return !isUnwanted()
      }
      self.hash = hash
    } catch {
      throw .disk(error)
    }
    if isUnwanted() { throw .cancelled }
  }

  /// False when more comes than the file has.
  func append(_ bytes: ArraySlice<UInt8>) throws(HubError) -> Bool {
    guard bytes.count <= missingBytes else {
      isTooLong = true
      return false
    }
    do {
      try growing.append(bytes)
    } catch {
      throw .disk(error)
    }
    hash.update(bytes)
    report(count)
    return true
  }

  /// Throws away what is there.
  func restart() throws(HubError) {
    do {
      try growing.cut(to: 0)
    } catch {
      throw .disk(error)
    }
    hash = FileHash(file.digest, bytes: file.bytes)
    isTooLong = false
    report(0)
  }

  /// What is wrong with what has come; nil when it is what was published.
  var problem: String? {
    if isTooLong { return "it has more than \(file.bytes) bytes" }
    if missingBytes > 0 { return "it has \(count) bytes and not \(file.bytes)" }
    let digits = hash.digits
    guard !digits.utf8.elementsEqual(file.digest.digits.utf8) else { return nil }
    let kind =
      switch file.digest {
      case .sha256: "SHA-256"
      case .gitBlob: "git SHA-1"
      }
    return "its \(kind) is \(digits.prefix(12))… and not \(file.digest.digits.prefix(12))…"
  }

  func synchronize() throws(HubError) {
    do {
      try growing.synchronize()
    } catch {
      throw .disk(error)
    }
  }
}
