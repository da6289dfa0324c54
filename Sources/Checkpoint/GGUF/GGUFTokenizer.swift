// tokenizer.json as it would be, made from the vocabulary of a GGUF file.

import JSON

/// The bytes of the file for the kinds of vocabularies that models here have.
struct GGUFTokenizer {
  let file: [UInt8]

  /// Kinds of tokens.
  private enum Kind: Int {
    case normal = 1
    case unknown, control, userDefined, unused, byte
  }

  /// - Throws: `.badValue` for a kind of vocabulary or a way of splitting that is not known.
  init(_ source: GGUFFile) throws(CheckpointError) {
    func fault(_ key: String, _ problem: String) -> CheckpointError {
      GGUFModel.fault(source, "tokenizer." + key, problem)
    }
    if let whole = source.string("tokenizer.huggingface.json") {
      file = Array(whole.utf8)
      return
    }
    guard var tokens = source.strings("tokenizer.ggml.tokens"), !tokens.isEmpty, tokens.count <= 4 << 20
    else {
      throw fault("ggml.tokens", "has no tokens, or more than \(4 << 20)")
    }
    let kinds = (source.numbers("tokenizer.ggml.token_type") ?? []).map { number in
      Int(exactly: number).flatMap(Kind.init) ?? .normal
    }
    func kind(_ id: Int) -> Kind { id < kinds.count ? kinds[id] : .normal }
    let model = source.string("tokenizer.ggml.model") ?? ""
    let pre = source.string("tokenizer.ggml.pre") ?? "default"
    let beginning = source.int("tokenizer.ggml.bos_token_id")
    let unknown = source.int("tokenizer.ggml.unknown_token_id").flatMap {
      tokens.indices.contains($0) ? String(decoding: tokens[$0], as: UTF8.self) : nil
    }
    var parts: Parts
    switch model {
    case "gpt2":
      guard let splitting = GGUFSplitting.all.first(where: { $0.names.contains(pre) }) else {
        throw fault(
          "ggml.pre",
          "is \(CheckpointError.quoted(pre)), a way of splitting text that is not known here: use the model's folder in safetensors"
        )
      }
      parts = Parts(splitting)
      parts.merges = source.strings("tokenizer.ggml.merges") ?? []
    case "llama":
      guard let scores = source.numbers("tokenizer.ggml.scores"), scores.count == tokens.count else {
        throw fault("ggml.scores", "has not one score for each token")
      }
      let prefix = source.bool("tokenizer.ggml.add_space_prefix") ?? true
      parts = Parts(sentencePiece: prefix, isPhi: source.architecture == "phi3")
      parts.unknown = unknown
      parts.merges = Self.merges(tokens, scores) { kind($0) == .normal }
    case "gemma4":
      // SentencePiece's characters and bytes with merges of its own.
      parts = Parts(sentencePiece: false, isPhi: false)
      parts.unknown = "<unk>"
      parts.merges = source.strings("tokenizer.ggml.merges") ?? []
    case "bert":
      parts = Parts(wordPiece: source.bool("tokenizer.ggml.normalizer.lowercase") ?? true)
      parts.unknown = unknown
      // What a word begins with stands behind a mark there, what goes on with it in the original file.
      for id in tokens.indices where kind(id) != .control && kind(id) != .unknown {
        let token = String(decoding: tokens[id], as: UTF8.self)
        tokens[id] = Array((token.hasPrefix("\u{2581}") ? String(token.dropFirst()) : "##" + token).utf8)
      }
      parts.opening = source.int("tokenizer.ggml.cls_token_id") ?? beginning
      parts.closing =
        source.int("tokenizer.ggml.seperator_token_id") ?? source.int("tokenizer.ggml.eos_token_id")
    default:
      throw fault(
        "ggml.model",
        "is \(CheckpointError.quoted(model)): vocabularies of the kinds gpt2, llama, gemma4 and bert are read"
      )
    }
    if model != "bert", source.bool("tokenizer.ggml.add_bos_token") ?? parts.begins {
      parts.opening = beginning
    }
    if source.bool("tokenizer.ggml.add_eos_token") ?? false {
      parts.closing = source.int("tokenizer.ggml.eos_token_id")
    }
    file = parts.file(tokens) { id in
      switch kind(id) {
      case .control, .unknown: true
      case .userDefined: false
      case .normal, .unused, .byte: nil
      }
    }
  }

