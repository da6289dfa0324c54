// Masks of automata that differ from a common one in a few texts only, such as all keys but the declared ones.

/// The states of an automaton beside those of a common one that the same texts lead to. What the vocabulary can do in the
/// common one is known: only tokens that begin with one of the few texts need a look.
final class KindredStates: Sendable {
  private let dfa: ByteDFA
  /// The place of the common automaton in `CommonLanguages.shared`.
  private let leaf: Int
  private let common: ByteDFA
  /// The common automaton's state for each state.
  private let twins: [Int32]
  /// Whether the same texts follow both.
  private let isSame: [Bool]
  /// The bytes of each state that lead to where other texts follow, and where that is; -1 for nowhere.
  private let deviations: [[(byte: UInt8, next: Int32)]]
  /// For each state, how many beginnings there are of the texts in which the two automata differ from there on; at most
  /// `manyBeginnings`.
  private let beginnings: [Int32]

  /// Nil where no common automaton is kindred.
  init?(_ dfa: ByteDFA) {
    guard let (leaf, common) = Self.common(for: dfa) else { return nil }
    self.dfa = dfa
    self.leaf = leaf
    self.common = common
    var twins = [Int32](repeating: -1, count: dfa.stateCount)
    var differs = [Bool](repeating: false, count: dfa.stateCount)
    var (from, to) = ([Int32](), [Int32]())
    let (classOf, columns) = ByteDFA.classes(dfa, common)
    // Arrays of their own: reached through the automata, each access would count references.
    let (table, count, twinTable, twinCount) = (dfa.next, dfa.classCount, common.next, common.classCount)
    let (accepting, twinAccepting) = (dfa.accepting, common.accepting)
    var bytes: [[UInt8]] = Array(repeating: [], count: columns.count)
    for (byte, number) in classOf.enumerated() { bytes[Int(number)].append(UInt8(truncatingIfNeeded: byte)) }
    var queue: [Int32] = [0]
    twins[0] = 0
    var head = 0
    while head < queue.count {
      let state = queue[head]
      head += 1
      let twin = twins[Int(state)]
      differs[Int(state)] = accepting[Int(state)] != twinAccepting[Int(twin)]
      for column in columns {
        let (next, twinNext) = (
          table[Int(state) * count + column.a], twinTable[Int(twin) * twinCount + column.b]
        )
        guard next >= 0 else {
          if twinNext >= 0 { differs[Int(state)] = true }
          continue
        }
        // Texts beyond those of the common automaton, or a state that stands for several of its states.
        guard twinNext >= 0, twins[Int(next)] < 0 || twins[Int(next)] == twinNext else { return nil }
        if twins[Int(next)] < 0 {
          twins[Int(next)] = twinNext
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
    self.twins = twins
    isSame = differs.map { !$0 }
    var deviations: [[(byte: UInt8, next: Int32)]] = Array(repeating: [], count: dfa.stateCount)
    for state in queue where differs[Int(state)] {
      let (row, twinRow) = (Int(state) * count, Int(twins[Int(state)]) * twinCount)
      for (number, column) in columns.enumerated() where twinTable[twinRow + column.b] >= 0 {
        let next = table[row + column.a]
        guard next < 0 || differs[Int(next)] else { continue }
        for byte in bytes[number] { deviations[Int(state)].append((byte, next)) }
      }
      if deviations[Int(state)].count > 1 { deviations[Int(state)].sort { $0.byte < $1.byte } }
    }
    self.deviations = deviations
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

  var byteCount: Int { twins.count * 36 + 256 }

  /// The twin of a state that the same texts follow.
  func shared(_ state: Int32) -> SharedState? {
    isSame[Int(state)] ? SharedState(leaf: leaf, state: twins[Int(state)]) : nil
  }

  /// What follows a state where it differs from what follows its twin, in words that are equal for equal states of kindred
  /// automata; nil where that is much.
  func signature(at state: Int32) -> [Int32]? {
    var signature = [Int32(truncatingIfNeeded: leaf), twins[Int(state)]]
    var number: [Int32: Int32] = [state: 0]
    var queue = [state]
    var head = 0
    while head < queue.count {
      let state = queue[head]
      head += 1
      signature.append(dfa.accepting[Int(state)] ? -2 : -3)
      for (byte, next) in deviations[Int(state)] {
        if next >= 0, number[next] == nil {
          number[next] = Int32(truncatingIfNeeded: queue.count)
          queue.append(next)
        }
        signature += [Int32(byte), number[next] ?? -1]
      }
      guard signature.count <= Self.longestSignature else { return nil }
    }
    return signature
  }

  private static let longestSignature = 2000

  /// A common automaton of strings or keys with the same state for any text that goes on.
  private static func common(for dfa: ByteDFA) -> (leaf: Int, common: ByteDFA)? {
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

  /// What the vocabulary can do from a state; nil where that is not found more quickly here.
  func mask(of state: Int32, _ vocabulary: GrammarVocabulary) -> LeafMask? {
    guard beginnings[Int(state)] < Self.manyBeginnings || isNear(state),
      let whole = vocabulary.mask(SharedState(leaf: leaf, state: twins[Int(state)]))
    else {
      return nil
    }
    var walk = KindredWalk(whole, vocabulary)
    walk.run(self, from: state, vocabulary)
    return walk.mask
  }

  /// One walk over the tokens for which the automata differ.
  private struct KindredWalk {
    private let whole: LeafMask
    private let vocabulary: GrammarVocabulary
    private var inside: TokenMask
    private var dearest: Int32
    /// Nodes at which the common automaton may be left and this one not, and others: ranges in order.
    private var closed: [Range<Int32>] = []

    init(_ whole: LeafMask, _ vocabulary: GrammarVocabulary) {
      self.whole = whole
      self.vocabulary = vocabulary
      inside = TokenMask(count: vocabulary.count)
      whole.inside.add(to: &inside)
      dearest = whole.dearest
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
        inside: .many(inside), dearest: dearest,
        leaving: exits.isEmpty ? whole.leaving : LeafExits(whole.leaving, without: exits, vocabulary))
    }

    mutating func run(_ kin: KindredStates, from state: Int32, _ vocabulary: GrammarVocabulary) {
      let (dfa, common) = (kin.dfa, kin.common)
      let nodes = vocabulary.plain.plan(inside: nil).nodes
      var states = [Int32](repeating: state, count: vocabulary.longestToken + 1)
      var at = 0
      while at < nodes.count {
        let node = nodes[at]
        let before = states[Int(node.depth) - 1]
        let twin = common.step(kin.twins[Int(before)], node.byte)
        let after = dfa.step(before, node.byte)
        guard twin >= 0, after < 0 || !kin.isSame[Int(after)] else {
          at = Int(node.end)
          continue
        }
        guard after >= 0, dfa.continues[Int(after)] else {
          remove(from: node.node, isOpen: after >= 0 && dfa.accepting[Int(after)])
          at = Int(node.end)
          continue
        }
        if common.accepting[Int(twin)], !dfa.accepting[Int(after)] {
          closed.append(node.node..<node.node + 1)
        }
        if node.hasTokens { dearest = max(dearest, dfa.cost[Int(after)]) }
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
