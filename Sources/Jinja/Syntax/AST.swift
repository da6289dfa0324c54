// The syntax tree. It is immutable and holds no values of a rendering, so templates are Sendable.

/// Index of an identifier in `Program.names`.
typealias NameID = Int

/// A whole template.
struct Program: Sendable {
  let body: [Statement]
  /// Every identifier that occurs, by its ID.
  let names: [String]
  let symbols: [String: NameID]
  /// IDs of the names that the interpreter itself binds.
  let implicit: ImplicitNames
}

struct ImplicitNames: Sendable {
  let loop: NameID
  let caller: NameID
  let varargs: NameID
  let kwargs: NameID
}

/// An expression with its place in the source.
struct Expression: Sendable {
  let position: JinjaPosition
  /// Levels of the tree under and with this node.
  let depth: Int32
  let kind: Kind

  indirect enum Kind: Sendable {
    case literal(Literal)
    case name(NameID)
    case list([Expression])
    case tuple([Expression])
    case dict([DictItem])
    case attribute(Expression, String)
    case item(Expression, Expression)
    case slice(Expression, SliceBounds)
    case call(Expression, CallArguments)
    case filter(Expression, FilterCall)
    case test(Expression, TestCall)
    case not(Expression)
    case negative(Expression)
    case positive(Expression)
    case and(Expression, Expression)
    case or(Expression, Expression)
    case binary(BinaryOperator, Expression, Expression)
    case concatenation([Expression])
    case comparison(Expression, [Comparison])
    case conditional(test: Expression, then: Expression, otherwise: Expression?)
  }
}

enum Literal: Sendable {
  case none
  case bool(Bool)
  case int(Int)
  case double(Double)
  case string(String)
}

struct DictItem: Sendable {
  let key: Expression
  let value: Expression
}

struct SliceBounds: Sendable {
  let start: Expression?
  let stop: Expression?
  let step: Expression?
}

struct CallArguments: Sendable {
  var positional: [Expression] = []
  var named: [NamedArgument] = []
  /// `*expression` and `**expression`.
  var spread: Expression?
  var namedSpread: Expression?

  var isEmpty: Bool { positional.isEmpty && named.isEmpty && spread == nil && namedSpread == nil }
}

struct NamedArgument: Sendable {
  let name: String
  let value: Expression
}

struct FilterCall: Sendable {
  let name: String
  /// In the runtime's table of filters.
  let number: Int
  let arguments: CallArguments
  let position: JinjaPosition
}

struct TestCall: Sendable {
  let name: String
  /// In the runtime's table of tests.
  let number: Int
  let arguments: CallArguments
  let isNegated: Bool
}

enum BinaryOperator: String, Sendable {
  case add = "+"
  case subtract = "-"
  case multiply = "*"
  case divide = "/"
  case floorDivide = "//"
  case modulo = "%"
  case power = "**"
}

enum ComparisonOperator: String, Sendable {
  case equal = "=="
  case notEqual = "!="
  case less = "<"
  case lessOrEqual = "<="
  case greater = ">"
  case greaterOrEqual = ">="
  case isIn = "in"
  case isNotIn = "not in"
}

struct Comparison: Sendable {
  let comparison: ComparisonOperator
  let operand: Expression
}

/// What `set` and `for` assign to.
indirect enum Target: Sendable {
  case name(NameID)
  /// `namespace.attribute`.
  case attribute(NameID, String, JinjaPosition)
  case tuple([Target], JinjaPosition)
}

enum Statement: Sendable {
  case text(String)
  case output(Expression)
  case assign(Target, Expression)
  case capture(Target, [FilterCall], [Statement])
  case conditional([ConditionalBranch], otherwise: [Statement])
  case loop(Loop)
  case macro(Macro)
  case callBlock(CallBlock)
  case filterBlock([FilterCall], [Statement])
  case with([(Target, Expression)], [Statement])
  case breakLoop
  case continueLoop
}

struct ConditionalBranch: Sendable {
  let test: Expression
  let body: [Statement]
}

final class Loop: Sendable {
  let target: Target
  let sequence: Expression
  let filter: Expression?
  let body: [Statement]
  let otherwise: [Statement]
  let isRecursive: Bool
  let position: JinjaPosition

  init(
    target: Target, sequence: Expression, filter: Expression?, body: [Statement], otherwise: [Statement],
    isRecursive: Bool, position: JinjaPosition
  ) {
    (self.target, self.sequence, self.filter) = (target, sequence, filter)
    (self.body, self.otherwise, self.isRecursive) = (body, otherwise, isRecursive)
    self.position = position
  }
}

final class Macro: Sendable {
  let name: String
  let id: NameID
  let parameters: [Parameter]
  let body: [Statement]
  /// Whether the body mentions `varargs`, `kwargs`: without it surplus arguments are errors.
  let takesVarargs: Bool
  let takesKwargs: Bool

  struct Parameter: Sendable {
    let name: String
    let id: NameID
    let initial: Expression?
  }

  init(
    name: String, id: NameID, parameters: [Parameter], body: [Statement], takesVarargs: Bool,
    takesKwargs: Bool
  ) {
    (self.name, self.id, self.parameters) = (name, id, parameters)
    (self.body, self.takesVarargs, self.takesKwargs) = (body, takesVarargs, takesKwargs)
  }
}

/// `{% call(parameters) callee(arguments) %}body{% endcall %}`: the body becomes the macro `caller`.
struct CallBlock: Sendable {
  let caller: Macro
  let callee: Expression
  let arguments: CallArguments
  let position: JinjaPosition
}
