// The vocabulary of one model as the grammar sees it: the bytes of every ordinary token.

package import Tokenizers

/// Built once per model and shared by all grammars.
package final class GrammarVocabulary: Sendable {
  /// Ids are below this.
  package let count: Int
  /// The ids that end an answer: allowed when the pattern is complete.
  package let endTokens: Set<Int32>

  /// O(vocabulary).
  package init(tokenizer: Tokenizer, endTokens: Set<Int32>) {
    count = tokenizer.vocabularySize
    self.endTokens = endTokens
  }
}
