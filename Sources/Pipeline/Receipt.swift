// The receipt of an answer: what decided it, what it says, and digests by which anybody who has the model can check it.
// docs/receipts.md is its format.

package import Decoding
import Grammar
package import Inference
package import JSON
package import Media
package import Platform
import Sampling
import Tokenizers

/// A document. Members stay as they came, so that its digest covers those of later versions too.
package struct Receipt: Sendable {
  package internal(set) var members: JSONObject

  /// The format that is written here.
  private static let version = 1
  /// What tells of the texts; a receipt without texts has digests in their places.
  private static let texts = ["rules", "prompt", "answer"]

  package var json: JSONValue { .object(members) }

  /// What an answer ended with.
  package enum Ending: String, Sendable {
    /// One of its stop tokens.
    case stopToken = "stop_token"
    /// The most tokens that it could have.
    case length
    /// A text that ends it.
    case stopText = "stop_text"
    /// What read the text: after one complete call, at the end of a line, before the first token.
    case reader
  }

  /// - Throws: `PipelineError.receipt` for what is none, or of another format.
  package init(_ json: JSONValue) throws(PipelineError) {
    guard let members = json.objectValue, let version = members["receipt"]?.intValue else {
      throw .receipt("this is no receipt")
    }
    guard version == Self.version else {
      throw .receipt("its format \(version) is not known to this version")
    }
    self.members = members
  }

  /// All receipts in a value, such as an answer with one for each choice, in order.
  package static func all(in value: JSONValue) -> [Receipt] {
    if let receipt = try? Receipt(value) { return [receipt] }
    switch value {
    case .array(let values): return values.flatMap { all(in: $0) }
    case .object(let object): return object.entries.flatMap { all(in: $0.value) }
    case .null, .bool, .int, .bigInteger, .double, .string: return []
    }
  }

  // MARK: Digest and signature

  /// Of both forms, so that who has the texts can tell that a receipt without them is of the same answer.
  package var withoutTexts: Receipt {
    var copy = self
    for name in Self.texts {
      guard let value = members[name], value["sha256"] == nil else { continue }
      var hidden = JSONObject()
      hidden["count"] = (value.arrayValue?.count).map(JSONValue.int)
      hidden["sha256"] = .string(Self.digest(value))
      copy.members[name] = .object(hidden)
    }
    return copy
  }

  package var hasTexts: Bool { Self.texts.allSatisfy { members[$0]?["sha256"] == nil } }

  private static func digest(_ value: JSONValue) -> String { SHA256.hexadecimal(SHA256.digest(value.bytes)) }

  private var computedDigest: String {
    var bare = withoutTexts.members
    (bare["digest"], bare["signature"]) = (nil, nil)
    return Self.digest(.object(bare))
  }

  /// Whether nobody has changed it, or whoever did has made its digest anew.
  package var isIntact: Bool { members["digest"]?.stringValue == computedDigest }

  /// Base64 of the public key that has signed it.
  package var signer: String? { members["signature"]?["key"]?.stringValue }

  /// Whether its signature is that of its signer; nil where there is none.
  package var isSigned: Bool? {
    guard let signature = members["signature"] else { return nil }
    guard let key = signature["key"]?.stringValue.flatMap(Base64.decode),
      let bytes = signature["ed25519"]?.stringValue.flatMap(Base64.decode),
      let digest = members["digest"]?.stringValue
    else { return false }
    return isIntact && Ed25519.isValid(bytes, of: Array(digest.utf8), key: key)
  }

  /// Makes its digest and its signature anew.
  mutating func seal(_ key: Ed25519?) {
    let digest = computedDigest
    members["digest"] = .string(digest)
    guard let key else { return }
    members["signature"] = [
      "key": .string(Base64.encode(key.publicKey)),
      "ed25519": .string(Base64.encode(key.signature(of: Array(digest.utf8)))),
    ]
  }
}

// MARK: - Writing

/// What is noted of an answer while it comes.
package struct ReceiptNotes: Sendable {
  /// Whether its receipt tells none of the texts.
  package var hidesTexts = false
  package private(set) var answer: [Int32] = []
  private var probabilities = SHA256()

  package init(hidesTexts: Bool) { self.hidesTexts = hidesTexts }

  /// Takes a token with its log probability.
  package mutating func add(_ token: SampledToken) {
    answer.append(token.id)
    let bits = token.logprob.bitPattern
    probabilities.update((0..<4).map { UInt8(truncatingIfNeeded: bits >> (8 * $0)) })
  }

  var digest: String { SHA256.hexadecimal(probabilities.finish()) }
}

