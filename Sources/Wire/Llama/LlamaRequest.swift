// The bodies of POST /completion and /infill, as llama-server's clients send them: editors above all.

package import JSON
import Sampling

/// A request of llama-server's own wire that has been checked.
package struct LlamaRequest: Sendable {
  /// A part of a prompt.
  package enum Piece: Sendable, Equatable {
    case text(String)
    case token(Int32)
  }

  /// What stands around the place to fill.
  package struct Infill: Sendable, Equatable {
    package var prefix: String
    package var suffix: String
    /// Other texts by name, the nearest last.
    package var extras: [(name: String, text: String)]

    package static func == (a: Infill, b: Infill) -> Bool {
      a.prefix == b.prefix && a.suffix == b.suffix && a.extras.elementsEqual(b.extras) { $0 == $1 }
    }
  }

  /// Of /completion; at least one.
  package var prompts: [[Piece]] = []
  /// Whether `prompt` was a list of prompts: then the answer is a list too.
  package var isList = false
  /// Of /infill.
  package var infill: Infill?
  package var options: GenerationOptions
  /// What the text must look like; nil for free text.
  package var format: ResponseFormat?
  /// Whether only the prompt is to be computed, for the next request: `n_predict` is 0.
  package var onlyPrompt: Bool
  /// Spaces that every line after the first needs.
  package var indentation: Int
  /// Seconds after which a line's end is the answer's; nil for any time.
  package var lineSeconds: Double?
  /// Alternatives to report with each token; nil when no probabilities are wanted.
  package var probabilities: Int?
  package var returnsTokens: Bool
  package var timesEveryToken: Bool
  /// The members of the answer that are wanted; nil for all.
  package var responseFields: [String]?
  /// The samplers that were named, in the words of this wire.
  package var samplers: [String]?
  /// Top-level fields that nobody knows or that cannot be honoured.
  package var ignored: [String] = []
}

extension LlamaRequest {
  /// - Parameter isInfill: whether it came to /infill.
  /// - Throws: the first problem found, with the path of its field.
  package init(_ body: JSONValue, isInfill: Bool, limits: RequestLimits, vocabularySize: Int) throws(APIError)
  {
    var fields = try Fields(Self.usual(body))
    (fields.limits, fields.vocabularySize) = (limits, vocabularySize)
    try self.init(&fields, isInfill: isInfill)
  }

  package init(_ fields: inout Fields, isInfill: Bool) throws(APIError) {
    let limits = fields.limits
    try fields.anyModel()
    // In shapes of this wire, which `usual` has brought into those of others.
    for (name, shape) in [
      ("stop", Shape.array(of: Shape.string, 0...Int.max)), ("grammar", Shape.string),
      ("json_schema", Shape.object),
      ("logit_bias", "{}"), ("samplers", "{}"), ("min_keep", "{}"),
    ] { _ = fields.value(name, shape) }
    let limit = try fields.integer(
      "n_predict", in: -2...Int.max,
      "most tokens of the answer; negative: no limit; 0: the prompt alone is computed",
      like: "16")
    onlyPrompt = limit == 0
    options = try GenerationOptions(&fields, tokenLimits: [])
    options.maxTokens = limit.flatMap { $0 > 0 ? $0 : nil }
    // 2^32 - 1 stands for any seed too.
    if let seed = options.seed, seed < 0 || seed == Int(UInt32.max) { options.seed = nil }
    options.streams = try fields.bool("stream", "server-sent events") ?? false
    indentation =
      try fields.integer("n_indent", in: 0...10_000, "spaces that every line after the first needs") ?? 0
    lineSeconds = try fields.integer(
      "t_max_predict_ms", in: -1...Int(Int32.max), "a line's end after this time ends the answer"
    ).flatMap { $0 > 0 ? Double($0) / 1000 : nil }
    let count = try fields.integer("n_probs", in: 0...limits.topLogprobs, "alternatives to each token") ?? 0
    probabilities = count > 0 ? count : nil
    returnsTokens = try fields.bool("return_tokens", "the ids of the answer are told") ?? false
    timesEveryToken = try fields.bool("timings_per_token", "events of a stream have times") ?? false
    responseFields = try fields.texts(
      "response_fields", maxCount: 1_000, "the members of the answer that are wanted")
    format = try ResponseFormat.read(&fields, own: nil)
    try Self.refuse(&fields)
    try readSamplers(&fields)
    let reader = LlamaPromptReader(limits: limits, vocabularySize: fields.vocabularySize)
    if isInfill {
      infill = try reader.infill(&fields)
    } else {
      (prompts, isList) = try reader.prompts(&fields)
    }
    ignored += try Self.withoutEffect(&fields)
  }

