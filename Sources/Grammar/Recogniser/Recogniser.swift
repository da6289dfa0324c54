// The recogniser: sets of stacks, each interned once, so that equal states of the text are equal numbers.

/// A frame of a stack and the stacks below it. On top of a stack is always a leaf, a token, or the end.
struct StackItem: Hashable {
  /// -1 at the end of the answer.
  var node: Int32
  /// Leaf, quote: the state of its automaton. Sequence: the part that runs. Object, array: the phase.
  var state: Int32
  /// Leaf, quote: characters so far, or the text so far where texts must differ. Repetition: rounds so far. Object, array:
  /// the interned state.
  var payload: Int32
  /// The set below.
  var tail: Int32
}

/// Number 0 is the empty set, number 1 the set of the end.
struct Recogniser {
  static let empty: Int32 = 0
  static let ended: Int32 = 1
  /// Larger sets lose the stacks that were found last: the answer is constrained more, never less. Those that stay
  /// inside a leaf are found first, for masks rely on them.
  static let widestSet = 8192
  /// Steps for one question: stacks that are followed, sorted or made.
  static let workLimit = 500_000

  let graph: GrammarGraph
  var items: [StackItem] = []
  var starts: [Int32] = [0]
  /// Bytes of the shortest completion of each set, and frames of its deepest stack.
  private(set) var costs: [Int32] = []
  private(set) var depths: [Int32] = []
  private var setTable = HashTable()
  private var setHashes: [UInt64] = []

  private var lists: [[UInt64]] = []
  private var listBytes = 0
  private var listTable = HashTable()
  private var listHashes: [UInt64] = []

  /// Texts of leaves that must differ, as a tree: (text without its last byte, last byte).
  var texts: [(before: Int32, byte: UInt8, length: Int32)] = [(0, 0, 0)]
  var textNumber = NumberTable()

  var started: Int32?
  var steps = NumberTable()
  var resumed = NumberTable()
  private var unions = NumberTable()
  /// What objects need, by their nodes and states.
  private var needs: [ObjectNeeds] = []
  private var needsNumber = NumberTable()
  private var needsBytes = 0

  /// Steps that are left for the question at hand. Where they are spent, sets miss stacks: the answer is constrained
  /// more, never less.
  private(set) var left = Self.workLimit
  /// Whether they were spent.
  var isCut: Bool { left < 0 }

  // Working space of `close`.
  var work: [Work] = []
  var out: [StackItem] = []
  var visited = NumberTable()
  /// What the stacks of one set come to, by twice the node and whether it must be filled.
  var gathered: [(key: Int64, below: Below)] = []
  var isGathering = false

  enum Work {
    /// - Parameter isFilled: only texts of the node that are not empty are wanted.
    case enter(Int32, tail: Int32, isFilled: Bool)
    /// A child is complete; the stacks of the set go on.
    case resume(Int32)
    /// A leaf whose texts must differ is complete; the texts so far.
    case resumeWith(Int32, seen: Int32)
  }

  init(graph: GrammarGraph) {
    self.graph = graph
    _ = intern(EmptyCollection())
    _ = single(StackItem(node: -1, state: 0, payload: 0, tail: 0))
    _ = number(of: [])
  }

  /// About how much memory it takes.
  var byteCount: Int {
    items.count * 24 + costs.count * 48 + steps.count * 32 + listBytes + texts.count * 32
      + (unions.count + resumed.count + needs.count) * 32 + needsBytes
  }

  /// Begins a question of the engine: a mask, or a step over a token.
  mutating func begin() { left = Self.workLimit }

  mutating func spend(_ steps: Int) { left -= steps }

  // MARK: Interning

  @inline(__always)
  func items(of set: Int32) -> ArraySlice<StackItem> {
    items[Int(starts[Int(set)])..<Int(starts[Int(set) + 1])]
  }

  private static func hash(_ items: some Sequence<StackItem>) -> UInt64 {
    var state: UInt64 = 0x9E37_79B9_7F4A_7C15
    func mix(_ a: Int32, _ b: Int32) {
      state ^= NumberTable.key(a, b)
      state = (state ^ state >> 29) &* 0xBF58_476D_1CE4_E5B9
      state ^= state >> 32
    }
    for item in items {
      mix(item.node, item.state)
      mix(item.payload, item.tail)
    }
    return state
  }

  /// Whether a set is of exactly these stacks.
  private func holds(_ set: Int32, _ expected: some Collection<StackItem>) -> Bool {
    var at = Int(starts[Int(set)])
    guard Int(starts[Int(set) + 1]) - at == expected.count else { return false }
    for item in expected {
      guard items[at] == item else { return false }
      at += 1
    }
    return true
  }

