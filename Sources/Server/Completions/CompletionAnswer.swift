// The two forms of a legacy completion, whole and streamed, made of the same pieces.

import Decoding
import HTTP
import JSON
import OpenAI
import Pipeline
import Tokenizers

struct CompletionAnswer {
  let request: CompletionRequest
  /// The tokens of each prompt.
  let prompts: [[Int32]]
  let header: AnswerHeader
  let run: AnswerRun
  let core: RequestContext

  /// Text of one choice, and the log probabilities of the tokens that it is made of.
  private struct Fragment {
    var text = ""
    var logprobs: LegacyLogprobs?
    var finish: ChoiceFinish?
  }

  /// How far each choice has come.
  private struct Progress {
    /// Unicode scalars of the choice's text so far.
    var offset = 0
    var hasBegun = false
  }

  private func prompt(of index: Int) -> Int { index / request.options.choices }

  // MARK: Whole

  func whole(_ context: ConnectionContext) throws(APIError) -> Response {
    var progress = [Progress](repeating: Progress(), count: run.parts.count)
    var choices = run.parts.indices.map { index in
      CompletionChoice(
        index: index, text: "", logprobs: request.logprobs == nil ? nil : LegacyLogprobs(entries: []),
        finish: .stop)
    }
    do throws(AnswerFailure) {
      try run.run(context, isClientGone: context.isClientGone) { (index, piece) throws(SocketError) in
        for fragment in fragments(piece, of: index, &progress[index]) {
          choices[index].text += fragment.text
          choices[index].logprobs?.entries += fragment.logprobs?.entries ?? []
          choices[index].finish = fragment.finish ?? choices[index].finish
        }
      }
    } catch {
      throw APIError(error, param: "prompt")
    }
    return Response(
      json: CompletionResponse(header: header, choices: choices, usage: .counts(run.usage)).json)
  }

  // MARK: Streamed

  func stream(_ context: ConnectionContext) -> Response {
    .events { events in
      var progress = [Progress](repeating: Progress(), count: run.parts.count)
      do throws(AnswerFailure) {
        try run.run(
          context, isClientGone: events.isClientGone,
          onSilence: { () throws(SocketError) in try events.keepAlive() },
          deliver: { (index, piece) throws(SocketError) in
            for fragment in fragments(piece, of: index, &progress[index]) {
              try send(fragment, of: index, to: events)
            }
          })
      } catch {
        guard case .clientGone = error else { return events.finishFailed(APIError(error, param: "prompt")) }
        throw SocketError.clientGone
      }
      if request.options.includesUsage {
        try events.send(CompletionResponse(header: header, choices: [], usage: .counts(run.usage)).json.bytes)
      }
      events.finish("[DONE]")
    }
  }

  private func send(_ fragment: Fragment, of index: Int, to events: EventStream) throws(SocketError) {
    let choice = CompletionChoice(
      index: index, text: fragment.text, logprobs: fragment.logprobs, finish: fragment.finish)
    let usage: CompletionResponse.UsageMember = request.options.includesUsage ? .announced : .absent
    try events.send(CompletionResponse(header: header, choices: [choice], usage: usage).json.bytes)
  }

  // MARK: Fragments

  /// A piece as text; before a choice's first one its prompt, when it is to be echoed.
  private func fragments(_ piece: TokenStream.Piece, of index: Int, _ progress: inout Progress) -> [Fragment]
  {
    var fragments: [Fragment] = []
    if !progress.hasBegun {
      progress.hasBegun = true
      if request.echoes { fragments.append(echo(of: index, &progress)) }
    }
    switch piece {
    case .content(let text, let tokens):
      let logprobs = request.logprobs == nil ? nil : describe(tokens, from: progress.offset, text: text)
      progress.offset += text.unicodeScalars.count
      fragments.append(Fragment(text: text, logprobs: logprobs))
    case .finish(let reason): fragments.append(Fragment(finish: ChoiceFinish(reason)))
    // Without a parser there are no others.
    case .reasoning, .toolCallBegan, .toolCallArguments, .toolCallEnded, .toolCallsFailed: break
    }
    return fragments
  }

  private func describe(_ tokens: [SampledToken], from start: Int, text: String) -> LegacyLogprobs {
    let end = start + text.unicodeScalars.count
    var offset = start
    return LegacyLogprobs(
      entries: tokens.map { token in
        defer { offset = min(end, offset + core.scalars(of: token.id)) }
        return LegacyLogprobs.Entry(logprob: core.logprob(token), offset: offset)
      })
  }

  private func echo(of index: Int, _ progress: inout Progress) -> Fragment {
    let ids = prompts[prompt(of: index)]
    let text: String
    switch request.prompts[prompt(of: index)] {
    case .text(let given): text = given
    case .tokens(let ids): text = core.model.tokenizer.decode(ids, skipSpecialTokens: true)
    }
    progress.offset = text.unicodeScalars.count
    guard request.logprobs != nil else { return Fragment(text: text) }

    var detokenizer = core.model.tokenizer.makeDetokenizer(skipSpecialTokens: true)
    var offset = 0
    let known = run.parts[index].promptLogprobs
    let entries = ids.enumerated().map { position, id in
      defer { offset = min(progress.offset, offset + detokenizer.push(id).unicodeScalars.count) }
      let logprob = known.indices.contains(position) ? known[position].map(core.logprob) : nil
      return LegacyLogprobs.Entry(logprob: logprob ?? core.unpredicted(id), offset: offset)
    }
    return Fragment(text: text, logprobs: LegacyLogprobs(entries: entries))
  }
}
