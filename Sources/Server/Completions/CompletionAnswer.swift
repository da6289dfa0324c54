// The two forms of a legacy completion, whole and streamed, made of the same pieces.

import Decoding
import HTTP
import JSON
import Pipeline
import Tokenizers
import Wire

struct CompletionAnswer {
  let request: CompletionRequest
  /// The tokens of each prompt.
  let prompts: [[Int32]]
  let header: AnswerHeader
  let run: AnswerRun
  let core: RequestContext

  /// A token of a choice's text, or of its prompt, and where it begins.
  private struct Place: Sendable {
    let id: Int32
    /// Nil for a token of the prompt that nothing predicted.
    let token: SampledToken?
    /// Unicode scalars before it.
    let offset: Int
  }

  /// Text of one choice, and the tokens that it is made of.
  private struct Fragment {
    var text = ""
    var tokens: [Place]?
    var finish: ChoiceFinish?
    var isFirst = false
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
    var kept = run.parts.map { _ in Fragment(tokens: request.logprobs == nil ? nil : []) }
    do throws(AnswerFailure) {
      try run.run(context, isClientGone: context.isClientGone, weight: AnswerRun.keptBytes) {
        (index, piece) throws(SocketError) in
        for fragment in fragments(piece, of: index, &progress[index]) {
          kept[index].text += fragment.text
          kept[index].tokens?.append(contentsOf: fragment.tokens ?? [])
          kept[index].finish = fragment.finish ?? kept[index].finish
        }
      }
    } catch {
      throw APIError(error, param: "prompt")
    }
    let choices = kept.enumerated().map { index, fragment in choice(fragment, of: index, whole: true) }
    return Response(
      parts: CompletionResponse(header: header, choices: choices, usage: .counts(run.usage)).parts)
  }

  private func choice(_ fragment: Fragment, of index: Int, whole: Bool) -> CompletionChoice {
    let tokens = fragment.tokens ?? (whole ? [] : nil)
    let logprobs = tokens.map { [core] tokens in
      LegacyLogprobs(count: tokens.count) { Self.entry(tokens[$0], core) }
    }
    var choice = CompletionChoice(
      index: index, text: fragment.text, logprobs: request.logprobs == nil ? nil : logprobs,
      finish: fragment.finish ?? (whole ? .stop : nil))
    if whole {
      choice.details = core.promptDetails(
        request.options, prompt: prompts[prompt(of: index)], found: run.parts[index].promptLogprobs)
    } else if request.options.returnsTokens, fragment.isFirst {
      choice.details.promptTokens = prompts[prompt(of: index)]
    }
    choice.details.tokens = run.takeTokens(of: index)
    return choice
  }

  private static func entry(_ place: Place, _ core: RequestContext) -> LegacyLogprobs.Entry {
    LegacyLogprobs.Entry(
      logprob: place.token.map(core.logprob) ?? core.unpredicted(place.id), offset: place.offset)
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
    let choice = choice(fragment, of: index, whole: false)
    let usage: CompletionResponse.UsageMember = request.options.includesUsage ? .announced : .absent
    try events.send(CompletionResponse(header: header, choices: [choice], usage: usage).json.bytes)
  }

  // MARK: Fragments

  /// A piece as text; before a choice's first one its prompt, when it is to be echoed.
  private func fragments(_ piece: TokenStream.Piece, of index: Int, _ progress: inout Progress) -> [Fragment]
  {
    var fragments: [Fragment] = []
    let isFirst = !progress.hasBegun
    defer { if isFirst && !fragments.isEmpty { fragments[0].isFirst = true } }
    if !progress.hasBegun {
      progress.hasBegun = true
      if request.echoes { fragments.append(echo(of: index, &progress)) }
    }
    switch piece {
    case .content(let text, let tokens):
      let places = request.logprobs == nil ? nil : places(of: tokens, from: progress.offset, text: text)
      progress.offset += text.unicodeScalars.count
      fragments.append(Fragment(text: text, tokens: places))
    case .finish(let reason): fragments.append(Fragment(finish: ChoiceFinish(reason)))
    // Without a parser there are no others.
    case .reasoning, .toolCallBegan, .toolCallArguments, .toolCallEnded, .toolCallsFailed: break
    }
    return fragments
  }

  private func places(of tokens: [SampledToken], from start: Int, text: String) -> [Place] {
    let end = start + text.unicodeScalars.count
    var offset = start
    return tokens.map { token in
      defer { offset = min(end, offset + core.scalars(of: token.id)) }
      return Place(id: token.id, token: token, offset: offset)
    }
  }

  private func echo(of index: Int, _ progress: inout Progress) -> Fragment {
    let ids = prompts[prompt(of: index)]
    let text: String
    switch request.prompts[prompt(of: index)] {
    case .text(let given) where request.options.promptTruncation == nil: text = given
    case .text, .tokens: text = core.model.tokenizer.decode(ids, skipSpecialTokens: true)
    }
    progress.offset = text.unicodeScalars.count
    guard request.logprobs != nil else { return Fragment(text: text) }

    var detokenizer = core.model.tokenizer.makeDetokenizer(skipSpecialTokens: true)
    var offset = 0
    let known = run.parts[index].promptLogprobs
    let places = ids.enumerated().map { position, id in
      defer { offset = min(progress.offset, offset + detokenizer.push(id).unicodeScalars.count) }
      return Place(id: id, token: known.indices.contains(position) ? known[position] : nil, offset: offset)
    }
    return Fragment(text: text, tokens: places)
  }
}
