// The log probability of a token and of its alternatives, in the two forms of the API.

import JSON

/// A token as clients see it.
struct LogprobEntry: Sendable, Equatable {
  /// A token that might have stood there.
  struct Alternative: Sendable, Equatable {
    /// Its text, which may be a part of a character.
    var bytes: [UInt8]
    /// Natural logarithm of the probability; nil when nothing predicted the token.
    var logprob: Float?
  }

  var token: Alternative
  /// Most likely first.
  var top: [Alternative]
}

/// A token of a prompt with its alternatives, as vLLM tells it: an object by token id.
struct PromptLogprobEntry: Sendable {
  /// A token that stands or might have stood there.
  struct Candidate: Sendable {
    var id: Int32
    var alternative: LogprobEntry.Alternative
    /// 1 for the likeliest.
    var rank: Int
  }

  /// The token itself first.
  var candidates: [Candidate]

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
struct TokenDetails {
  /// Entries of the prompt's tokens, null for the first, which nothing predicts.
  var promptLogprobs: JSONParts?
  var promptTokens: [Int32]?
  /// Of the answer, or of what a chunk adds.
  var tokens: [Int32]?
  /// Of the answer, when it has ended.
  var receipt: JSONValue?

  /// The member that has it.
  static let receiptName = "receipt"

  private static func list(_ ids: [Int32]) -> JSONParts {
    .list(count: ids.count) { .value(.int(Int(ids[$0]))) }
  }

  /// Those that are there.
  var members: [(String, JSONParts)] {
    var members: [(String, JSONParts)] = []
    if let promptLogprobs { members.append(("prompt_logprobs", promptLogprobs)) }
    if let promptTokens { members.append(("prompt_token_ids", Self.list(promptTokens))) }
    if let tokens { members.append(("token_ids", Self.list(tokens))) }
    if let receipt { members.append((Self.receiptName, .value(receipt))) }
    return members
  }

  /// The same as values, for chunks.
  func add(to object: inout JSONObject) {
    for (name, parts) in members { object[name] = parts.json }
  }
}

extension LogprobEntry {
  /// An entry of `logprobs.content` in chat answers.
  var chatJSON: JSONValue {
    guard case .object(var entry) = token.chatJSON else { return .null }
    entry["top_logprobs"] = .array(top.map(\.chatJSON))
    return .object(entry)
  }

  /// `logprobs` of a chat answer, made when it is written: as text each entry takes up to two kilobytes.
  static func chatParts(count: Int, _ entry: @escaping (Int) -> LogprobEntry) -> JSONParts {
    .object([("content", .list(count: count) { .value(entry($0).chatJSON) }), ("refusal", .value(nil))])
  }

  /// The same of a chunk.
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

/// A token of a legacy completion's text.
struct LegacyLogprob {
  var logprob: LogprobEntry
  /// Where the token's text begins in the choice's text, in Unicode scalars.
  var offset: Int

  /// The member `logprobs`: parallel arrays. Entries are made when they are written, once for each of the four.
  static func parts(count: Int, _ entry: @escaping (Int) -> LegacyLogprob) -> JSONParts {
    func list(_ value: @escaping (LegacyLogprob) -> JSONValue) -> JSONParts {
      .list(count: count) { .value(value(entry($0))) }
    }
    return .object([
      ("tokens", list { .string($0.logprob.token.legacyName) }),
      ("token_logprobs", list { $0.logprob.token.number }),
      ("top_logprobs", list { top(of: $0.logprob) }), ("text_offset", list { .int($0.offset) }),
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
