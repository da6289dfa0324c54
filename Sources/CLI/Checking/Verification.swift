// The checks of `mlxserve verify`, in the order in which a server meets them.

import Chat
import Checkpoint
import Compute
import Decoding
import Inference
import JSON
import Pipeline
import Platform
import Sampling
import Tokenizers

/// What one check found.
struct Finding: Equatable {
  enum Status: String {
    case ok
    /// Worth knowing; the folder can be served.
    case note
    /// The folder cannot be served, or not as its makers meant it.
    case failed = "FAILED"
    /// An earlier failure left nothing to look at.
    case skipped
  }

  let status: Status
  let subject: String
  let detail: String
  /// What to do about it.
  var advice: String?
}

/// The checks of one folder. Each runs whatever the others found, unless it needs what they could not open.
struct Verification {
  let configuration: EngineConfiguration
  private let path: String
  private let checksums: Bool
  private(set) var findings: [Finding] = []
  private var report: (Finding) -> Void = { _ in }

  init(_ configuration: EngineConfiguration, checksums: Bool) {
    self.configuration = configuration
    // Where the Hub's cache has it, or `~` stands for; what is wrong with it is the first check's matter.
    path = (try? ModelFolder.check(configuration.modelPath)) ?? configuration.modelPath
    self.checksums = checksums
  }

  /// - Parameter report: called with every finding when it is there.
  mutating func run(_ report: @escaping (Finding) -> Void) {
    self.report = report
    let folder = checkFolder()
    if let folder { checkDigests(folder) } else { skip("checksums") }
    if let folder, folder.task == .transcribe { return runSpeech(folder) }
    if let folder, folder.task != .chat { return runEncoder(folder) }
    let inspection = folder.flatMap { checkWeights($0) }
    let tokenizer = checkTokenizer(rows: inspection?.vocabularySize)
    checkBytes(tokenizer)
    if let folder {
      checkEnds(folder, tokenizer, inspection)
      checkTemplate(folder, tokenizer)
      checkSampling(folder)
    } else {
      for subject in ["end of text", "chat template", "sampling"] { skip(subject) }
    }
    guard let folder, let inspection else {
      for subject in ["memory", "fast and exact", "generation"] { skip(subject) }
      return
    }
    let canRun = checkMemory(folder, inspection)
    guard canRun, let tokenizer else {
      for subject in ["fast and exact", "generation"] { skip(subject) }
      return
    }
    checkModes(tokenizer, inspection)
    checkGeneration(tokenizer, inspection)
  }

  mutating func add(
    _ status: Finding.Status, _ subject: String, _ detail: String, advice: String? = nil
  ) {
    let finding = Finding(status: status, subject: subject, detail: detail, advice: advice)
    findings.append(finding)
    report(finding)
  }

  mutating func skip(_ subject: String) {
    add(.skipped, subject, "nothing to look at: an earlier check failed")
  }

  /// The words of an error end with its advice already.
  mutating func fail(_ subject: String, _ error: any Error, advice: String? = nil) {
    add(.failed, subject, String(describing: error), advice: advice)
  }
}

// MARK: - Files

extension Verification {
  private mutating func checkFolder() -> ModelFolder? {
    do {
      let folder = try ModelFolder(path: path)
      let count = folder.weightFiles.count
      add(
        .ok, "files",
        "\(folder.isGGUF ? "metadata" : "config.json") and \(folder.weights.names.count) tensors in \(counted(count, "file")), "
          + "\(ShowCommand.parameters(folder.parameterCount)) parameters, "
          + "\(MemoryLimit.words(folder.weightBytes)); headers \(folder.indexFault == nil && !folder.isGGUF ? "and index agree" : "are sound")"
      )
      if let fault = folder.indexFault { add(.note, "index", fault) }
      return folder
    } catch {
      fail("files", error)
      return nil
    }
  }

