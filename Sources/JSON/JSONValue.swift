// A JSON document as a Swift value; objects keep their key order, keys compare by bytes.

/// Any JSON value (RFC 8259).
///
/// Integers that fit 64 bits are exact. Larger integers keep their digits, so that a value that only
/// passes through (a tool argument, a schema constant) is never rounded.
package enum JSONValue: Sendable, Equatable {
  case null
  case bool(Bool)
  case int(Int)
  /// Always finite.
  case double(Double)
  /// The digits, with sign, of an integer outside the range of `Int`.
  case bigInteger(String)
  case string(String)
  case array([JSONValue])
  case object(JSONObject)

  /// Strings are equal when their UTF-8 is: Swift's own `==` also equates canonically equivalent text.
  package static func == (a: JSONValue, b: JSONValue) -> Bool {
    switch (a, b) {
    case (.null, .null): true
    case (.bool(let x), .bool(let y)): x == y
    case (.int(let x), .int(let y)): x == y
    case (.double(let x), .double(let y)): x == y
    case (.int(let x), .double(let y)), (.double(let y), .int(let x)): Double(x) == y
    case (.bigInteger(let x), .bigInteger(let y)): x == y
    case (.string(let x), .string(let y)): x.hasSameBytes(as: y)
    case (.array(let x), .array(let y)): x == y
    case (.object(let x), .object(let y)): x == y
    default: false
    }
  }
}

extension JSONValue {
  /// Bytes that the values of a text take beside its own: each has a comma, a colon or a bracket of its own, and takes 24
  /// to 72 bytes as an element or as a member.
  package static func weight(of text: ArraySlice<UInt8>) -> Int {
    72
      * text.reduce(into: 0) { count, byte in
        switch byte {
        case UInt8(ascii: ","), UInt8(ascii: ":"), UInt8(ascii: "["), UInt8(ascii: "{"): count += 1
        default: break
        }
      }
  }

  /// The same of a whole text.
  package static func weight(of text: [UInt8]) -> Int { weight(of: text[...]) }
}

extension JSONValue {
  /// The member `key` of an object; nil when absent or when this is not an object.
  package subscript(key: String) -> JSONValue? {
    if case .object(let object) = self { object[key] } else { nil }
  }

  /// The element `index` of an array; nil when out of bounds or when this is not an array.
  package subscript(index: Int) -> JSONValue? {
    if case .array(let array) = self, array.indices.contains(index) { array[index] } else { nil }
  }

  package var isNull: Bool { self == .null }
  package var stringValue: String? { if case .string(let s) = self { s } else { nil } }
  package var boolValue: Bool? { if case .bool(let b) = self { b } else { nil } }
  package var arrayValue: [JSONValue]? { if case .array(let a) = self { a } else { nil } }
  package var objectValue: JSONObject? { if case .object(let o) = self { o } else { nil } }

  /// The value as an integer; `3.0` counts as one, `3.5` does not.
  package var intValue: Int? {
    switch self {
    case .int(let i): i
    case .double(let d): Int(exactly: d)
    default: nil
    }
  }

  /// The value as a finite number; big integers are rounded.
  package var doubleValue: Double? {
    switch self {
    case .int(let i): Double(i)
    case .double(let d): d
    case .bigInteger(let digits): Double(digits).flatMap { $0.isFinite ? $0 : nil }
    default: nil
    }
  }

  /// What the value is, in the words of an error message: `a string`, `an object`.
  package var kind: String {
    switch self {
    case .null: "null"
    case .bool: "a boolean"
    case .int, .bigInteger: "an integer"
    case .double: "a number"
    case .string: "a string"
    case .array: "an array"
    case .object: "an object"
    }
  }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
  ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral,
  ExpressibleByNilLiteral
{
  package init(stringLiteral value: String) { self = .string(value) }
  package init(integerLiteral value: Int) { self = .int(value) }
  package init(floatLiteral value: Double) { self = .double(value) }
  package init(booleanLiteral value: Bool) { self = .bool(value) }
  package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
  package init(nilLiteral: ()) { self = .null }
  package init(dictionaryLiteral elements: (String, JSONValue)...) {
    self = .object(JSONObject(elements))
  }
}
