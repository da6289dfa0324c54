// From a model folder to a model that answers: the engine on its thread, and beside it the text side of the folder.

package import Chat
package import Checkpoint
import Compute
import Decoding
package import Inference
import JSON
import Media
import Platform
import Sampling
package import Tokenizers

extension LoadedModel {
  /// Opens the folder of a configuration and starts the engine of what the model is for; the caller stops it.
  ///
  /// - Parameters:
  ///   - id: nil for the folder's name.
  ///   - task: nil for what the folder's files say.
  package static func open(
    _ configuration: EngineConfiguration, id: String? = nil, task: ModelPurpose? = nil
  ) throws -> (model: LoadedModel, engine: any ModelEngine) {
    let folder = try ModelFolder(path: configuration.modelPath)
    if let fault = folder.indexFault { Log.warning(fault, ["folder": folder.path]) }
    for scheme in folder.quantization.leftOut {
      Log.warning(
        "config.json asks for \(scheme), which is left out: it is computed exactly", ["folder": folder.path])
    }
    switch task ?? folder.task {
    case .chat: return try generator(folder, configuration, id: id)
    case .embed, .rerank: return try encoder(folder, configuration, id: id)
    case .transcribe: return try transcriber(folder, configuration, id: id)
    }
  }

  /// As `open`, for a model that must generate.
  ///
  /// - Throws: `PipelineError.cannotGenerate` for a model of vectors.
  package static func load(
    _ configuration: EngineConfiguration, id: String? = nil
  ) throws -> (model: LoadedModel, engine: EngineClient) {
    let folder = try ModelFolder(path: configuration.modelPath)
    guard folder.task == .chat else { throw PipelineError.cannotGenerate(model: folder.name) }
    return try generator(folder, configuration, id: id)
  }

  private static func generator(
    _ folder: ModelFolder, _ configuration: EngineConfiguration, id: String?
  ) throws -> (model: LoadedModel, engine: EngineClient) {
    // The text side first: it is quick to fail, and the engine's thread then starts only when all is well.
    let tokenizer = try folder.tokenizer()
    let template = try folder.template()
    let sampling = try SamplingOverrides(generationConfig: folder.generationConfig)
    var configuration = configuration
    configuration.adapters += AdapterSource.found(in: folder.place).filter { found in
      !configuration.adapters.contains { $0.name == found.name }
    }
    let engine = try EngineClient.start(configuration)
    var model = LoadedModel(
      id: id ?? folder.name, created: Int(Instant.wallSeconds), service: engine, tokenizer: tokenizer,
      template: template, endTokens: folder.endTokens(tokenizer, template), media: engine.mediaRules)
    model.written = WrittenAnswers(ledger: configuration.ledger)
    model.recommended = sampling
    model.defaultSampling = configuration.defaultSampling
    if let names = folder.fillNames { model.fill = FillInMiddle(tokenizer, names: names) }
    model.systemFingerprint =
      folder.fingerprint(version: configuration.version, cache: engine.cacheFormat.rawValue)
      + "-" + engine.arithmetic
    model.facts = folder.facts(engine)
    model.identity = ModelIdentity(
      version: configuration.version, arithmetic: engine.arithmetic, cache: engine.cacheFormat.rawValue,
      folder: folder)
    model.adapted = model.adapted(by: engine.adapters)
    return (model, engine)
  }

  private static func transcriber(
    _ folder: ModelFolder, _ configuration: EngineConfiguration, id: String?
  ) throws -> (model: LoadedModel, engine: SpeechClient) {
    let engine = try SpeechClient.start(configuration, try folder.tokenizer())
    var model = LoadedModel(id: id ?? folder.name, created: Int(Instant.wallSeconds), transcriber: engine)
    model.systemFingerprint = folder.fingerprint(version: configuration.version)
    model.facts = folder.facts(engine)
    return (model, engine)
  }

