// The tools of a request, and which of them its answer may call.

package import JSON

/// A tool that the model may call. To the model every tool is a function.
package struct Tool: Sendable, Equatable {
  /// What calls of it look like to the client.
  package enum Kind: Sendable, Equatable {
    case function
    /// Free text, which the model writes as the argument `input`.
    case custom
    /// One that the client runs, whose calls are items of their own with ids that begin so.
    case item(idPrefix: String)
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
  /// Where the model is told of it.
  package enum Place: Sendable, Equatable {
    /// With the other tools, where the template has them.
    case prompt
    /// In the result of the search that found it. So the prompt before that result stays as it was, and is not read again.
    case result
    /// Nowhere before a search has found it.
    case unfound
  }

  package fileprivate(set) var place: Place
  /// The field that holds the schema of the arguments, for errors.
  package var parametersField: String
  /// Where a request has it, for errors.
  fileprivate let path: String
  /// Why its calls cannot be held to its parameters, which say nothing that a schema can.
  fileprivate var fault: APIError?

  /// What the result of a search says of it: a line of JSON, as most templates have it.
  var definition: String { json.text + "\n" }

  /// The schema of the arguments; nil for a function without arguments.
  package var parameters: JSONValue? { json["function"]?["parameters"] }

  /// Reads what a request says of a function: `name`, `description`, `strict` and the schema of its arguments.
  ///
  /// - Parameters:
  ///   - schema: the wire's name of the schema.
  ///   - allowsDots: whether the wire's names may have dots, as those of MCP's tools do.
  init(
    _ function: inout Fields, schema: String = "parameters", allowsDots: Bool = false, limits: RequestLimits
  ) throws(APIError) {
    path = function.path
    parametersField = function.name(of: schema)
    name = try function.requiredString("name")
    clientName = name
    guard ToolName.isValid(name, allowsDots: allowsDots) else {
      let letters = allowsDots ? "a-zA-Z0-9_.-" : "a-zA-Z0-9_-"
      throw .invalidValue("\(path).name", "it must match ^[\(letters)]{1,\(ToolName.maxBytes)}$")
    }
    var json = JSONObject([("name", .string(name))])
    if let description = try function.string("description") { json["description"] = .string(description) }
    isStrict = try function.bool("strict") ?? false
    place = try function.bool("defer_loading") == true ? .unfound : .prompt
    if let parameters = function.value(schema) {
      let check = SchemaCheck(path: parametersField, maxBytes: limits.schemaBytes)
      try check.checkSize(of: parameters)
      do throws(APIError) {
        json["parameters"] = .object(try check.check(parameters))
      } catch {
        guard !isStrict else { throw error }
        // The model may read in them what it likes. Templates fail on members that are null.
        fault = error
        let members = parameters.objectValue?.entries.filter { $0.value != .null }
        json["parameters"] = members.map { .object(JSONObject($0.map { ($0.key, $0.value) })) }
      }
    }
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
        "strict": .bool(grammar != nil), "defer_loading": tool.value("defer_loading") ?? nil,
      ], path: tool.path)
    try self.init(&function, limits: limits)
    kind = .custom
    inputGrammar = grammar
    parametersField = field
  }

  /// The name of the search in files, which the server runs.
  static let fileSearchName = "file_search"
  /// The name of a search for further tools.
  static let searchName = "tool_search"

  /// A function whose calls are items of their own.
  init(item function: JSONValue, idPrefix: String, path: String, limits: RequestLimits) throws(APIError) {
    var fields = try Fields(function, path: path)
    try self.init(&fields, limits: limits)
    kind = .item(idPrefix: idPrefix)
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

  /// The arguments of a call as an object. Text that is none (the answer was cut) is kept under the key that Anthropic's
  /// guide names.
  package static func object(of arguments: String) -> JSONValue {
    guard !arguments.utf8.isEmpty else { return [:] }
    if let value = try? JSONValue(parsing: arguments), value.objectValue != nil { return value }
    return ["INVALID_JSON": .string(arguments)]
  }

  /// The arguments of a call of a custom tool.
  static func arguments(of input: String) -> String {
    JSONValue.object(JSONObject([(inputName, .string(input))])).text
  }

  fileprivate func isNamed(_ name: String) -> Bool { self.name.utf8.elementsEqual(name.utf8) }
}

