// A completion in the words of llama-server's wire: one object, or events.

import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Tokenizers
import Wire

struct LlamaAnswer: AnswerWriter {
  let wire = Wire.llama
  let param = "prompt"
  private let request: LlamaRequest
  private let shapes: [LlamaResponse]
  private let run: AnswerRun
  private let core: RequestContext
  private let begin: Instant
  private var parts: [Part]
  /// Prompts whose answers go on, and the one whose answer has ended last.
  private var (open, final): (Int, Int)

  /// What has come of one prompt's answer.
  private struct Part {
    var text = ""
    var tokens: [LlamaResponse.Token] = []
    var hasNewLine = false
    var first: Instant?
    /// When it has ended.
    var whole: JSONValue?
  }

  init(_ plan: LlamaPlan, run: AnswerRun, begin: Instant) {
    request = plan.request
    core = plan.core
    (self.run, self.begin) = (run, begin)
    let tokenizer = plan.core.model.tokenizer
    shapes = plan.prompts.enumerated().map { index, tokens in
      var shape = LlamaResponse(
        index: index, model: plan.core.model.id, settings: plan.settings,
        prompt: tokenizer.decode(tokens, skipSpecialTokens: false))
      shape.isTruncated = plan.isTruncated
      shape.wantsProbabilities = plan.request.probabilities != nil
      shape.fields = plan.request.responseFields
      return shape
    }
    parts = [Part](repeating: Part(), count: shapes.count)
    (open, final) = (shapes.count, 0)
  }

  mutating func add(_ piece: TokenStream.Piece, of index: Int, to events: EventStream?) throws(SocketError) {
    parts[index].first = parts[index].first ?? .now
    guard case .content(let text, let sampled) = piece else {
      (open, final) = (open - 1, index)
      if events == nil { parts[index].whole = last(index) }
      if open > 0 { try events?.send(last(index).bytes) }
      return
    }
    parts[index].hasNewLine = parts[index].hasNewLine || text.utf8.contains(UInt8(ascii: "\n"))
    let tokens = sampled.map { LlamaResponse.Token(id: $0.id, logprob: core.logprob($0)) }
    if let events {
      let event = shapes[index].part(text, tokens, progress(of: index), timed: request.timesEveryToken)
      return try events.send(event.bytes)
    }
    parts[index].text += text
    if request.returnsTokens || request.probabilities != nil { parts[index].tokens += tokens }
  }

  func response() -> Response {
    let values = parts.indices.map { parts[$0].whole ?? last($0) }
    return Response(json: request.isList ? .array(values) : values.first ?? .null)
  }

  func close(_ events: EventStream) { events.finish(last(final).text) }

  private func progress(of index: Int) -> LlamaResponse.Progress {
    let own = run.parts[index]
    let now = Instant.now
    var progress = LlamaResponse.Progress()
    progress.promptTokens = own.request.promptTokens.count
    progress.cachedTokens = own.cachedTokens
    progress.tokens = own.stream.completionTokens
    progress.promptSeconds = (parts[index].first ?? now).seconds(since: begin)
    progress.seconds = now.seconds(since: parts[index].first ?? now)
    return progress
  }

  /// Text and tokens of a stream have been sent.
  private func last(_ index: Int) -> JSONValue {
    let stream = run.parts[index].stream
    let stop: LlamaResponse.Stop =
      stream.finish == .length ? .limit : stream.stopString != nil ? .word : .eos
    return shapes[index].last(
      parts[index].text, parts[index].tokens, stop: stop, word: stream.stopString,
      hasNewLine: parts[index].hasNewLine, progress(of: index))
  }
}
