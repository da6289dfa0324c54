// Takes tool calls out of the content of a reply, whatever their syntax.

import Grammar

/// Where a call can begin.
struct CallOpening: Sendable {
  let marker: [UInt8]
  /// What ends the call; nil when it lasts to the next opening or the end of the reply.
  let close: [UInt8]?
  /// How much of the marker's end belongs to the call's own text.
  let kept: Int
  /// Whether only whitespace may stand before it in the content.
  let onlyAtBeginning: Bool

  init(_ marker: String, close: String? = nil, kept: Int = 0, onlyAtBeginning: Bool = false) {
    self.marker = Array(marker.utf8)
    self.close = close.map { Array($0.utf8) }
    (self.kept, self.onlyAtBeginning) = (kept, onlyAtBeginning)
  }

  /// What ends a call whose text is not in quotes: its end, or the beginning of another.
  var words: [String] {
    ([close] + (onlyAtBeginning ? [] : [marker])).compactMap { $0.map { Bytes.text($0) } }
  }
}

/// Inside which quotes markers do not count.
enum CallQuotes: Sendable {
  case none
  /// `"` with backslash escapes.
  case json
  /// `<|"|>` on both sides.
  case gemma
}

/// One way of writing tool calls.
protocol CallSyntax: Sendable {
  var openings: [CallOpening] { get }
  var quotes: CallQuotes { get }
  var shape: CallShape { get }

  /// One or more calls of these tools, with their markers.
  ///
  /// - Throws: when a schema cannot be expressed in this syntax.
  func pattern(of tools: [CallableTool], _ writer: CallWriter) throws(GrammarError) -> Pattern

  /// Text that may hold calls of this pattern, or none.
  func mixed(_ calls: Pattern, _ writer: CallWriter) -> Pattern

  /// The calls in the text between the markers; nil when it is malformed.
  func calls(in body: [UInt8]) -> [ToolCall]?

  /// The calls in the text between a marker and the end of an answer that was cut, the last as far as it came; nil where
  /// no arguments have begun.
  func cutCalls(in body: [UInt8]) -> [ToolCall]?

  /// Whether an unfinished text can no longer become a call.
  ///
  /// - Parameter body: the text so far, without white space at its beginning.
  func isHopeless(_ body: ArraySlice<UInt8>) -> Bool
}

extension CallSyntax {
  var shape: CallShape { .whole }

  func cutCalls(in body: [UInt8]) -> [ToolCall]? { calls(in: body) }

  func isHopeless(_ body: ArraySlice<UInt8>) -> Bool { false }
}

/// The second stage of `OutputParser`. Time is linear in the text.
struct ToolCallSplitter: Sendable {
  private struct OpenCall {
    let opening: CallOpening
    /// Whitespace before the marker: content again if the call is malformed.
    let gap: ArraySlice<UInt8>
    /// How far the body has been searched for its end.
    var searched: Int
    var isQuoted = false
    var progress: CallProgress
    /// What has been given out of the calls in this body.
    var streamed: [Streamed] = []
  }

  /// A call that has begun. All but the last one of a body have ended.
  private struct Streamed {
    let name: String
    var arguments: [UInt8] = []
  }

  private let syntax: any CallSyntax
  private let openings: [CallOpening]
  private let quotes: CallQuotes
  private let tools: ToolSchemas
  /// Bytes with which something begins that counts inside of a call: a marker, a quote, an escape.
  private var signs = ByteSet()
  /// Held-back text outside of calls, the body inside one. No marker begins with white space.
  private var held = HeldText()
  private var open: OpenCall?
  private var isBeginning = true
  private var isBehindCall = false
  /// Whether the answer was cut.
  private var isCut = false
  private let gemmaQuote = Array("<|\"|>".utf8)

  init(_ syntax: any CallSyntax, tools: ToolSchemas) {
    (self.syntax, self.tools) = (syntax, tools)
    openings = syntax.openings
    quotes = syntax.quotes
    for opening in openings {
      if let first = opening.marker.first { signs.insert(first) }
      if let first = opening.close?.first { signs.insert(first) }
    }
    switch quotes {
    case .none: break
    case .json: for byte in "\"\\".utf8 { signs.insert(byte) }
    case .gemma: signs.insert(UInt8(ascii: "<"))
    }
  }