extension Receipt {
  /// The receipt of an answer that has ended.
  ///
  /// - Parameters:
  ///   - request: what was generated from, with a seed.
  ///   - guide: before its first token.
  ///   - stops: texts that end it.
  ///   - key: signs; nil for no signature.
  package init(
    _ notes: ReceiptNotes, of request: GenerationRequest, guide: Guide?, stops: [String], ending: Ending,
    model: LoadedModel, key: Ed25519?
  ) {
    let identity = model.identity
    var settings = JSONObject([("max_tokens", .int(request.maxTokens))])
    settings["seed"] = request.sampling.seed.map { .int(Int(bitPattern: UInt($0))) }
    for (name, value) in request.sampling.settings { settings[name] = value }
    settings["stop_tokens"] = Self.list(request.stopTokens.sorted())
    var rules = guide?.source ?? JSONObject()
    for (name, value) in request.sampling.rules { rules[name] = value }
    if !stops.isEmpty { rules["stop"] = .array(stops.map(JSONValue.string)) }
    members = JSONObject([
      ("receipt", .int(Self.version)), ("mlxserve", .string(identity.version)),
      ("arithmetic", .string(identity.arithmetic)), ("cache", .string(identity.cache)),
      ("model", .string(model.id)),
      (
        "digests",
        .object(JSONObject(model.digests.map { ($0.name, $0.digest.map(JSONValue.string) ?? nil) }))
      ),
      ("settings", .object(settings)), ("rules", .object(rules)),
    ])
    if !request.media.isEmpty {
      members["media"] = .array(
        request.media.map {
          ["start": .int($0.start), "sha256": .string(SHA256.hexadecimal($0.input.digest))]
        })
    }
    members["prompt"] = Self.list(request.promptTokens)
    members["answer"] = Self.list(notes.answer)
    members["ended"] = .string(ending.rawValue)
    members["probabilities"] = .string(notes.digest)
    if notes.hidesTexts { self = withoutTexts }
    seal(key)
  }

  private static func list(_ ids: [Int32]) -> JSONValue { .array(ids.map { .int(Int($0)) }) }
}

extension SamplingParameters {
  /// Numbers, where they are not those of a sampler that changes nothing.
  fileprivate var settings: [(String, JSONValue)] {
    var settings: [(String, JSONValue)] = SamplingField.allCases.compactMap { field in
      guard self[field] != SamplingParameters()[field] else { return nil }
      if case .count = field.row.setting { return (field.name, .int(Int(self[field]))) }
      // The shortest digits that are this number.
      return (field.name, .double(Double(text(of: field)) ?? self[field]))
    }
    if minTokens > 0 { settings.append(("min_tokens", .int(minTokens))) }
    if let order { settings.append(("order", .array(order.map { .string("\($0)") }))) }
    return settings
  }

  /// What tokens it names.
  fileprivate var rules: [(String, JSONValue)] {
    func list(_ sequences: [[Int32]]) -> JSONValue {
      .array(sequences.map { .array($0.map { .int(Int($0)) }) })
    }
    var rules: [(String, JSONValue)] = []
    if !logitBias.isEmpty {
      let biases = logitBias.sorted { $0.key < $1.key }.map {
        ("\($0.key)", JSONValue.double(Double($0.value)))
      }
      rules.append(("logit_bias", .object(JSONObject(biases))))
    }
    if let allowedTokens { rules.append(("allowed", .array(allowedTokens.map { .int(Int($0)) }))) }
    if !bannedSequences.isEmpty { rules.append(("banned", list(bannedSequences))) }
    if dryMultiplier > 0 { rules.append(("dry_breakers", list(dryBreakers.sequences))) }
    return rules
  }
}

// MARK: - Reading

