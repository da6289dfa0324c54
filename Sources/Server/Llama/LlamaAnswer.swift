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
  /// What the server took the request to mean.
  private let settings: JSONValue
  private let isTruncated: Bool
  private let run: AnswerRun
  private let scope: RequestScope
  private let begin: Instant
  private var parts: [Part]
  /// Prompts whose answers go on, and the one whose answer has ended last.
  private var (open, final): (Int, Int)

  /// What has come of one prompt's answer.
  private struct Part {
    /// As the model read it.
    let prompt: String
    var text = ""
    var tokens: [SampledToken] = []
    var hasNewLine = false
    var first: Instant?
    /// When it has ended.
    var whole: JSONValue?
  }

  init(_ plan: LlamaPlan, run: AnswerRun, begin: Instant) {
    (request, scope, settings) = (plan.request, plan.scope, plan.settings)
    (isTruncated, self.run, self.begin) = (plan.isTruncated, run, begin)
    parts = plan.prompts.map {
      Part(prompt: plan.scope.model.tokenizer.decode($0, skipSpecialTokens: false))
    }
    (open, final) = (parts.count, 0)
  }

  mutating func add(_ piece: TokenStream.Piece, of index: Int, to events: EventStream?) throws(SocketError) {
    if case .reading(let progress) = piece {
      var event = part("", [], of: index).objectValue
      event?[PromptProgress.member] = progress.json
      if let events, let event { try events.send(JSONValue.object(event).bytes) }
      return
    }
    parts[index].first = parts[index].first ?? .now
    guard case .content(let text, let sampled) = piece else {
      (open, final) = (open - 1, index)
      if events == nil { parts[index].whole = last(index) }
      if open > 0 { try events?.send(last(index).bytes) }
      return
    }
    parts[index].hasNewLine = parts[index].hasNewLine || text.utf8.contains(UInt8(ascii: "\n"))
    if let events { return try events.send(part(text, sampled, of: index).bytes) }
    parts[index].text += text
    if request.returnsTokens || request.probabilities != nil { parts[index].tokens += sampled }
  }

  func response() -> Response {
    let values = parts.indices.map { parts[$0].whole ?? last($0) }
    return Response(json: request.isList ? .array(values) : values.first ?? .null)
  }

  func close(_ events: EventStream) { events.finish(last(final).text) }

  // MARK: Objects

  /// An event that is not the last.
  private func part(_ text: String, _ tokens: [SampledToken], of index: Int) -> JSONValue {
    let own = run.parts[index]
    var object = JSONObject([
      ("index", .int(index)), ("content", .string(text)), ("tokens", Self.ids(tokens)), ("stop", false),
      ("id_slot", 0), ("tokens_predicted", .int(own.stream.completionTokens)),
      ("tokens_evaluated", .int(own.request.promptTokens.count)),
    ])
    if request.timesEveryToken { object["timings"] = timings(of: index) }
    if request.probabilities != nil { object["completion_probabilities"] = probabilities(tokens) }
    return .object(object)
  }

  /// The last event, or the whole answer. Text and tokens of a stream have been sent.
  private func last(_ index: Int) -> JSONValue {
    let (own, part) = (run.parts[index], parts[index])
    let word = own.stream.stopString
    let (asked, made) = (own.request.promptTokens.count, own.stream.completionTokens)
    var object = JSONObject([
      ("index", .int(index)), ("content", .string(part.text)), ("tokens", Self.ids(part.tokens)),
      ("id_slot", 0), ("stop", true), ("model", .string(scope.model.id)), ("tokens_predicted", .int(made)),
      ("tokens_evaluated", .int(asked)), ("generation_settings", settings), ("prompt", .string(part.prompt)),
      ("has_new_line", .bool(part.hasNewLine)), ("truncated", .bool(isTruncated)),
      ("stop_type", own.stream.finish == .length ? "limit" : word != nil ? "word" : "eos"),
      ("stopping_word", .string(word ?? "")), ("tokens_cached", .int(asked + made)),
      ("timings", timings(of: index)),
    ])
    if request.probabilities != nil { object["completion_probabilities"] = probabilities(part.tokens) }
    object[TokenDetails.receiptName] = run.receipt(of: index)
    return request.responseFields.map { Self.picked($0, of: object) } ?? .object(object)
  }

  /// The members with these names; `a/b` is the member `b` of `a`, under that name.
  private static func picked(_ names: [String], of object: JSONObject) -> JSONValue {
    var picked = JSONObject()
    for name in names {
      var value: JSONValue? = .object(object)
      for part in name.split(separator: "/", omittingEmptySubsequences: false) {
        value = value?[String(part)]
      }
      if let value { picked[name] = value }
    }
    return .object(picked)
  }

  private static func ids(_ tokens: [SampledToken]) -> JSONValue { .array(tokens.map { .int(Int($0.id)) }) }

  private func probabilities(_ tokens: [SampledToken]) -> JSONValue {
    .array(
      tokens.map { token in
        var entry = scope.logprob(token).chatJSON.objectValue ?? JSONObject()
        entry["id"] = .int(Int(token.id))
        return .object(entry)
      })
  }

  /// Counts and times so far.
  private func timings(of index: Int) -> JSONValue {
    let (own, now) = (run.parts[index], Instant.now)
    let first = parts[index].first ?? now
    let computed = max(0, own.request.promptTokens.count - own.cachedTokens)
    func times(_ name: String, _ count: Int, _ seconds: Double) -> [(String, JSONValue)] {
      [
        (name + "_n", .int(count)), (name + "_ms", .double(seconds * 1000)),
        (name + "_per_token_ms", .double(seconds * 1000 / Double(max(1, count)))),
        (name + "_per_second", .double(seconds > 0 ? Double(count) / seconds : 0)),
      ]
    }
    return .object(
      JSONObject(
        [("cache_n", .int(own.cachedTokens))] + times("prompt", computed, first.seconds(since: begin))
          + times("predicted", own.stream.completionTokens, now.seconds(since: first))))
  }
}
