// A pattern made ready to mask the tokens of one vocabulary.

import Synchronization

/// Immutable but for its own cache of masks; shared by all requests with the same pattern.
package final class CompiledGrammar: Sendable {
  package let vocabulary: GrammarVocabulary
  package let pattern: Pattern
  let graph: GrammarGraph
  private let leaves = LeafCache()
  private let current: Mutex<GrammarState>
  private let memory: GrammarMemory

  /// - Parameters:
  ///   - memory: what its caches may take.
  ///   - isUnwanted: whether nobody waits for it any more; asked at the start and every few milliseconds.
  /// - Throws: what cannot be enforced, is malformed, or is too large; nothing is ever left out silently.
  package init(
    _ pattern: Pattern, vocabulary: GrammarVocabulary, memory: GrammarMemory = GrammarMemory(),
    isUnwanted: @escaping () -> Bool = { false }
  ) throws(GrammarError) {
    let graph = try PatternCompiler.compile(
      pattern, tokens: vocabulary.names, missing: vocabulary.missingBytes,
      budget: CompileBudget(isUnwanted: isUnwanted))
    (self.pattern, self.vocabulary, self.memory, self.graph) = (pattern, vocabulary, memory, graph)
    var builder = MaskBuilder(graph: graph, vocabulary: vocabulary, leaves: leaves, memory: memory)
    _ = builder.start(isUnwanted: isUnwanted)
    guard builder.hasStarted else { throw .unwanted }
    guard !builder.isCut else {
      throw .tooLarge(reason: "the start of an answer takes more than \(Recogniser.workLimit) steps")
    }
    current = Mutex(GrammarState(builder))
  }

  /// Makes the first mask, so that the engine finds it made.
  func prepare() {
    var matcher = GrammarMatcher(self)
    _ = matcher.allowed(remaining: .max)
  }

  /// A state with room: one that has grown too large is left to the matchers that hold it.
  func state() -> GrammarState {
    current.withLock { current in
      if current.byteCount > memory.stateLimit {
        current = GrammarState(
          MaskBuilder(graph: graph, vocabulary: vocabulary, leaves: leaves, memory: memory))
      }
      return current
    }
  }

  /// Makes the mask of the first token, so that a step of the model finds it made.
  ///
  /// - Parameter isUnwanted: whether nobody waits for it any more; asked now and then, and then it is left.
  package func prepare(isUnwanted: () -> Bool) {
    state().use { builder in
      let start = builder.start(isUnwanted: isUnwanted)
      if builder.hasStarted { _ = builder.mask(start, remaining: .max, isUnwanted: isUnwanted) }
    }
  }

  /// About how much memory the automata take.
  var fixedByteCount: Int { graph.byteCount }

  /// About how much memory the caches take.
  var cachedByteCount: Int { leaves.byteCount + current.withLock { $0 }.byteCount }

  /// Gives back what is over a limit that has become smaller.
  func trim() {
    _ = state()
    if leaves.byteCount > memory.leafLimit { leaves.forget() }
  }
}

/// How much memory the caches of each of several grammars may take.
package final class GrammarMemory: Sendable {
  private let bytes: Atomic<Int>

  /// What one grammar may take where there are few.
  static let most = 32 << 20

  package convenience init() { self.init(bytes: Self.most) }

  init(bytes: Int) { self.bytes = Atomic(bytes) }

  func set(_ bytes: Int) { self.bytes.store(bytes, ordering: .relaxed) }

  /// Half for the masks of single leaves, half for the recogniser and whole masks.
  var leafLimit: Int { bytes.load(ordering: .relaxed) / 2 }
  var stateLimit: Int { bytes.load(ordering: .relaxed) / 2 }
}

/// A mask builder that several matchers use.
final class GrammarState: Sendable {
  private let builder: Mutex<MaskBuilder>

  init(_ builder: consuming MaskBuilder) { self.builder = Mutex(builder) }

  func use<Result: Sendable>(_ body: (inout MaskBuilder) -> Result) -> Result {
    builder.withLock { builder in body(&builder) }
  }

  var byteCount: Int { use { $0.byteCount } }

  /// The builder as it is now.
  var copy: MaskBuilder { builder.withLock { $0 } }
}

/// Where one answer stands in its grammar. A value: a copy is a snapshot.
package struct GrammarMatcher: Sendable {
  package let grammar: CompiledGrammar
  private var state: GrammarState
  private var set: Int32
  private var isEnded = false

  package init(_ grammar: CompiledGrammar) {
    self.grammar = grammar
    let state = grammar.state()
    self.state = state
    set = state.use { $0.start() }
  }

  /// The tokens that may come next; end tokens among them when the answer may end here.
  ///
  /// - Parameters:
  ///   - remaining: tokens that may still be generated, this one included. When few are left, only those remain that
  ///     allow the answer to be completed in time, where there are any.
  ///   - isUnwanted: whether nobody waits for them any more; asked now and then. Some of them where that is so.
  package mutating func allowed(remaining: Int, isUnwanted: () -> Bool = { false }) -> TokenMask {
    guard !isEnded else {
      var mask = TokenMask(count: grammar.vocabulary.count)
      for token in grammar.vocabulary.endTokens { mask.insert(token) }
      return mask
    }
    move()
    let set = set
    return state.use { $0.mask(set, remaining: remaining, isUnwanted: isUnwanted) }
  }

  /// Takes a token. False, and no change, when the grammar does not allow it.
  package mutating func accept(_ token: Int32) -> Bool {
    if isEnded { return grammar.vocabulary.endTokens.contains(token) }
    move()
    let set = set
    let (next, isCut) = state.use { ($0.step(set, token: token), $0.isCut) }
    // A step that takes too much has no way on: no token comes next, which ends the answer.
    if next != Recogniser.empty || isCut {
      self.set = next
      return true
    }
    guard canEnd, grammar.vocabulary.endTokens.contains(token) else { return false }
    isEnded = true
    return true
  }

  /// Whether the answer may end here.
  package var canEnd: Bool {
    let set = set
    return isEnded || state.use { $0.canEnd(set) }
  }

  /// Whether the answer can only end here.
  package var mustEnd: Bool {
    let set = set
    return isEnded || state.use { $0.mustEnd(set) }
  }

  /// Tokens that surely complete the answer from here, an end token not counted.
  package var tokensToEnd: Int {
    let set = set
    return isEnded ? 0 : Int(state.use { $0.cost(set) })
  }

  /// Leaves a state that has grown too large.
  private mutating func move() {
    let fresh = grammar.state()
    guard fresh !== state else { return }
    let old = state.copy
    let set = set
    self.set = fresh.use { $0.adopt(set, from: old) }
    state = fresh
  }
}
