// Header fields in the order they came, found by name without regard to ASCII case.

/// The fields of a request or a response (RFC 9110 section 5).
package struct Headers: Sendable, Equatable, ExpressibleByDictionaryLiteral {
  /// One field line.
  package struct Field: Sendable, Equatable {
    /// As spelled by the sender; ASCII.
    package let name: String
    /// The bytes between the optional white space at both ends. Not always UTF-8.
    package let value: [UInt8]

    /// The value as text; bytes that are not UTF-8 become U+FFFD.
    package var text: String { String(decoding: value, as: UTF8.self) }

    func isNamed(_ other: String) -> Bool { ASCII.equalIgnoringCase(name.utf8, other.utf8) }
  }

  /// In the order in which they came or were added.
  package private(set) var fields: [Field] = []

  package init() {}

  /// Fields in the order of the literal; a name may stand there twice.
  package init(dictionaryLiteral elements: (String, String)...) {
    for (name, value) in elements { add(name, value) }
  }

  /// The first value of `name` as text, or nil.
  package subscript(name: String) -> String? { first(name)?.text }

  /// The first field of `name`, or nil.
  package func first(_ name: String) -> Field? { fields.first { $0.isNamed(name) } }

  /// Whether there is a field of this name.
  package func contains(_ name: String) -> Bool { first(name) != nil }

  /// Whether the comma-separated lists of all fields `name` hold `token`, without regard to ASCII case.
  package func hasToken(_ token: String, in name: String) -> Bool {
    fields.contains { field in
      field.isNamed(name)
        && field.value.split(separator: UInt8(ascii: ",")).contains {
          ASCII.equalIgnoringCase(ASCII.trimmed($0), token.utf8)
        }
    }
  }

  /// Appends a field to send. Bytes that a value must not hold (line ends above all) become spaces, so no
  /// value can forge a second field; a name that is not a token is not added at all.
  package mutating func add(_ name: String, _ value: String) {
    guard !name.isEmpty, name.utf8.allSatisfy(ASCII.isToken) else { return }
    append(name, value.utf8.map { ASCII.isFieldValue($0) ? $0 : ASCII.space })
  }

  /// Replaces all fields of this name by one.
  package mutating func set(_ name: String, _ value: String) {
    remove(name)
    add(name, value)
  }

  /// Removes all fields of this name.
  package mutating func remove(_ name: String) { fields.removeAll { $0.isNamed(name) } }

  /// Appends a field that the caller has checked byte by byte.
  mutating func append(_ name: String, _ value: [UInt8]) { fields.append(Field(name: name, value: value)) }
}
