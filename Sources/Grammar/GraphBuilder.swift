// Builds the nodes of a grammar.

/// Languages that many grammars share; made once.
enum CommonLanguages {
  static let freeString = Result { () throws(GrammarError) in try JSONText.freeString() }
  static let canonicalString = Result { () throws(GrammarError) in try JSONText.canonicalString() }
  static let freeNumber = Result { () throws(GrammarError) in try JSONText.freeNumber() }
  /// Any key in its one spelling, with the colon.
  static let key = Result { () throws(GrammarError) in try keyed(canonicalString.get()) }
  /// Any key in any spelling, with the colon.
  static let freeKey = Result { () throws(GrammarError) in try keyed(freeString.get()) }
  static let space = Result { () throws(GrammarError) in try JSONText.whiteSpace() }
  static let spaceBrace = Result { () throws(GrammarError) in
    try JSONText.regex(JSONText.whiteSpaceExpression + #"\}"#)
  }
  static let spaceBracket = Result { () throws(GrammarError) in
    try JSONText.regex(JSONText.whiteSpaceExpression + #"\]"#)
  }
  /// Any UTF-8.
  static let text = Result { () throws(GrammarError) in
    try ByteNFA.automaton(.repeated(.set(.all), min: 0, max: nil), spelling: .plain, anywhere: false)
  }

  /// Key, colon, and perhaps a space.
  static func keyed(_ key: ByteDFA) throws(GrammarError) -> ByteDFA {
    let bare = try key.wrapped([], [0x3A])
    return try bare.union(key.wrapped([], [0x3A, 0x20]))
  }

  /// The automata with the states whose masks all grammars share: the inside of strings, keys, numbers and text.
  static let shared: [(dfa: ByteDFA, states: [Int32])] = {
    let all = [freeString, canonicalString, freeNumber, key, freeKey, text]
    return all.compactMap { try? $0.get() }.map { dfa in
      (dfa, (0..<Int32(truncatingIfNeeded: min(dfa.stateCount, 8))).filter { dfa.continues[Int($0)] })
    }
  }()
}

/// Nodes under construction.
struct GraphBuilder {
  private(set) var nodes: [GrammarNode] = []
  private var literals: [[UInt8]: Int32] = [:]
  private var automata: [ObjectIdentifier: Int32] = [:]

  mutating func add(_ node: GrammarNode) throws(GrammarError) -> Int32 {
    guard nodes.count < GrammarGraph.nodeLimit else {
      throw .tooLarge(reason: "the grammar has more than \(GrammarGraph.nodeLimit) nodes")
    }
    nodes.append(node)
    return Int32(truncatingIfNeeded: nodes.count - 1)
  }

  /// A node that is filled in later.
  mutating func reserve() throws(GrammarError) -> Int32 { try add(.choice([])) }

  mutating func fill(_ node: Int32, _ content: GrammarNode) { nodes[Int(node)] = content }

  mutating func literal(_ bytes: [UInt8]) throws(GrammarError) -> Int32 {
    if let known = literals[bytes] { return known }
    let node = bytes.isEmpty ? try add(.sequence([])) : try leaf(ByteDFA.texts([bytes]))
    literals[bytes] = node
    return node
  }

  mutating func leaf(_ dfa: ByteDFA) throws(GrammarError) -> Int32 {
    if let known = automata[ObjectIdentifier(dfa)] { return known }
    let node = try add(.leaf(GrammarLeaf(dfa: dfa, shared: Self.sharedStates(dfa))))
    automata[ObjectIdentifier(dfa)] = node
    return node
  }

  /// A string automaton with bounds on its characters.
  mutating func leaf(_ dfa: ByteDFA, min: Int, max: Int) throws(GrammarError) -> Int32 {
    try add(.leaf(GrammarLeaf(dfa: dfa, length: (min, max))))
  }

  /// A leaf whose texts differ within an array.
  mutating func distinctLeaf(_ dfa: ByteDFA) throws(GrammarError) -> Int32 {
    try add(.leaf(GrammarLeaf(dfa: dfa, textCounts: dfa.textCounts(), shared: Self.sharedStates(dfa))))
  }

  /// Which states behave like states that other grammars have, too.
  private static func sharedStates(_ dfa: ByteDFA) -> [Int32: (leaf: Int, state: Int32)] {
    var found: [Int32: (leaf: Int, state: Int32)] = [:]
    guard dfa.stateCount <= 2000 else { return found }
    for state in 0..<Int32(truncatingIfNeeded: dfa.stateCount) where dfa.continues[Int(state)] {
      search: for (leaf, common) in CommonLanguages.shared.enumerated() {
        for target in common.states where dfa.cost[Int(state)] == common.dfa.cost[Int(target)] {
          if dfa === common.dfa ? state == target : dfa.isEquivalent(state, common.dfa, target) {
            found[state] = (leaf, target)
            break search
          }
        }
      }
    }
    return found
  }

  mutating func punctuation() throws(GrammarError) -> PunctuationNodes {
    return PunctuationNodes(
      openObject: try literal([0x7B]), closeObject: try literal([0x7D]),
      spaceCloseObject: try leaf(CommonLanguages.spaceBrace.get()),
      openArray: try literal([0x5B]), closeArray: try literal([0x5D]),
      spaceCloseArray: try leaf(CommonLanguages.spaceBracket.get()),
      comma: try literal([0x2C]), space: try leaf(CommonLanguages.space.get()))
  }
}
