// The fields that wires share: length, sampling, stops, streaming.

import JSON
package import Sampling

/// Absent fields are nil where the server has a default of its own.
package struct GenerationOptions: Sendable, Equatable {
  /// `max_completion_tokens`, else `max_tokens`, else `max_output_tokens`, else the names of other servers.
  package var maxTokens: Int?
  package var minTokens = 0
  /// What the fields of the sampling table say.
  package var sampling: SamplingOverrides = [:]
  /// The samplers in the order in which they work; nil for all in this server's order.
  package var samplerOrder: [SamplerStage]?
  package var seed: Int?
  package var logitBias: [Int32: Float] = [:]
  /// Texts that end the answer and are not part of it.
  package var stops: [String] = []
  /// Ids that end the answer.
  package var stopTokens: [Int32] = []
  /// Whether the model's own end tokens do not end the answer.
  package var ignoresEOS = false
  /// Whether objects of a constrained answer may have members that their schemas do not declare and do not forbid.
  package var allowsUndeclaredMembers: Bool?
  /// `n`: answers to one prompt.
  package var choices = 1
  package var streams = false
  /// Texts that the answer must not hold.
  package var badWords: [String] = []
  /// The only tokens that may be chosen; nil for all.
  package var allowedTokens: [Int32]?
  /// Texts at which repetitions end; nil for the usual ones.
  package var sequenceBreakers: [String]?
  /// Whether the stop string that ends an answer is part of it.
  package var includesStop = false
  /// How many of the prompt's last tokens are kept; -1 for as many as the context takes, nil for all.
  package var promptTruncation: Int?
  /// Alternatives to report with each token of the prompt; nil when its log probabilities are not wanted.
  package var promptLogprobs: Int?
  /// Whether the ids of prompt and answer are told.
  package var returnsTokens = false
  /// Whether a stream tells how far the prompt is read.
  package var returnsProgress = false
  /// Whether what is computed of the prompt is saved at once.
  package var keepsPrompt = false
  /// Whether a stream ends with the counts.
  package var includesUsage = false
  /// Nil: as the server does.
  package var receipt: ReceiptForm?

  package init() {}
}

extension GenerationOptions {
  /// What OpenAI has called the token limit, the newest first; the third is the name in Responses.
  static let tokenLimits = ["max_completion_tokens", "max_tokens", "max_output_tokens"]
  /// What other servers call it; -1 and -2 are no limit there.
  static let foreignTokenLimits = ["n_predict", "max_new_tokens"]

  /// Reads the fields that all wires share: length, sampling, stops.
  ///
  /// - Parameters:
  ///   - tokenLimits: the wire's names of the token limit; the first that is given counts.
  ///   - minimumTokens: the least value of the token limit: completions may ask for none.
  ///   - stop: the wire's name of the texts that end the answer.
  init(
    _ fields: inout Fields, tokenLimits: [String] = GenerationOptions.tokenLimits, minimumTokens: Int = 1,
    stop: String = "stop"
  ) throws(APIError) {
    for name in tokenLimits {
      let limit = try fields.integer(
        name, in: minimumTokens...Int.max,
        name == tokenLimits[0]
          ? "most tokens of the answer, reasoning included; lowered to what the context leaves"
          : "the same limit; the names before it win", like: "5")
      maxTokens = maxTokens ?? limit
    }
    allowsUndeclaredMembers = try fields.bool(
      "additional_properties",
      "whether constrained objects may have members that their schemas do not declare ([more](structured-output.md))"
    )
    for name in Self.foreignTokenLimits {
      let limit = try fields.integer(
        name, in: -2...Int.max, "the token limit under another server's name; negative: none", like: "5")
      maxTokens = maxTokens ?? limit.flatMap { $0 < 0 ? nil : max($0, minimumTokens) }
    }
    minTokens =
      try fields.integer(
        "min_tokens", in: 0...Int(Int32.max), "no stop token before this number of tokens", like: "2") ?? 0
    if let maxTokens, minTokens > maxTokens {
      throw .invalidValue("min_tokens", "\(minTokens) is more than the limit of \(maxTokens) tokens")
    }
    try readSampling(&fields)
    stops = try Self.stops(&fields, name: stop)
    try readStopTokens(&fields)
    logitBias = try Self.logitBias(&fields)
    try readPromptFields(&fields)
    try readReceipt(&fields)
    try readTextRules(&fields)
  }

