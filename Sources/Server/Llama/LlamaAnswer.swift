// The two forms of a completion of llama-server's wire, whole and streamed, made of the same pieces.

import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Tokenizers
import Wire

struct LlamaAnswer {
  private let request: LlamaRequest
  private let shapes: [LlamaResponse]
  private let run: AnswerRun
  private let core: RequestContext
  private let begin: Instant

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
  }

  /// What has come of one prompt's answer.
  private struct Part {
    var text = ""
    var tokens: [LlamaResponse.Token] = []
    var hasNewLine = false
    var first: Instant?

    /// - Returns: the piece's text and tokens; nil for the end.
    mutating func add(_ piece: TokenStream.Piece, _ core: RequestContext)
      -> (text: String, tokens: [LlamaResponse.Token])?
    {
      first = first ?? .now
      guard case .content(let text, let sampled) = piece else { return nil }
      hasNewLine = hasNewLine || text.utf8.contains(UInt8(ascii: "\n"))
      return (text, sampled.map { LlamaResponse.Token(id: $0.id, logprob: core.logprob($0)) })
    }
  }

  private func progress(of index: Int, _ part: Part) -> LlamaResponse.Progress {
    let own = run.parts[index]
    let now = Instant.now
    var progress = LlamaResponse.Progress()
    progress.promptTokens = own.request.promptTokens.count
    progress.cachedTokens = own.cachedTokens
    progress.tokens = own.stream.completionTokens
    progress.promptSeconds = (part.first ?? now).seconds(since: begin)
    progress.seconds = now.seconds(since: part.first ?? now)
    return progress
  }

  /// - Parameter isStream: then text and tokens have been sent.
  private func last(_ index: Int, _ part: Part, isStream: Bool) -> JSONValue {
    let stream = run.parts[index].stream
    let stop: LlamaResponse.Stop =
      stream.finish == .length ? .limit : stream.stopString != nil ? .word : .eos
    return shapes[index].last(
      isStream ? "" : part.text, isStream || !keepsTokens ? [] : part.tokens, stop: stop,
      word: stream.stopString, hasNewLine: part.hasNewLine, progress(of: index, part))
  }

  private var keepsTokens: Bool { request.returnsTokens || request.probabilities != nil }

  // MARK: Whole

  func whole(_ context: ConnectionContext) throws(APIError) -> Response {
    var parts = [Part](repeating: Part(), count: shapes.count)
    var results = [JSONValue?](repeating: nil, count: shapes.count)
    do throws(AnswerFailure) {
      try run.run(context, isClientGone: context.isClientGone, weight: AnswerRun.keptBytes) {
        (index, piece) throws(SocketError) in
        if let (text, tokens) = parts[index].add(piece, core) {
          parts[index].text += text
          if keepsTokens { parts[index].tokens += tokens }
        } else {
          results[index] = last(index, parts[index], isStream: false)
        }
      }
    } catch {
      throw APIError(error, param: "prompt")
    }
    let values = results.enumerated().map { index, value in
      value ?? last(index, parts[index], isStream: false)
    }
    return Response(json: request.isList ? .array(values) : values.first ?? .null)
  }

  // MARK: Streamed

  func stream(_ context: ConnectionContext) -> Response {
    .events { events in
      var parts = [Part](repeating: Part(), count: shapes.count)
      var open = shapes.count
      var final = 0
      do throws(AnswerFailure) {
        try run.run(
          context, isClientGone: events.isClientGone,
          onSilence: { () throws(SocketError) in try events.keepAlive() },
          deliver: { (index, piece) throws(SocketError) in
            if let (text, tokens) = parts[index].add(piece, core) {
              let event = shapes[index].part(
                text, tokens, progress(of: index, parts[index]), timed: request.timesEveryToken)
              return try events.send(event.bytes)
            }
            open -= 1
            final = index
            if open > 0 { try events.send(last(index, parts[index], isStream: true).bytes) }
          })
      } catch {
        guard case .clientGone = error else {
          return events.finishWithError(Wire.llama[0].json(APIError(error, param: "prompt"), "").text)
        }
        throw SocketError.clientGone
      }
      events.finish(last(final, parts[final], isStream: true).text)
    }
  }
}
