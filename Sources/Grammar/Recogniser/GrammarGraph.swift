// A grammar as a graph of nodes: what text may come, and in which order.

import JSON
import Synchronization

/// A node of the grammar. Other nodes are named by their index.
enum GrammarNode {
  /// Bytes of a regular language.
  case leaf(GrammarLeaf)
  /// Text that stands in a source.
  case quote(QuoteLeaf)
  /// Exactly this token.
  case token(Int32)
  case sequence([Int32])
  case choice([Int32])
  /// `max` is `Int.max` without a bound.
  case repeated(Int32, min: Int, max: Int)
  case object(ObjectPlan)
  case array(ArrayPlan)

  /// Calls `body` with each node that it names.
  func eachPart(_ body: (Int32) -> Void) {
    switch self {
    case .leaf, .quote, .token: break
    case .sequence(let parts), .choice(let parts): parts.forEach(body)
    case .repeated(let inner, _, _): body(inner)
    case .object(let plan):
      for property in plan.properties {
        body(property.key)
        body(property.value)
      }
      for extra in plan.extras {
        body(extra.key)
        body(extra.value)
      }
    case .array(let plan):
      for options in plan.places { for option in options { body(option.value) } }
    }
  }
}

// Leaves and plans are classes: a node is copied at every step, and then one reference is counted instead of several.

final class GrammarLeaf: Sendable {
  let dfa: ByteDFA
  /// Bounds on the characters of a JSON string.
  let length: CharacterBounds?
  /// The texts of this leaf in one array must differ; how many texts lead on from each state.
  let textCounts: [UInt32]?

  init(dfa: ByteDFA, length: CharacterBounds? = nil, textCounts: [UInt32]? = nil) {
    (self.dfa, self.length, self.textCounts) = (dfa, length, textCounts)
  }

  /// State 1 of the automata of all strings is between two characters.
  static let betweenCharacters: Int32 = 1

  /// Whether it has all strings of some lengths: what the vocabulary does in these is known before any grammar.
  var isAnyString: Bool { length?.counts.isFree ?? false }

  /// Bytes with which the leaf is completed, or more than that.
  ///
  /// - Parameter count: the characters so far, where they are counted.
  func cost(_ state: Int32, after count: Int) -> Int32 {
    length.map { $0.cost(state, after: count) } ?? dfa.cost[Int(state)]
  }
}

/// The members of an object, in any order.
final class ObjectPlan: Sendable {
  struct Property: Sendable {
    /// `"key":` and perhaps a space.
    var key: Int32
    var value: Int32
    var isRequired: Bool
    /// Properties that must be there when this one is; directly and indirectly.
    var implied: [Int] = []
  }

  let properties: [Property]
  /// Members whose keys are not among `properties`.
  let extras: [(key: Int32, value: Int32)]
  let min: Int
  /// `Int.max` without a bound.
  let max: Int
  /// The property in which items of an array differ; its value is a leaf whose texts must.
  let differing: Int?
  /// Whether further members count towards `min`: their keys are leaves whose texts must differ, as long as that matters.
  let countsExtras: Bool

  init(
    properties: [Property], extras: [(key: Int32, value: Int32)], min: Int, max: Int, differing: Int? = nil,
    countsExtras: Bool = false
  ) {
    (self.properties, self.extras, self.min) = (properties, extras, min)
    (self.max, self.differing, self.countsExtras) = (max, differing, countsExtras)
  }

  /// The same, for items that differ in the value of a property.
  func differing(in property: Int, by value: Int32) -> ObjectPlan {
    var properties = properties
    properties[property].value = value
    return ObjectPlan(
      properties: properties, extras: extras, min: min, max: max, differing: property,
      countsExtras: countsExtras)
  }

  /// Properties and kinds of further members.
  var memberCount: Int { properties.count + extras.count }
}

final class ArrayPlan: Sendable {
  struct Option: Sendable {
    var value: Int32
    /// Bit n: an item of this kind counts for `contains[n]`.
    var marks: UInt64
  }

