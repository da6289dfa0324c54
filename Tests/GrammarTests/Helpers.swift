// Small vocabularies and ways to ask a grammar whether it lets a text through.

import JSON
import Support
import Testing
import Tokenizers

@testable import Grammar

/// All bytes, some tokens of several bytes as real vocabularies have them, two special tokens, and an end token.
enum SmallVocabulary {
  static let words = [
    "\"", "{\"", "\":", "\": \"", "\", \"", "\",\"", "\"}", "\"]", "[[", "]]", "{}", "[]", "}}", "},", "], ",
    " {", "\n  ",
    "\n    ", "true", "false", "null", "tru", "12", "123", "00", ".5", "-1", "e1", "name", "na", "type", "id",
    "foo", "bar",
    "baz", "foobar", "hello", " world", "\\n", "\\\"", "\\u00", "é", "€", "😀", "日本", "aa", "aaa", "aaaa",
    "ab", "abc",
    "\"foo\": ", "\"bar\":", "1, ", ", ", ": ", "\": ", "a\"", "b\", \"c", "x\":1", "\\\\", "\r\n",
  ]
  static let end: Int32 = 256 + Int32(words.count)
  static let mark = end + 1
  static let other = end + 2

  static let bytes: [[UInt8]] = (0..<256).map { [UInt8($0)] } + words.map { Array($0.utf8) } + [[], [], []]

  static let shared = GrammarVocabulary(
    TokenNames(count: bytes.count) { $0 == "<|mark|>" ? mark : nil }, endTokens: [end]
  ) { bytes[Int($0)] }
}

extension CompiledGrammar {
  convenience init(_ pattern: Pattern) throws(GrammarError) {
    try self.init(pattern, vocabulary: SmallVocabulary.shared)
  }

  convenience init(schema: String) throws {
    try self.init(.schema(try JSONValue(parsing: schema)))
  }

  /// Whether the grammar allows exactly this text, byte by byte, and may end after it.
  func allows(_ text: String) -> Bool {
    var matcher = GrammarMatcher(self)
    for byte in text.utf8 {
      guard matcher.accept(Int32(byte)) else { return false }
    }
    return matcher.canEnd
  }
}

/// One line break in front of each place where a check failed.
func list(_ lines: [String]) -> String { lines.map { "\n" + $0 }.joined() }

/// `#expect` for conditions that change a matcher.
func verify(_ condition: Bool, _ words: String = "", at place: SourceLocation = #_sourceLocation) {
  #expect(condition, "\(words)", sourceLocation: place)
}
