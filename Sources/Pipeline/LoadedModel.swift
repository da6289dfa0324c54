// A model folder that answers: its name, its text side, and the service that generates.

package import Chat
package import Grammar
package import Inference
package import Media
package import Sampling
package import Tokenizers

/// What is told about a model and decides nothing.
package struct ModelFacts: Sendable {
  /// How weights are stored.
  package struct Quantization: Sendable {
    /// `affine` or the name of a floating-point format, as in config.json.
    package var mode: String
    /// Of one weight.
    package var bits: Int
    /// Weights that share a scale.
    package var groupSize: Int

    package init(mode: String, bits: Int, groupSize: Int) {
      (self.mode, self.bits, self.groupSize) = (mode, bits, groupSize)
    }
  }

  /// `model_type` of config.json.
  package var modelType: String?
  package var computeMode = "exact"
  /// The instruction set in use, and how it is computed with: `avx2 fast, q16 cache`.
  package var computeName = "reference"
  /// Of most weights; nil when they are not quantized.
  package var quantization: Quantization?
  /// The block type of most weights of a GGUF file, such as `Q4_K`.
  package var blocks: String?
  /// Of the checkpoint, whatever of it the model uses; nil where nobody has counted.
  package var parameterCount: Int?

  package init() {}
}

/// A model in memory, with all that turns text into its tokens and its tokens into text.
package struct LoadedModel: Sendable {
  /// What a model can be used for.
  package enum Capability: Sendable {
    /// Text that goes on from a prompt.
    case generation(any GenerationService)
    /// Vectors of texts, or scores.
    case embedding(Embedder)
    /// Text of recordings.
    case transcription(any SpeechService)
  }

  /// The name by which requests name it.
  package var id: String
  /// When it was loaded, seconds since 1970.
  package var created: Int
  package private(set) var capability: Capability
  package let tokenizer: Tokenizer
  /// Nil for a base model without a chat template: chat is refused then.
  package var template: ChatTemplate?
  /// Conversations to prompts, with special tokens from the template only.
  package let prompts: PromptEncoder
  /// Answers whose tokens are not the tokenizer's.
  package internal(set) var written = WrittenAnswers()
  /// The ids that end an answer.
  package let endTokens: Set<Int32>
  /// Special tokens that say nothing to the output parser: they have no text for the reader.
  package let controlTokens: Set<Int32>
  /// The constraints of recent requests, compiled.
  package let grammars: GrammarCache
  /// How it fills in the middle; nil where the vocabulary has no marks for it.
  package var fill: FillInMiddle?
  /// What the model's authors recommend; empty where its files name no setting.
  package var recommended: SamplingOverrides = [:]
  /// What holds where they recommend nothing.
  package var defaultSampling = DefaultSampling.local
  /// What holds where a request says nothing.
  package var sampling: SamplingOverrides { defaultSampling.settings(beside: recommended) }
  /// Most tokens of an answer for which nobody sets a limit.
  package var maxAnswer = Self.usualMaxAnswer
  /// What makers of reasoning models recommend for hard questions, thinking included (Qwen3's model card says 32,768).
  package static let usualMaxAnswer = 32_768
  /// Whether the template is asked for reasoning where a request says nothing; nil leaves it to the template.
  package var thinking: Bool?
  /// Changes when the same request could get another answer: version, model, cache, arithmetic; ends with the last of them.
  package var systemFingerprint = "fp_mlxserve"
  /// The same in full, for receipts.
  package var identity = ModelIdentity()
  /// The adapter that it computes with; nil for the model as it is.
  package internal(set) var adapter: ModelAdapter?
  /// The model with each of its adapters.
  package internal(set) var adapted: [LoadedModel] = []
  package var facts = ModelFacts()
  /// What it takes beside text.
  package let media: MediaRules

  package init(
    id: String, created: Int, service: any GenerationService, tokenizer: Tokenizer, template: ChatTemplate?,
    endTokens: Set<Int32>, media: MediaRules = MediaRules()
  ) {
    (self.id, self.created) = (id, created)
    capability = .generation(service)
    (self.tokenizer, self.template) = (tokenizer, template)
    prompts = PromptEncoder(
      tokenizer: tokenizer, mediaTokens: media.reserved,
      margin: media.images.map { .init(token: $0.placeholder, text: $0.margin) })
    (self.media, self.endTokens) = (media, endTokens)
    controlTokens = OutputFormat.silentTokens(of: tokenizer, template?.format)
    fill = FillInMiddle(tokenizer)
    grammars = GrammarCache(vocabulary: GrammarVocabulary(tokenizer: tokenizer, endTokens: endTokens))
  }

  /// A model that makes vectors or scores.
  package init(id: String, created: Int, embedder: Embedder) {
    self.init(id: id, created: created, .embedding(embedder), embedder.tokenizer)
  }

  /// A model that writes down recordings.
  package init(id: String, created: Int, transcriber: any SpeechService) {
    self.init(id: id, created: created, .transcription(transcriber), transcriber.vocabulary.tokenizer)
  }

  /// A model without prompts.
  private init(id: String, created: Int, _ capability: Capability, _ tokenizer: Tokenizer) {
    (self.id, self.created) = (id, created)
    (self.capability, self.tokenizer) = (capability, tokenizer)
    prompts = PromptEncoder(tokenizer: tokenizer, mediaTokens: [])
    media = MediaRules()
    endTokens = []
    controlTokens = []
    grammars = GrammarCache(vocabulary: .nothing)
  }

  /// The same model, whose answers another service generates.
  func generating(by service: any GenerationService) -> LoadedModel {
    var copy = self
    copy.capability = .generation(service)
    return copy
  }

  /// SHA-256 in hexadecimal digits of what decides its answers, by name: `ModelIdentity.digests`, and of its adapter.
  package var digests: [(name: String, digest: String?)] {
    identity.digests + (adapter.map { [("adapter", $0.digest)] } ?? [])
  }

  /// What generates.
  ///
  /// - Throws: `cannotGenerate` for a model that makes vectors, or hears.
  package func generator() throws(InferenceError) -> any GenerationService {
    switch capability {
    case .generation(let service): return service
    case .embedding, .transcription: throw .cannotGenerate
    }
  }

  /// Whether it goes on with text.
  package var generates: Bool {
    if case .generation = capability { return true }
    return false
  }

  /// What makes vectors or scores; nil for a model that generates.
  package var embedder: Embedder? {
    switch capability {
    case .generation, .transcription: nil
    case .embedding(let embedder): embedder
    }
  }

  /// What writes down recordings; nil for any other model.
  package var transcriber: (any SpeechService)? {
    switch capability {
    case .generation, .embedding: nil
    case .transcription(let service): service
    }
  }

  /// Most tokens of a text, or of prompt and answer together.
  package var contextTokens: Int {
    switch capability {
    case .generation(let service): service.limits.maxContext
    case .embedding(let embedder): embedder.maxTokens
    case .transcription(let service): service.vocabulary.contextTokens
    }
  }

  /// Ids that exist both in the tokenizer and in the model.
  package var vocabularySize: Int {
    switch capability {
    case .generation(let service): min(tokenizer.vocabularySize, service.limits.vocabularySize)
    case .embedding(let embedder): min(tokenizer.vocabularySize, embedder.service.limits.vocabularySize)
    case .transcription: tokenizer.vocabularySize
    }
  }
}
