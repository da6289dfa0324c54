// gpt-oss: an answer is a row of messages, each with a header that says its channel and whom it is for ("harmony").
//
//   <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...<|return|>
//   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|>
//
// What is analysed is reasoning, what is for a known tool is a call, and the rest is content. The prompt ends with
// `<|start|>assistant`, so that an answer begins in a header. Markers are never content.
//
// Muse has such messages without channels; reasoning is for `self`, an answer for `user`, and a call is written in the
// message as its template writes one:
//
//   to=self<|message|>...<|eom|><|start|>assistant to=f<|message|><calls>...</calls><|eot|>

/// The parser of one reply in messages; takes the place of both stages of `OutputParser`.
struct HarmonyParser: Sendable {
  private enum Body {
    case content, reasoning
    case call(name: String)
  }

  private enum State {
    /// Up to `<|message|>`; the first header may turn out to be no header at all.
    case header(isFirst: Bool)
    /// In a header that is longer than any, up to `<|message|>`: the message is content.
    case longHeader
    case body(Body)
    /// After the end of a message.
    case between
    /// The reply is no harmony: all of it is content.
    case plain
  }

  private let tools: ToolSchemas?
  /// How calls are written where they are no objects of JSON.
  private let syntax: (any CallSyntax)?
  private let ends: [[UInt8]]
  /// What ends a message: a message that was not ended is ended by the next one.
  private let stops: [[UInt8]]
  private var state: State
  private var held: [UInt8] = []
  /// Before this place of a header there is no beginning of `<|message|>`.
  private var searched = 0
  /// The call that is being read: its text so far, and how much of it was given out.
  private var arguments: [UInt8] = []
  private var given = 0
  private var hasBegun = false
  /// Whether there was content, or reasoning, in an earlier message: the next one begins a paragraph.
  private var parts = (content: false, reasoning: false)
  private var needsBreak = false
  /// Whether the answer was cut.
  private var isCut = false

  private static let message = Array("<|message|>".utf8)
  private static let start = Array("<|start|>".utf8)
  private static let channel = Array("<|channel|>".utf8)
  private static let constrain = Array("<|constrain|>".utf8)
  /// How a first header begins.
  private static let beginnings = [channel, constrain, start, message, Array("to=".utf8)]
  /// No header is as long.
  private static let maxHeader = 1024

  /// - Parameters:
  ///   - promptTail: says whether the reply goes on with a message that has begun.
  ///   - tools: nil when the request has none.
  ///   - format: that of gpt-oss, or of another model that answers in messages.
  init(promptTail: String, tools: ToolSchemas?, format: OutputFormat) {
    self.tools = tools
    syntax = tools.flatMap { format.found?.syntax(for: $0) }
    ends = format.messageEnds.map { Array($0.utf8) }
    stops = ends + [Self.start, Self.channel]
    state = .header(isFirst: true)
    let tail = Array(promptTail.utf8.suffix(1 << 16))
    if let body = Self.last(Self.message, in: tail), body > Self.last(Self.start, in: tail) ?? -1 {
      let start = Self.last(Self.start, in: tail) ?? 0
      state = .body(kind(of: tail[start..<body]))
    }
  }

  private static func last(_ marker: [UInt8], in bytes: [UInt8]) -> Int? {
    guard marker.count <= bytes.count else { return nil }
    return (0...bytes.count - marker.count).last { bytes[$0...].starts(with: marker) }
  }

  mutating func feed(_ bytes: [UInt8]) -> [OutputEvent] {
    held += bytes
    return advance(isLast: false)
  }

  mutating func finish(isCut: Bool) -> [OutputEvent] {
    self.isCut = isCut
    return advance(isLast: true)
  }

  private mutating func advance(isLast: Bool) -> [OutputEvent] {
    var events: [OutputEvent] = []
    while step(isLast, &events) {}
    return events
  }