  /// How the prompt is read: alike on every wire, the first as llama-server has it.
  mutating func readPromptFields(_ fields: inout Fields) throws(APIError) {
    returnsProgress =
      try fields.bool(
        "return_progress", "a stream tells how far the prompt is read ([more](progress.md))", like: "true")
      ?? false
    keepsPrompt =
      try fields.bool(
        "keep_prompt", "what is computed of the prompt is saved at once ([more](documents.md))", like: "true")
      ?? false
  }

  /// What the answer may hold, and how much of the prompt counts, in the words of vLLM, SGLang and llama.cpp.
  private mutating func readTextRules(_ fields: inout Fields) throws(APIError) {
    badWords =
      try Self.words(
        "bad_words", &fields,
        "texts that the answer does not hold, as the tokens that spell them, with and without a space before; not "
          + "with a constraint", like: #"["foo"]"#) ?? []
    sequenceBreakers = try Self.words(
      "dry_sequence_breakers", &fields,
      "texts that repeated sequences do not reach across; without the field a line break, `:`, `\"` and `*`",
      like: #"["\n"]"#)
    let allowed = "allowed_token_ids"
    allowedTokens = try fields.tokens(
      allowed, minCount: 1, maxCount: fields.vocabularySize, vocabularySize: fields.vocabularySize,
      "no other token can be chosen, the end of the answer neither; not with a constraint")
    if allowedTokens?.isEmpty ?? false { throw .invalidValue(allowed, "it is empty") }
    let keepsStop = try fields.bool(
      "include_stop_str_in_output", "the stop string that ended the answer is part of it")
    includesStop = try fields.bool("no_stop_trim", "the same, under SGLang's name") ?? keepsStop ?? false
    let truncated = "truncate_prompt_tokens"
    _ = fields.value(
      truncated, Shape.any(#"{"const": -1}"#, Shape.integer(1...Int.max)),
      "the prompt's last tokens that are kept; -1: as many as leave room for the answer; not with images or audio",
      like: "5")
    if let count = try fields.integer(truncated, in: -1...Int.max) {
      guard count != 0 else { throw .invalidValue(truncated, "it leaves no token") }
      promptTruncation = count
    }
  }

  private static func words(
    _ name: String, _ fields: inout Fields, _ effect: @autoclosure () -> String,
    like example: @autoclosure () -> String
  ) throws(APIError) -> [String]? {
    let limits = fields.limits
    let word = #"{"type": "string", "minLength": 1, "maxLength": \#(limits.badWordBytes)}"#
    _ = fields.value(
      name, Shape.array(of: word, 0...limits.badWords), "up to \(limits.badWords) \(effect())",
      like: example())
    let words = try fields.texts(name, maxCount: limits.badWords)
    for (index, word) in (words ?? []).enumerated()
    where word.utf8.isEmpty || word.utf8.count > limits.badWordBytes {
      throw .invalidValue("\(name)[\(index)]", "it must have 1 to \(limits.badWordBytes) bytes of UTF-8")
    }
    return words
  }

  private mutating func readSampling(_ fields: inout Fields) throws(APIError) {
    for field in SamplingField.allCases {
      for name in [field.name] + field.aliases {
        var like: String { SamplingParameters().text(of: field) }
        let value: Double? =
          switch field.row.setting {
          case .number(_, let range): try fields.number(name, in: range, field.words, like: like)
          case .count(_, let range):
            try fields.integer(name, in: range, field.words, like: like).map(Double.init)
          }
        sampling[field] = sampling[field] ?? value.map { max($0, field.row.least) }
      }
    }
    seed = try fields.integer(
      "seed", in: Int.min...Int.max,
      "the same seed gives the same text, whatever runs beside it; choice *i* uses `seed` + *i*", like: "7")
  }

  private static func stops(_ fields: inout Fields, name: String) throws(APIError) -> [String] {
    let limits = fields.limits
    let stop = Shape.named("StopString")
    _ = fields.value(
      name,
      name == "stop"
        ? Shape.any(stop, Shape.array(of: stop, 0...limits.stops)) : Shape.array(of: stop, 0...limits.stops),
      "up to \(limits.stops) strings of \(limits.stopBytes) bytes; looked for in the content, not in reasoning or tool calls",
      like: #"["END"]"#)
    var stops: [String] = []
    switch fields.value(name) {
    case nil: break
    case .string(let stop)?: stops = [stop]
    case .array(let array)?:
      guard array.count <= limits.stops else {
        throw .invalidValue(name, "there are \(array.count) stop strings, more than \(limits.stops)")
      }
      for (index, value) in array.enumerated() {
        guard let stop = value.stringValue else {
          throw .wrongType("\(name)[\(index)]", expected: "a string", found: value)
        }
        stops.append(stop)
      }
    case let value?: throw .wrongType(name, expected: "a string or an array of strings", found: value)
    }
    for stop in stops where stop.utf8.isEmpty || stop.utf8.count > limits.stopBytes {
      throw .invalidValue(name, "a stop string must have 1 to \(limits.stopBytes) bytes of UTF-8")
    }
    return stops
  }

  private mutating func readStopTokens(_ fields: inout Fields) throws(APIError) {
    stopTokens =
      try fields.tokens(
        "stop_token_ids", maxCount: fields.limits.stopTokens, vocabularySize: fields.vocabularySize,
        "end the answer like EOS; their text is not part of it", like: "[65]") ?? []
    ignoresEOS =
      try fields.bool("ignore_eos", "EOS does not end the answer; it is counted and has no text") ?? false
  }

  private static func logitBias(_ fields: inout Fields) throws(APIError) -> [Int32: Float] {
    let (limits, vocabularySize) = (fields.limits, fields.vocabularySize)
    _ = fields.value(
      "logit_bias",
      #"""
      {"type": "object", "maxProperties": \#(limits.logitBiases), "additionalProperties": \#(Shape.number(-100...100))}
      """#, "up to \(limits.logitBiases) token ids, -100 to 100", like: #"{"65":-100}"#)
    guard let object = try fields.object("logit_bias") else { return [:] }
    guard object.count <= limits.logitBiases else {
      throw .invalidValue("logit_bias", "there are \(object.count) entries, more than \(limits.logitBiases)")
    }
    var biases: [Int32: Float] = [:]
    for (key, value) in object.entries {
      guard let id = TokenID.parse(key), Int(id) < vocabularySize else {
        throw .invalidValue(
          "logit_bias",
          "'\(APIError.shortened(key))' is not a token id of this model (0 to \(vocabularySize - 1))")
      }
      biases[id] = Float(try Fields.number(value, in: -100...100, name: "logit_bias"))
    }
    return biases
  }

  /// Reads how many answers there are, and how they are sent: what chat and completions share beside.
  mutating func readAnswers(_ fields: inout Fields) throws(APIError) {
    let limits = fields.limits
    let other = try fields.integer("n_cmpl", in: 1...limits.choices, "`n` under llama.cpp's name", like: "2")
    choices =
      try fields.integer(
        "n", in: 1...limits.choices,
        "1 to \(limits.choices) choices to each prompt, which share one prefill",
        like: "2") ?? other ?? 1
    promptLogprobs = try fields.integer(
      "prompt_logprobs", in: 0...limits.topLogprobs,
      "alternatives to each token of the prompt, in vLLM's shape; not with `stream`",
      like: "1")
    returnsTokens =
      try fields.bool(
        "return_token_ids",
        "`prompt_token_ids`, and `token_ids` of each choice or chunk; a stop token is not among them")
      ?? false
    streams = try fields.bool("stream", "server-sent events") ?? false
    fields.rule(
      #"""
      {"anyOf": [{"properties": {"stream_options": {"type": "null"}, "stream": {"enum": [false, null]}}},
        {"properties": {"prompt_logprobs": {"type": "null"}, "stream": {"const": true}}, "required": ["stream"]}]}
      """#)
    if streams, promptLogprobs != nil {
      throw .invalidValue("prompt_logprobs", "a stream does not have them; leave 'stream' out")
    }
    let usage = try fields.object(
      "stream_options", "with `stream` only; `include_obfuscation` is accepted, nothing is added",
      like: #"{"include_usage":true}"#
    ) { (options) throws(APIError) in
      let usage = try options.bool("include_usage") ?? false
      _ = try options.bool("include_obfuscation")
      return usage
    }
    guard let usage else { return }
    includesUsage = usage
    guard streams else {
      throw .invalidValue("stream_options", "it is only allowed together with 'stream': true")
    }
  }
}

extension GenerationOptions {
  package var canBeConstrained: Bool { (try? checkConstrained()) != nil }

  /// Refuses what a constrained answer cannot do: it ends where it is complete, neither later nor earlier.
  package func checkConstrained() throws(APIError) {
    let reason = "the answer is constrained, by a format or by its tools, and ends where it is complete"
    if ignoresEOS { throw .invalidValue("ignore_eos", reason) }
    if minTokens > 0 { throw .invalidValue("min_tokens", reason) }
    if allowedTokens != nil { throw .invalidValue("allowed_token_ids", reason) }
    if !badWords.isEmpty { throw .invalidValue("bad_words", reason) }
  }
}

extension GenerationOptions {
  /// Fields that describe the request to a provider and change nothing here; their types are checked.
  package static func acceptDescriptions(_ fields: inout Fields) throws(APIError) {
    _ = try fields.string("user", .accepted(), like: #""u""#)
    _ = try fields.string("safety_identifier", .accepted(), like: #""u""#)
    _ = try fields.string("prompt_cache_key", .accepted(), like: #""k""#)
    _ = try fields.object("prompt_cache_options", .accepted())
    _ = try fields.string("prompt_cache_retention", .accepted(), like: #""24h""#)
    _ = try fields.bool("store", .accepted("nothing is stored"))
    _ = try fields.word(
      "service_tier", of: ["auto", "default", "flex", "scale", "priority", "fast"],
      .accepted("the answer says `default`"))
    try checkMetadata(&fields)
  }

  private static func checkMetadata(_ fields: inout Fields) throws(APIError) {
    _ = fields.value(
      "metadata", Shape.named("Metadata"),
      .accepted("up to 16 pairs, keys of 64 and values of 512 characters"), like: #"{"a":"b"}"#)
    guard let metadata = try fields.object("metadata") else { return }
    guard metadata.count <= 16 else {
      throw .invalidValue("metadata", "there are \(metadata.count) pairs, more than 16")
    }
    for (key, value) in metadata.entries {
      guard key.unicodeScalars.count <= 64 else {
        throw .invalidValue("metadata", "a key is longer than 64 characters")
      }
      let name = "metadata.\(key)"
      guard let text = value.stringValue else { throw .wrongType(name, expected: "a string", found: value) }
      guard text.unicodeScalars.count <= 512 else {
        throw .invalidValue(name, "the value is longer than 512 characters")
      }
    }
  }
}

extension SamplingField {
  /// What documents say of it: its range, where that is no bound of 32 bits, and its note.
  fileprivate var words: Words {
    switch row.setting {
    case .number(_, let range):
      "\(Shape.short(range.lowerBound)) to \(Shape.short(range.upperBound)); \(row.note)"
    case .count(_, let range) where range.upperBound < Int(Int32.max):
      "\(range.lowerBound) to \(range.upperBound); \(row.note)"
    case .count: "\(row.note)"
    }
  }
}
