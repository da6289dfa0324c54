// A grammar as a graph of nodes: what text may come, and in which order.

/// A node of the grammar. Other nodes are named by their index.
enum GrammarNode {
  /// Bytes of a regular language.
  case leaf(GrammarLeaf)
  /// Exactly this token.
  case token(Int32)
  case sequence([Int32])
  case choice([Int32])
  /// `max` is `Int.max` without a bound.
  case repeated(Int32, min: Int, max: Int)
  case object(ObjectPlan)
  case array(ArrayPlan)
}

struct GrammarLeaf {
  let dfa: ByteDFA
  /// Bounds on the characters of a JSON string: bytes that leave state 1, but for the closing quote, begin one.
  var length: (min: Int, max: Int)?
  /// The texts of this leaf in one array must differ; how many texts lead on from each state.
  var textCounts: [UInt32]?
  /// For states that behave like a state that many grammars share: its leaf and state.
  var shared: [Int32: (leaf: Int, state: Int32)] = [:]

  /// State 1 of a string automaton is between two characters.
  static let betweenCharacters: Int32 = 1

  @inline(__always)
  func beginsCharacter(_ state: Int32, _ byte: UInt8) -> Bool {
    state == Self.betweenCharacters && byte != 0x22
  }
}

/// The members of an object, in any order.
struct ObjectPlan {
  struct Property {
    /// `"key":` and perhaps a space.
    var key: Int32
    var value: Int32
    var isRequired: Bool
    /// Properties that must be there when this one is; directly and indirectly.
    var implied: [Int] = []
  }

  var properties: [Property]
  /// Members whose keys are not among `properties`.
  var extras: [(key: Int32, value: Int32)]
  var min: Int
  /// `Int.max` without a bound.
  var max: Int
}

struct ArrayPlan {
  struct Option {
    var value: Int32
    /// Bit n: an item of this kind counts for `contains[n]`.
    var marks: UInt64
  }

  /// What may stand at the first places.
  var prefix: [[Option]]
  /// What may stand behind them; empty: nothing.
  var rest: [Option]
  var min: Int
  /// `Int.max` without a bound.
  var max: Int
  /// `max` is `Int.max` without a bound.
  var contains: [(min: Int, max: Int)]
  /// Items are leaves whose texts must differ.
  var isUnique: Bool

  func options(at index: Int) -> [Option] {
    guard index < max else { return [] }
    return index < prefix.count ? prefix[index] : rest
  }
}

/// All nodes of a grammar with what it takes to complete them.
final class GrammarGraph: Sendable {
  let nodes: [GrammarNode]
  let root: Int32
  /// Bytes of the shortest text of each node.
  let cost: [Int32]
  /// Frames that the flattest text of each node needs.
  let depth: [Int32]
  /// Nodes for the punctuation of objects and arrays.
  let marks: PunctuationNodes

  /// Most frames of a stack.
  static let depthLimit: Int32 = 700
  static let nodeLimit = 60_000
  /// About how much memory the nodes take.
  let byteCount: Int
  private static let byteLimit = 48 << 20

  init(nodes: [GrammarNode], root: Int32, marks: PunctuationNodes) throws(GrammarError) {
    self.nodes = nodes
    self.root = root
    self.marks = marks
    var automata: [ObjectIdentifier: Int] = [:]
    for case .leaf(let leaf) in nodes { automata[ObjectIdentifier(leaf.dfa)] = leaf.dfa.byteCount }
    byteCount = automata.values.reduce(nodes.count * 200, +)
    guard byteCount <= Self.byteLimit else {
      throw .tooLarge(reason: "the automata of the grammar take more than \(Self.byteLimit >> 20) MiB")
    }
    var measure = GrammarMeasure(nodes: nodes, marks: marks)
    try measure.run()
    cost = measure.cost
    depth = measure.depth
    guard cost[Int(root)] < Cost.none else {
      throw .unsatisfiable(path: "", reason: "no text satisfies it")
    }
    guard depth[Int(root)] < Self.depthLimit / 2 else {
      throw .tooLarge(reason: "every answer would be nested more than \(Self.depthLimit / 2) deep")
    }
    try GrammarGraph.refuseLeftRecursion(nodes, root)
  }

  /// A rule that begins with itself has no first byte to wait for.
  private static func refuseLeftRecursion(_ nodes: [GrammarNode], _ root: Int32) throws(GrammarError) {
    let nullable = nullableNodes(nodes)
    func firsts(_ node: Int32) -> [Int32] {
      switch nodes[Int(node)] {
      case .leaf, .token, .object, .array: return []
      case .choice(let branches): return branches
      case .repeated(let inner, _, _): return [inner]
      case .sequence(let parts):
        let count = parts.firstIndex { !nullable[Int($0)] } ?? parts.count
        return Array(parts.prefix(count + 1))
      }
    }
    // 0 unseen, 1 on the path, 2 done.
    var mark = [UInt8](repeating: 0, count: nodes.count)
    for start in nodes.indices where mark[start] == 0 {
      var stack: [(node: Int32, rest: [Int32])] = [
        (Int32(truncatingIfNeeded: start), firsts(Int32(truncatingIfNeeded: start)))
      ]
      mark[start] = 1
      while let top = stack.last {
        guard let next = top.rest.last else {
          mark[Int(top.node)] = 2
          stack.removeLast()
          continue
        }
        stack[stack.count - 1].rest.removeLast()
        if mark[Int(next)] == 1 {
          throw .unsupported(
            keyword: "left recursion", path: "", reason: "a rule begins with itself; write it as a repetition"
          )
        }
        guard mark[Int(next)] == 0 else { continue }
        mark[Int(next)] = 1
        stack.append((next, firsts(next)))
      }
    }
  }