  mutating func feed(_ bytes: [UInt8]) -> [OutputEvent] {
    held.append(bytes)
    return advance(isLast: false)
  }

  mutating func finish(isCut: Bool) -> [OutputEvent] {
    self.isCut = isCut
    return advance(isLast: true)
  }

  private mutating func advance(isLast: Bool) -> [OutputEvent] {
    var events: [OutputEvent] = []
    while open == nil ? stepOutside(isLast, &events) : stepInside(isLast, &events) {}
    return events
  }

  // MARK: Outside of calls

  private mutating func stepOutside(_ isLast: Bool, _ events: inout [OutputEvent]) -> Bool {
    if isBehindCall { held.dropSpace() }
    let rest = held.text()
    if let (opening, start) = nextOpening(in: rest) {
      let text = Bytes.trimmedEnd(held.bytes[..<start])
      let gap = held.bytes[text.endIndex..<start]
      give(text, &events)
      let body = start + opening.marker.count - opening.kept
      held.drop(before: body)
      open = OpenCall(
        opening: opening, gap: gap, searched: body,
        progress: CallProgress(syntax.shape, tools: tools, start: body))
      return true
    }
    let certain = isLast ? held.bytes : held.certain(keeping: heldBack(of: rest))
    give(certain, &events)
    held.drop(before: certain.endIndex)
    return false
  }

  private mutating func give(_ text: ArraySlice<UInt8>, _ events: inout [OutputEvent]) {
    guard !text.isEmpty else { return }
    events.append(.content(Bytes.text(text)))
    isBehindCall = false
    if !Bytes.isSpace(text) { isBeginning = false }
  }

  private func nextOpening(in text: ArraySlice<UInt8>) -> (CallOpening, Int)? {
    var best: (opening: CallOpening, start: Int)?
    for opening in openings {
      let start: Int?
      if opening.onlyAtBeginning {
        start = isBeginning && text.starts(with: opening.marker) ? text.startIndex : nil
      } else {
        start = Bytes.find(opening.marker, in: text)
      }
      if let start, start < best?.start ?? .max { best = (opening, start) }
    }
    return best
  }

  /// How much of the text's end could be the beginning of a marker.
  private func heldBack(of text: ArraySlice<UInt8>) -> Int {
    var longest = 0
    for opening in openings {
      if opening.onlyAtBeginning {
        if isBeginning, opening.marker.starts(with: text) { longest = text.count }
      } else {
        longest = max(longest, Bytes.heldBack(of: text, before: opening.marker))
      }
    }
    return longest
  }

  // MARK: Inside a call

  private mutating func stepInside(_ isLast: Bool, _ events: inout [OutputEvent]) -> Bool {
    // Taken out: what has been streamed of it grows in place.
    guard var call = open.take() else { return false }
    if let (end, next) = endOfBody(&call) {
      complete(call, held.bytes[..<end], held.bytes[end..<next], &events)
      held.drop(before: next)
      return true
    }
    if isLast {
      let end = isCut ? Bytes.heldBack(of: held.bytes, before: call.opening.close ?? []) : 0
      complete(call, held.bytes.dropLast(end), held.bytes.suffix(end), &events)
      held.removeAll()
      return false
    }
    stream(&call, &events)
    if call.streamed.isEmpty, syntax.isHopeless(held.text()) {
      // What follows may still hold other calls.
      give(call.gap + call.opening.marker.dropLast(call.opening.kept), &events)
      isBeginning = false
      return true
    }
    open = call
    return false
  }

  /// The end of the body, and where the text after the call begins: after the closing marker, or at the
  /// next opening one.
  private func endOfBody(_ call: inout OpenCall) -> (end: Int, next: Int)? {
    let body = held.bytes
    var at = call.searched
    while at < body.endIndex {
      guard signs.contains(body[at]) else {
        at += 1
        continue
      }
      let rest = body[at...]
      if call.isQuoted {
        guard let length = quoteLength(rest, isInside: true) else { break }
        if length < 0 { call.isQuoted = false }
        at += abs(length)
        continue
      }
      if let close = call.opening.close {
        if rest.starts(with: close) { return (at, at + close.count) }
        if rest.count < close.count, close.starts(with: rest) { break }
      }
      // A new call ends one that was not closed; its marker must be complete to tell.
      for opening in openings where !opening.onlyAtBeginning {
        if rest.starts(with: opening.marker) { return (at, at) }
      }
      if openings.contains(where: {
        !$0.onlyAtBeginning && rest.count < $0.marker.count && $0.marker.starts(with: rest)
      }) {
        break
      }
      guard let length = quoteLength(rest, isInside: false) else { break }
      if length < 0 { call.isQuoted = true }
      at += abs(length)
    }
    call.searched = at
    return nil
  }

