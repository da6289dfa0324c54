// The lexical languages of JSON text: strings, white space, literals.

import Tokenizers

enum JSONText {
  /// How a scalar must be escaped in a string; nil for those that stand for themselves.
  static func escape(of scalar: UInt32) -> [UInt8]? {
    switch scalar {
    case 0x22: Array("\\\"".utf8)
    case 0x5C: Array("\\\\".utf8)
    case 0x08: Array("\\b".utf8)
    case 0x09: Array("\\t".utf8)
    case 0x0A: Array("\\n".utf8)
    case 0x0C: Array("\\f".utf8)
    case 0x0D: Array("\\r".utf8)
    case 0..<0x20:
      Array("\\u00".utf8) + [
        UInt8(scalar < 16 ? 0x30 : 0x31), Array("0123456789abcdef".utf8)[Int(scalar & 15)],
      ]
    default: nil
    }
  }

  /// The string with its quotes, each scalar spelled in the one way that `Spelling.json` knows.
  static func quoted(_ text: String) -> [UInt8] {
    let isPlain = !text.utf8.contains { escape(of: UInt32($0)) != nil }
    if isPlain { return [0x22] + text.utf8 + [0x22] }
    var out: [UInt8] = [0x22]
    for scalar in text.unicodeScalars {
      if let escape = escape(of: scalar.value) { out += escape } else { out += Array(String(scalar).utf8) }
    }
    return out + [0x22]
  }

  /// Any string in the one spelling of each, with its quotes. State 1 is between two characters.
  static func canonicalString() throws(GrammarError) -> ByteDFA {
    try ByteNFA.automaton(.anything, spelling: .json, anywhere: false)
      .wrapped([0x22], [0x22]).minimized()
  }

  /// Any string in any spelling but lone surrogates, with its quotes.
  static func freeString() throws(GrammarError) -> ByteDFA {
    let expression =
      #""(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:[0-9A-CE-Fa-ce-f][0-9A-Fa-f]|[dD][0-7])[0-9A-Fa-f]{2})"#
      + #"|\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2})*""#
    return try regex(expression)
  }

  /// A number of any size; exponents have up to two digits, so that it stays finite.
  static func freeNumber() throws(GrammarError) -> ByteDFA {
    try regex(#"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"#)
  }

  /// Nothing, a space, or a line break with up to 32 spaces or 8 tabs.
  static func whiteSpace() throws(GrammarError) -> ByteDFA { try regex(whiteSpaceExpression) }

  static let whiteSpaceExpression = #"(?: |\n(?: {0,32}|\t{0,8}))?"#

  static func regex(_ text: String) throws(GrammarError) -> ByteDFA {
    try ByteNFA.automaton(RegexParser.parse(text), spelling: .plain, anywhere: false).minimized()
  }
}
