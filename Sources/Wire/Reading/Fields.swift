// Typed, strict readers of a JSON object's fields; errors carry the path of the field.
//
// `null` is the same as absent. Integers must be written as integers (`10.0` is a number, not an integer), booleans
// as booleans. Every reader remembers the name it has read, so that what remains is what nobody knows.
//
// The line that reads a field is its only declaration: its name, kind and range, one sentence and an example. Where
// `FieldNotes` are taken, /openapi.json and the tables of docs/api.md follow from it.

package import JSON

/// The members of one JSON object of a request, read one by one. Every reader throws an `APIError` with status 400 and
/// the path of the field in `param`.
///
/// Parameters that readers share: `words` is what documents say of the field, `like` an example of its value, as JSON
/// text. Neither is made where no notes are taken.
package struct Fields {
  /// All members, as they came.
  package let object: JSONObject
  /// Path of the object in the body: empty for the body itself, `messages[0]` for a message.
  package let path: String
  /// What the server takes; a body's own readers look here, others are given theirs.
  package var limits = RequestLimits()
  /// Token ids in the body must be below it.
  package var vocabularySize = 0
  private var known: Set<ByteKey> = []
  /// Where the readers of this object note what they read; nil while requests are served.
  var notes: FieldNotes?

  /// - Parameter path: of the object in the body; empty for the body itself.
  /// - Throws: `invalid_type` when the value is no object.
  package init(_ value: JSONValue, path: String = "") throws(APIError) {
    guard case .object(let object) = value else {
      throw .wrongType(path.isEmpty ? nil : path, expected: "an object", found: value)
    }
    self.object = object
    self.path = path
  }

  /// A part of the body of the same request.
  private func part(_ value: JSONValue, _ path: String, _ notes: FieldNotes?) throws(APIError) -> Fields {
    var part = try Fields(value, path: path)
    (part.limits, part.vocabularySize, part.notes) = (limits, vocabularySize, notes)
    return part
  }

  /// The path of a member, as errors name it.
  package func name(of field: String) -> String { path.isEmpty ? field : "\(path).\(field)" }

  /// Members that no reader has asked for and that are not null, in the order of the body.
  package var unread: [String] {
    object.entries.lazy.filter { !known.contains(ByteKey($0.key)) && !$0.value.isNull }.map(\.key)
  }

  /// The value of a field; nil when absent or null.
  ///
  /// - Parameter shape: what the value may be, as the text of a JSON Schema.
  package mutating func value(
    _ field: String, _ shape: @autoclosure () -> String = "", _ words: @autoclosure () -> Words = "",
    like example: @autoclosure () -> String = ""
  ) -> JSONValue? {
    known.insert(ByteKey(field))
    notes?.note(field, shape(), words(), example())
    guard let value = object[field], !value.isNull else { return nil }
    return value
  }

  /// The value of a field of any type. While notes are taken, an absent one has its example.
  ///
  /// - Throws: `missing_required_parameter` when it is absent or null.
  package mutating func required(
    _ field: String, _ shape: @autoclosure () -> String = "", _ words: @autoclosure () -> Words = "",
    like example: @autoclosure () -> String = ""
  ) throws(APIError) -> JSONValue {
    if let value = value(field, shape(), words(), like: example()) { return value }
    guard let value = notes?.require(field) else { throw .missing(name(of: field)) }
    return value
  }

  /// The one of these fields that is there. Each has been asked for before.
  ///
  /// - Parameter shape: of any of them, as the text of a JSON Schema.
  /// - Throws: `missing_required_parameter` for the first where there is none, `invalid_value` for a second.
  package mutating func one(of names: [String], _ shape: @autoclosure () -> String) throws(APIError) -> String
  {
    rule(Shape.oneNamed(names, shape()))
    let given = names.filter { value($0) != nil }
    guard let name = given.first ?? notes?.choose(names[0]) else { throw .missing(names[0]) }
    guard given.count < 2 else { throw .invalidValue(given[1], "it cannot be given together with '\(name)'") }
    return name
  }

  /// The names of fields that have been noted.
  var noted: Set<String> { Set(notes?.notes.map(\.name) ?? []) }

  /// Says that a field must be there, where others than its reader see to it.
  package func need(_ field: String) { _ = notes?.require(field) }

  /// Whether this is no request: its fields are noted.
  var isNoted: Bool { notes != nil }

  /// Takes a field for known, whatever its value.
  mutating func know(_ field: String) { known.insert(ByteKey(field)) }

  /// Says of several fields together what their readers cannot say one by one.
  ///
  /// - Parameter schema: the text of a JSON Schema that the whole object follows.
  package func rule(_ schema: @autoclosure () -> String) { notes?.add(rule: schema()) }

  // MARK: Scalars

  /// The value of a boolean; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for anything but `true` and `false`.
  package mutating func bool(
    _ field: String, _ words: @autoclosure () -> Words = "", like example: @autoclosure () -> String = "true"
  ) throws(APIError) -> Bool? {
    guard let value = value(field, Shape.boolean, words(), like: example()) else { return nil }
    guard let bool = value.boolValue else {
      throw .wrongType(name(of: field), expected: "a boolean", found: value)
    }
    return bool
  }

  /// The value of a string; nil when absent or null.
  ///
  /// - Parameter maxBytes: of its UTF-8.
  /// - Throws: `invalid_type` for another type, `invalid_value` for a longer one.
  package mutating func string(
    _ field: String, maxBytes: Int = .max, _ words: @autoclosure () -> Words = "",
    like example: @autoclosure () -> String = #""x""#
  ) throws(APIError) -> String? {
    guard let value = value(field, Shape.string, words(), like: example()) else { return nil }
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
  package mutating func requiredString(
    _ field: String, _ words: @autoclosure () -> Words = "",
    like example: @autoclosure () -> String = #""x""#
  ) throws(APIError) -> String {
    let value = try required(field, Shape.string, words(), like: example())
    guard let string = value.stringValue else {
      throw .wrongType(name(of: field), expected: "a string", found: value)
    }
    return string
  }

  /// `model`, which every request names.
  ///
  /// - Throws: as for a required string, and `invalid_value` for an empty one.
  mutating func model(_ words: @autoclosure () -> Words = "") throws(APIError) -> String {
    let value = try required("model", #"{"type": "string", "minLength": 1}"#, words(), like: #""demo""#)
    guard let model = value.stringValue else {
      throw .wrongType("model", expected: "a string", found: value)
    }
    guard !model.utf8.isEmpty else { throw .invalidValue("model", "it is empty") }
    return model
  }

  /// `model`, where a request may leave it to the server. The route has looked at it before.
  package mutating func anyModel() throws(APIError) {
    _ = try string("model", "may be left out", like: #""demo""#)
  }

  /// One of a few words; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for another type, `invalid_value` for another word, with the words that there are.
  package mutating func word(
    _ field: String, of choices: [String], _ words: @autoclosure () -> Words = "",
    like example: @autoclosure () -> String = ""
  ) throws(APIError) -> String? {
    guard let value = value(field, Shape.words(choices), words(), like: example()) else { return nil }
    return try word(value, field, of: choices)
  }

  /// One of a few words, which must be there.
  ///
  /// - Throws: as `word`, and `missing_required_parameter`.
  package mutating func requiredWord(
    _ field: String, of choices: [String], _ words: @autoclosure () -> Words = ""
  )
    throws(APIError) -> String
  {
    let value = try required(field, Shape.words(choices), words())
    return try word(value, field, of: choices)
  }

  private func word(_ value: JSONValue, _ field: String, of choices: [String]) throws(APIError) -> String {
    guard let word = value.stringValue else {
      throw .wrongType(name(of: field), expected: "a string", found: value)
    }
    guard choices.contains(where: { $0.utf8.elementsEqual(word.utf8) }) else {
      let list = choices.map { "'\($0)'" }.joined(separator: ", ")
      throw .invalidValue(name(of: field), "expected one of \(list), but got '\(APIError.shortened(word))'")
    }
    return word
  }

  /// The value of an integer; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for other types and for numbers with a point or an exponent; `integer_above_max_value` or
  ///   `integer_below_min_value` outside the range.
  package mutating func integer(
    _ field: String, in range: ClosedRange<Int>, _ words: @autoclosure () -> Words = "",
    like example: @autoclosure () -> String = ""
  ) throws(APIError) -> Int? {
    guard let value = value(field, Shape.integer(range), words(), like: example()) else { return nil }
    return try Self.integer(value, in: range, name: name(of: field))
  }

  /// An integer that must be there.
  ///
  /// - Throws: as `integer`, and `missing_required_parameter`.
  package mutating func requiredInteger(
    _ field: String, in range: ClosedRange<Int>, _ words: @autoclosure () -> Words = "",
    like example: @autoclosure () -> String = ""
  ) throws(APIError) -> Int {
    let value = try required(field, Shape.integer(range), words(), like: example())
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
  package mutating func number(
    _ field: String, in range: ClosedRange<Double>, _ words: @autoclosure () -> Words = "",
    like example: @autoclosure () -> String = ""
  ) throws(APIError) -> Double? {
    guard let value = value(field, Shape.number(range), words(), like: example()) else { return nil }
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
      throw .aboveMaximum(name, kind: "decimal", limit: Shape.short(range.upperBound))
    }
    guard number >= range.lowerBound else {
      throw .belowMinimum(name, kind: "decimal", limit: Shape.short(range.lowerBound))
    }
    return number
  }

  // MARK: Containers

  /// The elements of an array, unread; nil when absent or null.
  ///
  /// - Parameter shape: of an element, as the text of a JSON Schema.
  /// - Throws: `invalid_type` for another type, `array_above_max_length` for more than `maxCount` elements.
  package mutating func array(
    _ field: String, of shape: @autoclosure () -> String = "{}", minCount: Int = 0, maxCount: Int,
    _ words: @autoclosure () -> Words = "", like example: @autoclosure () -> String = "[]"
  ) throws(APIError) -> [JSONValue]? {
    guard
      let value = value(
        field, Shape.array(of: shape(), minCount...maxCount), words(), like: example())
    else { return nil }
    return try array(value, field, maxCount: maxCount)
  }

  private func array(_ value: JSONValue, _ field: String, maxCount: Int) throws(APIError) -> [JSONValue] {
    guard let array = value.arrayValue else {
      throw .wrongType(name(of: field), expected: "an array", found: value)
    }
    try APIError.check(count: array.count, atMost: maxCount, field: name(of: field))
    return array
  }

  /// The elements of an array that must be there and has some.
  ///
  /// - Throws: as `array`, and for one that is missing or empty.
  package mutating func requiredArray(
    _ field: String, of shape: @autoclosure () -> String = "{}", maxCount: Int,
    _ words: @autoclosure () -> Words = "", like example: @autoclosure () -> String
  ) throws(APIError) -> [JSONValue] {
    let value = try required(
      field, Shape.array(of: shape(), 1...maxCount), words(), like: example())
    let array = try array(value, field, maxCount: maxCount)
    guard !array.isEmpty else { throw .invalidValue(name(of: field), "it is empty") }
    return array
  }

  /// A list of texts; nil when absent or null.
  ///
  /// - Throws: as `array`, and `invalid_type` for a member that is no text.
  package mutating func texts(
    _ field: String, maxCount: Int, _ words: @autoclosure () -> Words = "",
    like example: @autoclosure () -> String = #"["x"]"#
  ) throws(APIError) -> [String]? {
    guard
      let values = try array(field, of: Shape.string, maxCount: maxCount, words(), like: example())
    else { return nil }
    return try texts(values, field)
  }

  /// The texts of a list that must be there and has some.
  ///
  /// - Throws: as `texts`, and for a list that is missing or empty.
  package mutating func requiredTexts(
    _ field: String, maxCount: Int, _ words: @autoclosure () -> Words = "",
    like example: @autoclosure () -> String = #"["x"]"#
  ) throws(APIError) -> [String] {
    let value = try required(field, Shape.array(of: Shape.string, 1...maxCount), words(), like: example())
    let texts = try texts(array(value, field, maxCount: maxCount), field)
    guard !texts.isEmpty else { throw .invalidValue(name(of: field), "it is empty") }
    return texts
  }

  private func texts(_ values: [JSONValue], _ field: String) throws(APIError) -> [String] {
    var texts: [String] = []
    for (index, value) in values.enumerated() {
      guard let text = value.stringValue else {
        throw .wrongType("\(name(of: field))[\(index)]", expected: "a string", found: value)
      }
      texts.append(text)
    }
    return texts
  }

  /// The members of an object as they came; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for another type.
  package mutating func object(
    _ field: String, _ words: @autoclosure () -> Words = "", like example: @autoclosure () -> String = "{}"
  ) throws(APIError) -> JSONObject? {
    guard let value = value(field, Shape.object, words(), like: example()) else { return nil }
    guard let object = value.objectValue else {
      throw .wrongType(name(of: field), expected: "an object", found: value)
    }
    return object
  }

  /// The members of an object that must be there, as they came.
  ///
  /// - Throws: `missing_required_parameter`, or what `object` throws.
  mutating func requiredMembers(_ field: String, like example: @autoclosure () -> String = "{}")
    throws(APIError)
    -> JSONObject
  {
    let value = try required(field, Shape.object, like: example())
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
    return try part(value, name(of: field), nil)
  }

  /// A reader of the members of an object that must be there.
  ///
  /// - Throws: `missing_required_parameter` when it is absent or null, `invalid_type` for another type.
  mutating func requiredFields(_ field: String) throws(APIError) -> Fields {
    try part(try required(field), name(of: field), nil)
  }

  /// What a reader makes of an object; nil when absent or null.
  ///
  /// - Throws: `invalid_type` for another type, and what the reader throws.
  package mutating func object<Value>(
    _ field: String, _ words: @autoclosure () -> Words = "", like example: @autoclosure () -> String = "",
    read: (inout Fields) throws(APIError) -> Value
  ) throws(APIError) -> Value? {
    let value = value(field, Shape.object, words(), like: example())
    // Its readers note their fields, as of an object that is there; the body goes on as without it.
    if let inner = notes?.inner(of: field) {
      var part = try part([:], name(of: field), inner)
      _ = try read(&part)
    }
    guard let value else { return nil }
    var part = try part(value, name(of: field), nil)
    return try read(&part)
  }

  /// What a reader makes of an object that must be there.
  ///
  /// - Throws: as `object`, and `missing_required_parameter`.
  package mutating func requiredObject<Value>(
    _ field: String, _ words: @autoclosure () -> Words = "", read: (inout Fields) throws(APIError) -> Value
  ) throws(APIError) -> Value {
    let value = try required(field, Shape.object, words())
    var part = try part(value, name(of: field), notes?.inner(of: field))
    return try read(&part)
  }

  /// What a reader makes of each object of a list; nil when absent or null.
  ///
  /// - Throws: as `array`, and what the reader throws.
  package mutating func objects<Value>(
    _ field: String, maxCount: Int, _ words: @autoclosure () -> Words = "",
    read: (inout Fields) throws(APIError) -> Value
  ) throws(APIError) -> [Value]? {
    let values = try array(field, minCount: 1, maxCount: maxCount, words(), like: "")
    if let inner = notes?.inner(of: field) {
      var part = try part([:], "\(name(of: field))[0]", inner)
      _ = try read(&part)
    }
    guard let values else { return nil }
    var found: [Value] = []
    for (index, value) in values.enumerated() {
      var part = try part(value, "\(name(of: field))[\(index)]", nil)
      found.append(try read(&part))
    }
    return found
  }

  /// Refuses a field that this server cannot honour, whatever its value.
  ///
  /// - Throws: `unsupported_parameter` unless it is absent or null.
  package mutating func refuse(
    _ field: String, because reason: String, like example: @autoclosure () -> String = "{}"
  ) throws(APIError) {
    if value(field, Shape.null, .refused(reason), like: example()) != nil {
      throw .unsupportedParameter(name(of: field), reason)
    }
  }
}