  /// - Parameter new: sorted, no two with the same frame.
  mutating func intern(_ new: some Collection<StackItem>) -> Int32 {
    let hash = Self.hash(new)
    if let known = setTable.find(hash, where: { holds($0, new) }) { return known }
    left -= 1 + new.count
    let number = Int32(truncatingIfNeeded: costs.count)
    items.append(contentsOf: new)
    starts.append(Int32(clamping: items.count))
    setHashes.append(hash)
    setTable.insert(hash, number, hashes: setHashes)
    var best = Cost.none
    var depth: Int32 = 0
    for item in new {
      depth = max(depth, item.node < 0 ? 0 : depths[Int(item.tail)] + 1)
      best = min(best, cost(of: item))
    }
    costs.append(best)
    depths.append(depth)
    return number
  }

  /// The set of one stack.
  mutating func single(_ item: StackItem) -> Int32 { intern(CollectionOfOne(item)) }

  mutating func number(of list: [UInt64]) -> Int32 {
    let hash = list.reduce(UInt64(list.count)) { HashTable.mix($0 ^ $1) }
    if let known = listTable.find(hash, where: { lists[Int($0)] == list }) { return known }
    let new = Int32(truncatingIfNeeded: lists.count)
    lists.append(list)
    listBytes += 160 + list.count * 16
    listHashes.append(hash)
    listTable.insert(hash, new, hashes: listHashes)
    return new
  }

  func list(_ number: Int32) -> [UInt64] { lists[Int(number)] }

  /// The set of the stacks of both.
  mutating func union(_ a: Int32, _ b: Int32) -> Int32 {
    if a == b || b == Self.empty { return a }
    if a == Self.empty { return b }
    let key = NumberTable.key(min(a, b), max(a, b))
    if let known = unions[key] { return known }
    guard !isCut else { return a }
    let set = canonical(Array(items(of: a)) + items(of: b))
    unions.set(key, set)
    return set
  }

  /// The set of the stacks of all.
  mutating func union(_ sets: some Collection<Int32>) -> Int32 {
    if sets.count == 1, let only = sets.first { return only }
    var all: [StackItem] = []
    for set in sets where all.isEmpty || !isCut && all.count < Self.widestSet { all += items(of: set) }
    return canonical(all)
  }

  /// Sorts, and joins the stacks below equal frames. The recursion is as deep as the stacks.
  mutating func canonical(_ unsorted: [StackItem]) -> Int32 {
    guard unsorted.count > 1 else { return intern(unsorted) }
    left -= unsorted.count
    let sorted = unsorted.prefix(Self.widestSet).sorted {
      ($0.node, $0.state, $0.payload, $0.tail) < ($1.node, $1.state, $1.payload, $1.tail)
    }
    var merged: [StackItem] = []
    var at = 0
    while at < sorted.count {
      var item = sorted[at]
      let end =
        sorted[at...].firstIndex {
          $0.node != item.node || $0.state != item.state || $0.payload != item.payload
        } ?? sorted.count
      switch end - at {
      case 1: break
      case 2: item.tail = union(item.tail, sorted[at + 1].tail)
      default: item.tail = union(sorted[at..<end].map(\.tail))
      }
      merged.append(item)
      at = end
    }
    return intern(merged)
  }

  /// Copies a set of another recogniser of the same grammar. The recursion is as deep as the stacks.
  mutating func adopt(_ set: Int32, from other: Recogniser, _ known: inout [Int32: Int32]) -> Int32 {
    if set == Self.empty || set == Self.ended { return set }
    if let done = known[set] { return done }
    var copies: [StackItem] = []
    for var item in other.items(of: set) {
      item.tail = adopt(item.tail, from: other, &known)
      if item.node >= 0 { item.payload = adoptPayload(item, other) }
      copies.append(item)
    }
    let copy = canonical(copies)
    known[set] = copy
    return copy
  }

  mutating func adoptPayload(_ item: StackItem, _ other: Recogniser) -> Int32 {
    switch graph.nodes[Int(item.node)] {
    case .leaf(let leaf) where leaf.textCounts != nil:
      let (seen, text) = other.distinctPayload(item.payload)
      return payload(seen: adoptSeen(seen, other), text: adoptText(text, other))
    case .object:
      var state = ObjectState(words: other.list(item.payload))
      state.texts = adoptSeen(state.texts, other)
      return number(of: state.words)
    case .array:
      var state = ArrayState(words: other.list(item.payload))
      state.seen = adoptSeen(state.seen, other)
      return number(of: state.words)
    default: return item.payload
    }
  }

