// A completion in the words of /v1/completions: one object, or chunks of it.

import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Tokenizers
import Wire

struct CompletionAnswer: AnswerWriter {
  let wire = Wire.openAI
  let param = "prompt"
  private let request: CompletionRequest
  /// The tokens of each prompt.
  private let prompts: [[Int32]]
  private let header: AnswerHeader
  private let run: AnswerRun
  private let scope: RequestScope
  private var choices: [Choice]

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

  /// How far a choice has come.
  private struct Choice {
    /// Unicode scalars of its text so far.
    var offset = 0
    var hasBegun = false
    /// What is kept of it, when it is sent whole.
    var whole: Fragment
  }

  init(_ request: CompletionRequest, _ prompts: [[Int32]], _ run: AnswerRun, _ scope: RequestScope) {
    (self.request, self.prompts, self.run, self.scope) = (request, prompts, run, scope)
    header = scope.makeHeader(idPrefix: "cmpl-")
    choices = run.parts.map { _ in Choice(whole: Fragment(tokens: request.logprobs == nil ? nil : [])) }
  }

  private func prompt(of index: Int) -> Int { index / request.options.choices }

  mutating func add(_ piece: TokenStream.Piece, of index: Int, to events: EventStream?) throws(SocketError) {
    if case .reading(let progress) = piece {
      guard let events else { return }
      var event = header.members(kind: "text_completion")
      let choice: JSONValue = ["text": "", "index": .int(index), "logprobs": nil, "finish_reason": nil]
      event += [("choices", [choice]), (PromptProgress.member, progress.json)]
      return try events.send(JSONValue.object(JSONObject(event)).bytes)
    }
    for fragment in fragments(piece, of: index) {
      if let events {
        let usage: JSONValue? = request.options.includesUsage ? .null : nil
        try events.send(body([choice(fragment, of: index, whole: false)], usage: usage).json.bytes)
      } else {
        choices[index].whole.text += fragment.text
        choices[index].whole.tokens?.append(contentsOf: fragment.tokens ?? [])
        choices[index].whole.finish = fragment.finish ?? choices[index].whole.finish
      }
    }
  }

  func response() -> Response {
    let choices = choices.enumerated().map { index, kept in choice(kept.whole, of: index, whole: true) }
    return Response(parts: body(choices, usage: run.usage.json))
  }

  func close(_ events: EventStream) throws(SocketError) {
    if request.options.includesUsage { try events.send(body([], usage: run.usage.json).json.bytes) }
    events.finish("[DONE]")
  }

  /// The body, or the data of an event.
  ///
  /// - Parameter usage: null where a later event of the stream has it.
  private func body(_ choices: [JSONParts], usage: JSONValue?) -> JSONParts {
    .object(
      header.members(kind: "text_completion").map { ($0, .value($1)) }
        + [("choices", .list(count: choices.count) { choices[$0] })]
        + (usage.map { [("usage", .value($0))] } ?? []))
  }

  private func choice(_ fragment: Fragment, of index: Int, whole: Bool) -> JSONParts {
    let tokens = fragment.tokens ?? (whole && request.logprobs != nil ? [] : nil)
    let logprobs = tokens.map { [scope] tokens in
      LegacyLogprob.parts(count: tokens.count) { Self.entry(tokens[$0], scope) }
    }
    let finish = fragment.finish ?? (whole ? .stop : nil)
    var details = TokenDetails()
    if whole {
      details = scope.promptDetails(
        request.options, prompt: prompts[prompt(of: index)], found: run.parts[index].promptLogprobs)
    } else if request.options.returnsTokens, fragment.isFirst {
      details.promptTokens = prompts[prompt(of: index)]
    }
    details.tokens = run.takeTokens(of: index)
    if finish != nil { details.receipt = run.receipt(of: index) }
    return .object(
      [
        ("text", .value(.string(fragment.text))), ("index", .value(.int(index))),
        ("logprobs", logprobs ?? .value(nil)),
        ("finish_reason", .value(finish.map { .string($0.rawValue) } ?? nil)),
      ] + details.members)
  }

  private static func entry(_ place: Place, _ scope: RequestScope) -> LegacyLogprob {
    LegacyLogprob(
      logprob: place.token.map(scope.logprob) ?? scope.unpredicted(place.id), offset: place.offset)
  }

  // MARK: Fragments

  /// A piece as text; before a choice's first one its prompt, when it is to be echoed.
  private mutating func fragments(_ piece: TokenStream.Piece, of index: Int) -> [Fragment] {
    var fragments: [Fragment] = []
    let isFirst = !choices[index].hasBegun
    defer { if isFirst && !fragments.isEmpty { fragments[0].isFirst = true } }
    if isFirst {
      choices[index].hasBegun = true
      if request.echoes { fragments.append(echo(of: index)) }
    }
    switch piece {
    case .content(let text, let tokens):
      let places = request.logprobs == nil ? nil : places(of: tokens, from: choices[index].offset, text: text)
      choices[index].offset += text.unicodeScalars.count
      fragments.append(Fragment(text: text, tokens: places))
    case .finish(let reason): fragments.append(Fragment(finish: ChoiceFinish(reason)))
    // Without a parser there are no others.
    default: break
    }
    return fragments
  }

  private func places(of tokens: [SampledToken], from start: Int, text: String) -> [Place] {
    let end = start + text.unicodeScalars.count
    var offset = start
    return tokens.map { token in
      defer { offset = min(end, offset + scope.scalars(of: token.id)) }
      return Place(id: token.id, token: token, offset: offset)
    }
  }

  private mutating func echo(of index: Int) -> Fragment {
    let ids = prompts[prompt(of: index)]
    let text: String
    switch request.prompts[prompt(of: index)] {
    case .text(let given) where request.options.promptTruncation == nil: text = given
    case .text, .tokens: text = scope.model.tokenizer.decode(ids, skipSpecialTokens: true)
    }
    let end = text.unicodeScalars.count
    choices[index].offset = end
    guard request.logprobs != nil else { return Fragment(text: text) }

    var detokenizer = scope.model.tokenizer.makeDetokenizer(skipSpecialTokens: true)
    var offset = 0
    let known = run.parts[index].promptLogprobs
    let places = ids.enumerated().map { position, id in
      defer { offset = min(end, offset + detokenizer.push(id).unicodeScalars.count) }
      return Place(id: id, token: known.indices.contains(position) ? known[position] : nil, offset: offset)
    }
    return Fragment(text: text, tokens: places)
  }
}
