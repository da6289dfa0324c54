// What the answer must look like, in the names of all wires and of other servers.

package import JSON

/// A constraint on the content of an answer. Its schema, expression or grammar is compiled elsewhere.
package struct ResponseFormat: Sendable, Equatable {
  /// What the content has to be.
  package enum Form: Sendable, Equatable {
    case anyObject
    case schema(JSONValue)
    /// The whole content matches.
    case regex(String)
    /// The content is one of these.
    case choice([String])
    /// GBNF with a rule `root`, or Lark with a rule `start`.
    case grammar(String)
    /// Text with tags inside, as XGrammar describes it: the object with `format`, or with `structures` and `triggers`.
    case structuralTag(JSONValue)
    /// Text that stands in a source.
    case quote(QuoteSource)
  }

  package var form: Form
  /// The field that says so, for errors.
  package var param: String
  /// Whether `strict` is true beside a schema.
  package var isStrict = false

  package init(_ form: Form, param: String) {
    self.form = form
    self.param = param
  }
}

/// Where the texts are that an answer may quote.
package enum QuoteSource: Sendable, Equatable {
  case texts([String])
  /// In the messages of the request that are not the model's own.
  case messages

  /// How a request names the messages, here and in the schema keyword `x-quote-of`.
  package static let messagesValue: JSONValue = ["from": "messages"]
}