  mutating func adoptSeen(_ seen: Int32, _ other: Recogniser) -> Int32 {
    number(
      of: other.list(seen).map { UInt64(UInt32(bitPattern: adoptText(Int32(truncatingIfNeeded: $0), other))) }
        .sorted())
  }

  mutating func adoptText(_ text: Int32, _ other: Recogniser) -> Int32 {
    other.bytes(ofText: text).reduce(0) { appending($0, $1) }
  }

  // MARK: Costs

  private mutating func cost(of item: StackItem) -> Int32 {
    guard item.node >= 0 else { return 0 }
    return Cost.sum(frameCost(item), costs[Int(item.tail)])
  }

  /// What is left of a frame, once what runs above it is complete.
  private mutating func frameCost(_ item: StackItem) -> Int32 {
    switch graph.nodes[Int(item.node)] {
    case .leaf(let leaf): leaf.cost(item.state, after: Int(item.payload))
    case .quote(let quote): quote.cost(item.state, after: Int(item.payload))
    case .token: 1
    case .choice: 0
    case .sequence: graph.partCosts[Int(item.node)][Int(item.state) + 1]
    case .repeated(let inner, let min, _):
      Cost.product(graph.cost[Int(inner)], min - Int(item.payload) - 1)
    case .object(let plan): objectCost(plan, item)
    case .array(let plan): arrayCost(plan, item)
    }
  }

  /// What the object of a frame needs. All frames of an object ask for the same until it has another member.
  mutating func needs(_ node: Int32, _ payload: Int32, _ plan: ObjectPlan) -> ObjectNeeds {
    let key = NumberTable.key(node, payload)
    if let known = needsNumber[key] { return needs[Int(known)] }
    spend(plan.memberCount / 8)
    let made = ObjectNeeds(ObjectState(words: list(payload)), plan, graph.cost)
    needsNumber.set(key, Int32(truncatingIfNeeded: needs.count))
    needs.append(made)
    needsBytes += 192 + made.state.seen.count * 16
    return made
  }

  private mutating func objectCost(_ plan: ObjectPlan, _ item: StackItem) -> Int32 {
    let needs = needs(item.node, item.payload, plan)
    switch ObjectPhase(item.state) {
    case .close: return 0
    case .open, .firstSpace: return Cost.sum(1, max(0, needs.cost - 1))
    case .comma, .space:
      guard needs.cost == 0 else { return needs.cost }
      var cheapest = plan.extras.reduce(Cost.none) {
        min($0, Cost.sum(graph.cost[Int($1.key)], graph.cost[Int($1.value)]))
      }
      for (index, property) in plan.properties.enumerated() where !needs.state.contains(index) {
        let rest = property.implied.isEmpty ? 0 : needs.rest(after: index, plan, graph.cost).cost
        cheapest = min(
          cheapest, Cost.sum(rest, Cost.sum(graph.cost[Int(property.key)], graph.cost[Int(property.value)])))
      }
      return Cost.sum(1, cheapest)
    case .key(let index), .value(let index):
      let isProperty = index < plan.properties.count
      let rest = isProperty ? needs.rest(after: index, plan, graph.cost) : needs.restAfterExtra(plan)
      var total = Cost.sum(1, rest.cost)
      if case .key = ObjectPhase(item.state) {
        let value =
          isProperty ? plan.properties[index].value : plan.extras[index - plan.properties.count].value
        total = Cost.sum(total, graph.cost[Int(value)])
      }
      return total
    }
  }

  @inline(__always)
  func arrayCost(_ plan: ArrayPlan, _ item: StackItem) -> Int32 {
    let state = ArrayState(words: list(item.payload))
    switch ArrayPhase(item.state) {
    case .open, .firstSpace: return Cost.sum(1, max(0, state.cost(plan, graph.cost) - 1))
    case .comma, .space:
      let items = state.cost(plan, graph.cost)
      guard items == 0 else { return items }
      let table = plan.table(graph.cost)
      let cheapest = plan.options(at: state.index).reduce(Cost.none) { cheapest, option in
        // An item more may be one too many, or ask for others.
        let rest = table?.cost(of: state.adding(option, plan)) ?? 0
        return min(cheapest, Cost.sum(graph.cost[Int(option.value)], rest))
      }
      return Cost.sum(1, cheapest)
    case .item(let index):
      let options = plan.options(at: state.index)
      guard index < options.count else { return Cost.none }
      return Cost.sum(1, state.adding(options[index], plan).cost(plan, graph.cost))
    }
  }
}
