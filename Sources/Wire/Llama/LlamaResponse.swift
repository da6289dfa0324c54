// What llama-server's clients read of a completion: one object, or events of which the last has all members.

package import JSON

/// Makes the objects of one completion.
package struct LlamaResponse: Sendable {
  /// Why a completion ended.
  package enum Stop: String, Sendable {
    case none, eos, limit, word
  }

  /// A token of the completion.
  package struct Token: Sendable {
    package var id: Int32
    package var logprob: LogprobEntry

    package init(id: Int32, logprob: LogprobEntry) {
      self.id = id
      self.logprob = logprob
    }
  }

  /// Counts and times so far; times in seconds.
  package struct Progress: Sendable {
    package var promptTokens = 0
    package var cachedTokens = 0
    package var tokens = 0
    package var promptSeconds = 0.0
    package var seconds = 0.0

    package init() {}
  }

  /// Of this prompt among those of the request.
  package var index: Int
  package var model: String
  /// What the server took the request to mean.
  package var settings: JSONValue
  /// As the model read it.
  package var prompt: String
  package var isTruncated = false
  package var wantsProbabilities = false
  /// The members that are wanted; nil for all.
  package var fields: [String]?

  package init(index: Int, model: String, settings: JSONValue, prompt: String) {
    self.index = index
    self.model = model
    self.settings = settings
    self.prompt = prompt
  }

  /// An event that is not the last.
  package func part(_ text: String, _ tokens: [Token], _ progress: Progress, timed: Bool) -> JSONValue {
    var object = JSONObject([
      ("index", .int(index)), ("content", .string(text)), ("tokens", Self.ids(tokens)), ("stop", false),
      ("id_slot", 0), ("tokens_predicted", .int(progress.tokens)),
      ("tokens_evaluated", .int(progress.promptTokens)),
    ])
    if timed { object["timings"] = Self.timings(progress) }
    if wantsProbabilities { object["completion_probabilities"] = Self.probabilities(tokens) }
    return .object(object)
  }

  /// The last event, or the whole answer.
  ///
  /// - Parameters:
  ///   - text: empty in a stream.
  ///   - word: the stop string that ended it.
  ///   - hasNewLine: whether the whole text has one.
  package func last(
    _ text: String, _ tokens: [Token], stop: Stop, word: String?, hasNewLine: Bool, _ progress: Progress
  ) -> JSONValue {
    var object = JSONObject([
      ("index", .int(index)), ("content", .string(text)), ("tokens", Self.ids(tokens)), ("id_slot", 0),
      ("stop", true), ("model", .string(model)), ("tokens_predicted", .int(progress.tokens)),
      ("tokens_evaluated", .int(progress.promptTokens)), ("generation_settings", settings),
      ("prompt", .string(prompt)), ("has_new_line", .bool(hasNewLine)), ("truncated", .bool(isTruncated)),
      ("stop_type", .string(stop.rawValue)), ("stopping_word", .string(word ?? "")),
      ("tokens_cached", .int(progress.promptTokens + progress.tokens)), ("timings", Self.timings(progress)),
    ])
    if wantsProbabilities { object["completion_probabilities"] = Self.probabilities(tokens) }
    return fields.map { Self.picked($0, of: object) } ?? .object(object)
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

  private static func ids(_ tokens: [Token]) -> JSONValue { .array(tokens.map { .int(Int($0.id)) }) }

  private static func probabilities(_ tokens: [Token]) -> JSONValue {
    .array(
      tokens.map { token in
        var entry = token.logprob.chatJSON.objectValue ?? JSONObject()
        entry["id"] = .int(Int(token.id))
        return .object(entry)
      })
  }

  private static func timings(_ progress: Progress) -> JSONValue {
    let computed = max(0, progress.promptTokens - progress.cachedTokens)
    func rate(_ count: Int, _ seconds: Double) -> JSONValue {
      .double(seconds > 0 ? Double(count) / seconds : 0)
    }
    func each(_ seconds: Double, _ count: Int) -> JSONValue {
      .double(seconds * 1000 / Double(max(1, count)))
    }
    return [
      "cache_n": .int(progress.cachedTokens), "prompt_n": .int(computed),
      "prompt_ms": .double(progress.promptSeconds * 1000),
      "prompt_per_token_ms": each(progress.promptSeconds, computed),
      "prompt_per_second": rate(computed, progress.promptSeconds), "predicted_n": .int(progress.tokens),
      "predicted_ms": .double(progress.seconds * 1000),
      "predicted_per_token_ms": each(progress.seconds, progress.tokens),
      "predicted_per_second": rate(progress.tokens, progress.seconds),
    ]
  }
}
