// What can go wrong in a template, with the line and column where it did.

/// A place in the template source, both counted from 1; columns count Unicode scalars.
package struct JinjaPosition: Sendable, Hashable, CustomStringConvertible {
  package let line: Int32
  package let column: Int32

  package init(line: Int, column: Int) {
    self.line = Int32(clamping: line)
    self.column = Int32(clamping: column)
  }

  package var description: String { "line \(line), column \(column)" }
}

/// Every failure of loading or rendering a template.
package enum JinjaError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The source is not a template this interpreter can run. Thrown at load only.
  case syntax(at: JinjaPosition, problem: String)
  /// The template does something that its data does not allow: Python would raise here.
  case failed(at: JinjaPosition, problem: String)
  /// The template called `raise_exception(message)`: it refuses this conversation.
  case raised(at: JinjaPosition, message: String)
  /// A bound of `JinjaLimits` was reached.
  case limit(at: JinjaPosition, problem: String)

  package var position: JinjaPosition {
    switch self {
    case .syntax(let at, _), .failed(let at, _), .raised(let at, _), .limit(let at, _): at
    }
  }

  package var description: String {
    switch self {
    case .syntax(let at, let problem): "chat template, \(at): \(problem)"
    case .failed(let at, let problem): "chat template failed at \(at): \(problem)"
    case .raised(_, let message): message
    case .limit(let at, let problem): "chat template stopped at \(at): \(problem)"
    }
  }
}
