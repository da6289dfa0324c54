// The two forms of an answer of Ollama's wire, one object or lines of them, made of the same pieces.

import HTTP
import JSON
import Pipeline
import Platform
import Wire

struct OllamaAnswer {
  let shape: OllamaResponse
  let run: AnswerRun
  let core: RequestContext
  /// What is known before the answer.
  let counts: OllamaResponse.Counts
  let begin: Instant

  /// Calls come whole on this wire: pieces of one wait until it has ended.
  private struct State {
    var calls: [ToolCall] = []
    /// Calls that have been handed on.
    var handed = 0
    var first: Instant?
    var finish = TokenStream.End.stop

    mutating func add(_ piece: TokenStream.Piece, makeID: () -> String) -> OllamaResponse.Content? {
      var content = OllamaResponse.Content()
      first = first ?? .now
      switch piece {
      case .content(let text, _): content.text = text
      case .reasoning(let text): content.thinking = text
      case .toolCallBegan(let name):
        calls.append(ToolCall(id: makeID(), name: name, arguments: ""))
        return nil
      case .toolCallArguments(let text):
        if !calls.isEmpty { calls[calls.count - 1].arguments += text }
        return nil
      case .toolCallsFailed(let count):
        calls.removeLast(min(count, max(0, calls.count - handed)))
        return nil
      // One that failed after this one began would take it back.
      case .toolCallEnded: return nil
      case .finish(let reason):
        finish = reason
        guard calls.count > handed else { return nil }
        content.calls = calls
        handed = calls.count
      }
      return content
    }
  }

  private func makeCallID() -> String { "call_" + String(core.settings.makeID().prefix(8)) }

  /// The counts at the end.
  private func finalCounts(_ state: State) -> OllamaResponse.Counts {
    var counts = counts
    let usage = run.usage
    let end = Instant.now
    counts.promptTokens = usage.promptTokens
    counts.cachedTokens = usage.cachedTokens
    counts.tokens = usage.completionTokens
    counts.total = end.seconds(since: begin)
    let first = state.first ?? end
    counts.promptSeconds = max(0, first.seconds(since: begin) - counts.load)
    counts.seconds = end.seconds(since: first)
    return counts
  }

  private func reason(_ finish: TokenStream.End) -> String { finish == .length ? "length" : "stop" }

  // MARK: Whole

  func whole(_ context: ConnectionContext) throws(APIError) -> Response {
    var state = State()
    var whole = OllamaResponse.Content()
    do throws(AnswerFailure) {
      try run.run(context, isClientGone: context.isClientGone) { (_, piece) throws(SocketError) in
        if case .content(_, let tokens) = piece, !tokens.isEmpty {
          whole.logprobs = (whole.logprobs ?? []) + tokens.map(core.logprob)
        }
        guard let content = state.add(piece, makeID: makeCallID) else { return }
        whole.text += content.text
        whole.thinking += content.thinking
        whole.calls += content.calls
      }
    } catch {
      throw APIError(error, param: "messages").forOllama
    }
    return Response(json: shape.last(whole, reason: reason(state.finish), finalCounts(state)))
  }

  // MARK: Streamed

  /// A blank line would end a reader: silence is an empty piece.
  func stream(_ context: ConnectionContext) -> Response {
    let empty = shape.part(OllamaResponse.Content()).bytes + [UInt8(ascii: "\n")]
    return .lines { writer in
      writer.probe = empty
      var state = State()
      do throws(AnswerFailure) {
        try run.run(
          context, isClientGone: writer.isClientGone,
          onSilence: { () throws(SocketError) in try writer.write(empty) },
          deliver: { (_, piece) throws(SocketError) in
            guard var content = state.add(piece, makeID: makeCallID) else { return }
            if case .content(_, let tokens) = piece, !tokens.isEmpty {
              content.logprobs = tokens.map(core.logprob)
            }
            if case .finish = piece, content.calls.isEmpty { return }
            try writer.writeLine(shape.part(content))
          })
      } catch {
        guard case .clientGone = error else {
          let error = APIError(error, param: "messages").forOllama
          writer.closesConnection = true
          return writer.finishLine(Wire.ollama.json(error, context.requestID))
        }
        throw SocketError.clientGone
      }
      let last = shape.last(OllamaResponse.Content(), reason: reason(state.finish), finalCounts(state))
      writer.finishLine(last)
    }
  }
}
