// The tools of a request, and which of them its answer may call.

package import JSON

/// A function that the model may call.
package struct Tool: Sendable, Equatable {
  package var name: String
  /// The tool as an OpenAI object without null members, for the chat template.
  package var json: JSONValue
  /// Whether the arguments of every call must be what the schema allows.
  package var isStrict: Bool
  /// The field that holds the schema of the arguments, for errors.
  package var parametersField: String
  /// The field that holds the name, for errors.
  fileprivate var nameField: String

  /// The schema of the arguments; nil for a function without arguments.
  package var parameters: JSONValue? { json["function"]?["parameters"] }

  /// Reads what a request says of a function: `name`, `description`, `strict` and the schema of its arguments.
  ///
  /// - Parameter schema: the wire's name of the schema.
  init(_ function: inout Fields, schema: String = "parameters", limits: RequestLimits) throws(APIError) {
    nameField = function.name(of: "name")
    parametersField = function.name(of: schema)
    name = try function.requiredString("name")
    guard Self.isValidName(name) else {
      throw .invalidValue(nameField, "it must match ^[a-zA-Z0-9_-]{1,64}$")
    }
    var json = JSONObject([("name", .string(name))])
    if let description = try function.string("description") { json["description"] = .string(description) }
    if let parameters = try function.object(schema) {
      try SchemaCheck(path: parametersField, maxBytes: limits.schemaBytes).check(parameters)
      json["parameters"] = .object(parameters)
    }
    isStrict = try function.bool("strict") ?? false
    self.json = ["type": "function", "function": .object(json)]
  }

  /// ASCII letters, digits, `_` and `-`; 1 to 64 of them.
  private static func isValidName(_ name: String) -> Bool {
    (1...64).contains(name.utf8.count)
      && name.utf8.allSatisfy {
        switch $0 {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
          true
        default: false
        }
      }
  }
}

/// Whether the answer calls tools.
package enum ToolChoice: Sendable, Equatable {
  /// Never: the tools are withheld from the model.
  case none
  /// As the model likes.
  case auto
  /// At least once.
  case required
  /// This one, once.
  case named(String)
}

/// What `tool_choice` says, in the words of any wire.
enum ToolChoiceWords {
  /// The name of a tool, and the field that holds it, for errors.
  struct Name {
    let text: String
    let field: String

    /// Reads the member `name`.
    init(_ fields: inout Fields) throws(APIError) {
      text = try fields.requiredString("name")
      field = fields.name(of: "name")
    }
  }

  case none
  case auto
  /// With the word that says so.
  case required(String)
  case named(Name)
  /// These alone; `field` holds the list.
  case allowed([Name], isRequired: Bool, field: String)

  /// Reads the member of chat and Responses, which share its words, but not the forms of its objects.
  ///
  /// - Parameter object: reads an object; absent is `auto`.
  static func read(
    _ fields: inout Fields, object: (inout Fields) throws(APIError) -> ToolChoiceWords
  ) throws(APIError) -> ToolChoiceWords {
    let name = "tool_choice"
    switch fields.value(name) {
    case nil, "auto"?: return .auto
    case "none"?: return .none
    case "required"?: return .required("required")
    case .string(let word)?:
      throw .invalidValue(
        name, "expected 'none', 'auto', 'required' or an object, but got '\(APIError.shortened(word))'")
    case let value?:
      guard value.objectValue != nil else {
        throw .wrongType(name, expected: "a string or an object", found: value)
      }
      var choice = try Fields(value, path: name)
      return try object(&choice)
    }
  }
}

/// The tools of a request, and which of them may be called.
struct ToolSelection {
  /// What the model is told about.
  private(set) var tools: [Tool] = []
  private(set) var choice = ToolChoice.none
  var allowsParallelCalls = true

  /// - Throws: 400 for a second tool of one name.
  mutating func add(_ tool: Tool) throws(APIError) {
    guard find(tool.name) == nil else {
      throw .invalidValue(tool.nameField, "the name '\(tool.name)' is used twice")
    }
    tools.append(tool)
  }

  /// - Throws: 400 for a choice that names none of the tools.
  mutating func choose(_ words: ToolChoiceWords) throws(APIError) {
    choice = tools.isEmpty ? .none : .auto
    switch words {
    case .auto: break
    case .none: choice = .none
    case .required(let word):
      guard !tools.isEmpty else { throw .invalidValue("tool_choice", "'\(word)' needs 'tools'") }
      choice = .required
    case .named(let name): choice = .named(try check(name))
    case .allowed(let names, let isRequired, let field):
      var allowed: Set<String> = []
      for name in names { allowed.insert(try check(name)) }
      // The model is told about the allowed tools only, so that it does not even wish for others.
      tools = tools.filter { allowed.contains($0.name) }
      if tools.isEmpty { choice = .none }
      guard isRequired else { break }
      guard !tools.isEmpty else {
        throw .invalidValue(field, "it is empty, but the mode is 'required'")
      }
      choice = .required
    }
    if choice == .none { tools = [] }
  }

  private func find(_ name: String) -> Tool? { tools.first { $0.name.utf8.elementsEqual(name.utf8) } }

  private func check(_ name: ToolChoiceWords.Name) throws(APIError) -> String {
    guard find(name.text) != nil else {
      throw .invalidValue(
        name.field, "there is no tool named '\(APIError.shortened(name.text))' in 'tools'")
    }
    return name.text
  }
}
