// Calls in a syntax that nobody has described: its words are what the model's template writes around the parts of a call.
//
//   head NAME between ARGUMENTS [separator NAME between ARGUMENTS ...] tail
//
// Arguments are an object of JSON, or elements of their own: open KEY middle VALUE close.

import Grammar
import JSON
import Tokenizers

/// Fixed text with gaps for what differs from call to call, such as an identifier.
struct GappedText: Sendable, Equatable {
  /// What stands between the gaps, one more than there are gaps.
  let pieces: [String]

  init(_ pieces: [String]) { self.pieces = pieces }

  /// The first piece without the white space around it.
  var marker: String { Bytes.text(Bytes.trimmed(Array((pieces.first ?? "").utf8))) }

  /// What follows the marker.
  var afterMarker: GappedText {
    let first = Array((pieces.first ?? "").utf8).drop { Bytes.isSpace($0) }
    return GappedText([Bytes.text(first.dropFirst(marker.utf8.count))] + pieces.dropFirst())
  }

  func pattern(_ writer: CallWriter) -> Pattern {
    var parts: [Pattern] = []
    for (index, piece) in pieces.enumerated() {
      if index > 0 { parts.append(.regex("[A-Za-z0-9]{9}")) }
      parts.append(writer.literal(piece))
    }
    return .sequence(parts)
  }
}

/// The words of a syntax, as `CallProbe` found them.
struct FoundCalls: Sendable, Equatable {
  enum Arguments: Sendable, Equatable {
    /// An object of JSON after the name.
    case json
    /// The same, and an object around it and the name; `isKeyed`: with the name as its only key.
    case wrapped(isKeyed: Bool)
    case elements(open: String, middle: String, close: String)
    /// `NAME(key=value, ...)`, a call of Python.
    case python
  }

  var arguments: Arguments
  var head: GappedText
  /// Between the name and the arguments.
  var between = ""
  /// Between calls; nil where a message holds one.
  var separator: GappedText?
  var tail: String
  /// What the template writes before the text of an answer without calls.
  var lead = ""
  /// Whether each call is a message to its tool; the words are those within it.
  var isAddressed = false

  /// What stands before the first call, without brackets that are part of it.
  var opener: String {
    guard case .wrapped = arguments else {
      return arguments == .python && head.marker.hasSuffix("[") ? String(head.marker.dropLast()) : head.marker
    }
    return Bytes.text(Bytes.trimmedEnd(Array(head.marker.utf8).prefix { !Self.brackets.contains($0) }))
  }

  private static let brackets = Array("[{".utf8)

  /// What ends the calls, or each of them: the last tag of the tail, or all of it where it has none. Nil where it stands
  /// between calls too, which then last to the end of the answer.
  var close: String? {
    var text = Bytes.trimmed(Array(tail.utf8))[...]
    if arguments != .json { text = text.drop { [UInt8(ascii: "}"), UInt8(ascii: "]")].contains($0) } }
    if let start = text.lastIndex(of: UInt8(ascii: "<")) { text = text[start...] }
    let close = Bytes.text(text)
    let between = (separator?.pieces ?? []).joined()
    let isBetween = Bytes.contains(between, close) && !Bytes.contains(between, opener)
    return text.isEmpty || isBetween ? nil : close
  }

  /// Everything that the template writes, for finding special tokens in it.
  var words: [String] {
    var words = head.pieces + [between, tail] + (separator?.pieces ?? [])
    if case .elements(let open, let middle, let close) = arguments { words += [open, middle, close] }
    return words
  }

  /// The same words as a syntax for these tools.
  func syntax(for tools: ToolSchemas) -> any CallSyntax {
    switch arguments {
    case .python: FoundPython(words: self)
    case .json, .wrapped, .elements:
      isAddressed ? AddressedCalls(words: self, tools: tools) : FoundText(words: self, tools: tools)
    }
  }

  fileprivate var isBare: Bool { opener.utf8.isEmpty }

