// A pull reader for large JSON documents: walks objects and arrays in place, without building a tree.
//
// `tokenizer.json` of a large vocabulary holds close to a million short strings. As `JSONValue`s they cost
// more than everything else in loading a tokenizer; read one by one into the caller's buffer they cost little.

/// Reads one document from its start to its end, element by element.
///
/// Everything that is read is checked as strictly as by `JSONValue(parsing:)`. What `skipValue` passes over is
/// only balanced; a caller that needs it checked reads it with another reader at `position`.
package struct JSONReader: Sendable {
  private let bytes: [UInt8]
  private var at: Int
  /// Directly after an opening bracket no comma is expected.
  private var isFirst = true

  /// - Throws: `JSONError` when the document is not valid UTF-8.
  package init(_ bytes: [UInt8]) throws(JSONError) {
    guard String(validating: bytes, as: UTF8.self) != nil else {
      throw .syntax(offset: 0, problem: "the document is not valid UTF-8")
    }
    self.bytes = bytes
    at = 0
  }

  /// Byte offset of the next thing to read; a copy of the reader can go back to it with `move(to:)`.
  package var position: Int { at }

  /// Goes to the start of a value, as `position` gave it.
  package mutating func move(to position: Int) {
    at = position
    // What follows the value is not the first of its container.
    isFirst = false
  }

  /// An error at the place that has been reached.
  package func problem(_ words: String) -> JSONError { .syntax(offset: at, problem: words) }

  private var current: UInt8? { at < bytes.count ? bytes[at] : nil }

  private mutating func skipSpace() {
    while let byte = current, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { at += 1 }
  }

  private mutating func enter(_ bracket: UInt8, _ words: String) throws(JSONError) {
    skipSpace()
    guard current == bracket else { throw problem("expected \(words)") }
    at += 1
    isFirst = true
  }

  /// Steps into the object that is next: its members follow.
  ///
  /// - Throws: `JSONError` when something else is next.
  package mutating func enterObject() throws(JSONError) { try enter(UInt8(ascii: "{"), "an object") }

  /// Steps into the array that is next: its elements follow.
  ///
  /// - Throws: `JSONError` when something else is next.
  package mutating func enterArray() throws(JSONError) { try enter(UInt8(ascii: "["), "an array") }

  /// Whether the next value is an array; used where a format allows two forms.
  package mutating func isAtArray() -> Bool {
    skipSpace()
    return current == UInt8(ascii: "[")
  }

  /// The byte at which the next value begins, after `nextKey`, `nextElement` or `isAtArray`; nil at the end.
  package var next: UInt8? { current }

  /// Steps over the comma before the next member or element; false, and past the bracket, at the end.
  private mutating func step(closing: UInt8) throws(JSONError) -> Bool {
    skipSpace()
    if current == closing {
      at += 1
      isFirst = false
      return false
    }
    if !isFirst {
      guard current == UInt8(ascii: ",") else {
        throw problem("expected ',' or '\(Character(Unicode.Scalar(closing)))'")
      }
      at += 1
      skipSpace()
    }
    isFirst = false
    return true
  }

  /// Reads the next key of the object entered last, up to its value; false after the last member.
  package mutating func nextKey(into key: inout [UInt8]) throws(JSONError) -> Bool {
    guard try step(closing: UInt8(ascii: "}")) else { return false }
    try readString(into: &key)
    skipSpace()
    guard current == UInt8(ascii: ":") else { throw problem("expected ':' after the key") }
    at += 1
    skipSpace()
    return true
  }

  /// Goes to the next element of the array entered last; false after the last one.
  package mutating func nextElement() throws(JSONError) -> Bool {
    guard try step(closing: UInt8(ascii: "]")) else { return false }
    guard current != UInt8(ascii: "]") else { throw problem("expected a value") }
    return true
  }

  /// Reads a string; `text` becomes its UTF-8.
  package mutating func readString(into text: inout [UInt8]) throws(JSONError) {
    guard current == UInt8(ascii: "\"") else { throw problem("expected a string in double quotes") }
    let opening = at
    at += 1
    while at < bytes.count, bytes[at] != UInt8(ascii: "\""), bytes[at] != UInt8(ascii: "\\"),
      bytes[at] >= 0x20
    {
      at += 1
    }
    text.removeAll(keepingCapacity: true)
    if current == UInt8(ascii: "\"") {
      text.append(contentsOf: bytes[opening + 1..<at])
      at += 1
      return
    }
    // Escapes are rare: the tree parser decodes them.
    at = opening
    guard case .string(let decoded) = try readValue() else { throw problem("expected a string") }
    text.append(contentsOf: decoded.utf8)
  }

  /// Reads a whole number that fits `Int`.
  package mutating func readInt() throws(JSONError) -> Int {
    let start = at
    guard case .int(let value) = try readValue() else {
      throw .syntax(offset: start, problem: "expected an integer")
    }
    return value
  }

  /// Reads any value as a tree.
  package mutating func readValue(maxDepth: Int = 128) throws(JSONError) -> JSONValue {
    if let small = readSmallInt() { return .int(small) }
    let range = try skipValue()
    do {
      return try JSONValue(parsing: Array(bytes[range]), maxDepth: maxDepth)
    } catch {
      switch error {
      case .syntax(let offset, let words): throw .syntax(offset: range.lowerBound + offset, problem: words)
      case .tooDeep(let offset, let limit): throw .tooDeep(offset: range.lowerBound + offset, limit: limit)
      case .tooMany(let offset, let limit): throw .tooMany(offset: range.lowerBound + offset, limit: limit)
      }
    }
  }

  /// Token ids, the bulk of all numbers: up to nine digits, without sign, point or exponent.
  private mutating func readSmallInt() -> Int? {
    var value = 0
    var end = at
    while end < bytes.count, bytes[end] >= 0x30, bytes[end] <= 0x39, end - at < 9 {
      value = value * 10 + Int(bytes[end] - 0x30)
      end += 1
    }
    guard end > at, bytes[at] != 0x30 || end == at + 1, end < bytes.count else { return nil }
    switch bytes[end] {
    case UInt8(ascii: ","), UInt8(ascii: "}"), UInt8(ascii: "]"), 0x20, 0x0A, 0x0D, 0x09: break
    default: return nil
    }
    at = end
    return value
  }

  /// Passes over the next value and returns its bytes; checks only that brackets and quotes are balanced.
  @discardableResult
  package mutating func skipValue() throws(JSONError) -> Range<Int> {
    skipSpace()
    let start = at
    var depth = 0
    while let byte = current {
      switch byte {
      case UInt8(ascii: "\""): try skipString()
      case UInt8(ascii: "{"), UInt8(ascii: "["):
        depth += 1
        at += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        guard depth > 0 else { throw problem("expected a value") }
        depth -= 1
        at += 1
      case UInt8(ascii: ","), UInt8(ascii: ":"), 0x20, 0x0A, 0x0D, 0x09:
        guard depth > 0 else { throw problem("expected a value") }
        at += 1
      default:
        skipWord()
      }
      if depth == 0 { return start..<at }
    }
    throw problem("the document ends inside a value")
  }

  private mutating func skipString() throws(JSONError) {
    at += 1
    while let byte = current {
      if byte == UInt8(ascii: "\"") {
        at += 1
        return
      }
      at += byte == UInt8(ascii: "\\") ? 2 : 1
    }
    throw problem("the string does not end")
  }

  /// A number or a literal: everything up to the next structural byte.
  private mutating func skipWord() {
    at += 1
    while let byte = current {
      switch byte {
      case UInt8(ascii: ","), UInt8(ascii: "}"), UInt8(ascii: "]"), UInt8(ascii: ":"), UInt8(ascii: "\""),
        0x20, 0x0A, 0x0D, 0x09:
        return
      default: at += 1
      }
    }
  }

  /// Requires that nothing but white space follows.
  package mutating func finish() throws(JSONError) {
    skipSpace()
    guard at == bytes.count else { throw problem("text after the end of the document") }
  }
}
