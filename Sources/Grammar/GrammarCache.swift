// Compiled grammars of one vocabulary, kept for the next request with the same pattern.

import Synchronization

/// For any thread. Least recently used ones go first.
package final class GrammarCache: Sendable {
  private struct Entry {
    var pattern: Pattern
    var grammar: CompiledGrammar
    var lastUse: UInt64
  }

  private struct Content {
    var entries: [Entry] = []
    var clock: UInt64 = 0
  }

  private let vocabulary: GrammarVocabulary
  private let limit: Int
  private let content = Mutex(Content())

  /// - Parameter limit: most grammars. Each takes up to about 100 MiB once it is used, mostly a few.
  package init(vocabulary: GrammarVocabulary, limit: Int = 32) {
    self.vocabulary = vocabulary
    self.limit = max(1, limit)
  }

  /// The grammar of a pattern. Compiles outside the lock: two threads may both compile a new one.
  package func grammar(for pattern: Pattern) throws(GrammarError) -> CompiledGrammar {
    if let known = find(pattern) { return known }
    let made = try CompiledGrammar(pattern, vocabulary: vocabulary)
    content.withLock { content in
      if content.entries.count >= limit,
        let oldest = content.entries.indices.min(by: {
          content.entries[$0].lastUse < content.entries[$1].lastUse
        })
      {
        content.entries.remove(at: oldest)
      }
      content.clock += 1
      content.entries.append(Entry(pattern: pattern, grammar: made, lastUse: content.clock))
    }
    return made
  }

  private func find(_ pattern: Pattern) -> CompiledGrammar? {
    content.withLock { content in
      guard let index = content.entries.firstIndex(where: { $0.pattern.isSame(as: pattern) }) else {
        return nil
      }
      content.clock += 1
      content.entries[index].lastUse = content.clock
      return content.entries[index].grammar
    }
  }
}
