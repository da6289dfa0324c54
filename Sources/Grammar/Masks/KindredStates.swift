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

  /// Nil where no common automaton is kindred.
  init?(_ dfa: ByteDFA) {
    guard let (leaf, common) = Self.common(for: dfa) else { return nil }
    self.dfa = dfa
    self.leaf = leaf
    self.common = common
    var twins = [Int32](repeating: -1, count: dfa.stateCount)
    var differs = [Bool](repeating: false, count: dfa.stateCount)
    var (from, to) = ([Int32](), [Int32]())
    let bytes = ByteDFA.representatives(
      ByteDFA.classes { UInt32(dfa.classOf[Int($0)]) << 8 | UInt32(common.classOf[Int($0)]) })
    var queue: [Int32] = [0]
    twins[0] = 0
    var head = 0
    while head < queue.count {
      let state = queue[head]
      head += 1
      let twin = twins[Int(state)]
      differs[Int(state)] = dfa.accepting[Int(state)] != common.accepting[Int(twin)]
      for byte in bytes {
        let (next, twinNext) = (dfa.step(state, byte), common.step(twin, byte))
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
    deviations = queue.reduce(into: Array(repeating: [], count: dfa.stateCount)) { deviations, state in
      guard differs[Int(state)] else { return }
      for byte: UInt8 in 0...255 where common.step(twins[Int(state)], byte) >= 0 {
        let next = dfa.step(state, byte)
        if next < 0 || differs[Int(next)] { deviations[Int(state)].append((byte, next)) }
      }
    }
  }

  var byteCount: Int { twins.count * 32 + 256 }

  /// What follows a state, in words that are equal for equal states of kindred automata; nil where that is much.
  func signature(of state: Int32) -> [Int32]? {
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
    for state in 0..<Int32(truncatingIfNeeded: dfa.stateCount) where isOpen(dfa, state) {
      for (leaf, (common, states)) in CommonLanguages.shared.enumerated()
      where common !== dfa && states.contains(between) && isOpen(common, between)
        && common.cost[Int(between)] == dfa.cost[Int(state)]
        && dfa.isEquivalent(state, common, between)
      { return (leaf, common) }
    }
    return nil
  }

  private static func isOpen(_ dfa: ByteDFA, _ state: Int32) -> Bool {
    " a0Z".utf8.allSatisfy { dfa.step(state, $0) == state }
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
    guard isNear(state), let whole = vocabulary.mask(SharedState(leaf: leaf, state: twins[Int(state)])) else {
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
    /// Nodes at which the common automaton may be left and this one not.
    private var closed: Set<Int32> = []

    init(_ whole: LeafMask, _ vocabulary: GrammarVocabulary) {
      self.whole = whole
      self.vocabulary = vocabulary
      inside = TokenMask(count: vocabulary.count)
      whole.inside.add(to: &inside)
      dearest = whole.dearest
    }

    var mask: LeafMask {
      LeafMask(
        inside: .many(inside), dearest: dearest,
        leaving: closed.isEmpty ? whole.leaving : LeafExits(whole.leaving, without: closed, vocabulary))
    }

    mutating func run(_ kin: KindredStates, from state: Int32, _ vocabulary: GrammarVocabulary) {
      let (dfa, common) = (kin.dfa, kin.common)
      let nodes = vocabulary.plain.plan(nil).nodes
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
        if common.accepting[Int(twin)], !dfa.accepting[Int(after)] { closed.insert(node.node) }
        if node.hasTokens { dearest = max(dearest, dfa.cost[Int(after)]) }
        states[Int(node.depth)] = after
        at += 1
      }
      closed.formIntersection(whole.leaving.exits)
    }

    /// Nothing inside goes on at this node or below it.
    ///
    /// - Parameter isOpen: whether the leaf may be left at the node itself.
    private mutating func remove(from node: Int32, isOpen: Bool) {
      let trie = vocabulary.trie
      let end = trie.end[Int(node)]
      let tokens = Int(trie.tokenStart[Int(node)])..<Int(trie.tokenStart[Int(end)])
      for token in trie.tokens[tokens] { inside.remove(token) }
      closed.formUnion((isOpen ? node + 1 : node)..<end)
    }
  }
}
