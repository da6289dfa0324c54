// What the readers of a body say of its fields, noted while they read the smallest body that they take.

package import JSON

/// What documents say of a field: whether it is honoured, and one sentence.
package struct Words: Sendable, ExpressibleByStringInterpolation {
  /// What is done with the field.
  package enum Treatment: String, Sendable {
    case honoured
    /// Its type is checked and it changes nothing.
    case accepted
    case refused
  }

  package let treatment: Treatment
  package let text: String

  package init(stringLiteral text: String) { (treatment, self.text) = (.honoured, text) }

  private init(_ treatment: Treatment, _ text: String) { (self.treatment, self.text) = (treatment, text) }

  /// Of a field that changes nothing.
  package static func accepted(_ text: String = "") -> Words { Words(.accepted, text) }

  /// Of a field that few models take; in documents it counts as refused.
  package static func refusedByMost(_ text: String) -> Words { Words(.refused, text) }

  static func refused(_ reason: String) -> Words { Words(.refused, reason) }
}

/// The fields of one object, in the order in which they are read.
package final class FieldNotes {
  /// One field.
  package struct Note {
    package let name: String
    package fileprivate(set) var words: Words
    fileprivate var shape: String
    fileprivate var likeness: String
    /// Whether the smallest body has it.
    fileprivate var isThere = false
    fileprivate var isRequired = false
    /// The members of an object, or of the objects of a list.
    fileprivate var inner: FieldNotes?
  }

  package private(set) var notes: [Note] = []
  private var rules: [String] = []

  package init() {}

  /// Reads the smallest body that a reader takes: each field that must be there is its example.
  ///
  /// - Throws: what is wrong with the examples.
  package init(limits: RequestLimits, of read: (inout Fields) throws(APIError) -> Void) throws(APIError) {
    var fields = try Fields([:])
    (fields.limits, fields.vocabularySize, fields.notes) = (limits, Int(Int32.max), self)
    try read(&fields)
  }

  private func index(of name: String) -> Int? { notes.firstIndex { $0.name.utf8.elementsEqual(name.utf8) } }

  /// A field may be asked for more than once: what is said first counts.
  func note(_ name: String, _ shape: String, _ words: Words, _ likeness: String) {
    guard let index = index(of: name) else {
      return notes.append(Note(name: name, words: words, shape: shape, likeness: likeness))
    }
    if notes[index].shape.isEmpty {
      (notes[index].shape, notes[index].words, notes[index].likeness) = (shape, words, likeness)
    }
  }

  /// The example of a field that must be there.
  func require(_ name: String) -> JSONValue? {
    guard let index = index(of: name) else { return nil }
    if !notes[index].isThere { notes[index].isRequired = true }
    notes[index].isThere = true
    let example = example(of: notes[index])
    return try? JSONValue(parsing: example == "null" ? "{}" : example)
  }

  /// Of fields of which one must be there, the smallest body has this one.
  func choose(_ name: String) -> String? {
    guard let index = index(of: name) else { return nil }
    notes[index].isThere = true
    return name
  }

  func inner(of name: String) -> FieldNotes? {
    guard let index = index(of: name) else { return nil }
    if notes[index].inner == nil { notes[index].inner = FieldNotes() }
    return notes[index].inner
  }

  func add(rule: String) { rules.append(rule) }
}

extension FieldNotes {
  /// The object as a JSON Schema.
  package func schema() throws(JSONError) -> JSONValue {
    var properties = JSONObject()
    for note in notes { properties[note.name] = try schema(of: note) }
    var schema = JSONObject([("type", "object")])
    let required = notes.filter(\.isRequired)
    if !required.isEmpty { schema["required"] = .array(required.map { .string($0.name) }) }
    if !rules.isEmpty {
      var parsed: [JSONValue] = []
      for rule in rules { parsed.append(try JSONValue(parsing: rule)) }
      schema["allOf"] = .array(parsed)
    }
    schema["properties"] = .object(properties)
    return .object(schema)
  }

  private func schema(of note: Note) throws(JSONError) -> JSONValue {
    var schema = try JSONValue(parsing: note.shape.isEmpty ? "{}" : note.shape).objectValue ?? JSONObject()
    if let inner = note.inner {
      if schema["type"] == "array" {
        schema["items"] = try inner.schema()
      } else {
        schema = try inner.schema().objectValue ?? schema
      }
    }
    let text = note.shape == Shape.null ? "refused: \(note.words.text)" : note.words.text
    if !text.isEmpty, schema["$ref"] == nil { schema["description"] = .string(text) }
    return .object(schema)
  }