  private static func nullableNodes(_ nodes: [GrammarNode]) -> [Bool] {
    var nullable = [Bool](repeating: false, count: nodes.count)
    var isChanged = true
    while isChanged {
      isChanged = false
      for index in nodes.indices.reversed() where !nullable[index] {
        let now: Bool
        switch nodes[index] {
        case .leaf(let leaf): now = leaf.dfa.accepting[0]
        case .token, .object, .array: now = false
        case .sequence(let parts): now = parts.allSatisfy { nullable[Int($0)] }
        case .choice(let branches): now = branches.contains { nullable[Int($0)] }
        case .repeated(let inner, let min, _): now = min == 0 || nullable[Int(inner)]
        }
        if now {
          nullable[index] = true
          isChanged = true
        }
      }
    }
    return nullable
  }
}

/// The leaves between the members of objects and arrays.
struct PunctuationNodes {
  var openObject: Int32
  var closeObject: Int32
  /// White space, then the closing brace.
  var spaceCloseObject: Int32
  var openArray: Int32
  var closeArray: Int32
  var spaceCloseArray: Int32
  var comma: Int32
  var space: Int32
}

/// Finds the shortest and the flattest text of every node, from the leaves up until nothing changes.
struct GrammarMeasure {
  let nodes: [GrammarNode]
  let marks: PunctuationNodes
  var cost: [Int32]
  var depth: [Int32]

  init(nodes: [GrammarNode], marks: PunctuationNodes) {
    self.nodes = nodes
    self.marks = marks
    cost = [Int32](repeating: Cost.none, count: nodes.count)
    depth = cost
  }

  mutating func run() throws(GrammarError) {
    var rounds = 0
    var isChanged = true
    while isChanged {
      isChanged = false
      rounds += 1
      guard rounds * nodes.count < 40_000_000 else {
        throw .tooLarge(reason: "the grammar takes too long to measure")
      }
      for index in nodes.indices.reversed() {
        let (newCost, newDepth) = measure(nodes[index])
        if newCost < cost[index] || newDepth < depth[index] {
          cost[index] = min(cost[index], newCost)
          depth[index] = min(depth[index], newDepth)
          isChanged = true
        }
      }
    }
  }

  private func measure(_ node: GrammarNode) -> (Int32, Int32) {
    switch node {
    case .leaf(let leaf):
      let length =
        leaf.dfa.isEmpty ? Cost.none : Cost.sum(leaf.dfa.cost[0], Int32(clamping: leaf.length?.min ?? 0))
      return (length, length < Cost.none ? 1 : Cost.none)
    case .token: return (1, 1)
    case .sequence(let parts):
      return (
        parts.reduce(0) { Cost.sum($0, cost[Int($1)]) },
        Cost.sum(1, parts.reduce(0) { max($0, depth[Int($1)]) })
      )
    case .choice(let branches):
      return (
        branches.reduce(Cost.none) { min($0, cost[Int($1)]) },
        branches.reduce(Cost.none) { min($0, depth[Int($1)]) }
      )
    case .repeated(let inner, let min, _):
      guard min > 0 else { return (0, 1) }
      return (Cost.product(cost[Int(inner)], min), Cost.sum(1, depth[Int(inner)]))
    case .object(let plan):
      let state = ObjectState(plan)
      let members = state.cost(plan, cost)
      guard members < Cost.none else { return (Cost.none, Cost.none) }
      // The first member has no comma.
      let inner = state.needed(plan).reduce(Int32(0)) { max($0, depth[Int(plan.properties[$1].value)]) }
      return (
        Cost.sum(2, max(0, members - 1)),
        Cost.sum(2, state.shortage(plan) > 0 ? max(inner, flattest(plan)) : inner)
      )
    case .array(let plan):
      let items = ArrayState(plan).cost(plan, cost)
      guard items < Cost.none else { return (Cost.none, Cost.none) }
      var inner: Int32 = 0
      for index in 0..<min(plan.min, plan.prefix.count + 1) {
        inner = max(inner, plan.options(at: index).reduce(Cost.none) { min($0, depth[Int($1.value)]) })
      }
      if plan.contains.contains(where: { $0.min > 0 }) {
        for options in plan.prefix + [plan.rest] {
          for option in options where option.marks != 0 && depth[Int(option.value)] < Cost.none {
            inner = max(inner, depth[Int(option.value)])
          }
        }
      }
      return (Cost.sum(2, max(0, items - 1)), Cost.sum(2, inner))
    }
  }

  /// The flattest value among the members of an object.
  private func flattest(_ plan: ObjectPlan) -> Int32 {
    let values = plan.properties.map(\.value) + plan.extras.map(\.value)
    return values.reduce(Cost.none) { min($0, depth[Int($1)]) }
  }
}
