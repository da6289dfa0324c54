// Why a schema, an expression or a grammar cannot constrain an answer.

extension UInt8 {
  /// `0x0A`.
  package var asHexadecimal: String { (self < 16 ? "0x0" : "0x") + String(self, radix: 16, uppercase: true) }
}

/// Thrown while a pattern is compiled. The client's pattern is at fault, and it becomes a 400, in all cases but
/// `unwanted`.
package enum GrammarError: Error, Equatable, CustomStringConvertible {
  /// A keyword, or a use of it, that cannot be enforced. `path` is a JSON pointer into the schema.
  case unsupported(keyword: String, path: String, reason: String)
  /// A schema, expression or grammar that is malformed. `path` is a JSON pointer, or a position in the text.
  case malformed(path: String, reason: String)
  /// Nothing satisfies it.
  case unsatisfiable(path: String, reason: String)
  /// It needs more memory, states or time than one request may take.
  case tooLarge(reason: String)
  /// Nobody waits for the grammar any more. It says nothing about the pattern.
  case unwanted

  package var description: String {
    switch self {
    case .unsupported(let keyword, let path, let reason):
      "'\(keyword)' at '\(path)' cannot be enforced: \(reason)"
    case .malformed(let path, let reason): "at '\(path)': \(reason)"
    case .unsatisfiable(let path, let reason): "nothing satisfies '\(path)': \(reason)"
    case .tooLarge(let reason): reason
    case .unwanted: "compiling was given up, because no client waits for the answer any more"
    }
  }
}