  /// One move; false when more text is needed.
  private mutating func step(_ isLast: Bool, _ events: inout [OutputEvent]) -> Bool {
    switch state {
    case .header(let isFirst): return readHeader(isFirst, isLast)
    case .longHeader: return readLongHeader(isLast)
    case .body(let body): return readBody(body, isLast, &events)
    case .between: return readBetween(isLast)
    case .plain:
      give(held, as: .content, &events)
      held.removeAll()
      return false
    }
  }

  // MARK: Headers

  /// What a header is must not depend on how much of it has come at once: the same bytes decide, in the same order.
  private mutating func readHeader(_ isFirst: Bool, _ isLast: Bool) -> Bool {
    if isFirst, !mayBeHeader(isLast) {
      state = .plain
      return true
    }
    let end = Bytes.find(Self.message, in: held[...], from: searched)
    searched = max(0, held.count - Self.message.count + 1)
    if held.count > Self.maxHeader, end.map({ $0 + Self.message.count > Self.maxHeader }) ?? true {
      state = isFirst ? .plain : .longHeader
      return true
    }
    guard let end else {
      // A header that was cut short has no message.
      if isLast { held.removeAll() }
      return false
    }
    begin(kind(of: held[..<end]), after: end)
    return true
  }

  private mutating func readLongHeader(_ isLast: Bool) -> Bool {
    if let end = Bytes.find(Self.message, in: held[...]) {
      begin(.content, after: end)
      return true
    }
    let kept = isLast ? 0 : Bytes.heldBack(of: held[...], before: Self.message)
    held.removeFirst(held.count - kept)
    return false
  }

  /// The message after a header of `count` bytes.
  private mutating func begin(_ body: Body, after count: Int) {
    held.removeFirst(count + Self.message.count)
    state = .body(body)
    searched = 0
    (arguments, given, hasBegun) = ([], 0, false)
    switch body {
    case .content: needsBreak = parts.content
    case .reasoning: needsBreak = parts.reasoning
    case .call: needsBreak = false
    }
  }

  /// Whether what has come could begin the first header.
  private func mayBeHeader(_ isLast: Bool) -> Bool {
    let text = held.drop { Bytes.isSpace($0) }
    if text.isEmpty { return !isLast }
    return Self.beginnings.contains { begin in
      text.starts(with: begin) || (!isLast && begin.starts(with: text))
    }
  }

  /// What the message after a header is.
  private func kind(of header: ArraySlice<UInt8>) -> Body {
    var words: [String] = []
    var word: [UInt8] = []
    var channel: String?
    var isChannel = false
    func close() {
      guard !word.isEmpty else { return }
      let text = Bytes.text(word)
      if isChannel, channel == nil { channel = text }
      words.append(text)
      word.removeAll()
    }
    var at = header.startIndex
    while at < header.endIndex {
      if let marker = [Self.channel, Self.constrain, Self.start].first(where: {
        header[at...].starts(with: $0)
      }) {
        close()
        if marker == Self.channel { isChannel = true }
        at += marker.count
        continue
      }
      if Bytes.isSpace(header[at]) { close() } else { word.append(header[at]) }
      at += 1
    }
    close()
    let recipient = words.lazy.compactMap {
      $0.utf8.starts(with: "to=".utf8) ? Bytes.text($0.utf8.dropFirst(3)) : nil
    }
    .first
    if let recipient, let tools {
      let prefix = "functions."
      let isFunction = recipient.utf8.starts(with: prefix.utf8)
      let name = isFunction ? Bytes.text(recipient.utf8.dropFirst(prefix.utf8.count)) : recipient
      if tools.contains(name) { return .call(name: name) }
    }
    return channel == "analysis" || recipient == "self" ? .reasoning : .content
  }