  /// What opens calls, where the head says so.
  fileprivate func openings(_ bracket: String?, names: [String]) -> [CallOpening] {
    if let bracket { return [CallOpening(bracket, kept: bracket.utf8.count, onlyAtBeginning: true)] }
    guard isBare else { return [CallOpening(opener, close: close)] }
    // Nothing but a tool's name begins the first call.
    let next = separator.map(\.marker).flatMap { $0.utf8.isEmpty ? nil : CallOpening($0) }
    let word = String(between.prefix(1))
    return names.sorted().map { CallOpening($0 + word, kept: $0.utf8.count + 1, onlyAtBeginning: true) }
      + [next].compactMap { $0 }
  }

  /// Free text that cannot be taken for calls, or calls.
  fileprivate func mixed(_ calls: Pattern, _ openings: [CallOpening], _ bracket: String?) -> Pattern {
    let excluded = openings.filter { !$0.onlyAtBeginning }.map { Bytes.text($0.marker) }
    let text = Pattern.text(excluding: excluded)
    if let bracket {
      return .choice([.literal(""), calls, .sequence([.regex("[^\\\(bracket)\\s]"), text])])
    }
    guard isBare else { return .sequence([text, .choice([.literal(""), calls])]) }
    return .choice([calls, .sequence([.literal(lead), text])])
  }
}

extension CallWriter {
  /// Text with special tokens as the tokens that they are.
  func literal(_ text: String) -> Pattern {
    var parts: [Pattern] = []
    var plain: [UInt8] = []
    var rest = Array(text.utf8)[...]
    let markers = tokenizer.encode(text, addSpecialTokens: false).filter(tokenizer.isSpecial).compactMap {
      id in
      tokenizer.token(of: id).map { (text: $0, id: id) }
    }
    while let first = rest.first {
      if let (marker, id) = markers.first(where: { rest.starts(with: $0.text.utf8) }) {
        if !plain.isEmpty { parts.append(.literal(Bytes.text(plain))) }
        plain = []
        parts.append(.token(id))
        rest = rest.dropFirst(marker.utf8.count)
      } else {
        plain.append(first)
        rest = rest.dropFirst()
      }
    }
    if !plain.isEmpty { parts.append(.literal(Bytes.text(plain))) }
    return .sequence(parts)
  }
}

/// Calls whose arguments are JSON or elements.
struct FoundText: CallSyntax {
  let words: FoundCalls
  let tools: ToolSchemas

  var openings: [CallOpening] { words.openings(bracket, names: tools.names) }
  var quotes: CallQuotes { isElements ? .none : .json }
  var shape: CallShape { words.arguments == .wrapped(isKeyed: false) ? .objects : .whole }

  private var isElements: Bool { if case .elements = words.arguments { true } else { false } }

  /// The bracket that begins calls where nothing stands before it.
  private var bracket: String? {
    guard case .wrapped = words.arguments, words.isBare else { return nil }
    return words.head.marker.utf8.first.map { Bytes.text([$0]) }
  }

  func calls(in body: [UInt8]) -> [ToolCall]? {
    guard case .wrapped(let isKeyed) = words.arguments else {
      var reader = FoundReader(words, tools, body, isCut: false)
      return reader.calls()
    }
    guard isKeyed else { return ToolCallText.calls(in: body) }
    return Self.keyedCalls(in: Bytes.trimmed(body))
  }

  func cutCalls(in body: [UInt8]) -> [ToolCall]? {
    guard case .wrapped(let isKeyed) = words.arguments else {
      var reader = FoundReader(words, tools, body, isCut: true)
      return reader.calls()
    }
    guard isKeyed else { return calls(in: body) }
    let body = Bytes.trimmed(body)
    return closedCalls(in: body, quotes: ["\""], outside: body.first == UInt8(ascii: "[") ? 2 : 1)
  }

