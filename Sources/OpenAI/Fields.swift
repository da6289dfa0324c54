// Typed, strict readers of a JSON object's fields; errors carry the path of the field.
//
// `null` is the same as absent. Integers must be written as integers (`10.0` is a number, not an integer), booleans
// as booleans. Every reader remembers the name it was asked for, so that what remains is what nobody knows.

package import JSON

package struct Fields {
  package let object: JSONObject
  /// Path of the object in the body: empty for the body itself, `messages[0]` for a message.
  package let path: String
  private var known: Set<ByteKey> = []

  package init(_ value: JSONValue, path: String = "") throws(APIError) {
    guard case .object(let object) = value else {
      throw .wrongType(path.isEmpty ? nil : path, expected: "an object", found: value)
    }
    self.object = object
    self.path = path
  }

  /// The path of a member, as errors name it.
  package func name(of field: String) -> String { path.isEmpty ? field : "\(path).\(field)" }

  /// Members that no reader has asked for and that are not null, in the order of the body.
  package var unread: [String] {
    object.entries.lazy.filter { !known.contains(ByteKey($0.key)) && !$0.value.isNull }.map(\.key)
  }

  /// The value of a field; nil when absent or null.
  package mutating func value(_ field: String) -> JSONValue? {
    known.insert(ByteKey(field))
    guard let value = object[field], !value.isNull else { return nil }
    return value
  }

  package mutating func required(_ field: String) throws(APIError) -> JSONValue {
    guard let value = value(field) else { throw .missing(name(of: field)) }
    return value
  }

  // MARK: Scalars

  package mutating func bool(_ field: String) throws(APIError) -> Bool? {
    guard let value = value(field) else { return nil }
    guard let bool = value.boolValue else {
      throw .wrongType(name(of: field), expected: "a boolean", found: value)
    }
    return bool
  }

  package mutating func string(_ field: String, maxBytes: Int = .max) throws(APIError) -> String? {
    guard let value = value(field) else { return nil }
    guard let string = value.stringValue else {
      throw .wrongType(name(of: field), expected: "a string", found: value)
    }
    guard string.utf8.count <= maxBytes else {
      throw .invalidValue(name(of: field), "the string is longer than \(maxBytes) bytes")
    }
    return string
  }

  package mutating func requiredString(_ field: String) throws(APIError) -> String {
    guard let string = try string(field) else { throw .missing(name(of: field)) }
    return string
  }

  /// One of a few words.
  package mutating func word(_ field: String, of choices: [String]) throws(APIError) -> String? {
    guard let word = try string(field) else { return nil }
    guard choices.contains(where: { $0.utf8.elementsEqual(word.utf8) }) else {
      let list = choices.map { "'\($0)'" }.joined(separator: ", ")
      throw .invalidValue(name(of: field), "expected one of \(list), but got '\(APIError.shortened(word))'")
    }
    return word
  }

  package mutating func integer(_ field: String, in range: ClosedRange<Int>) throws(APIError) -> Int? {
    guard let value = value(field) else { return nil }
    return try Self.integer(value, in: range, name: name(of: field))
  }

  package static func integer(_ value: JSONValue, in range: ClosedRange<Int>, name: String) throws(APIError)
    -> Int
  {
    let integer: Int
    switch value {
    case .int(let exact): integer = exact
    case .bigInteger(let digits): integer = digits.utf8.first == UInt8(ascii: "-") ? .min : .max
    default: throw .wrongType(name, expected: "an integer", found: value)
    }
    // A big integer stands beyond every range, even one that ends at the largest Int.
    let isExact = if case .int = value { true } else { false }
    if integer > range.upperBound || (!isExact && integer == .max) {
      throw .aboveMaximum(name, kind: "integer", limit: String(range.upperBound))
    }
    if integer < range.lowerBound || (!isExact && integer == .min) {
      throw .belowMinimum(name, kind: "integer", limit: String(range.lowerBound))
    }
    return integer
  }

  package mutating func number(_ field: String, in range: ClosedRange<Double>) throws(APIError) -> Double? {
    guard let value = value(field) else { return nil }
    return try Self.number(value, in: range, name: name(of: field))
  }

  package static func number(_ value: JSONValue, in range: ClosedRange<Double>, name: String) throws(APIError)
    -> Double
  {
    let number: Double
    switch value {
    case .int(let exact): number = Double(exact)
    case .double(let double): number = double
    case .bigInteger(let digits): number = digits.utf8.first == UInt8(ascii: "-") ? -.infinity : .infinity
    default: throw .wrongType(name, expected: "a number", found: value)
    }
    if number > range.upperBound {
      throw .aboveMaximum(name, kind: "decimal", limit: shortNumber(range.upperBound))
    }
    guard number >= range.lowerBound else {
      throw .belowMinimum(name, kind: "decimal", limit: shortNumber(range.lowerBound))
    }
    return number
  }

  private static func shortNumber(_ number: Double) -> String {
    Int(exactly: number).map(String.init) ?? String(number)
  }

  // MARK: Containers

  package mutating func array(_ field: String, maxCount: Int) throws(APIError) -> [JSONValue]? {
    guard let value = value(field) else { return nil }
    guard let array = value.arrayValue else {
      throw .wrongType(name(of: field), expected: "an array", found: value)
    }
    guard array.count <= maxCount else {
      throw APIError(
        status: 400, code: "array_above_max_length", param: name(of: field),
        message: "Invalid '\(name(of: field))': the array has \(array.count) elements, more than \(maxCount)."
      )
    }
    return array
  }

  package mutating func object(_ field: String) throws(APIError) -> JSONObject? {
    guard let value = value(field) else { return nil }
    guard let object = value.objectValue else {
      throw .wrongType(name(of: field), expected: "an object", found: value)
    }
    return object
  }

  package mutating func fields(_ field: String) throws(APIError) -> Fields? {
    guard let value = value(field) else { return nil }
    return try Fields(value, path: name(of: field))
  }

  /// Refuses a field that this server cannot honour, whatever its value.
  package mutating func refuse(_ field: String, because reason: String) throws(APIError) {
    if value(field) != nil { throw .unsupportedParameter(name(of: field), reason) }
  }
}
