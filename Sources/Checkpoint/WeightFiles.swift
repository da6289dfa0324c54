// The files of a checkpoint's weights: known again by what the system says of them, and by a hash of every byte.

package import Platform

/// The weight files of a folder as they were when they were mapped.
package struct WeightFiles: Sendable {
  private struct File: Sendable {
    let path: String
    let facts: FileFacts
  }

  private let files: [File]

  /// Bytes that are read, and may be given up, at once.
  private static let pieceBytes = 1 << 20

  /// No files: weights that are in no folder.
  package init() { files = [] }

  init(_ shards: [any WeightShard]) {
    files = shards.map { File(path: $0.path, facts: $0.facts) }
  }

  /// Bytes of all files.
  package var bytes: Int { files.map(\.facts.bytes).sumOfSizes }

  /// SHA-256 of where the files lie, how long they are and when they were last changed: 32 bytes that stay the same
  /// until somebody writes to a file, sets its times, or puts another in its place.
  package var identity: [UInt8] {
    var hash = SHA256()
    for file in files {
      let facts = file.facts
      hash.update(Array("\(facts.device) \(facts.number) \(facts.bytes) \(facts.changed)\n".utf8))
    }
    return hash.finish()
  }

  /// Nanoseconds since 1970 of the latest change of a file.
  package var lastChange: Int64 { files.map(\.facts.changed).max() ?? 0 }

  /// Whether the files at these paths are those that were mapped, and nobody has changed them since. Nil where the
  /// system does not tell now.
  package var areUnchanged: Bool? {
    for file in files {
      do throws(PlatformError) {
        guard Self.same(try Platform.File.facts(file.path), file.facts) else { return false }
      } catch {
        guard case .file(_, _, let code) = error, code == ENOENT || code == ENOTDIR else { return nil }
        return false
      }
    }
    return true
  }

  /// SHA-256 over the digests of all files, each of every byte; 32 bytes. Nil when a file is not the one that was mapped
  /// any more, or `goOn` says so: it is asked after every piece, with its size, and may take its time.
  ///
  /// - Throws: when a file cannot be read.
  package func digest(goOn: (_ bytes: Int) -> Bool) throws(PlatformError) -> [UInt8]? {
    var all = SHA256()
    for file in files {
      var hash = SHA256()
      let read = try Platform.File.forEachPiece(
        of: file.path, pieceBytes: Self.pieceBytes, start: { Self.same($0, file.facts) },
        take: { piece in
          hash.update(piece)
          return goOn(piece.count)
        })
      guard read == file.facts.bytes else { return nil }
      all.update(hash.finish())
    }
    return areUnchanged == true ? all.finish() : nil
  }

  /// The time of change stands for the bytes: `modified` can be set, and says nothing more.
  private static func same(_ now: FileFacts, _ then: FileFacts) -> Bool {
    now.device == then.device && now.number == then.number && now.bytes == then.bytes
      && now.changed == then.changed
  }
}
