// Structural tags: text with tags inside, in the notation of XGrammar, vLLM and SGLang, as a pattern.

package import Grammar
package import JSON
package import Tokenizers

/// Reads an object with `format`, or the older one with `structures` and `triggers`.
package struct StructuralTag {
  private let tokenizer: Tokenizer
  private var depth = 0

  private static let depthLimit = 24

  /// - Throws: for what is malformed or not possible here, with its place.
  package static func pattern(_ tag: JSONValue, tokenizer: Tokenizer) throws(GrammarError) -> Pattern {
    var reader = StructuralTag(tokenizer: tokenizer)
    if let format = tag["format"] { return try reader.format(format, "/format", until: []) }
    guard let structures = tag["structures"]?.arrayValue else {
      throw .malformed(path: "", reason: "there is neither 'format' nor 'structures'")
    }
    var tags: [JSONValue] = []
    for (index, entry) in structures.enumerated() {
      let path = "/structures/\(index)"
      let content: JSONValue = [
        "type": "json_schema", "json_schema": entry["schema"] ?? .bool(true),
      ]
      tags.append([
        "begin": .string(try reader.text("begin", of: entry, path)), "content": content,
        "end": .string(try reader.text("end", of: entry, path)),
      ])
    }
    let members: JSONValue = ["tags": .array(tags), "triggers": tag["triggers"] ?? .null]
    return try reader.triggered(members, "", until: [])
  }

  private init(tokenizer: Tokenizer) { self.tokenizer = tokenizer }

  // MARK: Members

  private func text(_ name: String, of object: JSONValue, _ path: String) throws(GrammarError) -> String {
    guard let text = object[name]?.stringValue else {
      throw .malformed(path: "\(path)/\(name)", reason: "it is not a string")
    }
    return text
  }

  private func texts(
    _ name: String, of object: JSONValue, _ path: String, isRequired: Bool = false
  ) throws(GrammarError) -> [String] {
    guard let value = object[name], !value.isNull else {
      guard !isRequired else { throw .malformed(path: "\(path)/\(name)", reason: "it is missing") }
      return []
    }
    var out: [String] = []
    for entry in value.arrayValue ?? [value] {
      guard let text = entry.stringValue, !text.utf8.isEmpty || !isRequired else {
        throw .malformed(path: "\(path)/\(name)", reason: "it is not a list of strings that are not empty")
      }
      out.append(text)
    }
    guard !isRequired || !out.isEmpty else {
      throw .malformed(path: "\(path)/\(name)", reason: "it is empty")
    }
    return out
  }

  private func list(_ name: String, of object: JSONValue, _ path: String) throws(GrammarError) -> [JSONValue]
  {
    guard let list = object[name]?.arrayValue, !list.isEmpty else {
      throw .malformed(path: "\(path)/\(name)", reason: "it is not a list with members")
    }
    return list
  }

  private func flag(_ name: String, of object: JSONValue) -> Bool { object[name]?.boolValue ?? false }

  /// Text in which special tokens may stand for themselves.
  private func literal(_ text: String) -> Pattern {
    var parts: [Pattern] = []
    var plain: [UInt8] = []
    for id in tokenizer.encode(text, addSpecialTokens: false) {
      guard tokenizer.isAdded(id) || tokenizer.isSpecial(id), let spelling = tokenizer.token(of: id) else {
        plain += tokenizer.bytes(of: id)
        continue
      }
      if !plain.isEmpty { parts.append(.literal(String(decoding: plain, as: UTF8.self))) }
      plain = []
      parts.append(.choice([.token(id), .literal(spelling)]))
    }
    // A tokenizer that changes text cannot be asked where its tokens are.
    guard parts.count > 0 else { return .literal(text) }
    if !plain.isEmpty { parts.append(.literal(String(decoding: plain, as: UTF8.self))) }
    return .sequence(parts)
  }

  // MARK: Formats

  /// - Parameter ends: texts that end the tag around the format, and so cannot stand in free text at its end.
  private mutating func format(
    _ format: JSONValue, _ path: String, until ends: [String]
  ) throws(GrammarError) -> Pattern {
    guard depth < Self.depthLimit else {
      throw .tooLarge(reason: "a structural tag is nested more than \(Self.depthLimit) deep")
    }
    depth += 1
    defer { depth -= 1 }
    let type = try text("type", of: format, path)
    switch type {
    case "const_string": return literal(try text("value", of: format, path))
    case "json_schema": return try schema(format, path)
    case "regex": return .regex(try text("pattern", of: format, path))
    case "grammar": return .grammar(try text("grammar", of: format, path))
    case "quote": return .quote(of: try texts("source", of: format, path, isRequired: true))
    case "any_text": return try anyText(format, path, until: ends)
    case "token": return try token(format, path)
    case "tag": return try tag(format, path)
    case "triggered_tags": return try triggered(format, path, until: ends)
    case "tags_with_separator": return try separated(format, path)
    case "sequence": return try sequence(format, path, until: ends)
    case "or":
      var branches: [Pattern] = []
      for (index, element) in try list("elements", of: format, path).enumerated() {
        branches.append(try self.format(element, "\(path)/elements/\(index)", until: ends))
      }
      return .choice(branches)
    case "optional", "plus", "star", "repeat": return try repeated(format, type, path)
    default:
      throw .unsupported(keyword: type, path: path, reason: "this type of a structural tag is not known")
    }
  }

  private func schema(_ format: JSONValue, _ path: String) throws(GrammarError) -> Pattern {
    if let style = format["style"]?.stringValue, style != "json" {
      throw .unsupported(
        keyword: "style", path: path, reason: "only JSON is known; tools have the model's own")
    }
    guard let schema = format["json_schema"], schema.objectValue != nil || schema.boolValue != nil else {
      throw .malformed(path: "\(path)/json_schema", reason: "a schema is an object or a boolean")
    }
    for name in ["excludes", "max_whitespace_cnt"] where !(format[name]?.isNull ?? true) {
      if format[name]?.arrayValue?.isEmpty ?? false { continue }
      throw .unsupported(keyword: name, path: path, reason: "the spelling of JSON is the server's choice")
    }
    return .schema(schema)
  }

  private func anyText(
    _ format: JSONValue, _ path: String, until ends: [String]
  ) throws(GrammarError) -> Pattern {
    for name in ["max_tokens", "max_chars"] where !(format[name]?.isNull ?? true) {
      throw .unsupported(keyword: name, path: path, reason: "free text has no length of its own")
    }
    return .text(excluding: try texts("excludes", of: format, path) + ends.filter { !$0.utf8.isEmpty })
  }

  private func token(_ format: JSONValue, _ path: String) throws(GrammarError) -> Pattern {
    if let id = format["token"]?.intValue { return .token(Int32(clamping: id)) }
    guard let id = tokenizer.id(of: try text("token", of: format, path)) else {
      throw .unsatisfiable(path: "\(path)/token", reason: "the vocabulary has no such token")
    }
    return .token(id)
  }

  private mutating func sequence(
    _ format: JSONValue, _ path: String, until ends: [String]
  ) throws(GrammarError) -> Pattern {
    let elements = try list("elements", of: format, path)
    var parts: [Pattern] = []
    for (index, element) in elements.enumerated() {
      // Free text goes on until the text that is sure to follow it.
      let follow = index + 1 < elements.count ? Self.beginnings(of: elements[index + 1]) : ends
      parts.append(try self.format(element, "\(path)/elements/\(index)", until: follow))
    }
    return .sequence(parts)
  }

  /// The texts with which a format begins, where they are known.
  private static func beginnings(of format: JSONValue) -> [String] {
    [format["value"], format["begin"]].compactMap { $0?.stringValue }
  }

  private mutating func repeated(_ format: JSONValue, _ type: String, _ path: String) throws(GrammarError)
    -> Pattern
  {
    let inner = try self.format(format["content"] ?? .null, "\(path)/content", until: [])
    switch type {
    case "optional": return .choice([.literal(""), inner])
    case "plus": return .repeated(inner, min: 1, max: nil)
    case "star": return .repeated(inner, min: 0, max: nil)
    default:
      guard let min = format["min"]?.intValue, let max = format["max"]?.intValue, min >= 0,
        max == -1 || max >= min
      else { throw .malformed(path: path, reason: "'min' and 'max' are not a range") }
      return .repeated(inner, min: min, max: max == -1 ? nil : max)
    }
  }

  // MARK: Tags

  private mutating func tag(_ tag: JSONValue, _ path: String) throws(GrammarError) -> Pattern {
    func mark(_ name: String) throws(GrammarError) -> Pattern {
      guard !(tag[name]?.isNull ?? true) else {
        throw .malformed(path: "\(path)/\(name)", reason: "it is missing")
      }
      if let format = tag[name], format.objectValue != nil { return try token(format, "\(path)/\(name)") }
      return .choice(try texts(name, of: tag, path).map { literal($0) })
    }
    let ends = tag["end"]?.objectValue == nil ? try texts("end", of: tag, path) : []
    let content = try format(tag["content"] ?? .null, "\(path)/content", until: ends)
    return .sequence([try mark("begin"), content, try mark("end")])
  }

  private mutating func tags(_ object: JSONValue, _ path: String) throws(GrammarError) -> Pattern {
    var tags: [Pattern] = []
    for (index, entry) in try list("tags", of: object, path).enumerated() {
      tags.append(try tag(entry, "\(path)/tags/\(index)"))
    }
    return .choice(tags)
  }

  /// Free text, in which what triggers a tag is a tag.
  private mutating func triggered(
    _ object: JSONValue, _ path: String, until ends: [String]
  ) throws(GrammarError) -> Pattern {
    let triggers = try texts("triggers", of: object, path, isRequired: true)
    for (index, entry) in try list("tags", of: object, path).enumerated() {
      let begin = try text("begin", of: entry, "\(path)/tags/\(index)")
      guard triggers.contains(where: { begin.utf8.starts(with: $0.utf8) }) else {
        throw .malformed(path: "\(path)/tags/\(index)/begin", reason: "no trigger begins it")
      }
    }
    let tags = try tags(object, path)
    let free = Pattern.text(
      excluding: triggers + (try texts("excludes", of: object, path)) + ends.filter { !$0.utf8.isEmpty })
    let isNeeded = flag("at_least_one", of: object)
    if flag("stop_after_first", of: object) {
      let first = Pattern.sequence([free, tags])
      return isNeeded ? first : .choice([free, first])
    }
    return .sequence([free, .repeated(.sequence([tags, free]), min: isNeeded ? 1 : 0, max: nil)])
  }

  private mutating func separated(_ object: JSONValue, _ path: String) throws(GrammarError) -> Pattern {
    let tags = try tags(object, path)
    let isSingle = flag("stop_after_first", of: object)
    let separator = literal(try text("separator", of: object, path))
    let some = Pattern.sequence([
      tags, .repeated(.sequence([separator, tags]), min: 0, max: isSingle ? 0 : nil),
    ])
    return flag("at_least_one", of: object) ? some : .choice([.literal(""), some])
  }
}
