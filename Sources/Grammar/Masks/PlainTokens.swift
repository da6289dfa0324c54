// The plain tokens of a vocabulary by the kinds of their characters, so that walks may pass them over.

/// A node of the trie as a walk needs it, all in one place.
struct WalkNode: Sendable {
  /// The place of the next node that is not below this one.
  let end: Int32
  /// Its number in the trie.
  let node: Int32
  let depth: UInt16
  let byte: UInt8
  let hasTokens: Bool
  /// The kinds of characters in all tokens at and below it, with `odd` where one is not plain, and the most characters
  /// of one.
  let kinds: UInt8
  let count: UInt8
  /// The characters of the text up to the node; `within` where the node is inside a character, or the text is not plain.
  let characters: UInt8

  static let within: UInt8 = 255
}

/// Tokens that need no walk, and the nodes of all others.
struct WalkPlan {
  /// The tokens that are known to stay inside.
  var known: TokenMask?
  /// In the order of the trie, without its root.
  var nodes: [WalkNode]
  /// Whether these are a short list.
  var isListed = false
  /// Below a node with no other kinds and no more characters, all tokens are known.
  var kinds: UInt8 = 0
  var count: UInt8 = 0
  /// The same of tokens of which nothing need be known.
  var coveredKinds: UInt8 = 0
  var coveredCount: UInt8 = 0
}

/// Plain tokens: those of one of the usual sets of kinds, with up to so many characters.
struct PlainSet: Hashable, Sendable {
  /// Its place in `CharacterKinds.usual`.
  let kinds: Int8
  /// Its place in `PlainTokens.steps`.
  let step: Int8
}

/// Made once per vocabulary.
struct PlainTokens: Sendable {
  private let nodes: [WalkNode]
  /// For each set of `CharacterKinds.usual` and each step of `steps`, the tokens of these kinds with up to so many
  /// characters.
  private let masks: [[TokenMask]]
  /// How many tokens each of them has.
  private let counts: [[Int]]
  /// For each set, the nodes with other tokens at or below them, or longer ones than `listed`, where these are few.
  private let others: [[WalkNode]?]

  private static let steps: [UInt8] = [2, 4, 6, 8, 12, 16, listed, PlainReach.endless]
  /// Hardly any token has more characters.
  private static let listed: UInt8 = 24

  /// - Parameter count: ids are below this.
  init(_ trie: TokenTrie, count: Int) {
    var kinds = [UInt8](repeating: 0, count: trie.count)
    var counts = kinds
    var characters = kinds
    var masks = CharacterKinds.usual.map { _ in Self.steps.map { _ in TokenMask(count: count) } }
    // Of the text up to each depth; no place where it is not plain.
    var path: [(kinds: UInt8, count: UInt8, place: PlainCharacter?)] = [(0, 0, .between)]
    for node in trie.byte.indices.dropFirst() {
      let depth = Int(trie.depth[node])
      path.removeLast(path.count - depth)
      path.append(Self.adding(trie.byte[node], to: path[depth - 1]))
      characters[node] = path[depth].place == .between ? path[depth].count : WalkNode.within
      let tokens = trie.tokens[trie.tokens(at: node)]
      guard !tokens.isEmpty else { continue }
      let text = path[depth]
      kinds[node] = text.place == .between ? text.kinds : CharacterKinds.odd.rawValue
      counts[node] = text.count
      guard text.place == .between, let step = Self.steps.firstIndex(where: { text.count <= $0 }) else {
        continue
      }
      for (index, usual) in CharacterKinds.usual.enumerated() where text.kinds & ~usual.rawValue == 0 {
        masks[index][step].insert(tokens)
      }
    }
    // Each step has the tokens of those before it.
    for index in masks.indices {
      for step in masks[index].indices.dropFirst() { masks[index][step].formUnion(masks[index][step - 1]) }
    }
    for node in trie.byte.indices.dropFirst().reversed() {
      let parent = Int(trie.parent[node])
      kinds[parent] |= kinds[node]
      counts[parent] = max(counts[parent], counts[node])
    }
    nodes = trie.byte.indices.dropFirst().map { node in
      WalkNode(
        end: trie.end[node] - 1, node: Int32(truncatingIfNeeded: node), depth: trie.depth[node],
        byte: trie.byte[node], hasTokens: !trie.tokens(at: node).isEmpty, kinds: kinds[node],
        count: counts[node], characters: characters[node])
    }
    self.masks = masks
    self.counts = masks.map { $0.map { mask in mask.words.reduce(0) { $0 + $1.nonzeroBitCount } } }
    others = CharacterKinds.usual.map { [nodes] in Self.others(nodes, than: $0) }
  }

