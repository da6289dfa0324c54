// Compiled grammars of one vocabulary and refusals, kept for the next request with the same pattern.

import Synchronization

/// For any thread. Least recently used ones go first, when they are too many or take too much memory: grammars make room
/// for grammars and refusals for refusals, so that nobody pushes out grammars with patterns that are refused.
package final class GrammarCache: Sendable {
  private struct Entry {
    let pattern: Pattern
    /// The grammar, or why there is none: a refusal takes as much work as a grammar.
    let result: Result<CompiledGrammar, GrammarError>
    /// Without the caches of the grammar.
    let fixedByteCount: Int
    var lastUse: UInt64 = 0

    init(_ pattern: Pattern, _ result: Result<CompiledGrammar, GrammarError>) {
      (self.pattern, self.result) = (pattern, result)
      fixedByteCount =
        switch result {
        case .success(let grammar): pattern.byteCount + grammar.fixedByteCount
        case .failure(let error): pattern.byteCount + "\(error)".utf8.count
        }
    }

    var isRefusal: Bool { grammar == nil }

    var grammar: CompiledGrammar? { if case .success(let grammar) = result { grammar } else { nil } }
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
  ///   - limit: most grammars, and most refusals.
  ///   - byteLimit: about the most memory for all of them: three sixteenths for patterns and automata, one for
  ///     refusals, the rest for the caches of the grammars in equal parts. Grammars that have left the cache and are still in use
  ///     are not counted.
  package init(vocabulary: GrammarVocabulary, limit: Int = 32, byteLimit: Int = 256 << 20) {
    self.vocabulary = vocabulary
    self.limit = max(1, limit)
    self.byteLimit = byteLimit
  }

  /// Bytes of UTF-8 that no answer with a pattern can have: no token has them alone.
  package var missingBytes: [UInt8] { vocabulary.missingBytes }

  /// About how much memory the grammars and refusals take.
  package var byteCount: Int {
    let kept = content.withLock { $0.entries }
    return kept.reduce(0) { $0 + $1.fixedByteCount + ($1.grammar?.cachedByteCount ?? 0) }
  }

  /// The grammar of a pattern. Compiles outside the lock: two threads may both compile a new one.
  ///
  /// - Parameter isUnwanted: whether nobody waits for the grammar any more; asked while it is compiled.
  /// - Throws: why the pattern is refused; `unwanted` when compiling was given up, which is not remembered.
  package func grammar(
    for pattern: Pattern, isUnwanted: @escaping () -> Bool = { false }
  ) throws(GrammarError) -> CompiledGrammar {
    if let known = find(pattern) { return try known.get() }
    let result: Result<CompiledGrammar, GrammarError>
    do throws(GrammarError) {
      let grammar = try CompiledGrammar(
        pattern, vocabulary: vocabulary, memory: memory, isUnwanted: isUnwanted)
      grammar.prepare()
      result = .success(grammar)
    } catch {
      guard error != .unwanted else { throw error }
      result = .failure(error)
    }
    keep(Entry(pattern, result))
    return try result.get()
  }

  /// Makes room among entries of its kind and adds an entry, unless it would take more than all of these may.
  private func keep(_ entry: Entry) {
    let room = byteLimit / 16 * (entry.isRefusal ? 1 : 3)
    guard entry.fixedByteCount <= room else { return }
    let grammars = content.withLock { content in
      var same = content.entries.indices.filter { content.entries[$0].isRefusal == entry.isRefusal }
      var bytes = same.reduce(entry.fixedByteCount) { $0 + content.entries[$1].fixedByteCount }
      while same.count >= limit || bytes > room,
        let oldest = same.min(by: { content.entries[$0].lastUse < content.entries[$1].lastUse })
      {
        bytes -= content.entries.remove(at: oldest).fixedByteCount
        same = content.entries.indices.filter { content.entries[$0].isRefusal == entry.isRefusal }
      }
      content.clock += 1
      content.entries.append(entry)
      content.entries[content.entries.count - 1].lastUse = content.clock
      let grammars = content.entries.compactMap(\.grammar)
      memory.set(min(GrammarMemory.most, byteLimit / 4 * 3 / max(1, grammars.count)))
      return grammars
    }
    // Each may have become entitled to less; outside the lock, for a mask may be in the making.
    for grammar in grammars { grammar.trim() }
  }

  private func find(_ pattern: Pattern) -> Result<CompiledGrammar, GrammarError>? {
    content.withLock { content in
      guard let index = content.entries.firstIndex(where: { $0.pattern.isSame(as: pattern) }) else {
        return nil
      }
      content.clock += 1
      content.entries[index].lastUse = content.clock
      return content.entries[index].result
    }
  }
}
