// The members of a request's JSON object: each is read once, and what nobody reads is told.

import JSON
import Platform

struct LibraryFields: Sendable {
  private let object: JSONObject
  private var read: Set<ByteKey> = []

  /// Most bytes of a request: its longest member is a path.
  private static let limit = 1 << 20

  /// - Parameter bytes: nil where the host gave NULL.
  init(_ bytes: [UInt8]?) throws(LibraryError) {
    guard let bytes else { throw LibraryError("invalid_json", "the request is NULL: give a JSON object") }
    guard bytes.count <= Self.limit else {
      throw LibraryError(
        "invalid_json", "the request has \(bytes.count) bytes, and \(Self.limit) are allowed")
    }
    let value: JSONValue
    do {
      value = try JSONValue(parsing: bytes)
    } catch {
      throw LibraryError("invalid_json", "the request is not JSON: \(error)")
    }
    guard let object = value.objectValue else {
      throw LibraryError("invalid_json", "the request is \(value.kind), and a JSON object is wanted")
    }
    self.object = object
  }

  /// Members that nobody has read, in their order.
  var unread: [String] { object.keys.filter { !read.contains(ByteKey($0)) } }

  /// A member whose value is not null.
  private mutating func value(_ name: String) -> JSONValue? {
    read.insert(ByteKey(name))
    guard let value = object[name], !value.isNull else { return nil }
    return value
  }

  private func wrong(_ name: String, _ value: JSONValue, _ expected: String) -> LibraryError {
    .invalid(name, "is \(value.kind), and \(expected) is wanted")
  }

  mutating func string(_ name: String) throws(LibraryError) -> String? {
    guard let value = value(name) else { return nil }
    guard let text = value.stringValue else { throw wrong(name, value, "a string") }
    guard !text.utf8.contains(0) else { throw .invalid(name, "holds a NUL") }
    return text
  }

  mutating func bool(_ name: String) throws(LibraryError) -> Bool? {
    guard let value = value(name) else { return nil }
    guard let flag = value.boolValue else { throw wrong(name, value, "a boolean") }
    return flag
  }

  mutating func integer(_ name: String) throws(LibraryError) -> Int? {
    guard let value = value(name) else { return nil }
    guard let number = value.intValue else { throw wrong(name, value, "an integer") }
    return number
  }

  /// One of several words.
  mutating func word<Word>(_ name: String, _ read: (String) -> Word?, of words: [String]) throws(LibraryError)
    -> Word?
  {
    guard let text = try string(name) else { return nil }
    guard let word = read(text) else {
      throw .invalid(name, "is none of \(words.joined(separator: ", "))")
    }
    return word
  }

  /// A size in bytes: a number, or text as `--memory` takes it.
  mutating func size(_ name: String) throws(LibraryError) -> Int? {
    guard let value = value(name) else { return nil }
    let bytes = value.intValue ?? value.stringValue.flatMap { MemoryLimit.parse($0, of: MemoryLimit.bytes) }
    guard let bytes, bytes > 0 else {
      throw .invalid(name, "is no size: give bytes, or a text such as \"6G\" or \"70%\"")
    }
    return bytes
  }
}
