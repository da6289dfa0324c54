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

  /// The same as a mask of ids below `count`.
  func mask(count: Int) -> TokenMask {
    if case .many(let mask) = self { return mask }
    var mask = TokenMask(count: count)
    add(to: &mask)
    return mask
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
  let maxCost: Int32
  let leaving: LeafExits

  init(inside: TokenSet, maxCost: Int32, leaving: LeafExits) {
    (self.inside, self.maxCost, self.leaving) = (inside, maxCost, leaving)
  }

  var byteCount: Int { inside.byteCount + leaving.byteCount + 128 }

  /// Walks the vocabulary through an automaton from a state. A slice of which any token may come is not walked.
  ///
  /// - Parameters:
  ///   - reach: of the automaton; nil where slices make no difference.
  ///   - room: for characters, where they are counted.
  ///   - leaving: what follows the nodes at which the automaton accepts, of which there are some.
  static func make(
    _ dfa: ByteDFA, state: Int32, reach: SliceReach?, room: CharacterRoom? = nil,
    vocabulary: GrammarVocabulary, leaving: ([Int32]) -> LeafExits
  ) -> LeafMask {
    let slice = vocabulary.slices.slice(reach?.best(state), atMost: room?.unescaped)
    var walk = LeafWalk(dfa: dfa, state: state, known: slice?.tokens, count: vocabulary.count)
    if let room {
      walk.run(slice, vocabulary, reach, CountedWalk(room, depth: vocabulary.longestToken))
    } else {
      walk.run(slice, vocabulary, reach, UncountedWalk())
    }
    let maxCost = slice == nil ? nil : reach?.maxCost(after: state)
    return LeafMask(
      inside: walk.tokens, maxCost: maxCost ?? walk.maxCost,
      leaving: walk.exits.isEmpty ? .none : leaving(walk.exits))
  }
}

/// What is counted on a walk beside the states of the automaton.
protocol WalkCount {
  /// - Returns: whether a text may still come to an end from the state that the node's byte leads to.
  mutating func follow(_ node: WalkNode, from before: Int32, to after: Int32) -> Bool
  /// Whether there is room for all unescaped text below a node that was followed.
  func hasRoom(below node: WalkNode) -> Bool
}

/// A walk on which nothing is counted.
private struct UncountedWalk: WalkCount {
  @inline(__always)
  func follow(_ node: WalkNode, from before: Int32, to after: Int32) -> Bool { true }

  @inline(__always)
  func hasRoom(below node: WalkNode) -> Bool { true }
}

/// The characters that the tokens of a walk begin.
private struct CountedWalk: WalkCount {
  private let room: CharacterRoom
  private let most: Int
  private var begun: [Int]

  init(_ room: CharacterRoom, depth: Int) {
    self.room = room
    most = room.unescaped
    begun = [Int](repeating: 0, count: depth + 1)
  }

  mutating func follow(_ node: WalkNode, from before: Int32, to after: Int32) -> Bool {
    let count = begun[Int(node.depth) - 1] + (room.counts.begins(before, node.byte) ? 1 : 0)
    begun[Int(node.depth)] = count
    return room.allows(after, after: count)
  }

  func hasRoom(below node: WalkNode) -> Bool {
    begun[Int(node.depth)] + Int(node.count &- node.characters) <= most
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
  private(set) var maxCost: Int32 = 0
  private(set) var exits: [Int32] = []

  /// - Parameters:
  ///   - known: tokens that stay inside.
  ///   - count: tokens of the vocabulary.
  init(dfa: ByteDFA, state: Int32, known: TokenMask?, count: Int) {
    (self.dfa, self.state) = (dfa, state)
    many = known
    vocabularyCount = count
  }

  /// The tokens that stay inside.
  var tokens: TokenSet { many.map { .many($0) } ?? .few(few) }

  /// - Parameters:
  ///   - slice: tokens that are known to stay inside.
  ///   - reach: of the automaton, where that may help.
  ///   - count: what is counted beside it.
  mutating func run(
    _ slice: TokenSlice?, _ vocabulary: GrammarVocabulary, _ reach: SliceReach?, _ count: some WalkCount
  ) {
    var count = count
    // Plain arrays in local constants: the loop visits very many nodes.
    let nodes = vocabulary.slices.nodes
    let (others, most) = (~(slice?.kinds.rawValue ?? 0), slice?.count ?? 0)
    // How many unescaped characters may come after each state, whichever: below a node with no others and no more, all
    // tokens stay inside. None where that is hardly any.
    let counts = reach?.counts(.unescaped) ?? []
    let farther = counts.max() ?? 0 >= 4 ? counts : []
    let allOthers = farther.isEmpty ? UInt8.max : CharacterKinds.other.rawValue
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
        node.kinds & allOthers == 0, farther[Int(after)] >= node.count &- node.characters,
        count.hasRoom(below: node)
      {
        take(
          vocabulary.trie, vocabulary.trie.tokens(below: Int(node.node)), reach?.maxCost(after: after) ?? 0)
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

  /// Takes the tokens at these places of `trie.tokens`.
  @inline(__always)
  private mutating func take(_ trie: TokenTrie, _ places: Range<Int>, _ cost: Int32) {
    maxCost = max(maxCost, cost)
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