  /// What may stand at the first places.
  let prefix: [[Option]]
  /// What may follow them; empty: nothing.
  let rest: [Option]
  let min: Int
  /// `Int.max` without a bound.
  let max: Int
  /// `max` is `Int.max` without a bound.
  let contains: [(min: Int, max: Int)]
  /// Items are leaves whose texts must differ, or objects with a member whose texts must.
  let isUnique: Bool
  /// For each `contains`, at how many places of the prefix an item may count, from each place on.
  private let usefulPlaces: [[Int]]
  private let lastTable = Mutex<ContainsTable?>(nil)

  init(
    prefix: [[Option]], rest: [Option], min: Int, max: Int, contains: [(min: Int, max: Int)], isUnique: Bool
  ) {
    (self.prefix, self.rest, self.min) = (prefix, rest, min)
    (self.max, self.contains, self.isUnique) = (max, contains, isUnique)
    usefulPlaces = contains.indices.map { bit in
      var counts = [0]
      for index in prefix.indices.reversed() {
        let isUseful = index < max && prefix[index].contains { $0.marks & (1 << UInt64(bit)) != 0 }
        counts.append(counts[counts.count - 1] + (isUseful ? 1 : 0))
      }
      return counts.reversed()
    }
  }

  /// Behind the prefix, the minimum and the maximum, places are all alike.
  var lastIndex: Int { max == Int.max ? Swift.max(prefix.count, min) : max }

  /// Above this, it makes no difference how many items count.
  func lastCount(_ bit: Int) -> Int {
    contains[bit].max == Int.max ? contains[bit].min : contains[bit].max + 1
  }

  /// The options at each place of the prefix, and then those behind it.
  var places: [[Option]] { prefix + [rest] }

  /// Whether an item that helps one `contains` may break another, or take its place.
  var hasConflicts: Bool {
    contains.count > 1 && (max < Int.max || contains.contains { $0.max < Int.max })
  }

  /// What completing it costs where there are conflicts; nil elsewhere.
  func table(_ cost: [Int32]) -> ContainsTable? {
    guard hasConflicts else { return nil }
    if let known = lastTable.withLock({ $0 }), known.isOf(self, cost) { return known }
    // Outside the lock: two threads may both make the same.
    let made = ContainsTable(self, cost)
    lastTable.withLock { $0 = made }
    return made
  }

  /// Places of the prefix from `index` on at which an item may count for `contains[bit]`.
  func places(from index: Int, _ bit: Int) -> Int { index < prefix.count ? usefulPlaces[bit][index] : 0 }

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
  /// Whether the empty text is one of each node's.
  let nullable: [Bool]
  /// For each sequence, the bytes of the shortest text of its parts from each one on.
  let partCosts: [[Int32]]
  /// Nodes for the punctuation of objects and arrays.
  let marks: PunctuationNodes

  /// Most frames of a stack.
  static let depthLimit: Int32 = 700
  static let nodeLimit = 60_000
  /// About how much memory the nodes take.
  let byteCount: Int
  private static let byteLimit = 48 << 20

