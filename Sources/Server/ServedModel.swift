// What the routes know of the model: its name, its text side, and the service that generates.

package import Chat
package import Decoding
import Grammar
package import Inference
package import Tokenizers

package struct ServedModel: Sendable {
  /// The id in requests, answers and /v1/models.
  package var id: String
  /// Seconds since 1970 in /v1/models.
  package var created: Int
  package var service: any GenerationService
  package let tokenizer: Tokenizer
  /// Nil for a base model without a chat template: chat is refused then.
  package var template: ChatTemplate?
  /// Conversations to prompts, with special tokens from the template only.
  package let prompts: PromptEncoder
  /// The ids that end an answer.
  package let endTokens: Set<Int32>
  /// The constraints of recent requests, compiled.
  let grammars: GrammarCache
  /// What applies where a request says nothing.
  package var sampling: SamplingParameters
  /// Changes when the same request could get another answer: weights, build.
  package var systemFingerprint: String

  package init(
    id: String, created: Int, service: any GenerationService, tokenizer: Tokenizer, template: ChatTemplate?,
    endTokens: Set<Int32>, sampling: SamplingParameters = SamplingParameters(),
    systemFingerprint: String = "fp_mlxserve"
  ) {
    self.id = id
    self.created = created
    self.service = service
    self.tokenizer = tokenizer
    self.template = template
    prompts = PromptEncoder(tokenizer: tokenizer)
    self.endTokens = endTokens
    grammars = GrammarCache(vocabulary: GrammarVocabulary(tokenizer: tokenizer, endTokens: endTokens))
    self.sampling = sampling
    self.systemFingerprint = systemFingerprint
  }

  /// Ids that exist both in the tokenizer and in the model.
  var vocabularySize: Int { min(tokenizer.vocabularySize, service.limits.vocabularySize) }
}