  /// SentencePiece's merges: a pair of tokens becomes one where the vocabulary has it, the best score first.
  private static func merges(
    _ tokens: [[UInt8]], _ scores: [Double], isNormal: (Int) -> Bool
  ) -> [[UInt8]] {
    var ids: [ArraySlice<UInt8>: Int] = [:]
    ids.reserveCapacity(tokens.count)
    for (id, token) in tokens.enumerated() where isNormal(id) && ids[token[...]] == nil {
      ids[token[...]] = id
    }
    var pairs: [(score: Double, left: Int, right: Int)] = []
    for (id, token) in tokens.enumerated() where isNormal(id) && ids[token[...]] == id {
      var found: [(score: Double, left: Int, right: Int)] = []
      // Longer ones than words would cost their square.
      for cut in 1..<max(1, min(token.count, 1024)) {
        guard token[cut] & 0xC0 != 0x80, let left = ids[token[..<cut]], let right = ids[token[cut...]] else {
          continue
        }
        found.append((scores[id], left, right))
      }
      found.sort { ($0.left, $0.right) < ($1.left, $1.right) }
      pairs += found
    }
    // A stable order: equal scores stay in the order of the vocabulary.
    let order = pairs.indices.sorted { a, b in
      pairs[a].score != pairs[b].score ? pairs[a].score > pairs[b].score : a < b
    }
    return order.map { tokens[pairs[$0].left] + [UInt8(ascii: " ")] + tokens[pairs[$0].right] }
  }

  /// What a tokenizer.json says beside its vocabulary.
  private struct Parts {
    var merges: [[UInt8]] = []
    var unknown: String?
    var opening: Int?
    var closing: Int?
    /// Whether texts begin with a token where the file does not say it.
    let begins: Bool
    let normalizer, preTokenizer, decoder: JSONValue
    let ignoresMerges, fallsBackToBytes: Bool
    /// Control tokens eat the blanks behind them.
    let stripsRight: Bool
    var isWordPiece = false

    init(_ splitting: GGUFSplitting) {
      let bytes: JSONObject = JSONObject([
        ("type", "ByteLevel"), ("add_prefix_space", false), ("trim_offsets", true),
        ("use_regex", .bool(splitting.isGPT2)),
      ])
      normalizer = splitting.composes ? ["type": "NFC"] : .null
      preTokenizer = ["type": "Sequence", "pretokenizers": .array(splitting.steps + [.object(bytes)])]
      decoder = .object(bytes)
      (ignoresMerges, begins) = (splitting.ignoresMerges, splitting.begins)
      (fallsBackToBytes, stripsRight) = (false, false)
    }

    init(sentencePiece prefix: Bool, isPhi: Bool) {
      let mark = "\u{2581}"
      let replace: JSONValue = ["type": "Replace", "pattern": ["String": " "], "content": .string(mark)]
      normalizer =
        prefix
        ? ["type": "Sequence", "normalizers": [["type": "Prepend", "prepend": .string(mark)], replace]]
        : replace
      preTokenizer = .null
      var steps: [JSONValue] = [
        ["type": "Replace", "pattern": ["String": .string(mark)], "content": " "],
        ["type": "ByteFallback"], ["type": "Fuse"],
      ]
      if prefix { steps.append(["type": "Strip", "content": " ", "start": 1, "stop": 0]) }
      decoder = ["type": "Sequence", "decoders": .array(steps)]
      (ignoresMerges, begins, fallsBackToBytes) = (false, true, true)
      stripsRight = isPhi
    }

