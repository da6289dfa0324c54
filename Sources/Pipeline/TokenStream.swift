// From sampled tokens to what readers see: detokenizer → output parser → stop strings → pieces.
//
// Streamed and whole answers are made of the same pieces, so they agree byte for byte. Stop strings are looked for
// in the content only, never in reasoning or tool calls. Token counts include everything up to and including the
// token that completed a stop string, but not a stop token (EOS), which the engine keeps to itself.

package import Chat
package import Decoding
package import Inference
package import JSON
import Platform
package import Tokenizers

/// The text side of one generation. Used by one thread.
package struct TokenStream: Sendable {
  /// Why an answer ended.
  package enum End: String, Sendable {
    /// The model, or a stop string, ended it.
    case stop
    /// No more tokens were allowed.
    case length
    /// It called tools.
    case toolCalls = "tool_calls"
  }

  /// What comes of an answer, in order: what `OutputParser` finds, with what only the stream knows (the tokens of the
  /// content, and the end), and what a server does between the generations of one answer.
  package enum Piece: Sendable, Equatable {
    case reasoning(String)
    /// `tokens` are those whose text this piece holds, when log probabilities are wanted.
    case content(String, tokens: [SampledToken])
    /// A call begins; pieces of its arguments follow, then its end.
    case toolCallBegan(name: String)
    /// More of the JSON text of the arguments.
    case toolCallArguments(String)
    case toolCallEnded
    /// The last calls that began, this many, are none after all; their text is content and follows.
    case toolCallsFailed(Int)
    /// The last piece.
    case finish(End)
    /// Of files, or of tools of other servers, by the server.
    case search(SearchStep)
    /// The prompt is being read: nothing of the answer.
    case reading(PromptProgress)
  }

  /// What a search does for an answer.
  package enum SearchStep: Sendable, Equatable {
    case began(id: String)
    /// As the answer shows it.
    case ended(JSONValue)
    /// The passage of this number is cited where the content has come to.
    case cited(Int)
    /// A list, a call or a question of a server of tools begins: the item as far as it is known.
    case remoteBegan(JSONValue)
    /// The whole item.
    case remoteEnded(JSONValue)
  }

  /// How tokens become pieces.
  package struct Settings: Sendable {
    /// Nil passes the text through, as legacy completions do.
    package var parser: OutputParser?
    /// Texts that end the answer; they are not part of it.
    package var stops: [String] = []
    /// Whether the one that ended the answer is part of it all the same.
    package var includesStop = false
    /// Tokens without text for the reader: EOS that `ignore_eos` let pass.
    package var hiddenTokens: Set<Int32> = []
    package var reportsLogprobs = false
    /// Ends the answer after its first tool call.
    package var allowsOneCallOnly = false
    /// Whether a call that the token limit cuts stays as far as its arguments came; otherwise it is none, and its text
    /// is content.
    package var keepsCutCalls = false
    /// Ends the answer before its first token: only the prompt is of interest.
    package var isEmpty = false
    /// For answers that are lines of code.
    package var lines: LineRules?

    package init() {}
  }

  package private(set) var completionTokens = 0
  package var reasoningTokens: Int { reasoning.count }
  /// Nil until the answer has ended.
  package private(set) var finish: End?
  /// The stop string that ended the answer.
  package var stopString: String? { stops.stopped }
  /// The texts that end it.
  package var stopTexts: [String] { settings.stops }
  /// Calls that could not be read.
  package private(set) var malformedCalls = 0

  private let settings: Settings
  private var detokenizer: Detokenizer
  private var parser: OutputParser?
  private var stops: StopMatcher
  private var lines: LineRules?
  private var reasoning = ReasoningCounter()
  private var ledger = TokenLedger()
  private var toolCalls = 0
  /// Whether a call failed of which clients of a stream have seen a part.
  private var hasFailedInSight = false
  private var pieces: [Piece] = []

  package init(_ settings: Settings, detokenizer: Detokenizer) {
    (self.settings, self.detokenizer) = (settings, detokenizer)
    parser = settings.parser
    stops = StopMatcher(stops: settings.stops)
    lines = settings.lines
  }

  /// Takes one token. After a piece `.finish` the generation is to be cancelled; later tokens are ignored.
  package mutating func consume(_ token: SampledToken) -> [Piece] {
    guard finish == nil else { return [] }
    if settings.isEmpty { return end(.length) }
    completionTokens += 1
    guard !settings.hiddenTokens.contains(token.id) else { return [] }
    let text = detokenizer.push(token.id)
    if settings.reportsLogprobs { ledger.append(token, text: text) }
    let events = parse(text)
    reasoning.count(events)
    return take(events)
  }

  /// Flushes what was held back, when the engine has ended the generation.
  package mutating func end(_ reason: FinishReason) -> [Piece] {
    guard finish == nil else { return [] }
    let tail = detokenizer.finish()
    if settings.reportsLogprobs { ledger.appendTail(tail) }
    let isCut = reason == .length && settings.keepsCutCalls
    var events = parse(tail) + (parser?.finish(isCut: isCut) ?? [])
    // Its readers have the call already, as far as it came.
    if isCut, case .callFailed(1..., _)? = events.last {
      events.removeLast()
    }
    reasoning.finish()
    var last = take(events)
    guard finish == nil else { return last }
    releaseHeldContent()
    if finish != nil { return last + takePieces() }
    let ending: End =
      reason == .length || settings.isEmpty
      ? .length : toolCalls > 0 && !hasFailedInSight ? .toolCalls : .stop
    end(with: ending)
    last += takePieces()
    return last
  }

  private mutating func parse(_ text: String) -> [OutputEvent] {
    guard !text.utf8.isEmpty else { return [] }
    return parser?.feed(text) ?? [.content(text)]
  }

  private mutating func take(_ events: [OutputEvent]) -> [Piece] {
    for event in events {
      // Other output ends the text that a stop string can be found in.
      if !event.isContent { releaseHeldContent() }
      guard finish == nil else { break }
      switch event {
      case .content(let text): takeContent(text)
      case .reasoning(let text):
        if settings.reportsLogprobs { ledger.skip(through: text) }
        addReasoning(text)
      case .callBegan(let name):
        toolCalls += 1
        pieces.append(.toolCallBegan(name: name))
      case .callArguments(let text): pieces.append(.toolCallArguments(text))
      case .callEnded:
        if settings.reportsLogprobs { ledger.skipAll() }
        pieces.append(.toolCallEnded)
        if settings.allowsOneCallOnly { end(with: hasFailedInSight ? .stop : .toolCalls) }
      case .callFailed(let retracted, let text):
        malformedCalls += 1
        if retracted > 0 {
          toolCalls -= retracted
          hasFailedInSight = true
          pieces.append(.toolCallsFailed(retracted))
        }
        takeContent(text)
      }
    }
    return takePieces()
  }

  private mutating func takeContent(_ text: String) {
    let (released, stopped) = stops.feed(text)
    addContent(released)
    if let stopped, finish == nil { end(atStop: stopped) }
  }

  private mutating func takePieces() -> [Piece] {
    defer { pieces.removeAll(keepingCapacity: true) }
    return pieces
  }

  private mutating func end(atStop text: String) {
    if settings.includesStop { addContent(text) }
    end(with: .stop)
  }

  private mutating func end(with reason: End) {
    if let rest = lines?.finish() { show(rest) }
    finish = reason
    pieces.append(.finish(reason))
  }

  /// Text that might have begun a stop string is content after all, unless it holds a shorter one.
  private mutating func releaseHeldContent() {
    guard finish == nil else { return }
    addContent(stops.finish())
    guard finish == nil else { return }
    if let stopped = stops.stopped { return end(atStop: stopped) }
    stops = StopMatcher(stops: settings.stops)
  }

  private mutating func addContent(_ text: String) {
    guard !text.utf8.isEmpty, let (shown, isOver) = lines?.feed(text, at: .now) else { return show(text) }
    show(shown)
    guard isOver, finish == nil else { return }
    // A line that ends the answer is not part of it.
    lines = nil
    end(with: .length)
  }

  private mutating func show(_ text: String) {
    guard !text.utf8.isEmpty else { return }
    let tokens = settings.reportsLogprobs ? ledger.take(text) : []
    if case .content(let before, let earlier) = pieces.last {
      pieces[pieces.count - 1] = .content(before + text, tokens: earlier + tokens)
    } else {
      pieces.append(.content(text, tokens: tokens))
    }
  }

  private mutating func addReasoning(_ text: String) {
    guard !text.utf8.isEmpty else { return }
    if case .reasoning(let before) = pieces.last {
      pieces[pieces.count - 1] = .reasoning(before + text)
    } else {
      pieces.append(.reasoning(text))
    }
  }
}

extension OutputEvent {
  fileprivate var isContent: Bool { if case .content = self { true } else { false } }
}

/// Counts the tokens of the reasoning, its markers included.
///
/// A token without an event (a marker, held-back text) is decided by its neighbours: beside reasoning it belongs
/// to the reasoning.
private struct ReasoningCounter: Sendable {
  private(set) var count = 0
  private var undecided = 0
  private var isInReasoning = false

  /// Counts one token by the events it led to.
  mutating func count(_ events: [OutputEvent]) {
    guard let first = events.first else {
      undecided += 1
      return
    }
    if case .reasoning = first {
      count += undecided + 1
      isInReasoning = true
    } else if isInReasoning {
      count += undecided
    }
    undecided = 0
    if let last = events.last, case .reasoning = last { isInReasoning = true } else { isInReasoning = false }
  }

  /// Nothing follows.
  mutating func finish() {
    if isInReasoning { count += undecided }
    undecided = 0
  }
}
