// The log probability of a token and of its alternatives, in the two forms of the API.

import JSON

/// A token as clients see it.
package struct LogprobEntry: Sendable, Equatable {
  /// A token that might have stood there.
  package struct Alternative: Sendable, Equatable {
    /// Its text, which may be a part of a character.
    package var bytes: [UInt8]
    /// Natural logarithm of the probability; nil when nothing predicted the token.
    package var logprob: Float?

    package init(bytes: [UInt8], logprob: Float?) {
      self.bytes = bytes
      self.logprob = logprob
    }
  }

  package var token: Alternative
  /// Most likely first.
  package var top: [Alternative]

  package init(token: Alternative, top: [Alternative]) {
    self.token = token
    self.top = top
  }
}

/// A token of a prompt with its alternatives, as vLLM tells it: an object by token id.
package struct PromptLogprobEntry: Sendable {
  /// A token that stands or might have stood there.
  package struct Candidate: Sendable {
    package var id: Int32
    package var alternative: LogprobEntry.Alternative
    /// 1 for the likeliest.
    package var rank: Int

    package init(id: Int32, alternative: LogprobEntry.Alternative, rank: Int) {
      self.id = id
      self.alternative = alternative
      self.rank = rank
    }
  }

  /// The token itself first.
  package var candidates: [Candidate]

  package init(candidates: [Candidate]) { self.candidates = candidates }

  var json: JSONValue {
    var object = JSONObject()
    for candidate in candidates where object[String(candidate.id)] == nil {
      object[String(candidate.id)] = [
        "logprob": candidate.alternative.number, "rank": .int(candidate.rank),
        "decoded_token": .string(String(decoding: candidate.alternative.bytes, as: UTF8.self)),
      ]
    }
    return .object(object)
  }
}

/// What a request may ask to be told of tokens, beside the answer: members of a choice or a body, as vLLM has them.
package struct TokenDetails: Sendable {
  /// Entries of the prompt's tokens, made when they are written; nil for the first, which nothing predicts.
  package struct PromptList: Sendable {
    package let count: Int
    private let entry: @Sendable (Int) -> PromptLogprobEntry?

    package init(count: Int, entry: @escaping @Sendable (Int) -> PromptLogprobEntry?) {
      self.count = count
      self.entry = entry
    }

    var parts: JSONParts { .list(count: count) { .value(entry($0)?.json ?? .null) } }
  }

  package var promptLogprobs: PromptList?
  package var promptTokens: [Int32]?
  /// Of the answer, or of what a chunk adds.
  package var tokens: [Int32]?

  package init(promptLogprobs: PromptList? = nil, promptTokens: [Int32]? = nil, tokens: [Int32]? = nil) {
    self.promptLogprobs = promptLogprobs
    self.promptTokens = promptTokens
    self.tokens = tokens
  }

  private static func list(_ ids: [Int32]) -> JSONParts {
    .list(count: ids.count) { .value(.int(Int(ids[$0]))) }
  }

  /// Those that are there.
  var members: [(String, JSONParts)] {
    var members: [(String, JSONParts)] = []
    if let promptLogprobs { members.append(("prompt_logprobs", promptLogprobs.parts)) }
    if let promptTokens { members.append(("prompt_token_ids", Self.list(promptTokens))) }
    if let tokens { members.append(("token_ids", Self.list(tokens))) }
    return members
  }

  /// The same as values, for chunks.
  func add(to object: inout JSONObject) {
    for (name, parts) in members { object[name] = parts.json }
  }
}

/// Log probabilities of an answer's tokens, made when they are written: as text each takes up to two kilobytes.
package struct LogprobList: Sendable {
  package let count: Int
  private let entry: @Sendable (Int) -> LogprobEntry

  package init(count: Int, entry: @escaping @Sendable (Int) -> LogprobEntry) {
    self.count = count
    self.entry = entry
  }

  package init(_ entries: [LogprobEntry]) { self.init(count: entries.count) { entries[$0] } }

  /// `logprobs` of a chat answer: `{"content": [...], "refusal": null}`.
  var chatParts: JSONParts {
    .object([("content", .list(count: count) { .value(entry($0).chatJSON) }), ("refusal", .value(nil))])
  }
}

extension LogprobEntry {
  /// An entry of `logprobs.content` in chat answers.
  var chatJSON: JSONValue {
    guard case .object(var entry) = token.chatJSON else { return .null }
    entry["top_logprobs"] = .array(top.map(\.chatJSON))
    return .object(entry)
  }

  /// `{"content": [...], "refusal": null}`.
  static func chatJSON(_ entries: [LogprobEntry]) -> JSONValue {
    ["content": .array(entries.map(\.chatJSON)), "refusal": nil]
  }
}

extension LogprobEntry.Alternative {
  /// The four keys in the order of the documentation; a part of a character is U+FFFD, its bytes are exact.
  fileprivate var chatJSON: JSONValue {
    [
      "token": .string(String(decoding: bytes, as: UTF8.self)), "logprob": number,
      "bytes": .array(bytes.map { .int(Int($0)) }),
    ]
  }

  /// JSON has no infinity: an impossible token gets OpenAI's -9999.
  var number: JSONValue {
    guard let logprob else { return nil }
    return .double(logprob.isFinite ? Double(min(logprob, 0)) : -9999)
  }

  /// The token as a key of legacy completions: its text, or `bytes:\xe2\x80` when it is a part of a character.
  fileprivate var legacyName: String {
    if let text = String(validating: bytes, as: UTF8.self) { return text }
    let hex = bytes.map { byte in
      let digits = String(byte, radix: 16)
      return "\\x" + (digits.utf8.count == 1 ? "0" : "") + digits
    }
    return "bytes:" + hex.joined()
  }
}

/// `logprobs` of a legacy completion: parallel arrays.
package struct LegacyLogprobs: Sendable {
  /// One token of the text.
  package struct Entry: Sendable, Equatable {
    package var logprob: LogprobEntry
    /// Where the token's text begins in the choice's text, in Unicode scalars.
    package var offset: Int

    package init(logprob: LogprobEntry, offset: Int) {
      self.logprob = logprob
      self.offset = offset
    }
  }

  package let count: Int
  private let entry: @Sendable (Int) -> Entry

  /// Entries are made when they are written, once for each of the four arrays.
  package init(count: Int, entry: @escaping @Sendable (Int) -> Entry) {
    self.count = count
    self.entry = entry
  }

  package init(entries: [Entry]) { self.init(count: entries.count) { entries[$0] } }

  /// The member `logprobs`.
  var parts: JSONParts {
    func list(_ value: @escaping (Entry) -> JSONValue) -> JSONParts {
      .list(count: count) { .value(value(entry($0))) }
    }
    return .object([
      ("tokens", list { .string($0.logprob.token.legacyName) }),
      ("token_logprobs", list { $0.logprob.token.number }),
      ("top_logprobs", list { Self.top(of: $0.logprob) }), ("text_offset", list { .int($0.offset) }),
    ])
  }

  /// Null for a token that nothing predicted. The token itself is always there, so there may be one more than asked
  /// for, as OpenAI has it. Of two tokens with one text the likelier stands.
  private static func top(of logprob: LogprobEntry) -> JSONValue {
    guard logprob.token.logprob != nil else { return nil }
    var object = JSONObject()
    for alternative in logprob.top where object[alternative.legacyName] == nil {
      object[alternative.legacyName] = alternative.number
    }
    let own = logprob.token
    if object[own.legacyName] == nil { object[own.legacyName] = own.number }
    return .object(object)
  }
}
