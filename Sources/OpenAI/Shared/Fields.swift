// Typed, strict readers of a JSON object's fields; errors carry the path of the field.
//
// `null` is the same as absent. Integers must be written as integers (`10.0` is a number, not an integer), booleans
// as booleans. Every reader remembers the name it has read, so that what remains is what nobody knows.

package import JSON

/// The members of one JSON object of a request, read one by one. Every reader throws an `APIError` with status 400 and
/// the path of the field in `param`.
package struct Fields {
  /// All members, as they came.
  package let object: JSONObject
  /// Path of the object in the body: empty for the body itself, `messages[0]` for a message.
  package let path: String
  private var known: Set<ByteKey> = []

  /// - Parameter path: of the object in the body; empty for the body itself.
  /// - Throws: `invalid_type` when the value is no object.
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

  /// The value of a field of any type.
  ///
  /// - Throws: `missing_required_parameter` when it is absent or null.
  package mutating func required(_ field: String) throws(APIError) -> JSONValue {
    guard let value = value(field) else { throw .missing(name(of: field)) }
    return value
  }

  // MARK: Scalars

  /// The value of a boolean; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for anything but `true` and `false`.
  package mutating func bool(_ field: String) throws(APIError) -> Bool? {
    guard let value = value(field) else { return nil }
    guard let bool = value.boolValue else {
      throw .wrongType(name(of: field), expected: "a boolean", found: value)
    }
    return bool
  }

  /// The value of a string; nil when absent or null.
  ///
  /// - Parameter maxBytes: of its UTF-8.
  /// - Throws: `invalid_type` for another type, `invalid_value` for a longer one.
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

  /// The value of a string that must be there.
  ///
  /// - Throws: `missing_required_parameter`, or what `string` throws.
  package mutating func requiredString(_ field: String) throws(APIError) -> String {
    guard let string = try string(field) else { throw .missing(name(of: field)) }
    return string
  }

  /// `model`, which every request names.
  ///
  /// - Throws: as for a required string, and `invalid_value` for an empty one.
  mutating func model() throws(APIError) -> String {
    let model = try requiredString("model")
    guard !model.utf8.isEmpty else { throw .invalidValue("model", "it is empty") }
    return model
  }

  /// One of a few words; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for another type, `invalid_value` for another word, with the words that there are.
  package mutating func word(_ field: String, of choices: [String]) throws(APIError) -> String? {
    guard let word = try string(field) else { return nil }
    guard choices.contains(where: { $0.utf8.elementsEqual(word.utf8) }) else {
      let list = choices.map { "'\($0)'" }.joined(separator: ", ")
      throw .invalidValue(name(of: field), "expected one of \(list), but got '\(APIError.shortened(word))'")
    }
    return word
  }

  /// A list of texts; nil when absent or null.
  ///
  /// - Throws: as `array`, and `invalid_type` for a member that is no text.
  mutating func texts(_ field: String, maxCount: Int) throws(APIError) -> [String]? {
    guard let values = try array(field, maxCount: maxCount) else { return nil }
    var texts: [String] = []
    for (index, value) in values.enumerated() {
      guard let text = value.stringValue else {
        throw .wrongType("\(name(of: field))[\(index)]", expected: "a string", found: value)
      }
      texts.append(text)
    }
    return texts
  }

  /// The texts of a list that must be there and has some.
  ///
  /// - Throws: as `texts`, and for a list that is missing or empty.
  mutating func requiredTexts(_ field: String, maxCount: Int) throws(APIError) -> [String] {
    guard let texts = try texts(field, maxCount: maxCount) else { throw .missing(name(of: field)) }
    guard !texts.isEmpty else { throw .invalidValue(name(of: field), "it is empty") }
    return texts
  }

  /// The value of an integer; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for other types and for numbers with a point or an exponent; `integer_above_max_value` or
  ///   `integer_below_min_value` outside the range.
  package mutating func integer(_ field: String, in range: ClosedRange<Int>) throws(APIError) -> Int? {
    guard let value = value(field) else { return nil }
    return try Self.integer(value, in: range, name: name(of: field))
  }

  /// A value that a container holds, as an integer.
  ///
  /// - Parameter name: its path, for the error.
  /// - Throws: as for a field.
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

  /// The value of a number, with or without a point; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for another type; `decimal_above_max_value` or `decimal_below_min_value` outside the range.
  package mutating func number(_ field: String, in range: ClosedRange<Double>) throws(APIError) -> Double? {
    guard let value = value(field) else { return nil }
    return try Self.number(value, in: range, name: name(of: field))
  }

  /// A value that a container holds, as a number.
  ///
  /// - Parameter name: its path, for the error.
  /// - Throws: as for a field.
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

  /// The elements of an array, unread; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for another type, `array_above_max_length` for more than `maxCount` elements.
  package mutating func array(_ field: String, maxCount: Int) throws(APIError) -> [JSONValue]? {
    guard let value = value(field) else { return nil }
    guard let array = value.arrayValue else {
      throw .wrongType(name(of: field), expected: "an array", found: value)
    }
    try APIError.check(count: array.count, atMost: maxCount, field: name(of: field))
    return array
  }

  /// The members of an object as they came; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for another type.
  package mutating func object(_ field: String) throws(APIError) -> JSONObject? {
    guard let value = value(field) else { return nil }
    guard let object = value.objectValue else {
      throw .wrongType(name(of: field), expected: "an object", found: value)
    }
    return object
  }

  /// A reader of an object's own members; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for another type.
  package mutating func fields(_ field: String) throws(APIError) -> Fields? {
    guard let value = value(field) else { return nil }
    return try Fields(value, path: name(of: field))
  }

  /// A reader of the members of an object that must be there.
  ///
  /// - Throws: `missing_required_parameter` when it is absent or null, `invalid_type` for another type.
  mutating func requiredFields(_ field: String) throws(APIError) -> Fields {
    try Fields(try required(field), path: name(of: field))
  }

  /// Refuses a field that this server cannot honour, whatever its value.
  ///
  /// - Throws: `unsupported_parameter` unless it is absent or null.
  package mutating func refuse(_ field: String, because reason: String) throws(APIError) {
    if value(field) != nil { throw .unsupportedParameter(name(of: field), reason) }
  }
}