  /// `{"NAME": {...}}`, or several of them in an array.
  private static func keyedCalls(in text: [UInt8]) -> [ToolCall]? {
    guard let value = try? JSONValue(parsing: text) else { return nil }
    var calls: [ToolCall] = []
    for element in value.arrayValue ?? [value] {
      guard let object = element.objectValue, !object.isEmpty else { return nil }
      for (name, arguments) in object.entries {
        guard arguments.objectValue != nil else { return nil }
        calls.append(ToolCall(name: name, arguments: arguments.text))
      }
    }
    return calls
  }

  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    var calls: [Pattern] = []
    let marks = words.isAddressed ? HarmonyCalls.marks : []
    for tool in tools {
      let arguments: Pattern
      if case .elements(let open, let middle, let close) = words.arguments {
        arguments = try ParameterPatterns(
          open: { name, _ in
            .sequence([
              writer.literal(open), name, writer.literal(middle),
            ])
          }, close: writer.literal(close),
          excluded: [Bytes.text(Bytes.trimmed(Array(close.utf8)))] + openings.flatMap(\.words) + marks,
          around: ("", close)
        ).pattern(of: tool.arguments)
      } else {
        let json = writer.json(tool.arguments)
        arguments = marks.isEmpty ? json : .without(marks, json)
      }
      calls.append(.sequence([.literal(tool.name), writer.literal(words.between), arguments]))
    }
    return words.list(.choice(calls), writer)
  }

  func mixed(_ calls: Pattern, _ writer: CallWriter) -> Pattern { words.mixed(calls, openings, bracket) }
}

extension FoundCalls {
  fileprivate func list(_ call: Pattern, _ writer: CallWriter) -> Pattern {
    let calls = separator.map { writer.list(call, separator: $0.pattern(writer)) } ?? call
    return .sequence([head.pattern(writer), calls, writer.literal(tail)])
  }
}

/// Calls of Python between other words than those of `PythonCalls`.
private struct FoundPython: CallSyntax {
  let words: FoundCalls
  let quotes = CallQuotes.none

  /// The bracket that begins a list where nothing stands before it.
  private var bracket: String? { words.isBare && words.head.marker == "[" ? "[" : nil }

  var openings: [CallOpening] { words.openings(bracket, names: []) }

  func calls(in body: [UInt8]) -> [ToolCall]? { PythonCalls().calls(in: body) }

  func cutCalls(in body: [UInt8]) -> [ToolCall]? { PythonCalls().cutCalls(in: body) }

  /// A list of calls begins with a name.
  func isHopeless(_ body: ArraySlice<UInt8>) -> Bool {
    guard bracket != nil else { return false }
    let name = body.dropFirst().drop { Bytes.isSpace($0) }
    let end = name.firstIndex(of: UInt8(ascii: "(")) ?? name.endIndex
    return name[..<end].count > 128
      || !name[..<end].allSatisfy {
        (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
          || [UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: ".")].contains($0)
      }
  }

  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern {
    words.list(.choice(try PythonCalls.patterns(of: tools, without: openings.flatMap(\.words))), writer)
  }

  func mixed(_ calls: Pattern, _ writer: CallWriter) -> Pattern { words.mixed(calls, openings, bracket) }
}

/// Reads the calls between a marker and what closes them. White space between words is passed over.
private struct FoundReader {
  private let words: FoundCalls
  private let tools: ToolSchemas
  private let bytes: [UInt8]
  /// Whether the answer ended in the text.
  private let isCut: Bool
  private var at = 0

  init(_ words: FoundCalls, _ tools: ToolSchemas, _ bytes: [UInt8], isCut: Bool) {
    (self.words, self.tools, self.bytes, self.isCut) = (words, tools, bytes, isCut)
  }

  mutating func calls() -> [ToolCall]? {
    guard skip(words.head.afterMarker) else { return nil }
    var calls: [ToolCall] = []
    while let call = call() {
      calls.append(call)
      if call.isCut || isOver { return calls }
      guard let separator = words.separator, skip(separator) else { break }
    }
    return isCut && !calls.isEmpty ? calls : nil
  }

  /// Whether nothing but the beginning of the tail is left: its end closes the calls, or ends the answer.
  private var isOver: Bool {
    let rest = bytes[at...].filter { !Bytes.isSpace($0) }
    return Self.begins(words.tail, rest)
  }

  /// Whether a text begins so, white space aside.
  private static func begins(_ text: String, _ rest: [UInt8]) -> Bool {
    text.utf8.filter { !Bytes.isSpace($0) }.starts(with: rest)
  }