  /// The nodes with tokens that are not of these kinds or have very many characters; nil where that saves little.
  private static func others(_ nodes: [WalkNode], than kinds: CharacterKinds) -> [WalkNode]? {
    func isOther(_ node: WalkNode) -> Bool { node.kinds & ~kinds.rawValue != 0 || node.count > listed }
    // How many of them come before each node.
    var places: [Int32] = [0]
    places.reserveCapacity(nodes.count + 1)
    for node in nodes {
      places.append(places[places.count - 1] + (isOther(node) ? 1 : 0))
    }
    guard Int(places[nodes.count]) < nodes.count / 3 else { return nil }
    return nodes.filter(isOther).map { node in
      WalkNode(
        end: places[Int(node.end)], node: node.node, depth: node.depth, byte: node.byte,
        hasTokens: node.hasTokens, kinds: node.kinds, count: node.count, characters: node.characters)
    }
  }

  private static func adding(
    _ byte: UInt8, to text: (kinds: UInt8, count: UInt8, place: PlainCharacter?)
  ) -> (kinds: UInt8, count: UInt8, place: PlainCharacter?) {
    guard let place = text.place, let next = place.next(byte), text.count < PlainReach.endless - 1 else {
      return (text.kinds, text.count, nil)
    }
    guard place == .between else { return (text.kinds, text.count, next) }
    let kind: CharacterKinds = byte < 0x80 ? CharacterKinds(ascii: byte) : .beyond
    return (text.kinds | kind.rawValue, text.count + 1, next)
  }

  /// The tokens of so many characters of a set of `CharacterKinds.usual`.
  func set(_ best: (kinds: Int, count: UInt8)?) -> PlainSet? {
    guard let best, let step = Self.steps.lastIndex(where: { $0 <= best.count }) else { return nil }
    return PlainSet(kinds: Int8(truncatingIfNeeded: best.kinds), step: Int8(truncatingIfNeeded: step))
  }

  func count(_ set: PlainSet?) -> Int { set.map { counts[Int($0.kinds)][Int($0.step)] } ?? 0 }

  /// What must be walked where some tokens need not be.
  ///
  /// - Parameters:
  ///   - inside: tokens that stay inside.
  ///   - covered: tokens of which it makes no difference whether they do.
  func plan(inside: PlainSet?, covered: PlainSet? = nil) -> WalkPlan {
    var plan = WalkPlan(nodes: nodes)
    if let inside {
      plan.known = masks[Int(inside.kinds)][Int(inside.step)]
      (plan.kinds, plan.count) = (kinds(of: inside), Self.steps[Int(inside.step)])
    }
    if let covered {
      (plan.coveredKinds, plan.coveredCount) = (kinds(of: covered), Self.steps[Int(covered.step)])
    }
    if let nodes = [inside, covered].compactMap({ $0.flatMap(listed) }).min(by: { $0.count < $1.count }) {
      (plan.nodes, plan.isListed) = (nodes, true)
    }
    return plan
  }

  private func kinds(of set: PlainSet) -> UInt8 { CharacterKinds.usual[Int(set.kinds)].rawValue }

  /// The nodes that must be walked beside these tokens, where these are few.
  private func listed(_ set: PlainSet) -> [WalkNode]? {
    Self.steps[Int(set.step)] >= Self.listed ? others[Int(set.kinds)] : nil
  }
}