  /// The smallest object that its readers take.
  package var example: JSONObject {
    JSONObject(
      notes.filter(\.isThere).map { ($0.name, (try? JSONValue(parsing: example(of: $0))) ?? .null) })
  }

  /// JSON text.
  package func example(of note: Note) -> String {
    if note.likeness.isEmpty, let inner = note.inner {
      let object = JSONValue.object(inner.example).text
      return note.shape.utf8.starts(with: Shape.list.utf8) ? "[\(object)]" : object
    }
    return note.likeness.isEmpty ? firstWord(of: note) : note.likeness
  }

  /// An example of a word or a number: the first one that is taken.
  private func firstWord(of note: Note) -> String {
    let schema = try? JSONValue(parsing: note.shape)
    return (schema?["enum"]?[0] ?? schema?["minimum"] ?? .null).text
  }
}

/// The usual kinds of values as texts of JSON Schemas.
package enum Shape {
  package static let boolean = #"{"type": "boolean"}"#
  package static let string = #"{"type": "string"}"#
  package static let object = #"{"type": "object"}"#
  static let null = #"{"type": "null"}"#
  static let list = #"{"type": "array""#
  /// Ids of tokens, at least one.
  package static let tokens = array(of: integer(0...Int.max), 1...Int.max)

  /// One of a few words.
  package static func words(_ choices: [String]) -> String {
    #"{"enum": \#(JSONValue.array(choices.map(JSONValue.string)).text)}"#
  }

  /// An integer; the ends of `Int` are no bounds.
  package static func integer(_ range: ClosedRange<Int>) -> String {
    let least = range.lowerBound == .min ? "" : #", "minimum": \#(range.lowerBound)"#
    let most = range.upperBound == .max ? "" : #", "maximum": \#(range.upperBound)"#
    return #"{"type": "integer"\#(least)\#(most)}"#
  }

  /// A number; infinities are no bounds.
  package static func number(_ range: ClosedRange<Double>) -> String {
    let least = range.lowerBound == -.infinity ? "" : #", "minimum": \#(short(range.lowerBound))"#
    let most = range.upperBound == .infinity ? "" : #", "maximum": \#(short(range.upperBound))"#
    return #"{"type": "number"\#(least)\#(most)}"#
  }

  static func short(_ number: Double) -> String { Int(exactly: number).map(String.init) ?? String(number) }

  /// An array with this many elements.
  package static func array(of element: String, _ count: ClosedRange<Int>) -> String {
    let least = count.lowerBound == 0 ? "" : #", "minItems": \#(count.lowerBound)"#
    let most = count.upperBound == .max ? "" : #", "maxItems": \#(count.upperBound)"#
    let items = element == "{}" ? "" : #", "items": \#(element)"#
    return "\(list)\(least)\(most)\(items)}"
  }

  /// A schema that stands by itself in /openapi.json.
  package static func named(_ name: String) -> String { ##"{"$ref": "#/components/schemas/\##(name)"}"## }

  /// An object that has exactly one of these members, of that shape.
  package static func oneNamed(_ names: [String], _ shape: String) -> String {
    let branches = names.map { name in
      let others = names.filter { $0 != name }.map { #", "\#($0)": \#(null)"# }.joined()
      return #"{"required": ["\#(name)"], "properties": {"\#(name)": \#(shape)\#(others)}}"#
    }
    return #"{"anyOf": [\#(branches.joined(separator: ", "))]}"#
  }

  /// One of several.
  package static func any(_ shapes: String...) -> String {
    #"{"anyOf": [\#(shapes.joined(separator: ", "))]}"#
  }
}

/// A body of a request, read field by field.
package protocol RequestBody: Sendable {
  /// Reads all fields; `limits` and the size of the vocabulary are those of `fields`.
  ///
  /// - Throws: the first problem found, with the path of its field.
  init(_ fields: inout Fields) throws(APIError)

  /// Fields that nobody knows.
  var ignored: [String] { get set }
}

extension RequestBody {
  /// Reads a whole body.
  ///
  /// - Parameter vocabularySize: token ids in the body must be below it.
  /// - Throws: the first problem found, with the path of its field.
  package init(
    _ body: JSONValue, limits: RequestLimits = RequestLimits(), vocabularySize: Int = 0
  ) throws(APIError) {
    var fields = try Fields(body)
    (fields.limits, fields.vocabularySize) = (limits, vocabularySize)
    try self.init(&fields)
    ignored = fields.unread + ignored
  }
}
