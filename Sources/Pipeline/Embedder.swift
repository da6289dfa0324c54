// Texts to vectors: prompts, tokens and truncation before the encoder, cutting and normalising after it.

package import Checkpoint
package import Inference
import JSON
import Platform
package import Tokenizers

/// The text side of an encoder. Usable from any thread.
package struct Embedder: Sendable {
  /// A text, or its tokens: those are encoded as they are.
  package enum Input: Sendable {
    case text(String)
    case tokens([Int32])
  }

  /// Which end of a text goes when it is too long.
  package enum Truncation: String, Sendable, CaseIterable {
    /// The end.
    case right
    /// The beginning.
    case left
  }

  /// What is put in front of texts.
  package enum Prompt: Sendable {
    /// The model's own default, if it has one.
    case usual
    /// One of the model's prompts by its name.
    case named(String)
    /// What the model has for questions, and for what is found by them; nothing where it makes no difference.
    case query, document
    case literal(String)
    /// Nothing.
    case none
  }

  /// How texts are encoded.
  package struct Options: Sendable {
    package var prompt = Prompt.usual
    /// Nil refuses texts that are too long.
    package var truncation: Truncation?
    /// Most tokens of a text; nil and larger numbers are the model's limit.
    package var maxTokens: Int?
    /// Elements of a vector; nil for all that the model has.
    package var dimensions: Int?
    /// Whether vectors have the length 1.
    package var normalizes = true
    package var priority = EmbeddingPriority.interactive
    /// The client, as a number that says nothing else.
    package var tenant: UInt64 = 0

    package init() {}
  }

  /// Texts as the encoder gets them.
  package struct Prepared: Sendable {
    package internal(set) var texts: [EmbeddingText] = []
    /// Indices of texts that were cut.
    package internal(set) var truncated: [Int] = []
    /// Tokens of all texts, special ones included.
    package var tokenCount: Int { texts.reduce(0) { $0 + $1.tokens.count } }
  }

  package let service: any EmbeddingService
  package let tokenizer: Tokenizer
  package let prompts: EmbedderPrompts
  /// Most tokens of a text, special ones included.
  package let maxTokens: Int
  /// Whether vectors may be cut to fewer elements: models are trained for it, or not.
  package let allowsFewerDimensions: Bool
  /// Vectors of nomic-embed-text-v1.5 are normalised as a whole before they are cut, as its authors say; others are cut as
  /// they are, as sentence-transformers does.
  private let centersBeforeCut: Bool
  private let lowercases: Bool
  /// How two texts are read together.
  let pairs: PairReader
  /// What a classifier's labels are called.
  package let labels: [String]

  /// - Parameter cutsAny: whether vectors of models may be cut that were not trained for it.
  package init(
    service: any EmbeddingService, tokenizer: Tokenizer, folder: ModelFolder, cutsAny: Bool = false
  ) throws(CheckpointError) {
    let sentences = try SentenceFolder(folder)
    (self.service, self.tokenizer) = (service, tokenizer)
    prompts = EmbedderPrompts(sentences, folder)
    lowercases = sentences.lowercases
    let type = folder.config["model_type"]?.stringValue ?? ""
    // Some tokenizers name a length that is their placeholder for none; positions bound it in any case.
    maxTokens = min(sentences.maxLength ?? .max, service.limits.maxTokens)
    allowsFewerDimensions = cutsAny || Self.isMatryoshka(folder, type)
    centersBeforeCut = type == "nomic_bert" && folder.name.lowercased().contains("v1.5")
    let judge = folder.task == .rerank && type == "qwen3" ? JudgePrompt(tokenizer) : nil
    pairs = PairReader(tokenizer, judge: judge, lowercases: sentences.lowercases)
    labels = Self.labels(folder, count: service.limits.labels)
  }

  /// `id2label`, as far as there are labels of the model.
  private static func labels(_ folder: ModelFolder, count: Int) -> [String] {
    (0..<count).map { folder.config["id2label"]?["\($0)"]?.stringValue ?? "LABEL_\($0)" }
  }

  /// For tests: an encoder without a folder, its prompts as names and texts.
  package init(
    service: any EmbeddingService, tokenizer: Tokenizer, prompts: KeyValuePairs<String, String> = [:],
    labels: [String] = []
  ) {
    (self.service, self.tokenizer) = (service, tokenizer)
    self.prompts = EmbedderPrompts(prompts.map { SentencePrompt(name: $0, text: $1) })
    maxTokens = service.limits.maxTokens
    allowsFewerDimensions = true
    centersBeforeCut = false
    lowercases = false
    pairs = PairReader(tokenizer, judge: nil, lowercases: false)
    self.labels = labels
  }

  /// Whether the model was trained so that the beginning of its vector is a vector.
  private static func isMatryoshka(_ folder: ModelFolder, _ type: String) -> Bool {
    if folder.config["matryoshka_dims"]?.arrayValue != nil { return true }
    if ["gemma3_text", "nomic_bert", "qwen3"].contains(type) { return true }
    let name = folder.name.lowercased()
    return ["arctic-embed-l-v2", "arctic-embed-m-v2", "gte-multilingual", "modernbert-embed", "mxbai-embed"]
      .contains(where: name.contains)
  }

  /// Elements of a vector.
  package var dimensions: Int { service.limits.dimensions }

  // MARK: Before the encoder

  /// Tokens of all inputs, checked.
  ///
  /// - Parameter output: what is wanted of each.
  /// - Throws: what is wrong with which of them.
  package func prepare(
    _ inputs: [Input], _ options: Options = Options(), output: EmbeddingText.Output = .vector
  ) throws(EmbeddingError) -> Prepared {
    if let wanted = options.dimensions { try check(dimensions: wanted) }
    let prompt = try text(of: options.prompt)
    let limit = min(max(1, options.maxTokens ?? maxTokens), maxTokens)
    let frame = tokenizer.textFrame
    var unpooled = 0
    if !prompt.isEmpty, !service.limits.poolsPrompt {
      unpooled = frame.before.count + tokenizer.encode(prompt, addSpecialTokens: false).count
    }
    var prepared = Prepared()
    for (index, input) in inputs.enumerated() {
      var tokens: [Int32]
      var specials: (before: [Int32], after: [Int32]) = ([], [])
      switch input {
      case .text(let text):
        let whole = prompt + text
        tokens = tokenizer.encode(lowercases ? whole.lowercased() : whole, addSpecialTokens: false)
        specials = frame
      case .tokens(let ids): tokens = ids
      }
      let room = limit - specials.before.count - specials.after.count
      if tokens.count > room {
        guard let truncation = options.truncation else {
          throw .tooLong(index: index, tokens: tokens.count + limit - room, limit: limit)
        }
        guard room > 0 else { throw .tooLong(index: index, tokens: limit - room, limit: limit) }
        tokens = Array(truncation == .right ? tokens.prefix(room) : tokens.suffix(room))
        prepared.truncated.append(index)
      }
      tokens = specials.before + tokens + specials.after
      guard !tokens.isEmpty else { throw .empty(index: index) }
      for token in tokens where token < 0 || Int(token) >= service.limits.vocabularySize {
        throw .tokenOutOfRange(index: index, token: token, vocabularySize: service.limits.vocabularySize)
      }
      let skipped = if case .text = input { min(unpooled, tokens.count - 1) } else { 0 }
      prepared.texts.append(EmbeddingText(tokens: tokens, unpooled: skipped, output: output))
    }
    return prepared
  }

  private func check(dimensions wanted: Int) throws(EmbeddingError) {
    guard (1...dimensions).contains(wanted), wanted == dimensions || allowsFewerDimensions else {
      throw .dimensions(wanted: wanted, native: dimensions, canCut: allowsFewerDimensions)
    }
  }

  /// The text of a prompt.
  package func text(of prompt: Prompt) throws(EmbeddingError) -> String {
    switch prompt {
    case .none: return ""
    case .literal(let text): return text
    case .usual: return prompts.usual
    case .query: return prompts.query
    case .document: return prompts.document
    case .named(let name):
      guard let text = prompts[name] else { throw .unknownPrompt(name, known: prompts.names) }
      return text
    }
  }

  // MARK: The encoder

  /// What the encoder makes of prepared texts, in their order. Equal texts are encoded once. Blocks.
  ///
  /// - Parameters:
  ///   - poll: how often `isUnwanted` is asked, seconds.
  ///   - isUnwanted: whether no client waits for the result any more.
  package func encode(
    _ texts: [EmbeddingText], priority: EmbeddingPriority = .interactive, tenant: UInt64 = 0,
    poll: Double = 0.025, isUnwanted: () -> Bool = { false }
  ) throws(EmbeddingError) -> [[Float]] {
    var places: [Key: Int] = [:]
    var distinct: [EmbeddingText] = []
    let order = texts.map { text in
      let key = Key(tokens: text.tokens, second: text.second, unpooled: text.unpooled)
      if let place = places[key] { return place }
      places[key] = distinct.count
      distinct.append(text)
      return distinct.count - 1
    }
    let job: EmbeddingJob
    do throws(InferenceError) {
      job = try service.submit(EmbeddingRequest(distinct, priority: priority, tenant: tenant))
    } catch {
      throw .engine(error)
    }
    defer { job.cancel() }
    var results = [[Float]](repeating: [], count: distinct.count)
    var nextQuestion = Instant.now.adding(seconds: poll)
    while true {
      switch job.next(until: nextQuestion) {
      case .element(.result(let index, let values)): results[index] = values
      case .element(.finished): return order.map { results[$0] }
      case .element(.failed(let error)): throw .engine(error)
      case .closed: throw .engine(.draining)
      case .timedOut: break
      }
      // Results come all the time: the question must not wait for a pause.
      if Instant.now >= nextQuestion {
        if isUnwanted() { throw .unwanted }
        nextQuestion = Instant.now.adding(seconds: poll)
      }
    }
  }

  private struct Key: Hashable {
    let tokens: [Int32]
    let second: Int?
    let unpooled: Int
  }

  /// Vectors of texts, in their order. Blocks.
  package func embed(
    _ inputs: [Input], _ options: Options = Options(), isUnwanted: () -> Bool = { false }
  ) throws(EmbeddingError) -> (vectors: [[Float]], prepared: Prepared) {
    let prepared = try prepare(inputs, options)
    let raw = try encode(
      prepared.texts, priority: options.priority, tenant: options.tenant, isUnwanted: isUnwanted)
    return (raw.map { finish($0, options) }, prepared)
  }

  // MARK: Behind the encoder

  /// A pooled vector as it is wanted.
  package func finish(_ vector: [Float], _ options: Options) -> [Float] {
    var vector = vector
    if let wanted = options.dimensions, wanted < vector.count {
      if centersBeforeCut { vector = Self.centered(vector) }
      vector = Array(vector.prefix(wanted))
    }
    return options.normalizes ? Self.normalized(vector) : vector
  }

  /// The vector with the length 1; zeros stay zeros.
  package static func normalized(_ vector: [Float]) -> [Float] {
    let length = vector.reduce(0.0) { $0 + Double($1) * Double($1) }.squareRoot()
    let divisor = max(length, 1e-12)
    return vector.map { Float(Double($0) / divisor) }
  }

  /// A layer norm without weights.
  private static func centered(_ vector: [Float]) -> [Float] {
    let count = Double(max(1, vector.count))
    let mean = vector.reduce(0.0) { $0 + Double($1) } / count
    let variance = vector.reduce(0.0) { $0 + (Double($1) - mean) * (Double($1) - mean) } / count
    let divisor = (variance + 1e-5).squareRoot()
    return vector.map { Float((Double($0) - mean) / divisor) }
  }

  /// How near two vectors are, -1 to 1; 0 where one is zero.
  package static func cosine(_ a: [Float], _ b: [Float]) -> Float {
    var (product, lengthA, lengthB) = (0.0, 0.0, 0.0)
    for (x, y) in zip(a, b) {
      product += Double(x) * Double(y)
      lengthA += Double(x) * Double(x)
      lengthB += Double(y) * Double(y)
    }
    let divisor = (lengthA * lengthB).squareRoot()
    return divisor > 0 ? Float(product / divisor) : 0
  }
}