    init(wordPiece lowercase: Bool) {
      normalizer = [
        "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": .null,
        "lowercase": .bool(lowercase),
      ]
      preTokenizer = ["type": "BertPreTokenizer"]
      decoder = ["type": "WordPiece", "prefix": "##", "cleanup": true]
      (ignoresMerges, begins, fallsBackToBytes, stripsRight) = (false, false, false, false)
      isWordPiece = true
    }

    /// - Parameter isSpecial: of an added token; nil for one that is none.
    func file(_ tokens: [[UInt8]], isSpecial: (Int) -> Bool?) -> [UInt8] {
      var writer = JSONWriter()
      func text(_ id: Int) -> String { String(decoding: tokens[id], as: UTF8.self) }
      func added(_ id: Int, _ special: Bool) -> JSONValue {
        let content = text(id)
        let strips = stripsRight && special && !["<unk>", "<s>", "<|endoftext|>"].contains(content)
        return [
          "id": .int(id), "content": .string(content), "single_word": false, "lstrip": false,
          "rstrip": .bool(strips), "normalized": false, "special": .bool(special),
        ]
      }
      writer.writeRaw("{\"added_tokens\":")
      writer.write(.array(tokens.indices.compactMap { id in isSpecial(id).map { added(id, $0) } }))
      let named: [(StaticString, JSONValue)] = [
        (",\"normalizer\":", normalizer), (",\"pre_tokenizer\":", preTokenizer),
        (",\"post_processor\":", postProcessor(text, tokens.count)), (",\"decoder\":", decoder),
      ]
      for (name, value) in named {
        writer.writeRaw(name)
        writer.write(value)
      }
      writer.writeRaw(",\"model\":{\"type\":")
      writer.write(isWordPiece ? "WordPiece" : "BPE")
      writer.writeRaw(",\"unk_token\":")
      writer.write(unknown.map(JSONValue.string) ?? .null)
      if isWordPiece {
        writer.writeRaw(",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100")
      } else {
        for (name, flag): (StaticString, Bool) in [
          (",\"fuse_unk\":", fallsBackToBytes), (",\"byte_fallback\":", fallsBackToBytes),
          (",\"ignore_merges\":", ignoresMerges),
        ] {
          writer.writeRaw(name)
          writer.write(.bool(flag))
        }
      }
      writer.writeRaw(",\"vocab\":{")
      var seen: Set<[UInt8]> = []
      seen.reserveCapacity(tokens.count)
      for (id, token) in tokens.enumerated() {
        // Of tokens with one text the first is the one that texts become.
        guard seen.insert(token).inserted else { continue }
        if id > 0 { writer.separate() }
        writer.writeString(text(id))
        writer.writeRaw(":")
        writer.write(.int(id))
      }
      guard !isWordPiece else {
        writer.writeRaw("}}}")
        return writer.bytes
      }
      writer.writeRaw("},\"merges\":[")
      for (index, merge) in merges.enumerated() {
        if index > 0 { writer.separate() }
        // The blank that divides is the first behind the first character.
        let cut = merge.dropFirst().firstIndex(of: UInt8(ascii: " ")) ?? merge.endIndex
        writer.writeRaw("[")
        writer.writeString(String(decoding: merge[..<cut], as: UTF8.self))
        writer.separate()
        writer.writeString(String(decoding: merge[cut...].dropFirst(), as: UTF8.self))
        writer.writeRaw("]")
      }
      writer.writeRaw("]}}")
      return writer.bytes
    }