  private mutating func checkDigests(_ folder: ModelFolder) {
    guard checksums else {
      add(.skipped, "checksums", "left out (--no-checksums)")
      return
    }
    let known = Checksums(folder: folder.place)
    let names = folder.weightFiles.filter { known.expected($0) != nil }
    guard !names.isEmpty else {
      add(
        .note, "checksums",
        "nothing to compare with: no SHA256SUMS, and no record of a download by Hugging Face's tools")
      return
    }
    var bar = ProgressBar()
    defer { bar.clear() }
    var wrong: [String] = []
    for name in names {
      do {
        let digits = try known.actual(name) { done, total in bar.show(done, of: total, [name]) }
        if !(known.expected(name) ?? "").utf8.elementsEqual(digits.utf8) { wrong.append(name) }
      } catch {
        bar.clear()
        return fail("checksums", error)
      }
    }
    bar.clear()
    let rest = folder.weightFiles.count - names.count
    guard wrong.isEmpty else {
      return add(
        .failed, "checksums", "not what was published: \(listed(wrong))",
        advice: "delete \(wrong.count == 1 ? "this file" : "these files") and download again.")
    }
    add(
      .ok, "checksums",
      "SHA-256 of \(counted(names.count, "file")) as published"
        + (rest > 0 ? "; \(rest) more without a record" : ""))
  }

  private mutating func checkWeights(_ folder: ModelFolder) -> ModelInspection? {
    do {
      let inspection = try ModelInspection(folder, configuration)
      let type = folder.config["model_type"]?.stringValue ?? ""
      add(
        .ok, "weights",
        "\(type): every tensor is there, of the right shape and type (\(quantization(folder))); "
          + "a decode step reads \(MemoryLimit.words(inspection.weightBytesPerToken))")
      for scheme in folder.quantization.leftOut {
        add(.note, "quantization", "\(scheme) is left out: it is computed exactly")
      }
      if !inspection.unknownSettings.isEmpty {
        add(.note, "settings", "not known and not used: \(listed(inspection.unknownSettings))")
      }
      if let prepared = WeightPreparation.prepared(folder, configuration) {
        if prepared.isWhole {
          add(.ok, "prepared weights", "made of these files, and every byte as it was written")
        } else {
          add(
            .failed, "prepared weights", "\(prepared.path): damaged",
            advice: "'mlxserve prepare --remove' deletes them; then prepare them again.")
        }
      }
      let unused = inspection.unusedTensors
      if !unused.isEmpty {
        add(.note, "unused tensors", "\(unused.count) that text generation does not need: \(listed(unused))")
      }
      return inspection
    } catch {
      fail("weights", error)
      return nil
    }
  }

  func quantization(_ folder: ModelFolder) -> String {
    if let blocks = folder.blockWords { return "blocks of " + blocks }
    if let method = folder.quantization.method { return "in the layout of \(method)" }
    guard let base = folder.quantization.base ?? folder.storedQuantization else { return "not quantized" }
    let words = "\(base.mode.rawValue), \(base.bits) bits in groups of \(base.groupSize)"
    return folder.quantization.base == nil ? words + ", as the tensors say: config.json does not" : words
  }
}

// MARK: - Text

extension Verification {
  /// What most tokenizers give back as it was: scripts, digits, white space, characters of several scalars.
  static let samples = [
    "The quick brown fox jumps over the lazy dog.", "for i in range(10):\n    print(i, end=\"\")\n",
    "Größe, naïve, 東京, Привет, مرحبا", "👩‍👩‍👧 5 × 7 = 35",
  ]

  /// - Parameter rows: tokens of the model; nil where that is not known.
  mutating func checkTokenizer(rows: Int?) -> Tokenizer? {
    let isGGUF = ModelFolder.isGGUF(path)
    guard isGGUF || File.isDirectory(path) else {
      skip("tokenizer")
      return nil
    }
    let tokenizer: Tokenizer
    do {
      let file = path + "/tokenizer.json"
      guard isGGUF || File.exists(file) else { throw PipelineError.noTokenizer(folder: path) }
      // A folder's is read also where its weights are damaged.
      tokenizer =
        isGGUF
        ? try ModelFolder(path: path).tokenizer()
        : try Tokenizer(tokenizerJSON: try File.read(file, limit: 256 << 20))
    } catch {
      fail("tokenizer", error)
      return nil
    }
    let words = "\(tokenizer.vocabularySize) tokens"
    if let rows, tokenizer.vocabularySize > rows {
      // Gemma 3's tokenizer marks images, of which its small models know nothing.
      let isHarmless = (rows..<tokenizer.vocabularySize).allSatisfy { tokenizer.isAdded(Int32($0)) }
      add(
        isHarmless ? .note : .failed, "tokenizer",
        "\(words), but the model has \(rows) of them"
          + (isHarmless
            ? "; the others are markers of the tokenizer, which no answer holds and no prompt may" : ""),
        advice: isHarmless ? nil : "take tokenizer.json and the weights from the same repository.")
      if !isHarmless { return nil }
    }
    let changed = Self.samples.filter { sample in
      let tokens = tokenizer.encode(sample, addSpecialTokens: false)
      return !tokenizer.decode(tokens, skipSpecialTokens: true).utf8.elementsEqual(sample.utf8)
    }
    if changed.isEmpty {
      add(.ok, "tokenizer", "\(words); \(Self.samples.count) sample texts come back as they were")
    } else {
      add(
        .note, "tokenizer",
        "\(words); \(changed.count) of \(Self.samples.count) sample texts come back changed, "
          + "as tokenizers do that normalise text or lack characters: \(quoted(changed[0]))")
    }
    return tokenizer
  }