/// Why texts have no vectors; `index` counts the inputs.
package enum EmbeddingError: Error, Sendable, CustomStringConvertible {
  /// The index is -1 for the query of pairs, which is too long without any document.
  case tooLong(index: Int, tokens: Int, limit: Int)
  case empty(index: Int)
  case tokenOutOfRange(index: Int, token: Int32, vocabularySize: Int)
  case unknownPrompt(String, known: [String])
  case dimensions(wanted: Int, native: Int, canCut: Bool)
  /// All inputs together.
  case tooManyTokens(tokens: Int, limit: Int)
  case engine(InferenceError)
  /// Nobody waits any more.
  case unwanted

  package var description: String {
    switch self {
    case .tooLong(let index, let tokens, let limit):
      "input \(index) has \(tokens) tokens, and the model takes \(limit); shorten it, or ask for truncation"
    case .empty(let index): "input \(index) has no tokens"
    case .tokenOutOfRange(let index, let token, let size):
      "input \(index): token id \(token) is outside the model's vocabulary of \(size) tokens"
    case .unknownPrompt(let name, let known):
      known.isEmpty
        ? "the model has no prompts, and so none that is called '\(name)'"
        : "the model has no prompt '\(name)'; it has \(known.map { "'\($0)'" }.joined(separator: ", "))"
    case .dimensions(let wanted, let native, let canCut):
      canCut
        ? "vectors have from 1 to \(native) elements, not \(wanted)"
        : "vectors of this model have \(native) elements, and it was not trained to have them cut to \(wanted)"
    case .tooManyTokens(let tokens, let limit):
      "all inputs together have \(tokens) tokens, more than \(limit); send fewer at once"
    case .engine(let error): "\(error)"
    case .unwanted: "no client waits for the vectors any more"
    }
  }
}
