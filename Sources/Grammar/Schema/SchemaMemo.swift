// What the compiler of a schema has made: what comes again in a schema is made once.

/// Automata and nodes by what they were made of.
struct SchemaMemo {
  enum AutomatonKey: Hashable {
    case union(ByteDFA.Pair)
    case number(ByteDFA, isInteger: Bool, isConstant: Bool)
    case bounded(ByteDFA, min: Int, max: Int)
    /// The strings of an automaton as keys.
    case keyed(ByteDFA)
  }

  enum NodeKey: Hashable {
    case rule(Conjunction)
    case anyString(min: Int, max: Int)
    case key(MemberKey)
    /// All keys but these.
    case otherKeys([MemberKey])
  }

  var automata: [AutomatonKey: ByteDFA] = [:]
  var nodes: [NodeKey: Int32] = [:]
  /// Nil for objects that there are none of.
  var objects: [ObjectAtom: Int32?] = [:]
  /// Nil where characters cannot be counted beside the automaton.
  var counted: [ByteDFA: (dfa: ByteDFA, counts: CharacterCounts)?] = [:]
  /// The leaves of `.bounded` where they are counted so.
  var countedLeaves: [AutomatonKey: [Int32]] = [:]

  /// Keeps an automaton and hands it back.
  mutating func keep(_ dfa: ByteDFA, _ key: AutomatonKey) -> ByteDFA {
    automata[key] = dfa
    return dfa
  }

  mutating func keep(_ node: Int32, _ key: NodeKey) -> Int32 {
    nodes[key] = node
    return node
  }
}
