// What an index refuses, with the file and the reason in words.

package import Platform

/// Why an index cannot be opened, read or changed.
package enum IndexError: Error, Equatable, CustomStringConvertible {
  /// The system refused a call.
  case system(PlatformError)
  /// Bytes on disk are not what was written.
  case damaged(path: String, what: String)
  /// Another version of the program wrote the index.
  case version(path: String, found: Int, supported: Int)
  /// The index holds vectors of another model or size.
  case otherModel(path: String)
  /// A vector that has no direction or another size.
  case badVector
  /// A row of a document was never given.
  case missingRow
  /// More than an index holds.
  case tooLarge(what: String)
  /// The memory that a search or a document takes is not to be had.
  case noMemory(bytes: Int)

  package var description: String {
    switch self {
    case .system(let error): "\(error)"
    case .damaged(let path, let what): "\(path) is damaged: \(what)"
    case .version(let path, let found, let supported):
      "\(path) has format \(found); this program reads up to \(supported)"
    case .otherModel(let path): "\(path) holds vectors of another model"
    case .badVector: "a vector has no direction, or not the size of the index"
    case .missingRow: "a passage names a vector that the index does not have"
    case .tooLarge(let what): "\(what) exceeds what an index holds"
    case .noMemory(let bytes):
      "\(max(1, bytes >> 20)) MiB of memory are needed, and they are not left: try again later"
    }
  }
}

extension IndexError {
  /// Whether the files of the index are at fault: it can only be made again.
  package var isDamage: Bool {
    switch self {
    case .damaged, .version: true
    default: false
    }
  }

  /// Whether a file is lost: damaged, gone, or something else in its place. What passes, as a lack of descriptors, is no loss.
  var isLoss: Bool {
    switch self {
    case .damaged, .system(.notARegularFile), .system(.tooLarge), .system(.file(_, _, ENOENT)),
      .system(.file(_, _, ELOOP)), .system(.file(_, _, ENXIO)):
      true
    default: false
    }
  }

  /// Runs `body`, whose errors are those of the system.
  static func system<Result>(_ body: () throws(PlatformError) -> Result) throws(IndexError) -> Result {
    do throws(PlatformError) { return try body() } catch { throw .system(error) }
  }
}