  private mutating func checkEnds(
    _ folder: ModelFolder, _ tokenizer: Tokenizer?, _ inspection: ModelInspection?
  ) {
    guard let tokenizer else { return skip("end of text") }
    let named = folder.endTokens(tokenizer, nil)
    // What is wrong with the template is another check's matter.
    let ends = folder.endTokens(tokenizer, try? folder.template()).sorted()
    guard !ends.isEmpty else {
      return add(
        .note, "end of text", "no token ends an answer: every one runs to its limit",
        advice: "set eos_token_id in generation_config.json.")
    }
    if let rows = inspection?.vocabularySize, let high = ends.last, Int(high) >= rows {
      return add(
        .failed, "end of text", "token \(high) ends an answer, but the model has only \(rows) tokens",
        advice: "correct eos_token_id in generation_config.json and config.json.")
    }
    let names = ends.map { id in
      "\(id) \(quoted(tokenizer.token(of: id) ?? "?"))" + (named.contains(id) ? "" : " (the chat template's)")
    }
    add(.ok, "end of text", names.joined(separator: ", "))
  }

  /// Most bytes that are told.
  private static let toldBytes = 16

  private mutating func checkBytes(_ tokenizer: Tokenizer?) {
    guard let tokenizer else { return skip("bytes") }
    let missing = tokenizer.missingBytes
    guard !missing.isEmpty else {
      return add(.ok, "bytes", "every byte of UTF-8 is a token: an answer can be held to any text")
    }
    let told = missing.prefix(Self.toldBytes).joined(separator: " ")
    let more = missing.count > Self.toldBytes ? " and \(missing.count - Self.toldBytes) more" : ""
    add(
      .note, "bytes",
      "no token has alone the byte\(missing.count == 1 ? "" : "s") \(told)\(more): "
        + "texts with \(missing.count == 1 ? "it" : "them") are left out of schemas, choices and grammars")
  }

  private static let conversation: [JSONValue] = [
    ["role": "user", "content": "What is two and two?"], ["role": "assistant", "content": "Four."],
    ["role": "user", "content": "And three more?"],
  ]

  private mutating func checkTemplate(_ folder: ModelFolder, _ tokenizer: Tokenizer?) {
    do {
      guard let template = try folder.template() else {
        return add(.note, "chat template", "none: a base model, for /v1/completions only")
      }
      let prompt = try template.render(Conversation(messages: Self.conversation))
      guard prompt.contains("And three more?") else {
        return add(
          .failed, "chat template", "loses the last message: \(quoted(prompt))",
          advice: "take chat_template.jinja from the model's repository.")
      }
      let format = template.format
      let tools = template.supportsTools ? "tools (\(format.toolSyntax.rawValue))" : "no tools"
      let reasoning =
        format.supportsReasoning
        ? "reasoning (\(format.reasoning.rawValue)\(format.supportsThinkingSwitch ? ", can be switched off" : ""))"
        : "no reasoning"
      let tokens = tokenizer.map { $0.encode(prompt, addSpecialTokens: false).count }
      add(
        .ok, "chat template",
        "\(tools), \(reasoning); three messages give a prompt of "
          + (tokens.map { "\($0) tokens" } ?? "\(prompt.utf8.count) bytes"))
    } catch {
      fail("chat template", error, advice: "take chat_template.jinja from the model's repository.")
    }
  }

  private mutating func checkSampling(_ folder: ModelFolder) {
    do {
      let recommended = try SamplingOverrides(generationConfig: folder.generationConfig)
      let words = SamplingParameters.words(DefaultSampling.local.settings(beside: recommended))
      let place = folder.isGGUF ? "the file" : "generation_config.json"
      let source =
        !recommended.isEmpty
        ? "by \(place)"
        : folder.generationConfig == nil && !folder.isGGUF
          ? "this server's defaults: there is no generation_config.json"
          : "this server's defaults: \(place) says nothing of it"
      add(.ok, "sampling", "\(words) (\(source))")
    } catch {
      fail("sampling", error, advice: "correct generation_config.json.")
    }
  }
}

