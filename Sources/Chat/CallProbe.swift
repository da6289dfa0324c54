// How a template writes calls that no syntax of `Formats` knows, found out by rendering some.
//
// A conversation with calls is rendered beside one with a plain answer. What differs is the text of the calls; where the
// probe's own names and values stand in it, and what changes with a second argument or a second call, says how it is made.

import JSON

struct CallProbe {
  let probe: TemplateProbe
  let capabilities: TemplateCapabilities

  private static let name = "probe_tool"
  private static let otherName = "other_tool"
  private static let answer = "~answer~"
  private static let user: JSONValue = ["role": "user", "content": "probe-user"]
  private static let first = ("probe_key", "probe-value")
  private static let second = ("probe_two", "probe-second")
  private static let ids = ["probe1234", "probe1235"]

  /// The words of the syntax; nil where nothing regular is found.
  func find() -> FoundCalls? {
    guard let one = text([(Self.name, [Self.first])]), var found = read(one) else { return nil }
    // What was found must be enough to read calls back that are written with it.
    if isAddressed {
      (found.isAddressed, found.separator) = (true, nil)
    } else {
      found.lead = lead ?? ""
    }
    let calls = found.syntax(for: ToolSchemas(Self.tools)).calls(in: body(of: one, found))
    let meant = JSONValue.object(JSONObject([(Self.first.0, .string(Self.first.1))]))
    guard let call = calls?.first, calls?.count == 1, call.name == Self.name,
      (try? JSONValue(parsing: call.arguments)) == meant
    else { return nil }
    return found
  }

  private func body(of text: [UInt8], _ found: FoundCalls) -> [UInt8] {
    let syntax = found.syntax(for: ToolSchemas(Self.tools))
    let openings = syntax.openings
    guard let opening = openings.first(where: { Bytes.find($0.marker, in: text[...]) != nil }),
      let start = Bytes.find(opening.marker, in: text[...])
    else { return text }
    let body = text[(start + opening.marker.count - opening.kept)...]
    guard let close = opening.close, let end = Bytes.find(close, in: body) else { return Array(body) }
    return Array(body[..<end])
  }

  // MARK: Rendering

  private static let tools: [JSONValue] = [name, otherName].map { name in
    [
      "type": "function",
      "function": [
        "name": .string(name), "description": "d",
        "parameters": [
          "type": "object",
          "properties": [
            "probe_key": ["type": "string", "description": "d"],
            "probe_two": ["type": "string", "description": "d"],
          ],
        ],
      ],
    ]
  }

  private func render(_ messages: [JSONValue], begins: Bool = false) -> [UInt8]? {
    probe.with(capabilities.tools).render(messages, tools: Self.tools, addGenerationPrompt: begins)
      .map { Array($0.utf8) }
  }

  private var plain: [UInt8]? {
    render([Self.user, ["role": "assistant", "content": .string(Self.answer)]])
  }

  /// Where an answer begins in a rendered conversation.
  private func start(in text: [UInt8]) -> Int? {
    guard let prompt = render([Self.user], begins: true) else { return nil }
    let common = zip(text, prompt).prefix { $0 == $1 }.count
    return common == prompt.count ? common : Self.outsideTag(text, before: common)
  }

  private static let header = "<|message|>"

  /// Whether calls and answers are messages with a header that says for whom they are.
  private var isAddressed: Bool {
    guard let plain, let start = start(in: plain) else { return false }
    return plain[start...].starts(with: " to=user\(Self.header)".utf8)
  }

  /// What stands before the text of an answer.
  private var lead: String? {
    guard let plain, let start = start(in: plain), let answer = Bytes.find(Self.answer, in: plain[...]),
      start <= answer
    else { return nil }
    return Bytes.text(plain[start..<answer])
  }