  init(_ builder: GraphBuilder, root: Int32, marks: PunctuationNodes) throws(GrammarError) {
    (self.root, self.marks) = (root, marks)
    let nullable = try Self.nullableNodes(builder.nodes)
    self.nullable = nullable
    // Rounds that may be empty need not come: then those that come take a byte each.
    let nodes = builder.nodes.map { node in
      guard case .repeated(let inner, let min, let max) = node, min > 0, nullable[Int(inner)] else {
        return node
      }
      return GrammarNode.repeated(inner, min: 0, max: max)
    }
    self.nodes = nodes
    var automata: [ObjectIdentifier: Int] = [:]
    for case .leaf(let leaf) in nodes {
      let counts = leaf.isAnyString ? 0 : leaf.length?.counts.byteCount ?? 0
      automata[ObjectIdentifier(leaf.dfa)] = leaf.dfa.byteCount + counts
    }
    let quotes = nodes.reduce(0) { bytes, node in
      if case .quote(let quote) = node { bytes + quote.byteCount } else { bytes }
    }
    let tables = nodes.reduce(0) { bytes, node in
      if case .array(let plan) = node, plan.hasConflicts {
        bytes + 4 * (ContainsTable.steps(plan) ?? 0)
      } else {
        bytes
      }
    }
    byteCount = automata.values.reduce(nodes.count * 200 + tables + quotes, +)
    guard byteCount <= Self.byteLimit else {
      throw .tooLarge(
        reason: "the automata and tables of the grammar take more than \(Self.byteLimit >> 20) MiB")
    }
    var measure = GrammarMeasure(nodes)
    try measure.run()
    cost = measure.cost
    depth = measure.depth
    partCosts = Self.partCosts(nodes, measure.cost)
    guard cost[Int(root)] < Cost.none else {
      throw .unsatisfiable(
        path: "", reason: Self.unwritable(root, builder, measure.cost) ?? "no text satisfies it")
    }
    guard depth[Int(root)] < Self.depthLimit / 2 else {
      throw .tooLarge(reason: "every answer would be nested more than \(Self.depthLimit / 2) deep")
    }
    try GrammarGraph.refuseLeftRecursion(nodes, nullable)
  }

  /// What the model cannot write of all that a node without a text needs; nil where that is not why it has none.
  private static func unwritable(_ root: Int32, _ builder: GraphBuilder, _ cost: [Int32]) -> String? {
    var seen: Set<Int32> = []
    var open = [root]
    while let node = open.popLast() {
      guard cost[Int(node)] >= Cost.none, seen.insert(node).inserted else { continue }
      if let text = builder.unwritable[node] {
        let words = JSONValue.string(String(String(decoding: text, as: UTF8.self).prefix(100))).text
        guard let byte = text.first(where: builder.missing.contains) else {
          return "\(words) cannot be written where it has to stand: it would be read as an end"
        }
        return
          "the model cannot write \(words): its vocabulary has no token for the byte \(byte.asHexadecimal)"
      }
      if case .object(let plan) = builder.nodes[Int(node)] {
        for property in plan.properties where property.isRequired { open += [property.key, property.value] }
      } else {
        builder.nodes[Int(node)].eachPart { open.append($0) }
      }
    }
    return nil
  }

  /// The leaf whose texts tell the items of a kind apart.
  func differing(_ node: Int32) -> GrammarLeaf? { Self.differing(node, nodes) }

  static func differing(_ node: Int32, _ nodes: [GrammarNode]) -> GrammarLeaf? {
    switch nodes[Int(node)] {
    case .leaf(let leaf): return leaf
    case .object(let plan): return plan.differing.flatMap { differing(plan.properties[$0].value, nodes) }
    case .quote, .token, .sequence, .choice, .repeated, .array: return nil
    }
  }

  private static func partCosts(_ nodes: [GrammarNode], _ cost: [Int32]) -> [[Int32]] {
    nodes.map { node in
      guard case .sequence(let parts) = node else { return [] }
      var costs: [Int32] = [0]
      for part in parts.reversed() { costs.append(Cost.sum(costs[costs.count - 1], cost[Int(part)])) }
      return costs.reversed()
    }
  }

