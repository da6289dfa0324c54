// Builds the nodes of a grammar.

import Synchronization
import Tokenizers

/// Values without parts that nearly every schema allows together.
struct ScalarKinds: OptionSet, Hashable {
  let rawValue: UInt8

  static let null = ScalarKinds(rawValue: 1)
  static let no = ScalarKinds(rawValue: 2)
  static let yes = ScalarKinds(rawValue: 4)
  static let number = ScalarKinds(rawValue: 8)
  /// Written without a point.
  static let integer = ScalarKinds(rawValue: 16)
  static let string = ScalarKinds(rawValue: 32)
}

/// Languages that many grammars share; made once.
enum CommonLanguages {
  static let freeString = Result { () throws(GrammarError) in try JSONText.freeString() }
  static let canonicalString = Result { () throws(GrammarError) in try JSONText.canonicalString() }
  static let freeNumber = Result { () throws(GrammarError) in try JSONText.freeNumber() }
  /// Any key in its one spelling, with the colon.
  static let key = Result { () throws(GrammarError) in try canonicalString.get().keyed() }
  /// Any key in any spelling, with the colon.
  static let freeKey = Result { () throws(GrammarError) in try freeString.get().keyed() }
  static let space = Result { () throws(GrammarError) in try JSONText.whiteSpace() }
  static let spaceBrace = Result { () throws(GrammarError) in
    try JSONText.regex(JSONText.whiteSpaceExpression + #"\}"#)
  }
  static let spaceBracket = Result { () throws(GrammarError) in
    try JSONText.regex(JSONText.whiteSpaceExpression + #"\]"#)
  }
  /// Any UTF-8.
  static let text = Result { () throws(GrammarError) in
    try ByteNFA.automaton(.anything, spelling: .plain, anywhere: false)
  }

  private static let madeScalars = Mutex<[ScalarKinds: ByteDFA]>([:])

  /// The texts of values of some kinds.
  static func scalars(_ kinds: ScalarKinds) throws(GrammarError) -> ByteDFA {
    if let known = madeScalars.withLock({ $0[kinds] }) { return known }
    let words: [(ScalarKinds, String)] = [(.null, "null"), (.no, "false"), (.yes, "true")]
    let texts = words.filter { kinds.contains($0.0) }.map { Array($0.1.utf8) }
    var parts: [ByteDFA] = []
    if kinds.contains(.number) { parts.append(try freeNumber.get()) }
    if kinds.contains(.integer) {
      parts.append(try NumberLanguage.integers.get().intersection(NumberLanguage.plainIntegers.get()))
    }
    if kinds.contains(.string) { parts.append(try freeString.get()) }
    if !texts.isEmpty || parts.isEmpty { parts.append(try ByteDFA.texts(texts)) }
    var dfa = parts[0]
    for part in parts.dropFirst() { dfa = try dfa.union(part) }
    // Another thread may have made it meanwhile: all use the same.
    return madeScalars.withLock { made in
      if let known = made[kinds] { return known }
      made[kinds] = dfa
      return dfa
    }
  }

  /// The one-byte texts between the members of objects and arrays.
  static let marks = Result { () throws(GrammarError) in
    var automata: [[UInt8]: ByteDFA] = [:]
    for byte in "{}[],".utf8 { automata[[byte]] = try ByteDFA.texts([[byte]]) }
    return automata
  }

  /// The automata with the states whose masks all grammars share: the inside of strings, keys, numbers and text.
  static let shared: [(dfa: ByteDFA, states: [Int32])] = {
    let all = [freeString, canonicalString, freeNumber, key, freeKey, text]
    return all.compactMap { try? $0.get() }.map { dfa in
      (dfa, (0..<Int32(truncatingIfNeeded: min(dfa.stateCount, 8))).filter { dfa.continues[Int($0)] })
    }
  }()

  static func isShared(_ dfa: ByteDFA) -> Bool { shared.contains { $0.dfa === dfa } }
}

/// Nodes under construction, without the texts that the model cannot write.
struct GraphBuilder {
  private(set) var nodes: [GrammarNode] = []
  /// Leaves of which no text can be written, and their shortest one.
  private(set) var unwritable: [Int32: [UInt8]] = [:]
  /// Bytes that no token has alone.
  let missing: [UInt8]
  /// Texts that the leaves which are made now do not have.
  private var excluded: ByteDFA?
  private var literals: [[UInt8]: Int32] = [:]
  private var quotes: [(texts: [String], spelling: Spelling, min: Int, max: Int, node: Int32)] = []
  private var automata: [ByteDFA: Int32] = [:]
  private var distinctLeaves: [ByteDFA: Int32] = [:]
  private var textCounts: [ByteDFA: [UInt32]] = [:]

  /// - Parameter missing: bytes that no token of the vocabulary has alone: an answer could end up where nothing but such a
  ///   byte may come.
  init(missing: [UInt8] = []) { self.missing = missing }

  /// The texts that can be written. The automaton itself where all states stay and cost the same without the others: no
  /// token has a missing byte, so none leads where only such a byte goes on.
  func writable(_ dfa: ByteDFA) throws(GrammarError) -> ByteDFA {
    let dfa = try rest(of: dfa)
    let own = dfa.without(missing)
    return own.stateCount == dfa.stateCount && own.cost == dfa.cost ? dfa : own
  }

  /// The same without any other automaton.
  func written(_ dfa: ByteDFA) throws(GrammarError) -> ByteDFA { try rest(of: dfa).without(missing) }

  /// Without what is excluded: the automaton itself where it has none of that.
  private func rest(of dfa: ByteDFA) throws(GrammarError) -> ByteDFA {
    guard let excluded, try !dfa.intersection(excluded).isEmpty else { return dfa }
    return try dfa.subtracting(excluded)
  }

  /// Leaves that are made from now on do not have these texts.
  ///
  /// - Returns: the texts until now.
  @discardableResult
  mutating func excluding(_ texts: ByteDFA?) -> ByteDFA? {
    defer { excluded = texts }
    (literals, automata, distinctLeaves, textCounts, quotes) = ([:], [:], [:], [:], [])
    return excluded
  }

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
    if let known = automata[dfa] { return known }
    let node = try add(.leaf(GrammarLeaf(dfa: writable(dfa))))
    automata[dfa] = node
    if isUnwritable(node) { unwritable[node] = dfa.shortestText }
    return node
  }

  /// - Parameters:
  ///   - texts: what may be quoted.
  ///   - min, max: characters of the quote.
  mutating func quote(
    of texts: [String], _ spelling: Spelling, min: Int = 1, max: Int = Int.max
  ) throws(GrammarError) -> Int32 {
    let known = quotes.first {
      $0.spelling == spelling && $0.min == min && $0.max == max && $0.texts == texts
    }
    if let known { return known.node }
    let node = try add(
      .quote(QuoteLeaf(texts, spelling: spelling, min: min, max: max, missing: missing, excluded: excluded)))
    quotes.append((texts, spelling, min, max, node))
    return node
  }

  /// Whether a leaf has no text.
  func isUnwritable(_ node: Int32) -> Bool {
    if case .leaf(let leaf) = nodes[Int(node)] { leaf.dfa.isEmpty } else { false }
  }

  /// A string automaton, of what can be written, with bounds on its characters.
  mutating func leaf(_ dfa: ByteDFA, _ bounds: CharacterBounds) throws(GrammarError) -> Int32 {
    try add(.leaf(GrammarLeaf(dfa: dfa, length: bounds)))
  }

  /// A leaf whose texts differ within an array.
  mutating func distinctLeaf(_ dfa: ByteDFA) throws(GrammarError) -> Int32 {
    if let known = distinctLeaves[dfa] { return known }
    let node = try add(.leaf(GrammarLeaf(dfa: writable(dfa), textCounts: textCounts(of: dfa))))
    distinctLeaves[dfa] = node
    if isUnwritable(node) { unwritable[node] = dfa.shortestText }
    return node
  }

  /// `ByteDFA.textCounts` of what can be written, found once: most members and items that must differ are any string.
  mutating func textCounts(of dfa: ByteDFA) throws(GrammarError) -> [UInt32] {
    if let known = textCounts[dfa] { return known }
    let counts = try written(dfa).textCounts()
    textCounts[dfa] = counts
    return counts
  }

  /// Whether this is a leaf with more texts that must differ than anybody writes.
  func hasManyTexts(_ node: Int32) -> Bool {
    guard case .leaf(let leaf) = nodes[Int(node)] else { return false }
    return leaf.textCounts?.first == .max
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

/// A state of one of the automata that many grammars share.
struct SharedState: Hashable {
  /// The automaton's place in `CommonLanguages.shared`.
  let leaf: Int
  let state: Int32

  init(leaf: Int, state: Int32) { (self.leaf, self.state) = (leaf, state) }

  /// The shared state that a state of an automaton behaves like, if there is one.
  init?(_ dfa: ByteDFA, _ state: Int32) {
    let cost = dfa.cost[Int(state)]
    for (leaf, common) in CommonLanguages.shared.enumerated() {
      for target in common.states where cost == common.dfa.cost[Int(target)] {
        if dfa === common.dfa ? state == target : dfa.isEquivalent(state, common.dfa, target) {
          self.init(leaf: leaf, state: target)
          return
        }
      }
    }
    return nil
  }
}