/// Names of tools.
enum ToolName {
  static let maxBytes = 128

  /// ASCII letters, digits, `_` and `-`.
  static func isLetter(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }

  /// Whether all are such letters, or perhaps dots.
  static func isValid(_ name: String, most: Int = maxBytes, allowsDots: Bool = false) -> Bool {
    (1...most).contains(name.utf8.count)
      && name.utf8.allSatisfy { isLetter($0) || allowsDots && $0 == UInt8(ascii: ".") }
  }

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
  /// Never: calls are masked.
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
    /// Whether it is no name, but a type of tools that a provider runs.
    private(set) var isType = false

    /// Reads the member `name`.
    init(_ fields: inout Fields) throws(APIError) {
      text = try fields.requiredString("name")
      field = fields.name(of: "name")
    }

    /// What has a type and no name.
    ///
    /// - Parameter isName: whether the type is also the name of a function.
    init(type: String, isName: Bool = false, of fields: Fields) {
      text = type
      field = fields.name(of: "type")
      isType = !isName
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
  /// A tool that is left out.
  private struct Hosted {
    let type: String
    let name: String?
    let field: String

    var words: String { "\(field) '\(APIError.shortened(type))'" }

    /// Types have a date at their end that a choice may leave out.
    func answers(to choice: ToolChoiceWords.Name) -> Bool {
      name?.utf8.elementsEqual(choice.text.utf8) == true || type.utf8.starts(with: choice.text.utf8)
    }
  }

  /// What the model is told about; before `choose` also what is deferred.
  private(set) var tools: [Tool] = []
  private(set) var choice = ToolChoice.none
  var allowsParallelCalls = true
  /// Whether the model is not told of tools that it may not call.
  private var hidesUncallable = false
  /// What is left out, and deferred tools that are not: `tools[0].type=web_search`.
  private(set) var dropped: [String] = []
  private var hosted: [Hosted] = []

  /// - Throws: 400 for a second tool of one name.
  mutating func add(_ tool: Tool) throws(APIError) {
    guard place(of: tool.name) == nil else {
      throw .invalidValue("\(tool.path).name", "the name '\(tool.name)' is used twice")
    }
    tools.append(tool)
  }

  /// How a server like this one comes to such a tool.
  private static let wayOut =
    "An MCP server can have such a tool: name it in POST /v1/responses as a tool of type 'mcp'"

  /// Leaves out a tool that only its provider can run.
  ///
  /// - Throws: 400 where such tools are refused.
  mutating func drop(_ tool: Fields, type: String, limits: RequestLimits) throws(APIError) {
    let field = tool.name(of: "type")
    guard !limits.refusesHostedTools else {
      throw .unsupportedValue(
        field,
        "'\(APIError.shortened(type))' tools are run by a provider; without --refuse-hosted-tools they are left out. "
          + Self.wayOut
      )
    }
    hosted.append(Hosted(type: type, name: tool.object["name"]?.stringValue, field: field))
    dropped.append("\(field)=\(APIError.shortened(type))")
  }

  // MARK: Deferred tools

  /// Takes in a tool that the conversation brings, in place of an earlier one of its name. One that the prompt had not
  /// shown comes last, so that the prompt changes as late as it can.
  mutating func load(_ tool: Tool, place: Tool.Place, limits: RequestLimits) throws(APIError) {
    var tool = tool
    tool.place = place
    if let index = self.place(of: tool.name) {
      if tools[index].place == .prompt {
        // The prompt goes on to show what it has shown.
        if place == .prompt { tools[index] = tool }
        return
      }
      tools.remove(at: index)
    }
    guard tools.count < limits.tools else {
      throw .invalidValue("\(tool.path).name", "there are more than \(limits.tools) tools")
    }
    tools.append(tool)
  }

  /// Makes a tool that nothing has found callable, if there is one of this name.
  mutating func load(_ name: String, place: Tool.Place) {
    guard let index = tools.firstIndex(where: { $0.place == .unfound && $0.isNamed(name) }) else { return }
    var tool = tools.remove(at: index)
    tool.place = place
    tools.append(tool)
  }

  /// What the result of a search says of a tool that it has found; nil for a name that no such tool has.
  func definition(of name: String) -> String? {
    guard let index = self.place(of: name), tools[index].place == .result else { return nil }
    return tools[index].definition
  }

  /// Shows all tools, since nothing could find those that are deferred.
  mutating func loadAll() {
    for index in tools.indices where tools[index].place == .unfound {
      tools[index].place = .prompt
      dropped.append("\(tools[index].path).defer_loading")
    }
  }

  // MARK: The choice

  /// Reads what is said of tools beside the choice.
  mutating func readHiding(_ fields: inout Fields) throws(APIError) {
    hidesUncallable =
      try fields.bool(
        "hide_tools",
        "with the choice `none` the model is not told of tools; false by default, see below",
        like: "true") ?? false
  }

  /// Where the model's template shows no tools, those that need not be called are left out.
  ///
  /// - Parameter hasOthers: whether there will be more tools, of other servers.
  /// - Throws: 400 for a choice that names none of the tools.
  mutating func choose(
    _ words: ToolChoiceWords, limits: RequestLimits, hasOthers: Bool = false
  ) throws(APIError) {
    try choose(words, hasOthers)
    guard !limits.showsTools, choice == .none || choice == .auto else { return }
    // The server itself searches for such a model.
    let count = tools.count
    tools.removeAll { choice == .none || !$0.isNamed(Tool.fileSearchName) }
    if tools.isEmpty { choice = .none }
    if tools.count < count { dropped.append("tools") }
  }

  private mutating func choose(_ words: ToolChoiceWords, _ hasOthers: Bool) throws(APIError) {
    let isChosen: (Tool) -> Bool
    switch words {
    case .named(let name):
      guard let tool = try find(name) else { throw leftOut(name) }
      if let fault = tool.fault { throw fault }
      load(tool.name, place: .prompt)
      (choice, isChosen) = (.named(tool.name), { _ in true })
    case .allowed(let names, let isRequired, _):
      // The model is told about the allowed tools only, so that it does not even wish for others.
      var allowed: Set<String> = []
      for name in names { if let tool = try find(name) { allowed.insert(tool.name) } }
      (choice, isChosen) = (isRequired ? .required : .auto, { allowed.contains($0.name) })
    case .required: (choice, isChosen) = (.required, { _ in true })
    case .auto: (choice, isChosen) = (.auto, { _ in true })
    case .none: (choice, isChosen) = (.none, { [hidesUncallable] _ in !hidesUncallable })
    }
    tools.removeAll { $0.place == .unfound || !isChosen($0) }
    if choice == .required, let fault = tools.lazy.compactMap(\.fault).first { throw fault }
    guard tools.isEmpty, !hasOthers else { return }
    switch words {
    case .required(let word): throw .invalidValue("tool_choice", "'\(word)' needs 'tools'\(lost)")
    case .allowed(_, isRequired: true, let field):
      throw .invalidValue(field, "it is empty, but the mode is 'required'\(lost)")
    default: choice = .none
    }
  }

  /// What is said of tools that were left out, where the others are not enough.
  private var lost: String {
    hosted.first.map { "; \($0.words) is run by its provider, and was left out" } ?? ""
  }

  private func place(of name: String) -> Int? { tools.firstIndex { $0.isNamed(name) } }

  /// The tool that a client names; nil for one that was left out.
  private func find(_ name: ToolChoiceWords.Name) throws(APIError) -> Tool? {
    if !name.isType {
      let known =
        tools.first { $0.isNamed(name.text) }
        ?? tools.first { $0.clientName.utf8.elementsEqual(name.text.utf8) }
      if let known { return known }
    }
    guard hosted.contains(where: { $0.answers(to: name) }) else {
      let text = APIError.shortened(name.text)
      throw name.isType
        ? .unsupportedValue(name.field, "'\(text)' cannot be chosen here")
        : .invalidValue(name.field, "there is no tool named '\(text)' in 'tools'")
    }
    return nil
  }

  private func leftOut(_ name: ToolChoiceWords.Name) -> APIError {
    let tool = hosted.first { $0.answers(to: name) }?.words ?? "the tool"
    return .unsupportedValue(
      name.field,
      "\(tool) is run by its provider, and was left out; choose a tool that the client runs. "
        + Self.wayOut)
  }
}
