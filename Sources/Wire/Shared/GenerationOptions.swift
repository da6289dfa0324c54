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
  /// Whether a stream ends with the counts.
  package var includesUsage = false

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
  ///   - vocabularySize: ids in `logit_bias` and `stop_token_ids` must be below it.
  ///   - tokenLimits: the wire's names of the token limit; the first that is given counts.
  ///   - minimumTokens: the least value of the token limit: completions may ask for none.
  ///   - stop: the wire's name of the texts that end the answer.
  init(
    _ fields: inout Fields, limits: RequestLimits, vocabularySize: Int,
    tokenLimits: [String] = GenerationOptions.tokenLimits, minimumTokens: Int = 1, stop: String = "stop"
  ) throws(APIError) {
    for name in tokenLimits {
      let limit = try fields.integer(name, in: minimumTokens...Int.max)
      maxTokens = maxTokens ?? limit
    }
    allowsUndeclaredMembers = try fields.bool("additional_properties")
    for name in Self.foreignTokenLimits {
      let limit = try fields.integer(name, in: -2...Int.max)
      maxTokens = maxTokens ?? limit.flatMap { $0 < 0 ? nil : max($0, minimumTokens) }
    }
    minTokens = try fields.integer("min_tokens", in: 0...Int(Int32.max)) ?? 0
    if let maxTokens, minTokens > maxTokens {
      throw .invalidValue("min_tokens", "\(minTokens) is more than the limit of \(maxTokens) tokens")
    }
    try readSampling(&fields)
    stops = try Self.stops(&fields, name: stop, limits: limits)
    try readStopTokens(&fields, limits: limits, vocabularySize: vocabularySize)
    logitBias = try Self.logitBias(&fields, limits: limits, vocabularySize: vocabularySize)
    try readTextRules(&fields, limits: limits, vocabularySize: vocabularySize)
  }

  /// What the answer may hold, and how much of the prompt counts, in the words of vLLM, SGLang and llama.cpp.
  private mutating func readTextRules(_ fields: inout Fields, limits: RequestLimits, vocabularySize: Int)
    throws(APIError)
  {
    badWords = try Self.words("bad_words", &fields, limits: limits) ?? []
    sequenceBreakers = try Self.words("dry_sequence_breakers", &fields, limits: limits)
    let allowed = "allowed_token_ids"
    if let values = try fields.array(allowed, maxCount: vocabularySize) {
      guard !values.isEmpty else { throw .invalidValue(allowed, "it is empty") }
      var tokens: [Int32] = []
      for (index, value) in values.enumerated() {
        tokens.append(try TokenID.read(value, vocabularySize: vocabularySize, name: "\(allowed)[\(index)]"))
      }
      allowedTokens = tokens
    }
    let keepsStop = try fields.bool("include_stop_str_in_output")
    includesStop = try fields.bool("no_stop_trim") ?? keepsStop ?? false
    if let count = try fields.integer("truncate_prompt_tokens", in: -1...Int.max) {
      guard count != 0 else { throw .invalidValue("truncate_prompt_tokens", "it leaves no token") }
      promptTruncation = count
    }
  }

  private static func words(_ name: String, _ fields: inout Fields, limits: RequestLimits)
    throws(APIError) -> [String]?
  {
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
        let value: Double? =
          switch field.row.setting {
          case .number(_, let range): try fields.number(name, in: range)
          case .count(_, let range): try fields.integer(name, in: range).map(Double.init)
          }
        sampling[field] = sampling[field] ?? value.map { max($0, field.row.least) }
      }
    }
    seed = try fields.integer("seed", in: Int.min...Int.max)
  }

  private static func stops(_ fields: inout Fields, name: String, limits: RequestLimits) throws(APIError)
    -> [String]
  {
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

  private mutating func readStopTokens(_ fields: inout Fields, limits: RequestLimits, vocabularySize: Int)
    throws(APIError)
  {
    for (index, value) in (try fields.array("stop_token_ids", maxCount: limits.stopTokens) ?? []).enumerated()
    {
      stopTokens.append(
        try TokenID.read(value, vocabularySize: vocabularySize, name: "stop_token_ids[\(index)]"))
    }
    ignoresEOS = try fields.bool("ignore_eos") ?? false
  }

  private static func logitBias(_ fields: inout Fields, limits: RequestLimits, vocabularySize: Int)
    throws(APIError) -> [Int32: Float]
  {
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
  mutating func readAnswers(_ fields: inout Fields, limits: RequestLimits) throws(APIError) {
    let other = try fields.integer("n_cmpl", in: 1...limits.choices)
    choices = try fields.integer("n", in: 1...limits.choices) ?? other ?? 1
    promptLogprobs = try fields.integer("prompt_logprobs", in: 0...limits.topLogprobs)
    returnsTokens = try fields.bool("return_token_ids") ?? false
    streams = try fields.bool("stream") ?? false
    if streams, promptLogprobs != nil {
      throw .invalidValue("prompt_logprobs", "a stream does not have them; leave 'stream' out")
    }
    guard var options = try fields.fields("stream_options") else { return }
    includesUsage = try options.bool("include_usage") ?? false
    _ = try options.bool("include_obfuscation")
    guard streams else {
      throw .invalidValue("stream_options", "it is only allowed together with 'stream': true")
    }
  }
}

extension GenerationOptions {
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
