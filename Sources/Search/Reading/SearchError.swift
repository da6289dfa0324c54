// What a search or the reading of a file refuses.

package import Vectors

/// Why a file is not indexed, or a search has no answer.
package enum SearchError: Error, Equatable, CustomStringConvertible {
  /// The file's kind is not read.
  case unsupportedFile(String)
  /// The file is empty, or not what its name says.
  case invalidFile(String)
  case index(IndexError)
  /// The model refused a text.
  case encoder(String)
  /// A setting that makes no sense.
  case invalid(String)
  /// The memory for it is not to be had.
  case noMemory(bytes: Int)
  /// Nobody waits any more.
  case cancelled

  package var description: String {
    switch self {
    case .unsupportedFile(let what), .invalidFile(let what), .encoder(let what), .invalid(let what): what
    case .index(let error): "\(error)"
    case .noMemory(let bytes):
      "\(max(1, bytes >> 20)) MiB of memory are needed, and they are not left: send less at once, or try again later"
    case .cancelled: "no client waits for the result any more"
    }
  }
}

extension SearchError {
  /// Runs `body`, whose errors are those of the index.
  static func index<Result>(_ body: () throws(IndexError) -> Result) throws(SearchError) -> Result {
    do throws(IndexError) { return try body() } catch { throw .index(error) }
  }
}
