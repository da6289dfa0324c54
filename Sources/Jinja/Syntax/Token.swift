// The vocabulary of the lexer.

/// One lexical element with its byte offset in the (newline-normalised) source.
struct Token: Sendable {
  let kind: Kind
  let offset: Int

  enum Kind: Sendable, Equatable {
    /// Literal template text, whitespace control already applied.
    case text(String)
    case outputBegin
    case outputEnd
    case blockBegin
    case blockEnd
    case name(String)
    case string(String)
    case int(Int)
    case double(Double)
    case symbol(Symbol)
    case end
  }
}

/// Operators and punctuation.
enum Symbol: String, Sendable {
  case plus = "+"
  case minus = "-"
  case times = "*"
  case power = "**"
  case divide = "/"
  case floorDivide = "//"
  case modulo = "%"
  case tilde = "~"
  case openParen = "("
  case closeParen = ")"
  case openBracket = "["
  case closeBracket = "]"
  case openBrace = "{"
  case closeBrace = "}"
  case equal = "=="
  case notEqual = "!="
  case greaterOrEqual = ">="
  case greater = ">"
  case lessOrEqual = "<="
  case less = "<"
  case assign = "="
  case dot = "."
  case comma = ","
  case colon = ":"
  case pipe = "|"
  /// Part of no expression; known so that an error names it, as in jinja2.
  case semicolon = ";"
}

extension Token.Kind {
  /// The token in the words of an error message.
  var words: String {
    switch self {
    case .text: "template text"
    case .outputBegin: "'{{'"
    case .outputEnd: "the end of the output tag"
    case .blockBegin: "'{%'"
    case .blockEnd: "the end of the tag"
    case .name(let name): "'\(name)'"
    case .string: "a string"
    case .int, .double: "a number"
    case .symbol(let symbol): "'\(symbol.rawValue)'"
    case .end: "the end of the template"
    }
  }
}
