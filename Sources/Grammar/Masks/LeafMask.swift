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

/// Where tokens leave a leaf.
final class LeafExits: Sendable {
  /// Nodes of the trie at which the leaf is complete; what follows is up to the stacks below.
  let exits: [Int32]
  /// The tokens that end there.
  let ending: TokenSet
  /// The nodes after those, by their bytes: those of byte `bytes[n]` are `nodes[starts[n]..<starts[n + 1]]`.
  let bytes: [UInt8]
  let starts: [Int32]
  let nodes: [Int32]

  static let none = LeafExits()

  private init() { (exits, ending, bytes, starts, nodes) = ([], .few([]), [], [0], []) }

  init(_ exits: [Int32], vocabulary: GrammarVocabulary) {
    self.exits = exits
    let trie = vocabulary.trie
    var tokens: [Int32] = []
    for exit in exits { tokens += trie.tokens[trie.tokens(at: Int(exit))] }
    ending = TokenSet(tokens, count: vocabulary.count)
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

  /// The same without some exits.
  init(_ all: LeafExits, without closed: Set<Int32>, _ vocabulary: GrammarVocabulary) {
    let trie = vocabulary.trie
    exits = all.exits.filter { !closed.contains($0) }
    var tokens: [Int32] = []
    for exit in exits { tokens += trie.tokens[trie.tokens(at: Int(exit))] }
    ending = TokenSet(tokens, count: vocabulary.count)
    var (bytes, starts, nodes) = ([UInt8](), [Int32(0)], [Int32]())
    for (index, byte) in all.bytes.enumerated() {
      let these = all.nodes[Int(all.starts[index])..<Int(all.starts[index + 1])]
      nodes += these.filter { !closed.contains(trie.parent[Int($0)]) }
      let end = Int32(truncatingIfNeeded: nodes.count)
      guard end > starts[starts.count - 1] else { continue }
      bytes.append(byte)
      starts.append(end)
    }
    (self.bytes, self.starts, self.nodes) = (bytes, starts, nodes)
  }

  var byteCount: Int {
    exits.isEmpty ? 0 : ending.byteCount + (exits.count + nodes.count + starts.count) * 4 + 512
  }
}

/// The tokens that stay inside a leaf, and where tokens leave it.
final class LeafMask: Sendable {
  /// The tokens that stay inside.
  let inside: TokenSet
  /// The most bytes that completing the leaf takes after one of them, or more than that.
  let dearest: Int32
  let leaving: LeafExits
  /// Tokens that are surely among those inside.
  let plain: PlainSet?

  init(inside: TokenSet, dearest: Int32, leaving: LeafExits, plain: PlainSet? = nil) {
    self.inside = inside
    self.dearest = dearest
    self.leaving = leaving
    self.plain = plain
  }

  var byteCount: Int { inside.byteCount + leaving.byteCount + 128 }

  /// Walks the vocabulary through an automaton from a state. Plain tokens of which any may come are not walked.
  ///
  /// - Parameters:
  ///   - reach: of the automaton; nil where plain tokens make no difference.
  ///   - plain: the most tokens that stay inside, as `reach` knows.
  ///   - covered: tokens that are allowed whatever this leaf does, where these are more: the mask says nothing of them.
  ///   - room: for characters, where they are counted.
  ///   - leaving: what follows the nodes at which the automaton accepts, of which there are some.
  static func make(
    _ dfa: ByteDFA, state: Int32, reach: PlainReach?, plain: PlainSet?, covered: PlainSet? = nil,
    room: CharacterRoom? = nil, vocabulary: GrammarVocabulary, leaving: ([Int32]) -> LeafExits
  ) -> LeafMask {
    let plan = vocabulary.plain.plan(inside: plain, covered: covered)
    var walk = LeafWalk(dfa: dfa, state: state, known: plan.known, count: vocabulary.count)
    // A short list is walked before more is found out.
    let helping = plan.isListed ? nil : reach
    if let room {
      walk.run(plan, vocabulary, helping, WalkedCharacters(room, depth: vocabulary.longestToken))
    } else {
      walk.run(plan, vocabulary, helping, NothingWalked())
    }
    let known = plan.known == nil ? nil : reach?.dearest(after: state)
    return LeafMask(
      inside: walk.tokens, dearest: known ?? walk.dearest,
      leaving: walk.exits.isEmpty ? .none : leaving(walk.exits), plain: plain)
  }
}

/// What is counted on a walk beside the states of the automaton.
protocol WalkCount {
  /// - Returns: whether a text may still come to an end from the state that the node's byte leads to.
  mutating func follow(_ node: WalkNode, from before: Int32, to after: Int32) -> Bool
  /// Whether there is room for all plain text below a node that was followed.
  func hasRoom(below node: WalkNode) -> Bool
}

/// A walk on which nothing is counted.
private struct NothingWalked: WalkCount {
  @inline(__always)
  func follow(_ node: WalkNode, from before: Int32, to after: Int32) -> Bool { true }

