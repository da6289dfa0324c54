// An answer in the words of Ollama's wire: one object, or lines of them.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

struct OllamaAnswer: AnswerWriter {
  let wire = Wire.ollama
  let param: String
  let shape: OllamaResponse
  let run: AnswerRun
  let scope: RequestScope
  /// What is known before the answer.
  let counts: OllamaResponse.Counts
  let begin: Instant
  private var whole = OllamaResponse.Content()
  /// Calls come whole on this wire: pieces of one wait until the end, since one that failed would take back others.
  private var calls: [ToolCall] = []
  private var first: Instant?
  private var finish = TokenStream.End.stop

  init(
    _ shape: OllamaResponse, _ run: AnswerRun, _ scope: RequestScope, param: String,
    counts: OllamaResponse.Counts, begin: Instant
  ) {
    (self.shape, self.run, self.scope) = (shape, run, scope)
    (self.param, self.counts, self.begin) = (param, counts, begin)
  }

  /// A blank line would end a reader: silence is an empty piece.
  var silence: [UInt8] { shape.part(OllamaResponse.Content()).bytes + [UInt8(ascii: "\n")] }

  mutating func add(_ piece: TokenStream.Piece, of _: Int, to lines: EventStream?) throws(SocketError) {
    var content = OllamaResponse.Content()
    if case .reading(let progress) = piece {
      content.progress = progress.json
      try lines?.send(shape.part(content).bytes)
      return
    }
    first = first ?? .now
    switch piece {
    case .content(let text, let tokens):
      content.text = text
      if !tokens.isEmpty { content.logprobs = tokens.map(scope.logprob) }
    case .reasoning(let text): content.thinking = text
    case .toolCallBegan(let name):
      calls.append(
        ToolCall(id: "call_" + String(scope.settings.makeID().prefix(8)), name: name, arguments: ""))
      return
    case .toolCallArguments(let text):
      if let last = calls.indices.last { calls[last].arguments += text }
      return
    case .toolCallsFailed(let count): return calls.removeLast(min(count, calls.count))
    case .toolCallEnded, .search, .reading: return
    case .finish(let reason):
      finish = reason
      guard !calls.isEmpty else { return }
      content.calls = calls
    }
    if let lines { return try lines.send(shape.part(content).bytes) }
    whole.text += content.text
    whole.thinking += content.thinking
    whole.calls += content.calls
    guard let logprobs = content.logprobs else { return }
    whole.logprobs = whole.logprobs ?? []
    whole.logprobs? += logprobs
  }

  func response() -> Response { Response(json: last) }

  func close(_ lines: EventStream) { lines.finish(last.text) }

  /// The last line, or the whole answer.
  private var last: JSONValue {
    var counts = counts
    let usage = run.usage
    let end = Instant.now
    counts.promptTokens = usage.promptTokens
    counts.cachedTokens = usage.cachedTokens
    counts.tokens = usage.completionTokens
    counts.total = end.seconds(since: begin)
    let first = first ?? end
    counts.promptSeconds = max(0, first.seconds(since: begin) - counts.load)
    counts.seconds = end.seconds(since: first)
    let last = shape.last(whole, reason: finish == .length ? "length" : "stop", counts)
    guard let receipt = run.receipt(of: 0), var object = last.objectValue else { return last }
    object[TokenDetails.receiptName] = receipt
    return .object(object)
  }
}