  /// The body with its members in the shapes that other wires have: an empty constraint is none, an empty stop string
  /// too, and biases are an object.
  private static func usual(_ body: JSONValue) -> JSONValue {
    guard var object = body.objectValue else { return body }
    for name in ["grammar", "json_schema"] where object[name]?.stringValue == "" { object[name] = nil }
    if let stops = object["stop"]?.arrayValue { object["stop"] = .array(stops.filter { $0 != "" }) }
    if let pairs = object["logit_bias"]?.arrayValue {
      var biases = JSONObject()
      for pair in pairs {
        guard let values = pair.arrayValue, values.count == 2 else { return body }
        // `false` means never.
        biases[values[0].stringValue ?? values[0].text] = values[1] == false ? -100 : values[1]
      }
      object["logit_bias"] = .object(biases)
    }
    return .object(object)
  }

  private static func refuse(_ fields: inout Fields) throws(APIError) {
    if let adapters = fields.value("lora"), adapters.arrayValue?.isEmpty != true {
      throw .unsupportedParameter("lora", "the name of the model chooses an adapter: MODEL:NAME")
    }
    try fields.refuse("multimodal_data", because: "prompts are text; images go to /v1/chat/completions")
    if try fields.bool("post_sampling_probs") == true {
      throw .unsupportedParameter("post_sampling_probs", "probabilities are those before sampling")
    }
  }

  // MARK: Sampling

  /// A sampler with its letter, what it does here, and the fields that it reads.
  private typealias NamedSampler = (
    name: String, letter: Character, stage: SamplerStage?, fields: [SamplingField]
  )
  private static let samplers: [NamedSampler] = [
    ("penalties", "e", .penalties, [.repetitionPenalty, .presencePenalty, .frequencyPenalty]),
    ("dry", "d", .dry, [.dryMultiplier]), ("top_n_sigma", "s", .topNSigma, [.topNSigma]),
    ("top_k", "k", .topK, [.topK]), ("typ_p", "y", .typicalP, [.typicalP]), ("top_p", "p", .topP, [.topP]),
    ("min_p", "m", .minP, [.minP]), ("xtc", "x", .xtc, [.xtcProbability]),
    ("temperature", "t", .temperature, [.temperature, .dynatempRange]), ("infill", "i", nil, []),
  ]
  /// Each may be named more than once; all of them take a pass over the vocabulary.
  private static let mostSamplers = 32
  private static let otherNames = ["typical_p": "typ_p", "typical": "typ_p", "temp": "temperature"]

  /// Samplers that are not named do nothing; those that are work in the order in which they are named.
  private mutating func readSamplers(_ fields: inout Fields) throws(APIError) {
    let names: [String]
    if let letters = fields.value("samplers")?.stringValue {
      names = letters.map { letter in Self.samplers.first { $0.letter == letter }?.name ?? String(letter) }
    } else {
      guard let words = try fields.texts("samplers", maxCount: Self.mostSamplers) else { return }
      names = words.map { Self.otherNames[$0] ?? $0 }
    }
    try APIError.check(count: names.count, atMost: Self.mostSamplers, field: "samplers")
    for name in names where !Self.samplers.contains(where: { $0.name == name }) {
      throw .invalidValue("samplers", "there is no sampler '\(APIError.shortened(name))'")
    }
    samplers = names
    let neutral = SamplingParameters()
    for sampler in Self.samplers where !names.contains(sampler.name) {
      for field in sampler.fields { options.sampling[field] = neutral[field] }
    }
    // It favours the end and the likeliest: here it takes the likeliest.
    let takesLikeliest = names.contains("infill") && !names.contains("temperature")
    if takesLikeliest { options.sampling[.temperature] = 0 }
    options.samplerOrder = names.compactMap { name in
      let stage = Self.samplers.first { $0.name == name }?.stage
      return stage ?? (takesLikeliest ? .temperature : nil)
    }
  }