  @inline(__always)
  func hasRoom(below node: WalkNode) -> Bool { true }
}

/// Characters that must still come in a string, and that may.
struct CharacterRoom {
  var missing: Int
  var left: Int
  let counts: CharacterCounts

  /// So many plain characters may come in any state, whichever they are.
  var plain: Int { missing > 0 && !counts.isEndless ? 0 : max(0, left - counts.largestLeast) }
}

/// The characters that the tokens of a walk begin.
private struct WalkedCharacters: WalkCount {
  private let room: CharacterRoom
  private let plain: Int
  private var begun: [Int]

  init(_ room: CharacterRoom, depth: Int) {
    self.room = room
    plain = room.plain
    begun = [Int](repeating: 0, count: depth + 1)
  }

  mutating func follow(_ node: WalkNode, from before: Int32, to after: Int32) -> Bool {
    let count = begun[Int(node.depth) - 1] + (room.counts.begins(before, node.byte) ? 1 : 0)
    begun[Int(node.depth)] = count
    return room.counts.allow(after, after: count, min: room.missing, max: room.left)
  }

  func hasRoom(below node: WalkNode) -> Bool {
    begun[Int(node.depth)] + Int(node.count &- node.characters) <= plain
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

  /// - Parameters:
  ///   - reach: of the automaton, where that may help.
  ///   - count: what is counted beside it.
  mutating func run(
    _ plan: WalkPlan, _ vocabulary: GrammarVocabulary, _ reach: PlainReach?, _ count: some WalkCount
  ) {
    var count = count
    // Plain arrays in local constants: the loop visits very many nodes.
    let (nodes, others, most) = (plan.nodes, ~plan.kinds, plan.count)
    let (coveredOthers, coveredMost) = (~plan.coveredKinds, plan.coveredCount)
    // How many characters may come after each state, of all plain kinds and of the plan's: below a node with no others and
    // no more, all tokens stay inside.
    let (all, allOthers) = Self.farther(reach, .plain)
    let isOwn = plan.kinds != CharacterKinds.plain.rawValue && plan.count < PlainReach.endless
    let (own, ownOthers) = Self.farther(isOwn ? reach : nil, CharacterKinds(rawValue: plan.kinds))
    let (next, classOf, classCount) = (dfa.next, dfa.classOf, dfa.classCount)
    let (accepting, continues) = (dfa.accepting, dfa.continues)
    var states = [Int32](repeating: state, count: vocabulary.longestToken + 1)
    var at = 0
    while at < nodes.count {
      let node = nodes[at]
      if node.kinds & others == 0 && node.count <= most
        || node.kinds & coveredOthers == 0 && node.count <= coveredMost
      {
        at = Int(node.end)
        continue
      }
      let before = states[Int(node.depth) - 1]
      let after = next[Int(before) * classCount + Int(classOf[Int(node.byte)])]
      guard after >= 0, count.follow(node, from: before, to: after) else {
        at = Int(node.end)
        continue
      }
      if accepting[Int(after)] { exits.append(node.node) }
      guard continues[Int(after)] else {
        at = Int(node.end)
        continue
      }
      if node.characters != WalkNode.within,
        node.kinds & allOthers == 0 && all[Int(after)] >= node.count &- node.characters
          || node.kinds & ownOthers == 0 && own[Int(after)] >= node.count &- node.characters,
        count.hasRoom(below: node)
      {
        take(
          vocabulary.trie, vocabulary.trie.tokens(below: Int(node.node)), reach?.dearest(after: after) ?? 0)
        at = Int(node.end)
        continue
      }
      if node.hasTokens {
        take(vocabulary.trie, vocabulary.trie.tokens(at: Int(node.node)), dfa.cost[Int(after)])
      }
      states[Int(node.depth)] = after
      at += 1
    }
  }

  /// How many characters of a set may come after each state, and all other kinds; none where that is hardly any.
  private static func farther(_ reach: PlainReach?, _ kinds: CharacterKinds) -> (
    counts: [UInt8], others: UInt8
  ) {
    guard let counts = reach?.counts(kinds), counts.max() ?? 0 >= 4 else { return ([], .max) }
    return (counts, ~kinds.rawValue)
  }

  /// Takes the tokens at these places of `trie.tokens`.
  @inline(__always)
  private mutating func take(_ trie: TokenTrie, _ places: Range<Int>, _ cost: Int32) {
    dearest = max(dearest, cost)
    for place in places {
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