  /// What an answer with these calls looks like, without what ends every answer.
  private func text(_ calls: [(name: String, arguments: [(String, String)])]) -> [UInt8]? {
    guard let plain, let answer = Bytes.find(Self.answer, in: plain[...]),
      let whole = render([Self.user, message(calls)]), let start = start(in: whole)
    else { return nil }
    let ending = plain[(answer + Self.answer.utf8.count)...]
    var text = whole[start...]
    if isAddressed, let header = Bytes.find(Self.header, in: text) {
      text = text[(header + Self.header.utf8.count)...]
    }
    if text.reversed().starts(with: ending.reversed()) { return Array(text.dropLast(ending.count)) }
    // Another marker ends answers with calls: the last tag.
    let trimmed = Bytes.trimmedEnd(text)
    guard trimmed.last == UInt8(ascii: ">"), let tag = trimmed.lastIndex(of: UInt8(ascii: "<")) else {
      return Array(text)
    }
    return Array(trimmed[..<tag])
  }

  private func message(_ calls: [(name: String, arguments: [(String, String)])]) -> JSONValue {
    var message = JSONObject([("role", "assistant")])
    switch capabilities.emptyContent {
    case .text: message["content"] = ""
    case .null: message["content"] = .null
    case .absent: break
    }
    message["tool_calls"] = .array(
      calls.enumerated().map { index, call in
        let object = JSONValue.object(JSONObject(call.arguments.map { ($0.0, .string($0.1)) }))
        return [
          "id": .string(Self.ids[index % 2]), "type": "function",
          "function": [
            "name": .string(call.name),
            "arguments": capabilities.needsArgumentText ? .string(object.text) : object,
          ],
        ]
      })
    return .object(message)
  }

  /// A place that is not within a tag.
  private static func outsideTag(_ text: [UInt8], before place: Int) -> Int {
    let before = text[..<place]
    guard let open = before.lastIndex(of: UInt8(ascii: "<")),
      !before[open...].contains(UInt8(ascii: ">"))
    else { return place }
    return open
  }

  // MARK: Reading

  private func read(_ one: [UInt8]) -> FoundCalls? {
    if let object = Self.object(in: one[...], [Self.first]) { return readJSON(one, object) }
    guard let name = Bytes.find(Self.name, in: one[...]) else { return nil }
    if Bytes.find(Self.name + "(" + Self.first.0 + "=", in: one[...]) == name { return readPython(one, name) }
    return readElements(one)
  }

  private func gapped(_ bytes: some Sequence<UInt8>) -> GappedText {
    var pieces: [[UInt8]] = [[]]
    var rest = Array(bytes)[...]
    while let first = rest.first {
      if let id = Self.ids.first(where: { rest.starts(with: $0.utf8) }) {
        rest = rest.dropFirst(id.utf8.count)
        pieces.append([])
      } else {
        pieces[pieces.count - 1].append(first)
        rest = rest.dropFirst()
      }
    }
    return GappedText(pieces.map(Bytes.text))
  }

  /// An object of JSON with these members.
  private static func object(in text: ArraySlice<UInt8>, _ members: [(String, String)]) -> Range<Int>? {
    let wanted = JSONValue.object(JSONObject(members.map { ($0.0, .string($0.1)) }))
    return values(in: text, UInt8(ascii: "{")) { $0 == wanted }
  }

  /// The first value that begins with this byte and is as wanted.
  private static func values(
    in text: ArraySlice<UInt8>, _ bracket: UInt8, _ isWanted: (JSONValue) -> Bool
  ) -> Range<Int>? {
    for start in text.indices where text[start] == bracket {
      guard var reader = try? JSONReader(Array(text[start...])), let range = try? reader.skipValue(),
        let value = try? JSONValue(parsing: Array(text[start..<start + range.upperBound])), isWanted(value)
      else { continue }
      return start..<start + range.upperBound
    }
    return nil
  }

