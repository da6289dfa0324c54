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
      self.mode = mode
      self.bits = bits
      self.groupSize = groupSize
    }
  }

  /// `model_type` of config.json.
  package var modelType: String?
  package var computeMode = "exact"
  /// Of most weights; nil when they are not quantized.
  package var quantization: Quantization?

  package init() {}
}

/// A model in memory, with all that turns text into its tokens and its tokens into text.
package struct LoadedModel: Sendable {
  /// What a model can be used for.
  package enum Capability: Sendable {
    /// Text that goes on from a prompt.
    case generation(any GenerationService)
  }

  /// The name by which requests name it.
  package var id: String
  /// When it was loaded, seconds since 1970.
  package var created: Int
  package let capability: Capability
  package let tokenizer: Tokenizer
  /// Nil for a base model without a chat template: chat is refused then.
  package var template: ChatTemplate?
  /// Conversations to prompts, with special tokens from the template only.
  package let prompts: PromptEncoder
  /// The ids that end an answer.
  package let endTokens: Set<Int32>
  /// Special tokens that say nothing to the output parser: they have no text for the reader.
  package let controlTokens: Set<Int32>
  /// The constraints of recent requests, compiled.
  package let grammars: GrammarCache
  /// What the model's authors recommend, where a request says nothing.
  package var sampling: SamplingOverrides = [:]
  /// Changes when the same request could get another answer: weights, build.
  package var systemFingerprint = "fp_mlxserve"
  package var facts = ModelFacts()
  /// What it takes beside text.
  package let media: MediaRules

  package init(
    id: String, created: Int, service: any GenerationService, tokenizer: Tokenizer, template: ChatTemplate?,
    endTokens: Set<Int32>, media: MediaRules = MediaRules()
  ) {
    self.id = id
    self.created = created
    capability = .generation(service)
    self.tokenizer = tokenizer
    self.template = template
    let marks = MediaKind.allCases.compactMap(media.marks)
    prompts = PromptEncoder(
      tokenizer: tokenizer, mediaTokens: marks.flatMap { [$0.opening, $0.soft, $0.closing] })
    self.media = media
    self.endTokens = endTokens
    controlTokens = OutputFormat.silentTokens(of: tokenizer)
    grammars = GrammarCache(vocabulary: GrammarVocabulary(tokenizer: tokenizer, endTokens: endTokens))
  }

  /// What generates.
  package var service: any GenerationService {
    switch capability {
    case .generation(let service): service
    }
  }

  /// Ids that exist both in the tokenizer and in the model.
  package var vocabularySize: Int { min(tokenizer.vocabularySize, service.limits.vocabularySize) }
}
