// Compiled grammars of one vocabulary, kept for the next request with the same pattern.

import Synchronization

/// For any thread. Least recently used ones go first, when they are too many or take too much memory.
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
  private let byteLimit: Int
  private let memory = GrammarMemory()
  private let content = Mutex(Content())

  /// - Parameters:
  ///   - limit: most grammars.
  ///   - byteLimit: about the most memory for all of them: up to a quarter for their automata, the rest for their
  ///     caches in equal parts. Grammars that have left the cache and are still in use are not counted.
  package init(vocabulary: GrammarVocabulary, limit: Int = 32, byteLimit: Int = 256 << 20) {
    self.vocabulary = vocabulary
    self.limit = max(1, limit)
    self.byteLimit = byteLimit
  }

  /// About how much memory the grammars take.
  package var byteCount: Int {
    let kept = content.withLock { $0.entries.map(\.grammar) }
    return kept.reduce(0) { $0 + $1.fixedByteCount + $1.cachedByteCount }
  }

  /// The grammar of a pattern. Compiles outside the lock: two threads may both compile a new one.
  package func grammar(for pattern: Pattern) throws(GrammarError) -> CompiledGrammar {
    if let known = find(pattern) { return known }
    let made = try CompiledGrammar(pattern, vocabulary: vocabulary, memory: memory)
    let kept = content.withLock { content in
      var bytes = content.entries.reduce(made.fixedByteCount) { $0 + $1.grammar.fixedByteCount }
      while content.entries.count >= limit || bytes > byteLimit / 4,
        let oldest = content.entries.indices.min(by: {
          content.entries[$0].lastUse < content.entries[$1].lastUse
        })
      {
        bytes -= content.entries.remove(at: oldest).grammar.fixedByteCount
      }
      content.clock += 1
      content.entries.append(Entry(pattern: pattern, grammar: made, lastUse: content.clock))
      memory.set(min(GrammarMemory.most, byteLimit / 4 * 3 / content.entries.count))
      return content.entries.map(\.grammar)
    }
    // Each may have become entitled to less; outside the lock, for a mask may be in the making.
    for grammar in kept { grammar.trim() }
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