  private static func encoder(
    _ folder: ModelFolder, _ configuration: EngineConfiguration, id: String?
  ) throws -> (model: LoadedModel, engine: EmbeddingClient) {
    let tokenizer = try folder.tokenizer()
    var configuration = configuration
    configuration.answerTokens = JudgePrompt.answers(of: folder, tokenizer)
    let engine = try EmbeddingClient.start(configuration)
    let embedder = try Embedder(
      service: engine, tokenizer: tokenizer, folder: folder, cutsAny: configuration.cutsAnyVectors)
    var model = LoadedModel(id: id ?? folder.name, created: Int(Instant.wallSeconds), embedder: embedder)
    model.systemFingerprint = folder.fingerprint(version: configuration.version)
    model.facts = folder.facts(engine)
    return (model, engine)
  }
}

extension ModelFolder {
  /// - Throws: `PipelineError.noTokenizer`, or what is wrong with the file.
  package func tokenizer() throws -> Tokenizer {
    guard let file = try tokenizerFile else { throw PipelineError.noTokenizer(folder: path) }
    return try Tokenizer(tokenizerJSON: file)
  }

  /// Nil for a base model: it serves completions, not chat.
  package func template() throws -> ChatTemplate? {
    guard let source = chatTemplate else { return nil }
    let names = ["bos_token", "eos_token", "pad_token", "unk_token"]
    let tokens = names.compactMap { name in specialToken(name).map { (name, $0) } }
    return try ChatTemplate(source: source, toolSource: toolChatTemplate, specialTokens: tokens) {
      // Templates that name today's date mean the local one.
      (Int(Instant.wallSeconds), Instant.utcOffset)
    }
  }

  /// How the tokenizer's settings spell the marks for filling in the middle, where they say.
  fileprivate var fillNames: (prefix: String, suffix: String, middle: String)? {
    guard let prefix = specialToken("prefix_token"), let suffix = specialToken("suffix_token"),
      let middle = specialToken("middle_token")
    else { return nil }
    return (prefix, suffix, middle)
  }

  /// A string, or an object with `content`.
  private func specialToken(_ name: String) -> String? {
    tokenizerConfig?[name]?.stringValue ?? tokenizerConfig?[name]?["content"]?.stringValue
  }

  /// What ends an answer: the tokens that the folder's files name, and the marker that the template writes after an
  /// answer. Many conversions lack generation_config.json, and config.json alone does not say how a turn ends.
  package func endTokens(_ tokenizer: Tokenizer, _ template: ChatTemplate?) -> Set<Int32> {
    var tokens = Set(eosTokenIDs.compactMap { Int32(exactly: $0) })
    if let name = specialToken("eos_token"), let id = tokenizer.id(of: name) { tokens.insert(id) }
    if let rest = template?.textBehindAnswer(),
      let id = tokenizer.encode(rest, addSpecialTokens: false).first, tokenizer.isSpecial(id)
    {
      tokens.insert(id)
    }
    if template?.format.toolSyntax == .harmony {
      // An answer goes on after the end of a message; it ends with its last one, or with a call.
      tokens.formUnion(["<|return|>", "<|call|>"].compactMap { tokenizer.id(of: $0) })
      if let end = tokenizer.id(of: "<|end|>") { tokens.remove(end) }
    }
    return tokens
  }

  fileprivate func facts(_ engine: any ModelEngine) -> ModelFacts {
    var facts = ModelFacts(of: self)
    facts.computeMode = engine.computeMode.rawValue
    facts.computeName = engine.computeName
    return facts
  }

  /// Differs between builds, and between folders of different shape or size.
  fileprivate func fingerprint(version: String, cache: String? = nil) -> String {
    let cache = cache.map { $0 + "|" } ?? ""
    return "fp_" + String(FNV1a.hash("\(version)|\(weightBytes)|\(cache)\(config.text)"), radix: 16)
  }
}

extension ModelFacts {
  /// What the files say of a model that is not loaded; nil for a folder that cannot be opened.
  package init?(folder path: String) {
    guard let folder = try? ModelFolder(path: path) else { return nil }
    self.init(of: folder)
  }

  fileprivate init(of folder: ModelFolder) {
    modelType = folder.config["model_type"]?.stringValue
    parameterCount = folder.parameterCount
    blocks = folder.storedBlocks.first?.format.name
    quantization = (folder.quantization.base ?? folder.storedQuantization).map {
      Quantization(mode: $0.mode.rawValue, bits: $0.bits, groupSize: $0.groupSize)
    }
  }
}
