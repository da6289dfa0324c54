// What the operating system refused, with the path and the reason in words.

/// A system call that failed, or a file that is not what its reader expects; the description is for people.
package enum PlatformError: Error, Equatable, CustomStringConvertible {
  /// A system call on a path failed; `code` is its `errno`.
  case file(action: String, path: String, code: Int32)
  /// A system call without a path failed.
  case system(action: String, code: Int32)
  /// The file is larger than the caller is willing to read into memory.
  case tooLarge(path: String, bytes: Int, limit: Int)
  case notARegularFile(path: String)
  /// The bytes of the file are not those that were written.
  case damaged(path: String)

  package var description: String {
    switch self {
    case .file(let action, let path, let code): "cannot \(action) \(path): \(Self.words(code))"
    case .system(let action, let code): "cannot \(action): \(Self.words(code))"
    case .tooLarge(let path, let bytes, let limit):
      "\(path) has \(bytes) bytes, more than the \(limit) allowed for this kind of file"
    case .notARegularFile(let path): "\(path) is not a regular file"
    case .damaged(let path): "\(path) is damaged"
    }
  }

  /// Whether it may go by itself, as a lack of descriptors or memory does: nothing is wrong with the file.
  package var isPassing: Bool {
    switch self {
    case .file(_, _, let code), .system(_, let code): [EMFILE, ENFILE, ENOMEM, EAGAIN, EINTR].contains(code)
    case .tooLarge, .notARegularFile, .damaged: false
    }
  }

  /// What the system calls an error number.
  package static func words(_ code: Int32) -> String { String(cString: strerror(code)) }
}
