// The tools of a request, and which of them its answer may call.

package import JSON

/// A tool that the model may call. To the model every tool is a function.
package struct Tool: Sendable, Equatable {
  /// What calls of it look like to the client.
  package enum Kind: Sendable, Equatable {
    case function
    /// Free text, which the model writes as the argument `input`.
    case custom
  }

  /// What describes the text of a custom tool.
  package enum InputGrammar: Sendable, Equatable {
    case lark(String)
    case regex(String)
  }

  /// The argument in which the model writes the text of a custom tool.
  package static let inputName = "input"

  /// The name that the model knows it by.
  package var name: String
  package private(set) var kind = Kind.function
  /// The client's name of it, within its namespace.
  package private(set) var clientName: String
  /// Where a client has put it; nil for no namespace.
  package private(set) var namespace: String?
  /// What the text of a custom tool must look like; nil for any text.
  package private(set) var inputGrammar: InputGrammar?
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
    clientName = name
    guard Self.isValidName(name) else {
      throw .invalidValue(nameField, "it must match ^[a-zA-Z0-9_-]{1,\(ToolName.maxBytes)}$")
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

  /// Reads a tool that takes free text: `name`, `description` and `format`, which may be a grammar.
  ///
  /// Both kinds of grammars are enforced; the model is told one in Lark, too.
  init(custom tool: inout Fields, limits: RequestLimits) throws(APIError) {
    let title = try tool.requiredString("name")
    var description = try tool.string("description") ?? ""
    var input = JSONObject([("type", "string")])
    var grammar: InputGrammar?
    var field = tool.name(of: "format")
    var format = try tool.fields("format")
    let type = try format?.word("type", of: ["text", "grammar"])
    if type == "grammar" {
      // Chat has the members of the grammar in an object of their own.
      if let inner = try format?.fields("grammar") { format = inner }
      let syntax = try format?.word("syntax", of: ["lark", "regex"]) ?? "regex"
      field = format?.name(of: "definition") ?? "definition"
      guard let text = try format?.string("definition", maxBytes: limits.grammarBytes) else {
        throw .missing(field)
      }
      if syntax == "regex" {
        input["pattern"] = .string("^(?:\(text))$")
        grammar = .regex(text)
      } else {
        description += "\nThe input follows this grammar in Lark:\n" + text
        grammar = .lark(text)
      }
    }
    let schema: JSONValue = [
      "type": "object", "properties": .object(JSONObject([(Self.inputName, .object(input))])),
      "required": [.string(Self.inputName)],
      "additionalProperties": false,
    ]
    var function = try Fields(
      [
        "name": .string(title), "description": .string(description), "parameters": schema,
        "strict": .bool(grammar != nil),
      ], path: tool.path)
    try self.init(&function, limits: limits)
    kind = .custom
    inputGrammar = grammar
    parametersField = field
  }

  /// The same tool within a namespace: the model knows it by both names.
  func inNamespace(_ namespace: String) -> Tool {
    var tool = self
    tool.namespace = namespace
    tool.name = ToolName.joined(namespace, clientName)
    if var json = json.objectValue, var function = json["function"]?.objectValue {
      function["name"] = .string(tool.name)
      json["function"] = .object(function)
      tool.json = .object(json)
    }
    return tool
  }

  /// The text that a call of a custom tool holds in its argument `input`; the arguments themselves where they are cut.
  package static func input(of arguments: String) -> String {
    guard let value = try? JSONValue(parsing: arguments), let text = value[inputName]?.stringValue else {
      return arguments
    }
    return text
  }

  /// The arguments of a call of a custom tool.
  static func arguments(of input: String) -> String {
    JSONValue.object(JSONObject([(inputName, .string(input))])).text
  }

  /// ASCII letters, digits, `_` and `-`.
  private static func isValidName(_ name: String) -> Bool {
    (1...ToolName.maxBytes).contains(name.utf8.count)
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

/// Names of tools.
enum ToolName {
  static let maxBytes = 128

  /// One name for a tool of a namespace; what would be too long ends in a hash of all of it.
  static func joined(_ namespace: String, _ name: String) -> String {
    let whole = namespace.hasSuffix("__") ? namespace + name : "\(namespace)__\(name)"
    guard whole.utf8.count > maxBytes else { return whole }
    let hash = String(FNV1a.hash(whole), radix: 36)
    return String(decoding: whole.utf8.prefix(maxBytes - 1 - hash.utf8.count), as: UTF8.self) + "_" + hash
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
  /// What is left out: `tools[0].type=web_search`.
  private(set) var dropped: [String] = []

  /// - Throws: 400 for a second tool of one name.
  mutating func add(_ tool: Tool) throws(APIError) {
    guard find(tool.name) == nil else {
      throw .invalidValue(tool.nameField, "the name '\(tool.name)' is used twice")
    }
    tools.append(tool)
  }

  /// Leaves out a tool that only its provider can run.
  ///
  /// - Throws: 400 where such tools are refused.
  mutating func drop(_ tool: Fields, type: String, limits: RequestLimits) throws(APIError) {
    let field = tool.name(of: "type")
    guard !limits.refusesHostedTools else {
      throw .unsupportedValue(
        field,
        "'\(APIError.shortened(type))' tools are run by a provider; without --refuse-hosted-tools they are left out"
      )
    }
    dropped.append("\(field)=\(APIError.shortened(type))")
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

  /// The model's name of a tool that the client names.
  private func check(_ name: ToolChoiceWords.Name) throws(APIError) -> String {
    let known = find(name.text) ?? tools.first { $0.clientName.utf8.elementsEqual(name.text.utf8) }
    guard let known else {
      throw .invalidValue(
        name.field, "there is no tool named '\(APIError.shortened(name.text))' in 'tools'")
    }
    return known.name
  }
}