  // MARK: What has no effect

  /// Members that change nothing of an answer here: where it is computed, how long it may take, what is told meanwhile.
  private static let hints: Set<String> = [
    "cache_prompt", "id_slot", "slot_id", "n_keep", "n_discard", "n_cache_reuse", "t_max_prompt_ms",
    "min_keep", "speculative.n_max", "speculative.n_min", "speculative.p_min",
  ]
  /// What remains of the body that somebody could miss.
  private static func withoutEffect(_ fields: inout Fields) throws(APIError) -> [String] {
    _ = fields.value("cache_prompt", Shape.boolean, .accepted("prefixes are always cached"), like: "true")
    for name in hints { fields.know(name) }
    try ForeignFields.check(&fields)
    return fields.unread
  }
}

/// Reads the text that an answer continues, in its many forms.
private struct LlamaPromptReader {
  let limits: RequestLimits
  let vocabularySize: Int

  func infill(_ fields: inout Fields) throws(APIError) -> LlamaRequest.Infill {
    let prefix = try fields.requiredString("input_prefix", like: #""def add(a, b):\n    ""#)
    let suffix = try fields.requiredString("input_suffix", like: #""\n""#)
    let line = try fields.string("prompt", "of the line before the cursor") ?? ""
    let extras = try fields.objects("input_extra", maxCount: 10_000, "other texts, the nearest last") {
      (extra) throws(APIError) in
      (name: try extra.string("filename") ?? "tmp", text: try extra.requiredString("text"))
    }
    return LlamaRequest.Infill(prefix: prefix + line, suffix: suffix, extras: extras ?? [])
  }

  /// One prompt (a text, ids, or both mixed), or a list of such.
  func prompts(_ fields: inout Fields) throws(APIError) -> ([[LlamaRequest.Piece]], isList: Bool) {
    let piece = #"{"type": ["string", "integer"], "minimum": 0}"#
    let list = Shape.array(of: piece, 1...Int.max)
    let object =
      #"{"type": "object", "required": ["prompt_string"], "properties": {"prompt_string": {"type": "string"}}}"#
    let one = Shape.any(Shape.string, list, object)
    let value = try fields.required(
      "prompt", Shape.any(Shape.string, list, object, Shape.array(of: one, 1...limits.prompts)),
      "a text, ids of tokens, both mixed, or a list of such", like: #""Once upon a time""#)
    guard let elements = value.arrayValue else { return ([try prompt(value, "prompt")], false) }
    let hasIDs = elements.contains { $0.intValue != nil }
    if hasIDs { return ([try mixed(elements, "prompt")], false) }
    guard !elements.isEmpty else { throw .invalidValue("prompt", "it is empty") }
    guard elements.count <= limits.prompts else {
      throw .invalidValue("prompt", "there are \(elements.count) prompts, more than \(limits.prompts)")
    }
    var prompts: [[LlamaRequest.Piece]] = []
    for (index, element) in elements.enumerated() { prompts.append(try prompt(element, "prompt[\(index)]")) }
    return (prompts, true)
  }

  private func prompt(_ value: JSONValue, _ path: String) throws(APIError) -> [LlamaRequest.Piece] {
    if let text = value.stringValue { return [.text(text)] }
    if let elements = value.arrayValue { return try mixed(elements, path) }
    guard value.objectValue != nil else {
      throw .wrongType(path, expected: "a string, token ids, or a list of such", found: value)
    }
    var fields = try Fields(value, path: path)
    if let media = fields.value("multimodal_data"), media.arrayValue?.isEmpty != true {
      throw .unsupportedParameter(
        fields.name(of: "multimodal_data"), "prompts are text; images go to /v1/chat/completions")
    }
    return [.text(try fields.requiredString("prompt_string"))]
  }

  private func mixed(_ elements: [JSONValue], _ path: String) throws(APIError) -> [LlamaRequest.Piece] {
    guard !elements.isEmpty else { throw .invalidValue(path, "it is empty") }
    var pieces: [LlamaRequest.Piece] = []
    for (index, element) in elements.enumerated() {
      if let text = element.stringValue {
        pieces.append(.text(text))
      } else {
        pieces.append(
          .token(try TokenID.read(element, vocabularySize: vocabularySize, name: "\(path)[\(index)]")))
      }
    }
    return pieces
  }
}