extension Receipt {
  /// The request that gives the answer again, and the texts that could end it.
  ///
  /// - Parameter media: the images and audio of its prompt.
  /// - Throws: `PipelineError.receipt` for what it does not hold, or what no model could be asked.
  func request(
    to model: LoadedModel, media: [MediaPassage]
  ) throws(PipelineError) -> (request: GenerationRequest, stops: [String]) {
    guard hasTexts else {
      throw .receipt("it does not hold its texts, which computing the answer again takes")
    }
    guard let settings = members["settings"]?.objectValue, let rules = members["rules"]?.objectValue,
      let most = settings["max_tokens"]?.intValue, most > 0
    else { throw .receipt("it lacks settings") }
    let limits: EngineLimits
    do throws(InferenceError) {
      limits = try model.generator().limits
    } catch {
      throw .engine(error)
    }
    let (vocabulary, limit) = (limits.vocabularySize, limits.maxContext)
    var sampling = try Self.sampling(settings)
    sampling.logitBias = [:]
    for (id, bias) in rules["logit_bias"]?.objectValue?.entries ?? [] {
      guard let id = Int32(id), let bias = bias.doubleValue else {
        throw .receipt("rules.logit_bias is malformed")
      }
      sampling.logitBias[id] = Float(bias)
    }
    if rules["allowed"] != nil {
      sampling.allowedTokens = try Self.ids(rules["allowed"], "rules.allowed", vocabulary, below: vocabulary)
    }
    for sequence in rules["banned"]?.arrayValue ?? [] {
      sampling.bannedSequences.append(try Self.ids(sequence, "rules.banned", vocabulary, below: vocabulary))
    }
    for sequence in rules["dry_breakers"]?.arrayValue ?? [] {
      let ids = try Self.ids(sequence, "rules.dry_breakers", vocabulary, below: vocabulary)
      if let first = ids.first { sampling.dryBreakers.insert(first, tail: Array(ids.dropFirst())) }
    }
    do throws(SamplingError) {
      try sampling.check()
    } catch {
      throw .receipt("\(error)")
    }
    var request = GenerationRequest(
      promptTokens: try Self.ids(members["prompt"], "prompt", limit, below: vocabulary), maxTokens: most,
      sampling: sampling,
      stopTokens: Set(
        try Self.ids(settings["stop_tokens"], "settings.stop_tokens", vocabulary, below: vocabulary)),
      tokenLimit: model.tokenizer.vocabularySize, topLogprobs: 0)
    request.expected = try Self.ids(members["answer"], "answer", limit, below: vocabulary)
    let inputs = media.flatMap(\.inputs)
    for place in self.media {
      guard let input = inputs.first(where: { $0.digest == place.digest }) else {
        throw .receipt(
          "its prompt holds images or audio (\(self.media.count)), of which it has digests alone: give them, too"
        )
      }
      request.media.append(MediaSpan(start: place.start, input: input))
    }
    do throws(GrammarError) {
      request.guide = try Guide.make(of: rules, tokenizer: model.tokenizer, grammars: model.grammars)
    } catch {
      throw .receipt("its rules cannot be held: \(error)")
    }
    return (request, rules["stop"]?.arrayValue?.compactMap(\.stringValue) ?? [])
  }

  /// Where images and audio begin in its prompt, and their digests.
  private var media: [(start: Int, digest: [UInt8])] {
    (members["media"]?.arrayValue ?? []).map { place in
      let digest = (place["sha256"]?.stringValue).flatMap(SHA256.digest(hexadecimal:))
      return (place["start"]?.intValue ?? -1, digest ?? [])
    }
  }

  /// What a file was for the prompt: an image with one of the budgets that a request can ask for, or audio; nil for a
  /// file that was not in it.
  ///
  /// - Parameter claim: reserves this many bytes for what is made of the file; false when they are not to be had.
  package func passage(
    of file: [UInt8], for rules: MediaRules, claim: @escaping (_ bytes: Int) -> Bool = { _ in true }
  ) -> MediaPassage? {
    let digests = Set(media.map(\.digest))
    func isThere(_ passage: MediaPassage) -> Bool {
      passage.inputs.allSatisfy { digests.contains($0.digest) }
    }
    if let sound = try? rules.audio?.passage(file, claim: claim) { return isThere(sound) ? sound : nil }
    let limits = ImageLimits(claim: claim)
    guard let picture = try? PictureFile.decodable(file, limits: limits) else { return nil }
    return rules.images?.budgets.all.sorted(by: >).lazy.compactMap { tokens in
      try? rules.images?.passage(picture, tokens: tokens, limits: limits)
    }
    .first(where: isThere)
  }

  private static func ids(
    _ value: JSONValue?, _ name: String, _ most: Int, below vocabulary: Int
  ) throws(PipelineError) -> [Int32] {
    guard let values = value?.arrayValue, values.count <= most else {
      throw .receipt("\(name) is no list of at most \(most) tokens")
    }
    var ids: [Int32] = []
    for value in values {
      guard let id = value.intValue.flatMap({ Int32(exactly: $0) }), id >= 0, id < vocabulary else {
        throw .receipt("\(name) holds something that is no token of the model")
      }
      ids.append(id)
    }
    return ids
  }

  private static func sampling(_ settings: JSONObject) throws(PipelineError) -> SamplingParameters {
    var overrides: SamplingOverrides = [:]
    for field in SamplingField.allCases { overrides[field] = settings[field.name]?.doubleValue }
    var sampling = SamplingParameters(overrides)
    sampling.seed = settings["seed"]?.intValue.map { UInt64(UInt(bitPattern: $0)) }
    sampling.minTokens = settings["min_tokens"]?.intValue ?? 0
    if let order = settings["order"]?.arrayValue {
      let stages = order.map { name in SamplerStage.allCases.first { "\($0)" == name.stringValue } }
      guard !stages.contains(nil) else { throw .receipt("settings.order names a sampler that is not known") }
      sampling.order = stages.compactMap { $0 }
    }
    return sampling
  }
}