    private func postProcessor(_ text: (Int) -> String, _ count: Int) -> JSONValue {
      let (opening, closing) = (opening, closing)
      func marks(_ id: Int?) -> [(id: Int, text: String)] {
        guard let id, (0..<count).contains(id) else { return [] }
        return [(id, text(id))]
      }
      let (first, last) = (marks(opening), marks(closing))
      guard !first.isEmpty || !last.isEmpty else { return .null }
      func special(_ mark: (id: Int, text: String), _ type: Int) -> JSONValue {
        ["SpecialToken": ["id": .string(mark.text), "type_id": .int(type)]]
      }
      func sequence(_ name: String, _ type: Int) -> [JSONValue] {
        first.map { special($0, type) } + [["Sequence": ["id": .string(name), "type_id": .int(type)]]]
          + last.map { special($0, type) }
      }
      let tokens = (first + last).map { mark -> (String, JSONValue) in
        (mark.text, ["id": .string(mark.text), "ids": [.int(mark.id)], "tokens": [.string(mark.text)]])
      }
      var special = JSONObject()
      for (name, value) in tokens { special[name] = value }
      return [
        "type": "TemplateProcessing", "single": .array(sequence("A", 0)),
        "pair": .array(sequence("A", 0) + sequence("B", 1)), "special_tokens": .object(special),
      ]
    }
  }
}

/// How text is cut before pairs are merged, by the names that llama.cpp has for it.
struct GGUFSplitting {
  let names: Set<String>
  /// Steps before bytes become characters.
  var steps: [JSONValue] = []
  /// GPT-2's expression is part of the step that follows.
  var isGPT2 = false
  var ignoresMerges = false
  var begins = false
  /// The model's own tokenizer composes characters first, which the file does not say.
  var composes = false

  private static func split(_ expression: String) -> JSONValue {
    ["type": "Split", "pattern": ["Regex": .string(expression)], "behavior": "Isolated", "invert": false]
  }

  private static let contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
  private static let rest = #"\s*[\r\n]+|\s+(?!\S)|\s+"#

  private static func words(digits: String) -> JSONValue {
    split(
      contractions + #"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"# + digits + #"| ?[^\s\p{L}\p{N}]+[\r\n]*|"# + rest)
  }

  /// Words by the case of their letters, as of o200k.
  private static func cased(_ contractions: String, digits: String) -> JSONValue {
    let (upper, lower) = (#"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"#, #"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"#)
    let start = #"[^\r\n\p{L}\p{N}]?"#
    return split(
      start + upper + "*" + lower + "+" + contractions + "|" + start + upper + "+" + lower + "*"
        + contractions
        + #"|\p{N}"# + digits + #"| ?[^\s\p{L}\p{N}]+[\r\n/]*|"# + rest)
  }

  private static let digits: JSONValue = ["type": "Digits", "individual_digits": true]

  static let all: [GGUFSplitting] = [
    .init(
      names: ["llama-bpe", "llama3", "llama-v3", "falcon3", "lfm2", "pixtral", "midm-2.0"],
      steps: [words(digits: "{1,3}")], ignoresMerges: true, begins: true),
    .init(
      names: ["qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez"], steps: [words(digits: "")],
      composes: true),
    .init(
      names: ["qwen35"],
      steps: [
        split(
          contractions + #"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"# + rest)
      ], composes: true),
    .init(
      names: ["gpt-2", "phi-2", "mpt", "olmo", "jais", "gigachat", "mellum", "modern-bert"], isGPT2: true),
    .init(
      names: ["gpt-4o", "llama4", "minimax-m2", "kanana2"],
      steps: [cased(contractions + "?", digits: "{1,3}")]),
    .init(names: ["tekken"], steps: [cased("", digits: "")], ignoresMerges: true, begins: true),
    .init(
      names: ["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
      steps: [digits], isGPT2: true),
    .init(
      names: ["deepseek-v3"],
      steps: [
        split(#"\p{N}{1,3}"#), split("[一-龥\u{3040}-ゟ゠-ヿ]+"),
        split(
          ##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"##
            + rest),
      ]),
    .init(names: ["glm4", "chatglm-bpe"], steps: [words(digits: "{1,3}")], ignoresMerges: true),
    .init(names: ["dbrx", "smaug-bpe"], steps: [words(digits: "{1,3}")]),
  ]
}