extension ResponseFormat {
  /// The one constraint that a request asks for; nil for free text.
  ///
  /// - Parameter own: what the wire's own field says; the others are extensions that chat, completions and Responses share.
  /// - Throws: for a malformed value, and when two fields constrain the answer to different things.
  static func read(_ fields: inout Fields, own: ResponseFormat?) throws(APIError) -> ResponseFormat? {
    let reader = FormatReader(limits: fields.limits)
    var found: [ResponseFormat] = []
    if let own { found.append(own) }
    found += try reader.members(
      &fields,
      names: .init(
        json: "guided_json", regex: "guided_regex", choice: "guided_choice", grammar: "guided_grammar"))
    found += try reader.members(&fields, names: .init(json: "json_schema", grammar: "grammar"))
    // SGLang's names.
    found += try reader.members(
      &fields, names: .init(regex: "regex", grammar: "ebnf", structuralTag: "structural_tag"))
    found +=
      try fields.object(
        "structured_outputs", "one of these members; others are refused", like: #"{"regex":"[0-9]+"}"#
      ) { (outputs) throws(APIError) in
        var found: [ResponseFormat] = []
        if try outputs.bool("json_object") == true {
          found.append(ResponseFormat(.anyObject, param: outputs.name(of: "json_object")))
        }
        found += try reader.members(
          &outputs,
          names: .init(
            json: "json", regex: "regex", choice: "choice", grammar: "grammar",
            structuralTag: "structural_tag")
        )
        if let other = outputs.unread.first {
          throw .unsupportedParameter(outputs.name(of: APIError.shortened(other)))
        }
        return found
      } ?? []
    _ = try fields.string("guided_decoding_backend", .accepted("there is one engine"), like: #""auto""#)
    try fields.refuse(
      "guided_whitespace_pattern", because: "white space in JSON is the server's choice", like: #"" ""#)
    try fields.refuse("grammar_lazy", because: "a grammar holds from the first token", like: "true")
    try fields.refuse("grammar_triggers", because: "a grammar holds from the first token", like: "[]")
    // Clients send the same under several names, for servers that know one of them.
    if let other = found.first(where: { !$0.form.isSame(as: found[0].form) }) {
      throw .invalidValue(
        other.param, "'\(found[0].param)' constrains the answer already, and to something else")
    }
    var first = found.first
    if found.contains(where: \.isStrict) { first?.isStrict = true }
    return first
  }
}

extension ResponseFormat.Form {
  /// Equal to the byte: Swift's `==` also equates texts that Unicode calls equivalent.
  fileprivate func isSame(as other: ResponseFormat.Form) -> Bool {
    switch (self, other) {
    case (.regex(let a), .regex(let b)), (.grammar(let a), .grammar(let b)): a.utf8.elementsEqual(b.utf8)
    case (.choice(let a), .choice(let b)): a.elementsEqual(b) { $0.utf8.elementsEqual($1.utf8) }
    default: self == other
    }
  }
}

/// Reads the forms of a constraint, under whatever names.
struct FormatReader {
  let limits: RequestLimits

  struct Names {
    var json: String?
    var regex: String?
    var choice: String?
    var grammar: String?
    var structuralTag: String?
  }

  /// An object with a `type`: the form that chat and Responses share.
  ///
  /// - Parameter describe: reads a `json_schema`, which has its members in other places on each wire.
  /// - Returns: nil for free text.
  func typed(
    _ format: inout Fields, describe: (inout Fields) throws(APIError) -> ResponseFormat
  ) throws(APIError) -> ResponseFormat? {
    switch try format.requiredString("type") {
    case "text": return nil
    case "json_object":
      guard let schema = try format.object("schema") else {
        return ResponseFormat(.anyObject, param: format.path)
      }
      return try schemaFormat(.object(schema), param: format.name(of: "schema"))
    case "json_schema": return try describe(&format)
    case "structural_tag":
      var members = JSONObject()
      for name in ["format", "structures", "triggers"] { members[name] = format.value(name) }
      return try structuralTag(.object(members), param: format.path)
    case "quote": return ResponseFormat(.quote(try quoteSource(&format)), param: format.name(of: "source"))
    case let other:
      throw .invalidValue(format.name(of: "type"), "'\(APIError.shortened(other))' is not a response format")
    }
  }

  private func quoteSource(_ format: inout Fields) throws(APIError) -> QuoteSource {
    let name = format.name(of: "source")
    guard let source = format.value("source") else { throw .missing(name) }
    if source == QuoteSource.messagesValue { return .messages }
    let texts = (source.arrayValue ?? [source]).compactMap(\.stringValue)
    guard !texts.isEmpty, texts.count == source.arrayValue?.count ?? 1 else {
      throw .wrongType(name, expected: #"a text, a list of texts, or {"from": "messages"}"#, found: source)
    }
    return .texts(texts)
  }

  /// A schema beside its name, its description and `strict`. Strict or not, the schema holds; strict, objects have
  /// declared members only.
  func described(_ fields: inout Fields) throws(APIError) -> ResponseFormat {
    _ = try fields.string("name")
    _ = try fields.string("description")
    let isStrict = try fields.bool("strict") ?? false
    var format = try schema(in: &fields)
    format.isStrict = isStrict
    return format
  }

  /// The member `schema`, which must be there.
  func schema(in fields: inout Fields) throws(APIError) -> ResponseFormat {
    guard let schema = try fields.object("schema") else { throw .missing(fields.name(of: "schema")) }
    return try schemaFormat(.object(schema), param: fields.name(of: "schema"))
  }

  func members(_ fields: inout Fields, names: Names) throws(APIError) -> [ResponseFormat] {
    var found: [ResponseFormat] = []
    if let name = names.json,
      let value = fields.value(
        name, Shape.named("SchemaOrText"), "a schema, or its JSON text", like: #"{"type":"object"}"#)
    {
      found.append(try schemaFormat(try parsed(value, fields.name(of: name)), param: fields.name(of: name)))
    }
    if let name = names.regex,
      let text = try text(name, &fields, "the content matches as a whole", like: #""[0-9]+""#)
    {
      found.append(ResponseFormat(.regex(text), param: fields.name(of: name)))
    }
    if let name = names.choice, let choices = try choices(name, &fields) {
      found.append(ResponseFormat(.choice(choices), param: fields.name(of: name)))
    }
    if let name = names.grammar,
      let text = try text(
        name, &fields, "a grammar: GBNF with the rule `root`, or Lark with the rule `start`",
        like: #""root ::= \"a\"""#)
    {
      found.append(ResponseFormat(.grammar(text), param: fields.name(of: name)))
    }
    if let name = names.structuralTag,
      let value = fields.value(
        name, #"{"type": ["object", "string"]}"#, "text with tags inside, or the JSON text of such a tag",
        like: #"{"format":{"type":"const_string","value":"a"}}"#)
    {
      let param = fields.name(of: name)
      found.append(try structuralTag(try parsed(value, param), param: param))
    }
    return found
  }

  private func structuralTag(_ tag: JSONValue, param: String) throws(APIError) -> ResponseFormat {
    guard tag.objectValue != nil else { throw .wrongType(param, expected: "an object", found: tag) }
    guard tag.bytes.count <= limits.schemaBytes else {
      throw .invalidValue(param, "it is larger than \(limits.schemaBytes) bytes")
    }
    return ResponseFormat(.structuralTag(tag), param: param)
  }

  /// A JSON value, or the text of one.
  private func parsed(_ value: JSONValue, _ param: String) throws(APIError) -> JSONValue {
    guard let text = value.stringValue else { return value }
    do throws(JSONError) {
      return try JSONValue(parsing: text)
    } catch {
      throw .invalidValue(param, "the string is not JSON: \(error)")
    }
  }

  private func schemaFormat(_ schema: JSONValue, param: String) throws(APIError) -> ResponseFormat {
    guard schema.objectValue != nil || schema.boolValue != nil else {
      throw .wrongType(param, expected: "a schema (an object or a boolean)", found: schema)
    }
    guard schema.bytes.count <= limits.schemaBytes else {
      throw .invalidValue(param, "the schema is larger than \(limits.schemaBytes) bytes")
    }
    return ResponseFormat(.schema(schema), param: param)
  }

  private func text(
    _ name: String, _ fields: inout Fields, _ words: @autoclosure () -> Words,
    like example: @autoclosure () -> String
  ) throws(APIError) -> String? {
    guard let text = try fields.string(name, maxBytes: limits.grammarBytes, words(), like: example()) else {
      return nil
    }
    guard !text.utf8.isEmpty else { throw .invalidValue(fields.name(of: name), "it is empty") }
    return text
  }

  private func choices(_ name: String, _ fields: inout Fields) throws(APIError) -> [String]? {
    guard
      let values = try fields.array(
        name, of: Shape.string, minCount: 1, maxCount: limits.formatChoices,
        "the content is one of them; up to \(limits.formatChoices)", like: #"["yes","no"]"#)
    else { return nil }
    let param = fields.name(of: name)
    var choices: [String] = []
    var bytes = 0
    for (index, value) in values.enumerated() {
      guard let text = value.stringValue else {
        throw .wrongType("\(param)[\(index)]", expected: "a string", found: value)
      }
      guard !text.utf8.isEmpty else { throw .invalidValue("\(param)[\(index)]", "it is empty") }
      choices.append(text)
      bytes += text.utf8.count
    }
    guard !choices.isEmpty else { throw .invalidValue(param, "it is empty") }
    guard bytes <= limits.grammarBytes else {
      throw .invalidValue(param, "the choices are longer than \(limits.grammarBytes) bytes together")
    }
    return choices
  }
}