  private func readJSON(_ one: [UInt8], _ object: Range<Int>) -> FoundCalls? {
    guard let name = Self.last(Self.name, in: one[..<object.lowerBound]) else { return nil }
    let nameEnd = name + Self.name.utf8.count
    var found = FoundCalls(
      arguments: .json, head: gapped(one[..<name]), between: Bytes.text(one[nameEnd..<object.lowerBound]),
      tail: Bytes.text(one[object.upperBound...]))
    if let isKeyed = isKeyed(one) { found.arguments = .wrapped(isKeyed: isKeyed) }
    found.separator = text([(Self.name, [Self.first]), (Self.otherName, [Self.second])]).flatMap { two in
      guard let first = Self.object(in: two[...], [Self.first]),
        let next = Bytes.find(Self.otherName, in: two[first.upperBound...])
      else { return nil }
      return gapped(two[first.upperBound..<next])
    }
    return found
  }

  /// Whether the object that holds the arguments has the name as a key, or as a value; nil where there is no such object.
  private func isKeyed(_ one: [UInt8]) -> Bool? {
    var isKeyed = false
    let range = Self.values(in: one[...], UInt8(ascii: "{")) { value in
      guard let members = value.objectValue else { return false }
      if members[Self.name]?.objectValue != nil {
        isKeyed = true
        return true
      }
      return members.entries.contains { $0.value == .string(Self.name) }
    }
    return range.map { _ in isKeyed }
  }

  private func readPython(_ one: [UInt8], _ name: Int) -> FoundCalls? {
    guard let end = one.lastIndex(of: UInt8(ascii: ")")) else { return nil }
    var found = FoundCalls(
      arguments: .python, head: gapped(one[..<name]), tail: Bytes.text(one[(end + 1)...]))
    found.separator = text([(Self.name, [Self.first]), (Self.otherName, [Self.second])]).flatMap { two in
      guard let next = Bytes.find(Self.otherName + "(", in: two[...]),
        let before = two[..<next].lastIndex(of: UInt8(ascii: ")"))
      else { return nil }
      return gapped(two[(before + 1)..<next])
    }
    return found
  }

  /// Elements: the words around a key and a value, from calls with none, one and two arguments.
  private func readElements(_ one: [UInt8]) -> FoundCalls? {
    guard let none = text([(Self.name, [])]), let two = text([(Self.name, [Self.first, Self.second])]),
      let key = Self.last(Self.first.0, in: one[...]), let name = Self.last(Self.name, in: one[..<key]),
      let value = Bytes.find(Self.first.1, in: one[key...]),
      let firstEnd = Bytes.find(Self.first.1, in: two[...]).map({ $0 + Self.first.1.utf8.count }),
      let nextKey = Bytes.find(Self.second.0, in: two[firstEnd...])
    else { return nil }
    let middle = one[(key + Self.first.0.utf8.count)..<value]
    let after = Array(one[(value + Self.first.1.utf8.count)...])
    let step = Array(two[firstEnd..<nextKey])
    let shared = Self.outsideTag(step, before: zip(step, after).prefix { $0 == $1 }.count)
    let (close, open) = (step[..<shared], step[shared...])
    let between = one[(name + Self.name.utf8.count)..<key]
    guard !open.isEmpty, !close.isEmpty, between.reversed().starts(with: open.reversed()),
      none.starts(with: one[..<name])
    else { return nil }
    var found = FoundCalls(
      arguments: .elements(open: Bytes.text(open), middle: Bytes.text(middle), close: Bytes.text(close)),
      head: gapped(one[..<name]), between: Bytes.text(between.dropLast(open.count)),
      tail: Bytes.text(after.dropFirst(shared)))
    found.separator = text([(Self.name, [Self.first]), (Self.otherName, [Self.second])]).flatMap { both in
      guard let end = Bytes.find(Self.first.1, in: both[...]).map({ $0 + Self.first.1.utf8.count + shared }),
        end <= both.count, let next = Bytes.find(Self.otherName, in: both[end...])
      else { return nil }
      return gapped(both[end..<next])
    }
    return found
  }

  private static func last(_ part: String, in bytes: ArraySlice<UInt8>) -> Int? {
    var found: Int?
    var start = bytes.startIndex
    while let place = Bytes.find(part, in: bytes, from: start) {
      found = place
      start = place + 1
    }
    return found
  }
}
