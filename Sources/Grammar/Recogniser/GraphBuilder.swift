// Builds the nodes of a grammar.

import Tokenizers

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

  /// The one-byte texts between the members of objects and arrays.
  static let marks = Result { () throws(GrammarError) in
    var automata: [[UInt8]: ByteDFA] = [:]
    for byte in "{}[],".utf8 { automata[[byte]] = try ByteDFA.texts([[byte]]) }
    return automata
  }

  /// Leaves of the automata above. Finding their shared states takes longer than a small grammar, and every grammar
  /// has those of the punctuation.
  static let leaves: [ObjectIdentifier: GrammarLeaf] = {
    let all = [freeString, canonicalString, freeNumber, key, freeKey, text, space, spaceBrace, spaceBracket]
    let automata = all.compactMap { try? $0.get() } + ((try? marks.get()) ?? [:]).values
    return automata.reduce(into: [:]) { $0[ObjectIdentifier($1)] = GrammarLeaf($1) }
  }()

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

  /// - Parameter count: tokens of the vocabulary.
  mutating func token(_ id: Int32, of count: Int) throws(GrammarError) -> Int32 {
    guard id >= 0, Int(id) < count else {
      throw .unsatisfiable(path: "", reason: "the vocabulary has no token \(id)")
    }
    return try add(.token(id))
  }

  mutating func literal(_ bytes: [UInt8]) throws(GrammarError) -> Int32 {
    if let known = literals[bytes] { return known }
    let node: Int32
    if bytes.isEmpty {
      node = try add(.sequence([]))
    } else if let mark = try CommonLanguages.marks.get()[bytes] {
      node = try leaf(mark)
    } else {
      node = try leaf(ByteDFA.texts([bytes]))
    }
    literals[bytes] = node
    return node
  }

  mutating func leaf(_ dfa: ByteDFA) throws(GrammarError) -> Int32 {
    if let known = automata[ObjectIdentifier(dfa)] { return known }
    let node = try add(.leaf(CommonLanguages.leaves[ObjectIdentifier(dfa)] ?? GrammarLeaf(dfa)))
    automata[ObjectIdentifier(dfa)] = node
    return node
  }

  /// A string automaton with bounds on its characters.
  mutating func leaf(_ dfa: ByteDFA, min: Int, max: Int) throws(GrammarError) -> Int32 {
    try add(.leaf(GrammarLeaf(dfa: dfa, length: (min, max))))
  }

  /// A leaf whose texts differ within an array.
  mutating func distinctLeaf(_ dfa: ByteDFA) throws(GrammarError) -> Int32 {
    try add(.leaf(GrammarLeaf(dfa: dfa, textCounts: dfa.textCounts(), shared: GrammarLeaf.sharedStates(dfa))))
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

extension GrammarLeaf {
  /// Any text of an automaton.
  init(_ dfa: ByteDFA) { self.init(dfa: dfa, shared: Self.sharedStates(dfa)) }

  /// Which states behave like states that other grammars have, too.
  fileprivate static func sharedStates(_ dfa: ByteDFA) -> [Int32: (leaf: Int, state: Int32)] {
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
}