  /// How far to go on at `rest`, negative when a quote begins or ends there; nil when more text must decide.
  private func quoteLength(_ rest: ArraySlice<UInt8>, isInside: Bool) -> Int? {
    switch quotes {
    case .none: return 1
    case .json:
      if rest.first == UInt8(ascii: "\"") { return -1 }
      if isInside, rest.first == UInt8(ascii: "\\") { return rest.count > 1 ? 2 : nil }
      return 1
    case .gemma:
      if rest.starts(with: gemmaQuote) { return -gemmaQuote.count }
      return rest.count < gemmaQuote.count && gemmaQuote.starts(with: rest) ? nil : 1
    }
  }

  // MARK: Giving calls out

  /// Gives out what is certain of an unfinished body.
  private func stream(_ call: inout OpenCall, _ events: inout [OutputEvent]) {
    for step in call.progress.advance(held.bytes, to: call.searched) {
      switch step {
      case .began(let name):
        if !call.streamed.isEmpty { events.append(.callEnded) }
        call.streamed.append(Streamed(name: name))
        events.append(.callBegan(name: name))
      case .arguments(let range):
        guard !call.streamed.isEmpty, !range.isEmpty else { continue }
        call.streamed[call.streamed.count - 1].arguments += held.bytes[range]
        events.append(.callArguments(Bytes.text(held.bytes[range])))
      }
    }
  }

  /// The calls of a whole body, or its text as content, exactly as it was. All of them must be of known tools.
  private mutating func complete(
    _ call: OpenCall, _ body: ArraySlice<UInt8>, _ tail: ArraySlice<UInt8>, _ events: inout [OutputEvent]
  ) {
    let read = isCut ? syntax.cutCalls(in: Array(body)) : syntax.calls(in: Array(body))
    guard let calls = read, !calls.isEmpty,
      calls.allSatisfy({ tools.contains($0.name) }), Self.agrees(calls, call.streamed)
    else {
      fail(call, body + tail, &events)
      return
    }
    for (index, complete) in calls.enumerated() {
      guard index >= call.streamed.count - 1 else { continue }
      let streamed = index < call.streamed.count ? call.streamed[index] : nil
      if streamed == nil { events.append(.callBegan(name: complete.name)) }
      let rest = Array(complete.arguments.utf8)[(streamed?.arguments.count ?? 0)...]
      if !rest.isEmpty { events.append(.callArguments(Bytes.text(rest))) }
      if !complete.isCut { events.append(.callEnded) }
    }
    isBehindCall = true
    isBeginning = false
  }

  /// Whether what was streamed is the beginning of what was meant.
  private static func agrees(_ calls: [ToolCall], _ streamed: [Streamed]) -> Bool {
    streamed.count <= calls.count
      && zip(calls, streamed).enumerated().allSatisfy { index, pair in
        let (call, sent) = pair
        let isWhole = index < streamed.count - 1
        return call.name.utf8.elementsEqual(sent.name.utf8)
          && call.arguments.utf8.starts(with: sent.arguments)
          && (!isWhole || call.arguments.utf8.count == sent.arguments.count)
      }
  }

  private mutating func fail(_ call: OpenCall, _ rest: ArraySlice<UInt8>, _ events: inout [OutputEvent]) {
    let text = call.gap + call.opening.marker.dropLast(call.opening.kept) + rest
    // A bracket that could have begun a call is no call gone wrong.
    if call.opening.kept > 0, call.streamed.isEmpty { return give(text, &events) }
    events.append(.callFailed(retracted: call.streamed.count, text: Bytes.text(text)))
    isBehindCall = false
    isBeginning = false
  }
}
