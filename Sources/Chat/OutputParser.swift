// The text of a reply, piece by piece, into content, reasoning and tool calls.
//
// Answers in messages (gpt-oss, Muse) have a parser of their own, `HarmonyParser`. For the others two stages:
// `ReasoningSplitter` separates reasoning, `ToolCallSplitter` takes the calls out of the rest. Both
// hold back what could be the beginning of a marker, and whitespace that belongs to none of the parts when a
// marker follows. What the events say in the end does not depend on how the text was cut into pieces.

/// One piece of a reply.
package enum OutputEvent: Sendable, Equatable {
  case content(String)
  case reasoning(String)
  /// A call of a known tool begins; pieces of its arguments follow, then its end.
  case callBegan(name: String)
  /// More of the JSON text of the arguments, an object.
  case callArguments(String)
  /// The call is complete and well-formed.
  case callEnded
  /// What looked like a call is none: the last `retracted` calls that began are void, and all of their text, with
  /// its markers, is content.
  case callFailed(retracted: Int, text: String)
}

/// A streaming parser for one reply. Feed it the decoded text with special tokens kept, end-of-sequence tokens
/// left out.
package struct OutputParser: Sendable {
  private var reasoning: ReasoningSplitter
  private var calls: ToolCallSplitter?
  /// In place of the two, for answers in messages.
  private var harmony: HarmonyParser?
  /// What the model writes before the text of an answer, as long as it may still come, and what of it has come.
  private var lead: [UInt8] = []
  private var held: [UInt8] = []

  init(reasoning: ReasoningSplitter, calls: ToolCallSplitter?, lead: String = "") {
    (self.reasoning, self.calls) = (reasoning, calls)
    self.lead = Bytes.isSpace(lead.utf8) ? [] : Array(lead.utf8)
  }

  init(harmony: HarmonyParser) {
    self.harmony = harmony
    reasoning = ReasoningSplitter(OutputFormat.Reasoning.harmony.markers, startsInside: false)
  }

  /// Takes more text; gives what is certain.
  package mutating func feed(_ text: String) -> [OutputEvent] {
    if let events = harmony?.feed(Array(text.utf8)) { return Self.joined(events) }
    return split(reasoning.feed(withoutLead(Array(text.utf8), isLast: false)))
  }

  private mutating func withoutLead(_ bytes: [UInt8], isLast: Bool) -> [UInt8] {
    guard !lead.isEmpty else { return bytes }
    held += bytes
    if !isLast, held.count < lead.count, lead.starts(with: held) { return [] }
    defer { (lead, held) = ([], []) }
    return held.starts(with: lead) ? Array(held.dropFirst(lead.count)) : held
  }

  /// The reply has ended: gives the rest. A call that is not finished becomes content.
  ///
  /// - Parameter isCut: whether it was cut: then such a call is told without its end, as far as it came.
  package mutating func finish(isCut: Bool = false) -> [OutputEvent] {
    if let events = harmony?.finish(isCut: isCut) { return Self.joined(events) }
    var events = split(reasoning.feed(withoutLead([], isLast: true)) + reasoning.finish())
    if let rest = calls?.finish(isCut: isCut) { events = Self.joined(events + rest) }
    return events
  }

  private mutating func split(_ pieces: [ReasoningSplitter.Piece]) -> [OutputEvent] {
    guard !pieces.isEmpty else { return [] }
    var events: [OutputEvent] = []
    for piece in pieces {
      if piece.isReasoning {
        events.append(.reasoning(Bytes.text(piece.bytes)))
      } else if let more = calls?.feed(piece.bytes) {
        events += more
      } else {
        events.append(.content(Bytes.text(piece.bytes)))
      }
    }
    return Self.joined(events)
  }

  /// Adjacent pieces of the same kind made one.
  private static func joined(_ events: [OutputEvent]) -> [OutputEvent] {
    guard events.count > 1 else { return events }
    var result: [OutputEvent] = []
    for event in events {
      switch (result.last, event) {
      case (.content(let a), .content(let b)): result[result.count - 1] = .content(a + b)
      case (.reasoning(let a), .reasoning(let b)): result[result.count - 1] = .reasoning(a + b)
      case (.callArguments(let a), .callArguments(let b)): result[result.count - 1] = .callArguments(a + b)
      default: result.append(event)
      }
    }
    return result
  }
}
