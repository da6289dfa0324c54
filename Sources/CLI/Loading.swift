// From flags to a running model: the engine on its thread, and beside it the text side of the folder.

import Chat
import Checkpoint
import Compute
import Decoding
import Inference
import JSON
import Media
import Platform
import Sampling
import Server
import Tokenizers

enum Loading {
  /// - Parameter path: the model's folder; nil for the one that `--model` names.
  static func engineConfiguration(_ flags: ParsedFlags, path: String? = nil) throws -> EngineConfiguration {
    let path =
      try path ?? flags.required("model", hint: "the folder that holds config.json and the weights")
    var configuration = EngineConfiguration(
      modelPath: path, threads: flags.integer("threads") ?? Machine.cores)
    configuration.isa = flags.text("isa").flatMap(ISA.init(rawValue:))
    configuration.computeMode = flags.text("compute").flatMap(ComputeMode.init(rawValue:)) ?? .fast
    configuration.interleavesWeights = flags.text("weights") != "mapped"
    configuration.kvFormat = flags.text("kv-cache-type").flatMap(KVFormat.init(rawValue:))
    configuration.speculates = flags.text("speculate") != "off"
    if let megabytes = flags.integer("prefix-cache") { configuration.prefixCacheBytes = megabytes << 20 }
    configuration.stepDelayMilliseconds = UInt32(flags.integer("step-delay-ms") ?? 0)
    configuration.media = try mediaOptions(flags)
    configuration.useReference = flags.isSet("reference-kernels")
    configuration.maxContext = flags.integer("max-context")
    configuration.queueLimit = flags.integer("queue-limit") ?? configuration.queueLimit
    if let milliseconds = flags.integer("max-stall") { configuration.maxStall = Double(milliseconds) / 1000 }
    configuration.prefixCacheFolder = flags.text("prefix-cache-dir")
    if let megabytes = flags.integer("prefix-cache-dir-size") {
      configuration.prefixCacheDiskBytes = megabytes << 20
    }
    configuration.sharesPrefixes = flags.text("prefix-cache-scope") != "tenant"
    configuration.version = CommandLineTool.version
    configuration.maxSequences = flags.integer("max-sequences") ?? configuration.maxSequences
    return configuration
  }

  /// Which encoders of images and audio are wanted, and when their weights are read.
  static func mediaOptions(_ flags: ParsedFlags) throws(UsageError) -> MediaOptions {
    if flags.isSet("lazy-encoders"), flags.isSet("no-lazy-encoders") {
      throw .unusable(flag: "lazy-encoders", reason: "contradicts --no-lazy-encoders: give one of them")
    }
    var options = MediaOptions()
    options.vision = !flags.isSet("no-vision")
    options.audio = !flags.isSet("no-audio")
    options.isLazy = !flags.isSet("no-lazy-encoders")
    return options
  }

  /// Opens the folder and starts the engine; large folders show progress on a terminal.
  static func model(_ flags: ParsedFlags) throws -> (model: ServedModel, engine: EngineClient) {
    let configuration = try engineConfiguration(flags)
    return try Terminal.showingProgress("loading \(configuration.modelPath)") {
      try model(configuration, id: nil)
    }
  }

  /// - Parameter id: nil for the folder's name.
  static func model(_ configuration: EngineConfiguration, id: String?) throws -> (
    model: ServedModel, engine: EngineClient
  ) {
    // The text side first: it is quick to fail, and the engine's thread then starts only when all is well.
    let folder = try ModelFolder(path: configuration.modelPath)
    if folder.hasForeignIndex {
      Log.warning("model.safetensors.index.json names other files and is not used", ["folder": folder.path])
    }
    let tokenizer = try tokenizer(of: folder)
    let template = try template(of: folder)
    let sampling = try SamplingOverrides(generationConfig: folder.generationConfig)
    let engine = try EngineClient.start(configuration)
    var model = ServedModel(
      id: id ?? folder.name, created: Int(Instant.wallSeconds), service: engine,
      tokenizer: tokenizer, template: template, endTokens: endTokens(of: folder, tokenizer, template),
      sampling: sampling, systemFingerprint: fingerprint(of: folder), media: engine.mediaRules)
    model.facts = facts(of: folder, engine)
    return (model, engine)
  }

  static func tokenizer(of folder: ModelFolder) throws -> Tokenizer {
    guard let file = try folder.tokenizerFile else { throw LoadingError.noTokenizer(folder: folder.path) }
    return try Tokenizer(tokenizerJSON: file)
  }

  /// Nil for a base model: it serves completions, not chat.
  static func template(of folder: ModelFolder) throws -> ChatTemplate? {
    guard let source = folder.chatTemplate else { return nil }
    let names = ["bos_token", "eos_token", "pad_token", "unk_token"]
    let tokens = names.compactMap { name in
      specialToken(name, in: folder.tokenizerConfig).map { (name, $0) }
    }
    return try ChatTemplate(source: source, toolSource: folder.toolChatTemplate, specialTokens: tokens) {
      // Templates that name today's date mean the local one.
      (Int(Instant.wallSeconds), Instant.utcOffset)
    }
  }

  /// A string, or an object with `content`.
  private static func specialToken(_ name: String, in config: JSONValue?) -> String? {
    config?[name]?.stringValue ?? config?[name]?["content"]?.stringValue
  }

  /// What ends an answer: the tokens that the folder's files name, and the marker that the template writes behind an
  /// answer. Many conversions lack generation_config.json, and config.json alone does not say how a turn ends.
  static func endTokens(
    of folder: ModelFolder, _ tokenizer: Tokenizer, _ template: ChatTemplate?
  ) -> Set<Int32> {
    var tokens = Set(folder.eosTokenIDs.compactMap { Int32(exactly: $0) })
    if let name = specialToken("eos_token", in: folder.tokenizerConfig), let id = tokenizer.id(of: name) {
      tokens.insert(id)
    }
    if let rest = template?.textBehindAnswer(),
      let id = tokenizer.encode(rest, addSpecialTokens: false).first, tokenizer.isSpecial(id)
    {
      tokens.insert(id)
    }
    return tokens
  }

  private static func facts(of folder: ModelFolder, _ engine: EngineClient) -> ModelFacts {
    var facts = ModelFacts()
    facts.modelType = folder.config["model_type"]?.stringValue
    facts.computeMode = engine.computeMode.rawValue
    facts.quantization = folder.quantization.base.map {
      ModelFacts.Quantization(mode: $0.mode.rawValue, bits: $0.bits, groupSize: $0.groupSize)
    }
    return facts
  }

  /// Differs between builds, and between folders of different shape or size.
  private static func fingerprint(of folder: ModelFolder) -> String {
    let identity = "\(CommandLineTool.version)|\(folder.weightBytes)|\(folder.config.text)"
    return "fp_" + String(FNV1a.hash(identity), radix: 16)
  }
}

enum LoadingError: Error, CustomStringConvertible {
  case noTokenizer(folder: String)
  case noTemplate(folder: String)

  var description: String {
    switch self {
    case .noTokenizer(let folder):
      "\(folder) has no tokenizer.json: text cannot be turned into tokens. Convert the model's tokenizer, "
        + "or use 'mlxserve bench', which needs none"
    case .noTemplate(let folder):
      "\(folder) has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json): "
        + "it is a base model; serve it and use /v1/completions"
    }
  }
}
