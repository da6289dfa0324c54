// Masks of automata that differ from a shared one in a few texts only, such as all keys but the declared ones.

/// The states of an automaton beside those of a shared one, its base, that the same texts lead to. What the vocabulary can
/// do in the base is known: only tokens that begin with one of the few texts need a look.
final class AutomatonDelta: Sendable {
  private let dfa: ByteDFA
  /// The base's place in `CommonLanguages.shared`.
  private let leaf: Int
  private let base: ByteDFA
  /// The base's state for each state.
  private let bases: [Int32]
  /// Whether the same texts follow both.
  private let isSame: [Bool]
  /// For each state, how many beginnings there are of the texts in which the two automata differ from there on; at most
  /// `manyBeginnings`.
  private let beginnings: [Int32]

  /// Nil where no shared automaton is near.
  init?(_ dfa: ByteDFA) {
    guard let (leaf, base) = Self.base(of: dfa) else { return nil }
    (self.dfa, self.leaf, self.base) = (dfa, leaf, base)
    var bases = [Int32](repeating: -1, count: dfa.stateCount)
    var differs = [Bool](repeating: false, count: dfa.stateCount)
    var (from, to) = ([Int32](), [Int32]())
    let (classOf, columns) = ByteDFA.classes(dfa, base)
    // Arrays of their own: reached through the automata, each access would count references.
    let (table, count, baseTable, baseCount) = (dfa.next, dfa.classCount, base.next, base.classCount)
    let (accepting, baseAccepting) = (dfa.accepting, base.accepting)
    var bytes: [[UInt8]] = Array(repeating: [], count: columns.count)
    for (byte, number) in classOf.enumerated() { bytes[Int(number)].append(UInt8(truncatingIfNeeded: byte)) }
    var queue: [Int32] = [0]
    bases[0] = 0
    var head = 0
    while head < queue.count {
      let state = queue[head]
      head += 1
      let baseState = bases[Int(state)]
      differs[Int(state)] = accepting[Int(state)] != baseAccepting[Int(baseState)]
      for column in columns {
        let (next, baseNext) = (
          table[Int(state) * count + column.a], baseTable[Int(baseState) * baseCount + column.b]
        )
        guard next >= 0 else {
          if baseNext >= 0 { differs[Int(state)] = true }
          continue
        }
        // Texts beyond those of the base, or a state that stands for several of its states.
        guard baseNext >= 0, bases[Int(next)] < 0 || bases[Int(next)] == baseNext else { return nil }
        if bases[Int(next)] < 0 {
          bases[Int(next)] = baseNext
          queue.append(next)
        }
        // Neighbours often lead to the same state.
        guard to.last != next || from.last != state else { continue }
        from.append(state)
        to.append(next)
      }
    }
    let before = ReverseEdges(from: from, to: to, rowCount: dfa.stateCount)
    var different = (0..<Int32(truncatingIfNeeded: dfa.stateCount)).filter { differs[Int($0)] }
    while let state = different.popLast() {
      for source in before.sources(of: Int(state)) where !differs[Int(source)] {
        differs[Int(source)] = true
        different.append(source)
      }
    }
    self.bases = bases
    isSame = differs.map { !$0 }
    // The bytes of each state that lead to where other texts follow, and where that is; -1 for nowhere.
    var deviations: [[(byte: UInt8, next: Int32)]] = Array(repeating: [], count: dfa.stateCount)
    for state in queue where differs[Int(state)] {
      let (row, baseRow) = (Int(state) * count, Int(bases[Int(state)]) * baseCount)
      for (number, column) in columns.enumerated() where baseTable[baseRow + column.b] >= 0 {
        let next = table[row + column.a]
        guard next < 0 || differs[Int(next)] else { continue }
        for byte in bytes[number] { deviations[Int(state)].append((byte, next)) }
      }
      if deviations[Int(state)].count > 1 { deviations[Int(state)].sort { $0.byte < $1.byte } }
    }
    beginnings = Self.beginnings(deviations)
  }

  /// Where these are more, or without end, a walk down all of them saves little.
  private static let manyBeginnings: Int32 = 20_000

  /// Counted backwards from the states that nothing leads on from. A state on a cycle, or before one, is never reached: its
  /// texts have no end.
  private static func beginnings(_ deviations: [[(byte: UInt8, next: Int32)]]) -> [Int32] {
    var (from, to) = ([Int32](), [Int32]())
    var found = [Int32](repeating: manyBeginnings, count: deviations.count)
    // Counted texts deviate nearly everywhere.
    guard deviations.reduce(0, { $0 + $1.count }) <= 5 * Int(manyBeginnings) else { return found }
    for (state, list) in deviations.enumerated() {
      for (_, next) in list where next >= 0 {
        from.append(Int32(truncatingIfNeeded: state))
        to.append(next)
      }
    }
    ReverseEdges(from: from, to: to, rowCount: deviations.count).eachBackwards { state in
      var count = Int32(clamping: deviations[state].count)
      for (_, next) in deviations[state] where next >= 0 {
        count = min(manyBeginnings, count + found[Int(next)])
      }
      found[state] = min(manyBeginnings, count)
    }
    return found
  }

  var byteCount: Int { bases.count * 36 + 256 }

