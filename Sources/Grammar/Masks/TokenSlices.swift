// The tokens of a vocabulary by the kinds and number of their characters, so that walks may pass slices of them over.

/// A node of the trie as a walk needs it, all in one place.
struct WalkNode: Sendable {
  /// The place of the next node that is not below this one.
  let end: Int32
  /// Its number in the trie.
  let node: Int32
  let depth: UInt16
  let byte: UInt8
  let hasTokens: Bool
  /// The kinds of characters in all tokens at and below it, with `other` where one is not unescaped, and the most characters
  /// of one.
  let kinds: UInt8
  let count: UInt8
  /// The characters of the text up to the node; `within` where the node is inside a character, or the text is not unescaped.
  let characters: UInt8

  static let within: UInt8 = 255
}

/// The tokens with characters of some kinds and up to so many of them.
struct TokenSlice: Sendable {
  let kinds: CharacterKinds
  let count: UInt8
  let tokens: TokenMask
}

/// Made once per vocabulary.
struct TokenSlices: Sendable {
  /// In the order of the trie, without its root.
  let nodes: [WalkNode]
  /// For each set of `CharacterKinds.usual` and each step of `steps`, the tokens of these kinds with up to so many
  /// characters.
  private let masks: [[TokenMask]]
  private static let steps: [UInt8] = [2, 4, 6, 8, 12, 16, 24, SliceReach.endless]

  /// - Parameter count: ids are below this.
  init(_ trie: TokenTrie, count: Int) {
    var kinds = [UInt8](repeating: 0, count: trie.count)
    var counts = kinds
    var characters = kinds
    var masks = CharacterKinds.usual.map { _ in Self.steps.map { _ in TokenMask(count: count) } }
    // Of the text up to each depth; no place where it is not unescaped.
    var path: [(kinds: UInt8, count: UInt8, place: UnescapedCharacter?)] = [(0, 0, .between)]
    for node in trie.byte.indices.dropFirst() {
      let depth = Int(trie.depth[node])
      path.removeLast(path.count - depth)
      path.append(Self.adding(trie.byte[node], to: path[depth - 1]))
      characters[node] = path[depth].place == .between ? path[depth].count : WalkNode.within
      let tokens = trie.tokens[trie.tokens(at: node)]
      guard !tokens.isEmpty else { continue }
      let text = path[depth]
      kinds[node] = text.place == .between ? text.kinds : CharacterKinds.other.rawValue
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
  }

  private static func adding(
    _ byte: UInt8, to text: (kinds: UInt8, count: UInt8, place: UnescapedCharacter?)
  ) -> (kinds: UInt8, count: UInt8, place: UnescapedCharacter?) {
    guard let place = text.place, let next = place.next(byte), text.count < SliceReach.endless - 1 else {
      return (text.kinds, text.count, nil)
    }
    guard place == .between else { return (text.kinds, text.count, next) }
    let kind: CharacterKinds = byte < 0x80 ? CharacterKinds(ascii: byte) : .beyond
    return (text.kinds | kind.rawValue, text.count + 1, next)
  }

  /// The largest slice of so many characters of a set of `CharacterKinds.usual`.
  ///
  /// - Parameter limit: takes less where it is less.
  func slice(_ best: (kinds: Int, count: UInt8)?, atMost limit: Int?) -> TokenSlice? {
    guard let best else { return nil }
    let most = limit.map { min(best.count, UInt8(clamping: $0)) } ?? best.count
    guard let step = Self.steps.lastIndex(where: { $0 <= most }) else { return nil }
    return TokenSlice(
      kinds: CharacterKinds.usual[best.kinds], count: Self.steps[step], tokens: masks[best.kinds][step])
  }
}