  private mutating func readBetween(_ isLast: Bool) -> Bool {
    held.removeFirst(held.prefix { Bytes.isSpace($0) }.count)
    if held.starts(with: Self.start) {
      held.removeFirst(Self.start.count)
      state = .header(isFirst: false)
      return true
    }
    if held.isEmpty || (!isLast && Self.start.starts(with: held)) { return false }
    // A header without its beginning, or text without a header.
    let isHeader = Self.channel.starts(with: held.prefix(Self.channel.count))
    if isHeader, held.count < Self.channel.count, !isLast { return false }
    state = isHeader ? .header(isFirst: false) : .body(.content)
    needsBreak = !isHeader && parts.content
    return true
  }

  // MARK: Messages

  private mutating func readBody(_ body: Body, _ isLast: Bool, _ events: inout [OutputEvent]) -> Bool {
    var end: (at: Int, length: Int)?
    for marker in stops {
      guard let at = Bytes.find(marker, in: held[...]), at < end?.at ?? .max else { continue }
      end = (at, ends.contains(marker) ? marker.count : 0)
    }
    guard let end else {
      let kept = isLast ? 0 : stops.map { Bytes.heldBack(of: held[...], before: $0) }.max() ?? 0
      give(Array(held.dropLast(kept)), as: body, &events)
      held.removeFirst(held.count - kept)
      if isLast { close(body, &events) }
      return false
    }
    give(Array(held[..<end.at]), as: body, &events)
    held.removeFirst(end.at + end.length)
    close(body, &events)
    state = .between
    return true
  }

  private mutating func give(_ bytes: [UInt8], as body: Body, _ events: inout [OutputEvent]) {
    guard !bytes.isEmpty else { return }
    let text = Bytes.text(bytes)
    switch body {
    case .content:
      events.append(.content(needsBreak ? "\n\n" + text : text))
      parts.content = true
    case .reasoning:
      events.append(.reasoning(needsBreak ? "\n\n" + text : text))
      parts.reasoning = true
    case .call(let name):
      arguments += arguments.isEmpty ? bytes.drop { Bytes.isSpace($0) } : bytes[...]
      guard arguments.first == UInt8(ascii: "{") else { return }
      if !hasBegun { events.append(.callBegan(name: name)) }
      hasBegun = true
      // White space at the end may be none of the object's.
      let certain = Bytes.trimmedEnd(arguments[...])
      if certain.endIndex > given {
        events.append(.callArguments(Bytes.text(certain[given...])))
        given = certain.endIndex
      }
    }
    needsBreak = false
  }

  /// A message has ended: a call is complete, or its text is content.
  private mutating func close(_ body: Body, _ events: inout [OutputEvent]) {
    guard case .call(let name) = body else { return }
    if arguments.isEmpty {
      if isCut, held.isEmpty { return }
      events += [.callBegan(name: name), .callArguments("{}"), .callEnded]
    } else if hasBegun, ToolCallText.isObject(Bytes.trimmed(arguments)) {
      events.append(.callEnded)
    } else if let call = written(name) {
      events += [.callBegan(name: name), .callArguments(call.arguments)] + (call.isCut ? [] : [.callEnded])
    } else {
      events.append(.callFailed(retracted: hasBegun ? 1 : 0, text: Bytes.text(arguments)))
      parts.content = true
    }
    (arguments, given, hasBegun) = ([], 0, false)
  }

  /// The call of this tool that a whole message holds, in the syntax of the template.
  private func written(_ name: String) -> ToolCall? {
    guard let opening = syntax?.openings.first, let start = Bytes.find(opening.marker, in: arguments[...]),
      Bytes.isSpace(arguments[..<start])
    else { return nil }
    var body = arguments[(start + opening.marker.count - opening.kept)...]
    let end = opening.close.flatMap { Bytes.find($0, in: body) }
    body = body[..<(end ?? body.endIndex - Bytes.heldBack(of: body, before: opening.close ?? []))]
    let calls =
      isCut && end == nil ? syntax?.cutCalls(in: Array(body)) : syntax?.calls(in: Array(body))
    guard let calls, calls.count == 1, calls[0].name == name else { return nil }
    return calls[0]
  }
}