  /// A shared automaton of strings or keys with the same state for any text that goes on.
  private static func base(of dfa: ByteDFA) -> (leaf: Int, base: ByteDFA)? {
    let between = GrammarLeaf.betweenCharacters
    for state in openStates(dfa) {
      for (leaf, common) in commonLanguages
      where common !== dfa && common.cost[Int(between)] == dfa.cost[Int(state)]
        && dfa.isEquivalent(state, common, between)
      { return (leaf, common) }
    }
    return nil
  }

  /// Those of `CommonLanguages.shared` that are open between characters.
  private static let commonLanguages: [(leaf: Int, dfa: ByteDFA)] = CommonLanguages.shared.enumerated()
    .filter { _, language in
      language.states.contains(GrammarLeaf.betweenCharacters)
        && openStates(language.dfa).contains(GrammarLeaf.betweenCharacters)
    }
    .map { ($0.offset, $0.element.dfa) }

  /// The states in which usual characters change nothing.
  private static func openStates(_ dfa: ByteDFA) -> [Int32] {
    let columns = " a0Z".utf8.map { Int(dfa.classOf[Int($0)]) }
    let (table, count) = (dfa.next, dfa.classCount)
    return (0..<Int32(truncatingIfNeeded: dfa.stateCount)).filter { state in
      columns.allSatisfy { table[Int(state) * count + $0] == state }
    }
  }

  /// Letters that words often go on with.
  private static let probes = Array("etaoinsrhdlucETAOINS1 ".utf8)

  /// Whether most texts lead to where the same texts follow.
  private func isNear(_ state: Int32) -> Bool {
    let near = Self.probes.count { byte in
      let next = dfa.step(state, byte)
      return next >= 0 && isSame[Int(next)]
    }
    return near * 3 >= Self.probes.count * 2
  }

  /// What the vocabulary can do from a state, and whether that is kept elsewhere; nil where it is not found more quickly
  /// here.
  func mask(of state: Int32, _ vocabulary: GrammarVocabulary) -> (mask: LeafMask, isShared: Bool)? {
    guard let whole = vocabulary.mask(SharedState(leaf: leaf, state: bases[Int(state)])) else { return nil }
    if isSame[Int(state)] { return (whole, true) }
    guard beginnings[Int(state)] < Self.manyBeginnings || isNear(state) else { return nil }
    var walk = DeltaWalk(whole, vocabulary)
    walk.run(self, from: state, vocabulary)
    return (walk.mask, false)
  }

  /// One walk over the tokens for which the automata differ.
  private struct DeltaWalk {
    private let whole: LeafMask
    private let vocabulary: GrammarVocabulary
    private var inside: TokenMask
    private var maxCost: Int32
    /// Nodes at which the base may be left and this one not, and others: ranges in order.
    private var closed: [Range<Int32>] = []

    init(_ whole: LeafMask, _ vocabulary: GrammarVocabulary) {
      (self.whole, self.vocabulary) = (whole, vocabulary)
      inside = whole.inside.mask(count: vocabulary.count)
      maxCost = whole.maxCost
    }

    var mask: LeafMask {
      var exits: Set<Int32> = []
      var place = 0
      // Both are in the order of the trie.
      for exit in whole.leaving.exits {
        while place < closed.count, closed[place].upperBound <= exit { place += 1 }
        if place < closed.count, closed[place].contains(exit) { exits.insert(exit) }
      }
      return LeafMask(
        inside: .many(inside), maxCost: maxCost,
        leaving: exits.isEmpty ? whole.leaving : LeafExits(whole.leaving, without: exits, vocabulary))
    }

    mutating func run(_ delta: AutomatonDelta, from state: Int32, _ vocabulary: GrammarVocabulary) {
      let (dfa, base) = (delta.dfa, delta.base)
      let nodes = vocabulary.slices.nodes
      var states = [Int32](repeating: state, count: vocabulary.longestToken + 1)
      var at = 0
      while at < nodes.count {
        let node = nodes[at]
        let before = states[Int(node.depth) - 1]
        let baseState = base.step(delta.bases[Int(before)], node.byte)
        let after = dfa.step(before, node.byte)
        guard baseState >= 0, after < 0 || !delta.isSame[Int(after)] else {
          at = Int(node.end)
          continue
        }
        guard after >= 0, dfa.continues[Int(after)] else {
          remove(from: node.node, isOpen: after >= 0 && dfa.accepting[Int(after)])
          at = Int(node.end)
          continue
        }
        if base.accepting[Int(baseState)], !dfa.accepting[Int(after)] {
          closed.append(node.node..<node.node + 1)
        }
        if node.hasTokens { maxCost = max(maxCost, dfa.cost[Int(after)]) }
        states[Int(node.depth)] = after
        at += 1
      }
    }

    /// Nothing inside goes on at this node or below it.
    ///
    /// - Parameter isOpen: whether the leaf may be left at the node itself.
    private mutating func remove(from node: Int32, isOpen: Bool) {
      let trie = vocabulary.trie
      let end = trie.end[Int(node)]
      for token in trie.tokens[trie.tokens(below: Int(node))] { inside.remove(token) }
      closed.append((isOpen ? node + 1 : node)..<end)
    }
  }
}
