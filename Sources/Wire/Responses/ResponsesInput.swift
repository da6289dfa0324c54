// The items of a Responses request or a conversation: checked, and brought into the form the API shows them in.
//
// Every item gets an id, messages get content parts, and null members are dropped, so that an item is the same in
// the request's list, in a stored response and in a conversation.

package import JSON

/// Items with the places in the body that they came from.
package struct ResponsesInput: Sendable, Equatable {
  package var items: [JSONValue] = []
  /// `input[3]` for each item.
  package var paths: [String] = []
  /// Items that the model is not shown: history of other servers' own tools.
  package var unused: [String] = []

  package init() {}
}

/// Checks items, and gives them the ids and the form in which they are kept.
package struct ResponsesItemReader {
  private let limits: RequestLimits
  private let makeID: () -> String
  private let resolve: (String) -> JSONValue?

  /// - Parameters:
  ///   - makeID: makes the random part of an id.
  ///   - resolve: finds the item that an `item_reference` names.
  package init(
    limits: RequestLimits, makeID: @escaping () -> String, resolve: @escaping (String) -> JSONValue?
  ) {
    self.limits = limits
    self.makeID = makeID
    self.resolve = resolve
  }

  /// Reads `input`: a string is one user message.
  package func read(_ value: JSONValue, name: String = "input") throws(APIError) -> ResponsesInput {
    var input = ResponsesInput()
    switch value {
    case .string(let text):
      input.items = [message(role: "user", parts: [["type": "input_text", "text": .string(text)]], nil)]
      input.paths = [name]
    case .array(let values):
      guard !values.isEmpty else { throw .invalidValue(name, "it is empty") }
      try APIError.check(count: values.count, atMost: limits.messages, field: name)
      for (index, value) in values.enumerated() {
        try readItem(value, path: "\(name)[\(index)]", into: &input, isInner: false)
      }
    default: throw .wrongType(name, expected: "a string or an array of items", found: value)
    }
    return input
  }

  // MARK: One item

  /// Work of another server's own tools: nothing that this model could be shown, and harmless to leave out.
  static let unusedTypes: Set = [
    "web_search_call", "code_interpreter_call", "image_generation_call", "tool_search_call",
    "configuration_update", "program", "program_output", "compaction_trigger",
  ]
  /// Calls of tools that this server does not have; leaving them out would falsify the conversation.
  private static let refusedTypes: Set = ["computer_call", "computer_call_output"]

  /// - Parameter isInner: within a compaction, which holds no further one and no references.
  private func readItem(_ value: JSONValue, path: String, into input: inout ResponsesInput, isInner: Bool)
    throws(APIError)
  {
    var item = try Fields(value, path: path)
    let result: JSONValue
    switch try Self.type(of: &item) {
    case "message": result = try readMessage(&item)
    case "reasoning": result = try readReasoning(&item)
    case "file_search_call":
      result = identified(item.object, prefix: "fs_")
      // What was found is not told: nothing that the model could be shown.
      if item.object["results"]?.arrayValue == nil { input.unused.append("\(path).type=file_search_call") }
    case "function_call": result = try readCall(&item, prefix: "fc_", argument: "arguments")
    case "custom_tool_call": result = try readCall(&item, prefix: "ctc_", argument: "input")
    case "function_call_output": result = try readOutput(&item, prefix: "fco_")
    case "custom_tool_call_output": result = try readOutput(&item, prefix: "ctco_")
    case "mcp_list_tools":
      guard try item.array("tools", maxCount: limits.tools) != nil else { throw .missing("\(path).tools") }
      result = try readRemote(&item, prefix: "mcpl_", ["server_label"])
    case "mcp_call": result = try readRemote(&item, prefix: "mcp_", ["server_label", "name", "arguments"])
    case "mcp_approval_request":
      result = try readRemote(&item, prefix: "mcpr_", ["server_label", "name", "arguments"])
    case "mcp_approval_response":
      guard try item.bool("approve") != nil else { throw .missing("\(path).approve") }
      _ = try item.string("reason")
      result = try readRemote(&item, prefix: "mcpa_", ["approval_request_id"])
    case "item_reference" where !isInner: result = try readReference(&item)
    case "compaction":
      if !isInner, let inner = try openCompaction(&item) {
        for item in inner { try readItem(item, path: path, into: &input, isInner: true) }
        return
      }
      input.unused.append("\(path).type=compaction")
      result = identified(item.object, prefix: "cmp_")
    case "tool_search_output", "additional_tools":
      // The tools themselves are read with those of the request.
      guard try item.array("tools", maxCount: limits.tools) != nil else { throw .missing("\(path).tools") }
      try ClientToolItem.form(of: value)?.check(&item)
      result = identified(item.object, prefix: "item_")
    case _ where ClientToolItem.form(of: value) != nil:
      try ClientToolItem.form(of: value)?.check(&item)
      result = identified(item.object, prefix: "item_")
    case let type where Self.unusedTypes.contains(type):
      input.unused.append("\(path).type=\(type)")
      result = identified(item.object, prefix: "item_")
    case let type where Self.refusedTypes.contains(type):
      throw .unsupportedValue("\(path).type", "'\(type)' items cannot be used here")
    case let type: throw .invalidValue("\(path).type", "'\(APIError.shortened(type))' is not an input item")
    }
    input.items.append(result)
    input.paths.append(path)
  }

  /// Messages may come without a type, and so may references.
  private static func type(of item: inout Fields) throws(APIError) -> String {
    if let type = try item.string("type") { return type }
    if item.object["role"] != nil { return "message" }
    if item.object["id"] != nil { return "item_reference" }
    throw .missing(item.name(of: "type"))
  }

  private func readReference(_ item: inout Fields) throws(APIError) -> JSONValue {
    let id = try item.requiredString("id")
    guard let found = resolve(id) else {
      throw APIError(
        status: 400, code: nil, param: item.path,
        message: "Item with id '\(APIError.shortened(id))' not found.")
    }
    return found
  }

  /// Nil for what another server has made, or what is damaged.
  private func openCompaction(_ item: inout Fields) throws(APIError) -> [JSONValue]? {
    let envelope = try item.requiredString("encrypted_content")
    guard let text = SealedContent.compaction.open(envelope), let value = try? JSONValue(parsing: text),
      let items = value.arrayValue
    else { return nil }
    guard items.count <= limits.messages else {
      throw .invalidValue(item.name(of: "encrypted_content"), "it holds too many items")
    }
    return items
  }

  /// The members that are not null, with an id and the given status.
  private func identified(_ object: JSONObject, prefix: String, status: String? = nil) -> JSONValue {
    var out = JSONObject()
    out["id"] = .string(object["id"]?.stringValue ?? prefix + makeID())
    for (key, value) in object.entries where !value.isNull && out[key] == nil { out[key] = value }
    if let status, out["status"] == nil { out["status"] = .string(status) }
    return .object(out)
  }

  // MARK: Messages

  private static let roles = ["user", "assistant", "system", "developer"]

  private func readMessage(_ item: inout Fields) throws(APIError) -> JSONValue {
    let role = try item.requiredString("role")
    guard Self.roles.contains(where: { $0.utf8.elementsEqual(role.utf8) }) else {
      throw .invalidValue(
        item.name(of: "role"),
        "'\(APIError.shortened(role))' is none of \(Self.roles.joined(separator: ", "))")
    }
    _ = try item.string("id")
    _ = try item.word("status", of: ["in_progress", "completed", "incomplete"])
    let phase = try item.word("phase", of: ["commentary", "final_answer"])
    let path = item.name(of: "content")
    var parts: [JSONValue] = []
    switch try item.required("content") {
    case .string(let text): parts = [textPart(text, role: role)]
    case .array(let values):
      guard values.count <= limits.contentParts else {
        throw .invalidValue(path, "it has more than \(limits.contentParts) parts")
      }
      for (index, value) in values.enumerated() {
        parts.append(try readPart(value, path: "\(path)[\(index)]", role: role))
      }
    case let other: throw .wrongType(path, expected: "a string or an array of content parts", found: other)
    }
    return message(role: role, parts: parts, item.object, phase: phase)
  }

  private func message(role: String, parts: [JSONValue], _ given: JSONObject?, phase: String? = nil)
    -> JSONValue
  {
    var out = JSONObject([
      ("id", .string(given?["id"]?.stringValue ?? "msg_" + makeID())), ("type", "message"),
      ("role", .string(role)),
    ])
    out["status"] = .string(given?["status"]?.stringValue ?? "completed")
    out["content"] = .array(parts)
    if let phase { out["phase"] = .string(phase) }
    return .object(out)
  }

  private func textPart(_ text: String, role: String, annotations: JSONValue? = nil) -> JSONValue {
    role == "assistant"
      ? ["type": "output_text", "text": .string(text), "annotations": annotations ?? [], "logprobs": []]
      : ["type": "input_text", "text": .string(text)]
  }

  private func readPart(_ value: JSONValue, path: String, role: String) throws(APIError) -> JSONValue {
    var part = try Fields(value, path: path)
    let type = try part.requiredString("type")
    switch (type, role) {
    case ("input_text", _), ("output_text", "assistant"):
      let annotations = try part.array("annotations", maxCount: 10_000)
      return textPart(
        try part.requiredString("text"), role: role, annotations: annotations.map(JSONValue.array))
    case ("refusal", "assistant"):
      return ["type": "refusal", "refusal": .string(try part.requiredString("refusal"))]
    case ("input_image", "user"), ("input_file", "user"), ("input_audio", "user"):
      return Self.withoutNulls(part.object)
    default:
      throw .invalidValue(
        "\(path).type", "'\(APIError.shortened(type))' is not a content part of a \(role) message")
    }
  }

  private static func withoutNulls(_ object: JSONObject) -> JSONValue {
    .object(JSONObject(object.entries.lazy.filter { !$0.value.isNull }.map { ($0.key, $0.value) }))
  }

  // MARK: Reasoning and calls

  private func readReasoning(_ item: inout Fields) throws(APIError) -> JSONValue {
    _ = try item.string("id")
    _ = try item.string("encrypted_content")
    for (name, type) in [("summary", "summary_text"), ("content", "reasoning_text")] {
      for (index, value) in (try item.array(name, maxCount: limits.contentParts) ?? []).enumerated() {
        var part = try Fields(value, path: "\(item.name(of: name))[\(index)]")
        _ = try part.word("type", of: [type])
        _ = try part.requiredString("text")
      }
    }
    var object = item.object
    object["type"] = "reasoning"
    if object["summary"]?.arrayValue == nil { object["summary"] = [] }
    return identified(object, prefix: "rs_")
  }

  private func readCall(_ item: inout Fields, prefix: String, argument: String) throws(APIError) -> JSONValue
  {
    _ = try item.string("id")
    _ = try item.requiredString("call_id")
    _ = try item.requiredString("name")
    _ = try item.requiredString(argument)
    return identified(item.object, prefix: prefix, status: "completed")
  }

  /// An item of a server of tools.
  private func readRemote(
    _ item: inout Fields, prefix: String, _ names: [String]
  ) throws(APIError) -> JSONValue {
    _ = try item.string("id")
    for name in names { _ = try item.requiredString(name) }
    return identified(item.object, prefix: prefix)
  }

  private func readOutput(_ item: inout Fields, prefix: String) throws(APIError) -> JSONValue {
    _ = try item.string("id")
    _ = try item.requiredString("call_id")
    let path = item.name(of: "output")
    switch try item.required("output") {
    case .string: break
    case .array(let parts):
      guard parts.count <= limits.contentParts else {
        throw .invalidValue(path, "it has more than \(limits.contentParts) parts")
      }
      for (index, value) in parts.enumerated() {
        var part = try Fields(value, path: "\(path)[\(index)]")
        switch try part.requiredString("type") {
        case "input_text": _ = try part.requiredString("text")
        case "input_image", "input_file": break
        case let type: _ = try Transcript.part(of: part, type: type)
        }
      }
    case let other: throw .wrongType(path, expected: "a string or an array of content parts", found: other)
    }
    return identified(item.object, prefix: prefix, status: "completed")
  }
}