  /// A rule that begins with itself has no first byte to wait for.
  private static func refuseLeftRecursion(_ nodes: [GrammarNode], _ nullable: [Bool]) throws(GrammarError) {
    func firsts(_ node: Int32) -> [Int32] {
      switch nodes[Int(node)] {
      case .leaf, .quote, .token, .object, .array: return []
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

  private static func nullableNodes(_ nodes: [GrammarNode]) throws(GrammarError) -> [Bool] {
    var nullable = [Bool](repeating: false, count: nodes.count)
    var work = GrammarMeasure.work(nodes)
    var isChanged = true
    while isChanged {
      isChanged = false
      try work.round()
      for index in nodes.indices.reversed() where !nullable[index] {
        let now: Bool
        switch nodes[index] {
        case .leaf(let leaf): now = leaf.dfa.accepting[0]
        case .quote, .token, .object, .array: now = false
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
  var cost: [Int32]
  var depth: [Int32]

  init(_ nodes: [GrammarNode]) {
    self.nodes = nodes
    cost = [Int32](repeating: Cost.none, count: nodes.count)
    depth = cost
  }

  mutating func run() throws(GrammarError) {
    var work = Self.work(nodes)
    let users = users()
    // Nodes of which a part has changed since they were measured.
    var isOpen = [Bool](repeating: true, count: nodes.count)
    var isChanged = true
    while isChanged {
      isChanged = false
      try work.round()
      for index in nodes.indices.reversed() where isOpen[index] {
        isOpen[index] = false
        let (newCost, newDepth) = measure(nodes[index])
        if newCost < cost[index] || newDepth < depth[index] {
          cost[index] = min(cost[index], newCost)
          depth[index] = min(depth[index], newDepth)
          for user in users.sources(of: index) { isOpen[Int(user)] = true }
          isChanged = true
        }
      }
    }
  }

  /// The nodes of which each is a part.
  private func users() -> ReverseEdges {
    var (from, to) = ([Int32](), [Int32]())
    for (index, node) in nodes.enumerated() {
      node.eachPart { to.append($0) }
      from += repeatElement(Int32(truncatingIfNeeded: index), count: to.count - from.count)
    }
    return ReverseEdges(from: from, to: to, rowCount: nodes.count)
  }

  /// The work of rounds over all nodes and what they name.
  static func work(_ nodes: [GrammarNode]) -> RoundWork {
    RoundWork(
      size: nodes.reduce(0) { size, node in
        switch node {
        case .leaf, .quote, .token, .repeated: size + 1
        case .sequence(let list), .choice(let list): size + 1 + list.count
        case .object(let plan): size + 1 + 4 * (plan.properties.count + plan.extras.count)
        case .array(let plan):
          size + 1 + 4 * plan.prefix.count + (plan.hasConflicts ? 8 * (ContainsTable.steps(plan) ?? 0) : 0)
        }
      })
  }

  struct RoundWork {
    fileprivate let size: Int
    private var left = 100_000_000

    fileprivate init(size: Int) { self.size = size }

    mutating func round() throws(GrammarError) {
      left -= size
      guard left >= 0 else { throw .tooLarge(reason: "the grammar takes too long to measure") }
    }
  }

  private func measure(_ node: GrammarNode) -> (Int32, Int32) {
    switch node {
    case .leaf(let leaf):
      let length = leaf.dfa.isEmpty ? Cost.none : leaf.cost(0, after: 0)
      return (length, length < Cost.none ? 1 : Cost.none)
    case .quote(let quote): return quote.isEmpty ? (Cost.none, Cost.none) : (quote.cost(0, after: 0), 1)
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
      let needs = ObjectNeeds(ObjectState(plan), plan, cost)
      guard needs.cost < Cost.none else { return (Cost.none, Cost.none) }
      // The first member has no comma.
      let inner = needs.properties(plan).reduce(Int32(0)) { max($0, depth[Int(plan.properties[$1].value)]) }
      return (
        Cost.sum(2, max(0, needs.cost - 1)),
        Cost.sum(2, needs.shortage(plan) > 0 ? max(inner, flattest(plan)) : inner)
      )
    case .array(let plan):
      let items = ArrayState(plan).cost(plan, cost)
      guard items < Cost.none else { return (Cost.none, Cost.none) }
      var inner: Int32 = 0
      for index in 0..<min(plan.min, plan.prefix.count + 1) {
        inner = max(inner, plan.options(at: index).reduce(Cost.none) { min($0, depth[Int($1.value)]) })
      }
      if plan.contains.contains(where: { $0.min > 0 }) {
        for options in plan.places {
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
