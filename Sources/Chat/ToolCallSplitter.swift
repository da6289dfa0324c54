// Takes tool calls out of the content of a reply, whatever their syntax.

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
    self.kept = kept
    self.onlyAtBeginning = onlyAtBeginning
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

  /// The calls in the text between the markers; nil when it is malformed.
  func calls(in body: [UInt8]) -> [ToolCall]?

  /// Whether an unfinished text can no longer become a call.
  func isHopeless(_ body: ArraySlice<UInt8>) -> Bool
}

extension CallSyntax {
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
  }

  private let syntax: any CallSyntax
  /// Text not given out yet: held-back text outside of calls, the body inside one.
  private var held: ArraySlice<UInt8> = []
  private var open: OpenCall?
  private var isBeginning = true
  private var isBehindCall = false
  private let gemmaQuote = Array("<|\"|>".utf8)

  init(_ syntax: any CallSyntax) { self.syntax = syntax }

  mutating func feed(_ bytes: [UInt8]) -> [OutputEvent] {
    held += bytes
    return advance(isLast: false)
  }

  mutating func finish() -> [OutputEvent] { advance(isLast: true) }

  private mutating func advance(isLast: Bool) -> [OutputEvent] {
    var events: [OutputEvent] = []
    while open == nil ? stepOutside(isLast, &events) : stepInside(isLast, &events) {}
    return events
  }

  // MARK: Outside of calls

  private mutating func stepOutside(_ isLast: Bool, _ events: inout [OutputEvent]) -> Bool {
    if isBehindCall {
      held = held.drop { Bytes.isSpace($0) }
      if held.isEmpty { return false }
    }
    if let (opening, start) = nextOpening() {
      let text = Bytes.trimmedEnd(held[..<start])
      let gap = held[text.endIndex..<start]
      give(text, &events)
      let body = start + opening.marker.count - opening.kept
      held = held[body...]
      open = OpenCall(opening: opening, gap: gap, searched: body)
      return true
    }
    let certain = isLast ? held : Bytes.trimmedEnd(held.dropLast(heldBack()))
    give(certain, &events)
    held = held[certain.endIndex...]
    return false
  }

  private mutating func give(_ text: ArraySlice<UInt8>, _ events: inout [OutputEvent]) {
    guard !text.isEmpty else { return }
    events.append(.content(Bytes.text(text)))
    isBehindCall = false
    if !Bytes.isSpace(text) { isBeginning = false }
  }

  private func nextOpening() -> (CallOpening, Int)? {
    var best: (opening: CallOpening, start: Int)?
    for opening in syntax.openings {
      let start: Int?
      if opening.onlyAtBeginning {
        let text = held.drop { Bytes.isSpace($0) }
        start = isBeginning && text.starts(with: opening.marker) ? text.startIndex : nil
      } else {
        start = Bytes.find(opening.marker, in: held)
      }
      if let start, start < best?.start ?? .max { best = (opening, start) }
    }
    return best
  }

  /// How much of the end could be the beginning of a marker.
  private func heldBack() -> Int {
    var longest = 0
    for opening in syntax.openings {
      if opening.onlyAtBeginning {
        let text = held.drop { Bytes.isSpace($0) }
        if isBeginning, opening.marker.starts(with: text) { longest = held.count }
      } else {
        longest = max(longest, Bytes.heldBack(of: held, before: opening.marker))
      }
    }
    return longest
  }

  // MARK: Inside a call

  private mutating func stepInside(_ isLast: Bool, _ events: inout [OutputEvent]) -> Bool {
    guard var call = open else { return false }
    if let (end, next) = endOfBody(&call) {
      let tail = held[end..<next]
      complete(call, held[..<end], tail, &events)
      held = held[next...]
      open = nil
      return true
    }
    open = call
    if isLast {
      complete(call, held, [], &events)
      held = []
      open = nil
      return false
    }
    if syntax.isHopeless(held) {
      // What follows may still hold other calls.
      give(call.gap + call.opening.marker.dropLast(call.opening.kept), &events)
      isBeginning = false
      open = nil
      return true
    }
    return false
  }

  /// The end of the body, and where the text behind the call begins: after the closing marker, or at the
  /// next opening one.
  private func endOfBody(_ call: inout OpenCall) -> (end: Int, next: Int)? {
    var at = call.searched
    while at < held.endIndex {
      let rest = held[at...]
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
      for opening in syntax.openings where !opening.onlyAtBeginning {
        if rest.starts(with: opening.marker) { return (at, at) }
      }
      if syntax.openings.contains(where: {
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
    switch syntax.quotes {
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

  /// The calls of a whole body, or its text as content, exactly as it was.
  private mutating func complete(
    _ call: OpenCall, _ body: ArraySlice<UInt8>, _ tail: ArraySlice<UInt8>, _ events: inout [OutputEvent]
  ) {
    if let calls = syntax.calls(in: Array(body)), !calls.isEmpty {
      events += calls.map { .toolCall(name: $0.name, arguments: $0.arguments) }
      isBehindCall = true
      isBeginning = false
    } else {
      give(call.gap + call.opening.marker.dropLast(call.opening.kept) + body + tail, &events)
    }
  }
}