// MARK: - Running

extension Verification {
  /// False when a run would not fit.
  private mutating func checkMemory(_ folder: ModelFolder, _ inspection: ModelInspection) -> Bool {
    let perThousand = inspection.kvBytesPerToken * 1000
    let tokens = min(inspection.contextLength, inspection.kvMemoryBytes / max(1, inspection.kvBytesPerToken))
    let words =
      "\(MemoryLimit.words(folder.weightBytes)) of weights and \(MemoryLimit.words(perThousand)) per 1000 tokens of context; "
      + "this machine has \(MemoryLimit.words(Machine.memoryBytes))"
    guard tokens >= min(256, inspection.contextLength) else {
      add(
        .failed, "memory", words + ", too little for a conversation",
        advice: "take a smaller model or one of fewer bits.")
      return false
    }
    let all = tokens == inspection.contextLength ? ", all that the model was made for" : ""
    add(.ok, "memory", words + ": room for \(tokens) tokens\(all)")
    return true
  }

  /// The divergence from which finer arithmetic is advised, nats per token (docs/decisions/005).
  private static let faithful = 0.002

  /// Logits must be finite; the fast mode should say about the same as the exact one.
  private mutating func checkModes(_ tokenizer: Tokenizer, _ inspection: ModelInspection) {
    do {
      let text = tokenizer.encode(Self.samples.joined(separator: "\n"), addSpecialTokens: false)
      let opening = PerplexityCommand.opening(of: tokenizer)
      let evaluator: PerplexityEvaluator
      do {
        evaluator = try PerplexityEvaluator(configuration, comparing: true)
      } catch .noFastMode {
        var exact = configuration
        exact.computeMode = .exact
        evaluator = try PerplexityEvaluator(exact, comparing: false)
      }
      let window = max(min(96, inspection.contextLength), opening.count + 2)
      let result = try evaluator.evaluate(text, opening: opening, window: window, limit: 64)
      let finite = "logits of \(result.tokens) tokens are finite"
      guard let comparison = result.comparison else {
        return add(.ok, "fast and exact", finite + "; this machine computes both modes alike")
      }
      let divergence = result.mean(comparison.divergence)
      let share = 100 * result.mean(Double(comparison.sameLikeliest))
      let words =
        "\(finite); the fast mode is \(fixed(divergence, 4)) nats per token from the exact one, "
        + "\(fixed(share, 0)) % of the likeliest tokens agree"
      guard divergence < Self.faithful else {
        return add(
          .note, "fast and exact", words,
          advice: "serve with --compute fine, which is nearly exact at two thirds of the speed.")
      }
      add(.ok, "fast and exact", words)
    } catch {
      fail("fast and exact", error, advice: "the weights are damaged: download them again.")
    }
  }

  private mutating func checkGeneration(_ tokenizer: Tokenizer, _ inspection: ModelInspection) {
    do {
      var small = configuration
      small.maxContext = min(256, inspection.contextLength)
      small.maxSequences = 1
      let engine = try EngineClient.start(small)
      defer { engine.stop() }
      let prompt = tokenizer.encode("The capital of France is", addSpecialTokens: true)
      var sampling = SamplingParameters()
      sampling.temperature = 0
      let generation = try engine.submit(
        GenerationRequest(
          promptTokens: prompt, maxTokens: 8, sampling: sampling, tokenLimit: tokenizer.vocabularySize))
      var tokens: [Int32] = []
      while case .element(let event) = generation.next() {
        switch event {
        case .token(let token): tokens.append(token.id)
        case .failed(let error): throw error
        case .started, .progress, .promptLogprobs, .finished: break
        }
      }
      let text = tokenizer.decode(tokens, skipSpecialTokens: false)
      add(
        .ok, "generation",
        "\(engine.computeName): after \(quoted("The capital of France is")) come \(tokens.count) tokens, "
          + quoted(text))
    } catch {
      fail("generation", error)
    }
  }
}

// MARK: - Words

extension Verification {
  /// The first few of many, and how many more there are.
  func listed(_ names: [String]) -> String {
    let shown = names.prefix(3).map(quoted).joined(separator: ", ")
    return names.count > 3 ? shown + " and \(names.count - 3) more" : shown
  }

  /// One line whatever a file put into a name.
  func quoted(_ text: String) -> String { JSONValue.string(String(text.prefix(80))).text }
}