  private mutating func call() -> ToolCall? {
    skipSpace()
    let end = Self.firstWord(words.between)
    let stop = end.isEmpty ? nil : Bytes.find(end, in: bytes[at...])
    let name = Bytes.text(
      Bytes.trimmed(Array(bytes[at..<(stop ?? nameEnd)])))
    guard !name.utf8.isEmpty, !name.utf8.contains(where: Bytes.isSpace) else { return nil }
    at = stop ?? nameEnd
    // More of the name may have followed.
    if isCut, at == bytes.count { return nil }
    guard skip(GappedText([words.between])) else { return nil }
    guard case .elements(let open, let middle, let close) = words.arguments else { return json(name) }
    var arguments = JSONObject()
    while skip(GappedText([open])) {
      guard let key = text(before: middle), skip(GappedText([middle])) else {
        return isCut ? ToolCall(cut: name, arguments) : nil
      }
      let parameter = Bytes.text(Bytes.trimmed(Array(key)))
      // What white space the template writes around a value is none of it.
      let before = Array(middle.utf8.reversed().prefix(while: Bytes.isSpace).reversed())
      if bytes[at...].starts(with: before) { at += before.count }
      let after = Array(close.utf8.prefix(while: Bytes.isSpace))
      guard var value = text(before: close) else {
        let rest = bytes[at...].dropLast(Bytes.heldBack(of: bytes[at...], before: Array(close.utf8)))
        if isCut {
          let text = tools.beginning(of: Bytes.text(rest), as: parameter, in: name)
          return ToolCall(cut: name, arguments, (parameter, text))
        }
        at = bytes.count
        arguments[parameter] = tools.value(of: Bytes.text(rest), as: parameter, in: name)
        break
      }
      if value.reversed().starts(with: after.reversed()) { value = value.dropLast(after.count) }
      _ = skip(GappedText([close]))
      arguments[parameter] = tools.value(of: Bytes.text(value), as: parameter, in: name)
    }
    if isCut, Self.begins(open, bytes[at...].filter { !Bytes.isSpace($0) }) {
      return ToolCall(cut: name, arguments)
    }
    return ToolCall(name: name, arguments: JSONValue.object(arguments).text)
  }

  /// Where a name ends that nothing but the arguments follows.
  private var nameEnd: Int {
    bytes[at...].firstIndex { $0 == UInt8(ascii: "{") || Bytes.isSpace($0) } ?? bytes.count
  }

  private mutating func json(_ name: String) -> ToolCall? {
    skipSpace()
    guard var reader = try? JSONReader(Array(bytes[at...])), let range = try? reader.skipValue() else {
      guard isCut, bytes[at...].first == UInt8(ascii: "{") else { return nil }
      return ToolCall(name: name, arguments: Bytes.text(bytes[at...]), isCut: true)
    }
    let object = Array(bytes[at + range.lowerBound..<at + range.upperBound])
    guard ToolCallText.isObject(object) else { return nil }
    at += range.upperBound
    return ToolCall(name: name, arguments: Bytes.text(object))
  }

  /// The text up to the first word of `mark`.
  private mutating func text(before mark: String) -> ArraySlice<UInt8>? {
    let word = Self.firstWord(mark)
    guard !word.isEmpty, let end = Bytes.find(word, in: bytes[at...]) else { return nil }
    defer { at = end }
    return bytes[at..<end]
  }

  /// The first of a text's words, or its first white space where nothing else is there.
  private static func firstWord(_ text: String) -> [UInt8] {
    let bytes = Array(text.utf8)
    let word = bytes.drop { Bytes.isSpace($0) }.prefix { !Bytes.isSpace($0) }
    return word.isEmpty ? Array(bytes.prefix(1)) : Array(word)
  }

  private mutating func skipSpace() { while at < bytes.count, Bytes.isSpace(bytes[at]) { at += 1 } }

  /// Passes over a text; white space on either side means nothing. False, and nothing passed, where another stands.
  private mutating func skip(_ text: GappedText) -> Bool {
    var place = at
    for (index, piece) in text.pieces.enumerated() {
      if index > 0 {
        // The gap is a word.
        let word = Self.firstWord(piece)
        guard let end = Bytes.find(word, in: bytes[place...]) else { return false }
        place = end
      }
      for byte in piece.utf8 where !Bytes.isSpace(byte) {
        while place < bytes.count, Bytes.isSpace(bytes[place]) { place += 1 }
        guard place < bytes.count, bytes[place] == byte else { return false }
        place += 1
      }
    }
    at = place
    return true
  }
}
