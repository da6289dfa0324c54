// What the vocabulary can do inside one leaf of a grammar, whatever stands below it; kept for the next visit.

/// Tokens, as a list while they are few.
enum TokenSet: Sendable {
  case few([Int32])
  case many(TokenMask)

  static let fewest = 512

  init(_ tokens: [Int32], count: Int) {
    guard tokens.count > Self.fewest else {
      self = .few(tokens)
      return
    }
    var mask = TokenMask(count: count)
    mask.insert(tokens)
    self = .many(mask)
  }

  var isEmpty: Bool { if case .few(let tokens) = self { tokens.isEmpty } else { false } }

  var byteCount: Int {
    switch self {
    case .few(let tokens): tokens.count * 4
    case .many(let mask): mask.words.count * 8
    }
  }

  func add(to mask: inout TokenMask) {
    switch self {
    case .few(let tokens): mask.insert(tokens)
    case .many(let tokens): mask.formUnion(tokens)
    }
  }
}

/// The tokens that stay inside a leaf, and where tokens leave it.
final class LeafMask: Sendable {
  /// The tokens that stay inside.
  let inside: TokenSet
  /// The most bytes that completing the leaf takes after one of them, or more than that.
  let dearest: Int32
  /// Nodes of the trie at which the leaf is complete; what follows is up to the stacks below.
  let exits: [Int32]
  /// The tokens that end there.
  let ending: TokenSet
  /// The nodes after those, by their bytes: those of byte `bytes[n]` are `nodes[starts[n]..<starts[n + 1]]`.
  let bytes: [UInt8]
  let starts: [Int32]
  let nodes: [Int32]

  init(inside: TokenSet, dearest: Int32, exits: [Int32], vocabulary: GrammarVocabulary) {
    self.inside = inside
    self.dearest = dearest
    self.exits = exits
    guard !exits.isEmpty else {
      (ending, bytes, starts, nodes) = (.few([]), [], [0], [])
      return
    }
    let trie = vocabulary.trie
    ending = TokenSet(exits.flatMap { trie.tokens[trie.tokens(at: Int($0))] }, count: vocabulary.count)
    var sizes = [Int32](repeating: 0, count: 256)
    trie.eachChild(of: exits) { sizes[Int(trie.byte[$0])] += 1 }
    bytes = (UInt8(0)...255).filter { sizes[Int($0)] > 0 }
    starts = bytes.reduce(into: [0]) { $0.append($0[$0.count - 1] + sizes[Int($1)]) }
    var next = [Int32](repeating: 0, count: 256)
    for (byte, start) in zip(bytes, starts) { next[Int(byte)] = start }
    var nodes = [Int32](repeating: 0, count: Int(starts[starts.count - 1]))
    trie.eachChild(of: exits) { node in
      let byte = Int(trie.byte[node])
      nodes[Int(next[byte])] = Int32(truncatingIfNeeded: node)
      next[byte] += 1
    }
    self.nodes = nodes
  }

  var byteCount: Int {
    inside.byteCount + ending.byteCount + (exits.count + nodes.count + starts.count) * 4 + 512
  }

  /// Walks the vocabulary through an automaton from a state. Plain tokens of which any may come are not walked.
  static func make(_ dfa: ByteDFA, state: Int32, reach: PlainReach, vocabulary: GrammarVocabulary) -> LeafMask
  {
    let plan = vocabulary.plain.plan(reach.best(state))
    var walk = LeafWalk(dfa: dfa, state: state, known: plan.known, count: vocabulary.count)
    walk.run(plan, vocabulary)
    return LeafMask(
      inside: walk.tokens, dearest: plan.known == nil ? walk.dearest : reach.dearest[Int(state)],
      exits: walk.exits, vocabulary: vocabulary)
  }
}

/// One walk over the vocabulary inside a leaf.
struct LeafWalk {
  let dfa: ByteDFA
  let state: Int32
  private let vocabularyCount: Int
  private var few: [Int32] = []
  private var many: TokenMask?
  /// The most bytes that completing the leaf takes after a token that was walked.
  private(set) var dearest: Int32 = 0
  private(set) var exits: [Int32] = []

  /// - Parameters:
  ///   - known: tokens that stay inside.
  ///   - count: tokens of the vocabulary.
  init(dfa: ByteDFA, state: Int32, known: TokenMask?, count: Int) {
    self.dfa = dfa
    self.state = state
    many = known
    vocabularyCount = count
  }

  /// The tokens that stay inside.
  var tokens: TokenSet { many.map { .many($0) } ?? .few(few) }

  mutating func run(_ plan: WalkPlan, _ vocabulary: GrammarVocabulary) {
    // Plain arrays in local constants: the loop visits very many nodes.
    let (nodes, others, most) = (plan.nodes, ~plan.kinds, plan.count)
    let (next, classOf, classCount) = (dfa.next, dfa.classOf, dfa.classCount)
    let (accepting, continues) = (dfa.accepting, dfa.continues)
    var states = [Int32](repeating: state, count: vocabulary.longestToken + 1)
    var at = 0
    while at < nodes.count {
      let node = nodes[at]
      if node.kinds & others == 0, node.count <= most {
        at = Int(node.end)
        continue
      }
      let after = next[Int(states[Int(node.depth) - 1]) * classCount + Int(classOf[Int(node.byte)])]
      guard after >= 0 else {
        at = Int(node.end)
        continue
      }
      if accepting[Int(after)] { exits.append(node.node) }
      guard continues[Int(after)] else {
        at = Int(node.end)
        continue
      }
      if node.hasTokens { take(vocabulary.trie, node.node, cost: dfa.cost[Int(after)]) }
      states[Int(node.depth)] = after
      at += 1
    }
  }

  @inline(__always)
  private mutating func take(_ trie: TokenTrie, _ node: Int32, cost: Int32) {
    dearest = max(dearest, cost)
    for place in trie.tokens(at: Int(node)) {
      let token = trie.tokens[place]
      if many == nil {
        few.append(token)
        if few.count > TokenSet.fewest {
          many = TokenMask(count: vocabularyCount)
          many?.insert(few)
        }
      } else {
        many?.insert(token)
      }
    }
  }
}

extension TokenTrie {
  /// Calls `body` with each child of each node.
  @inline(__always)
  func eachChild(of nodes: some Sequence<Int32>, _ body: (Int) -> Void) {
    for node in nodes {
      var at = Int(node) + 1
      let last = Int(end[Int(node)])
      while at < last {
        body(at)
        at = Int(end[at])
      }
    }
  }
}
