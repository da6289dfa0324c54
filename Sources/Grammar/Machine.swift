// The recogniser: sets of stacks, each interned once, so that equal states of the text are equal numbers.

/// A frame of a stack and the stacks below it. On top of a stack is always a leaf, a token, or the end.
struct StackItem: Hashable {
  /// -1 at the end of the answer.
  var node: Int32
  /// Leaf: the state of its automaton. Sequence: the part that runs. Object, array: the phase.
  var state: Int32
  /// Leaf: characters so far, or the text so far where texts must differ. Repetition: rounds so far. Object, array:
  /// the interned state.
  var payload: Int32
  /// The set below.
  var tail: Int32
}

/// Number 0 is the empty set, number 1 the set of the end.
struct Machine {
  static let empty: Int32 = 0
  static let ended: Int32 = 1
  /// Larger sets lose their last stacks: the answer is constrained more, never less.
  private static let widestSet = 4096

  let graph: GrammarGraph
  private(set) var items: [StackItem] = []
  private(set) var starts: [Int32] = [0]
  /// Bytes of the shortest completion of each set, and frames of its deepest stack.
  private(set) var costs: [Int32] = []
  private(set) var depths: [Int32] = []
  private var setTable = HashTable()
  private var setHashes: [UInt64] = []

  private var lists: [[UInt64]] = []
  private var listBytes = 0
  private var listNumber: [[UInt64]: Int32] = [:]

  /// Texts of leaves that must differ, as a tree: (text without its last byte, last byte).
  private var texts: [(before: Int32, byte: UInt8, length: Int32)] = [(0, 0, 0)]
  private var textNumber: [UInt64: Int32] = [:]

  private var steps: [UInt64: Int32] = [:]
  private var resumed: [Int32: Int32] = [:]
  private var unions: [UInt64: Int32] = [:]

  // Working space of `close`.
  private var work: [Work] = []
  private var out: [StackItem] = []
  private var visited: Set<UInt64> = []

  private enum Work {
    case enter(Int32, tail: Int32)
    /// A child is complete; the stacks of the set go on.
    case resume(Int32)
    /// A leaf whose texts must differ is complete; the texts so far.
    case resumeWith(Int32, seen: Int32)
  }

  init(graph: GrammarGraph) {
    self.graph = graph
    _ = intern([])
    _ = intern([StackItem(node: -1, state: 0, payload: 0, tail: 0)])
    _ = number(of: [])
  }

  /// About how much memory it takes.
  var byteCount: Int {
    items.count * 24 + costs.count * 48 + steps.count * 32 + listBytes + texts.count * 32
      + (unions.count + resumed.count) * 32
  }

  // MARK: Interning

  func items(of set: Int32) -> ArraySlice<StackItem> {
    items[Int(starts[Int(set)])..<Int(starts[Int(set) + 1])]
  }

  private static func hash(_ items: some Sequence<StackItem>) -> UInt64 {
    var state: UInt64 = 0x9E37_79B9_7F4A_7C15
    func mix(_ a: Int32, _ b: Int32) {
      state ^= UInt64(UInt32(bitPattern: a)) << 32 | UInt64(UInt32(bitPattern: b))
      state = (state ^ state >> 29) &* 0xBF58_476D_1CE4_E5B9
      state ^= state >> 32
    }
    for item in items {
      mix(item.node, item.state)
      mix(item.payload, item.tail)
    }
    return state
  }

  /// - Parameter new: sorted, no two with the same frame.
  private mutating func intern(_ new: [StackItem]) -> Int32 {
    let hash = Self.hash(new)
    if let known = setTable.find(hash, where: { self.items(of: $0).elementsEqual(new) }) { return known }
    let number = Int32(truncatingIfNeeded: costs.count)
    items += new
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

  private mutating func single(_ item: StackItem) -> Int32 { intern([item]) }

  mutating func number(of list: [UInt64]) -> Int32 {
    if let known = listNumber[list] { return known }
    let new = Int32(truncatingIfNeeded: lists.count)
    lists.append(list)
    listBytes += 160 + list.count * 16
    listNumber[list] = new
    return new
  }

  func list(_ number: Int32) -> [UInt64] { lists[Int(number)] }

  /// The set of the stacks of both.
  mutating func union(_ a: Int32, _ b: Int32) -> Int32 {
    if a == b || b == Self.empty { return a }
    if a == Self.empty { return b }
    let key = UInt64(UInt32(bitPattern: min(a, b))) << 32 | UInt64(UInt32(bitPattern: max(a, b)))
    if let known = unions[key] { return known }
    let set = canonical(Array(items(of: a)) + items(of: b))
    unions[key] = set
    return set
  }

  /// Sorts, and joins the stacks below equal frames. The recursion is as deep as the stacks.
  private mutating func canonical(_ unsorted: [StackItem]) -> Int32 {
    guard unsorted.count > 1 else { return intern(unsorted) }
    let sorted = unsorted.sorted {
      ($0.node, $0.state, $0.payload, $0.tail) < ($1.node, $1.state, $1.payload, $1.tail)
    }
    var merged: [StackItem] = []
    for item in sorted {
      if let last = merged.last, last.node == item.node, last.state == item.state,
        last.payload == item.payload
      {
        merged[merged.count - 1].tail = union(last.tail, item.tail)
      } else {
        merged.append(item)
      }
    }
    return intern(merged.count > Self.widestSet ? Array(merged.prefix(Self.widestSet)) : merged)
  }

  /// The set of one stack.
  mutating func alone(_ item: StackItem) -> Int32 { single(item) }

  /// Copies a set of another machine of the same grammar. The recursion is as deep as the stacks.
  mutating func adopt(_ set: Int32, from other: Machine, _ known: inout [Int32: Int32]) -> Int32 {
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

  private mutating func adoptPayload(_ item: StackItem, _ other: Machine) -> Int32 {
    switch graph.nodes[Int(item.node)] {
    case .leaf(let leaf) where leaf.textCounts != nil:
      let (seen, text) = other.distinctPayload(item.payload)
      return payload(seen: adoptSeen(seen, other), text: adoptText(text, other))
    case .object: return number(of: other.list(item.payload))
    case .array:
      var state = ArrayState(words: other.list(item.payload))
      state.seen = adoptSeen(state.seen, other)
      return number(of: state.words)
    default: return item.payload
    }
  }

  private mutating func adoptSeen(_ seen: Int32, _ other: Machine) -> Int32 {
    number(
      of: other.list(seen).map { UInt64(UInt32(bitPattern: adoptText(Int32(truncatingIfNeeded: $0), other))) }
        .sorted())
  }

  private mutating func adoptText(_ text: Int32, _ other: Machine) -> Int32 {
    other.bytes(ofText: text).reduce(0) { appending($0, $1) }
  }

  // MARK: Costs

  func leafCost(_ leaf: GrammarLeaf, _ state: Int32, _ payload: Int32) -> Int32 {
    let missing = max(0, (leaf.length?.min ?? 0) - Int(payload))
    return Cost.sum(leaf.dfa.cost[Int(state)], leaf.length == nil ? 0 : Int32(clamping: missing))
  }

  private func cost(of item: StackItem) -> Int32 {
    guard item.node >= 0 else { return 0 }
    return Cost.sum(frameCost(item), costs[Int(item.tail)])
  }

  /// What is left of a frame, once what runs above it is complete.
  private func frameCost(_ item: StackItem) -> Int32 {
    switch graph.nodes[Int(item.node)] {
    case .leaf(let leaf): leafCost(leaf, item.state, leaf.textCounts == nil ? item.payload : 0)
    case .token: 1
    case .choice: 0
    case .sequence(let parts):
      parts.dropFirst(Int(item.state) + 1).reduce(0) { Cost.sum($0, graph.cost[Int($1)]) }
    case .repeated(let inner, let min, _):
      Cost.product(graph.cost[Int(inner)], min - Int(item.payload) - 1)
    case .object(let plan): objectCost(plan, item)
    case .array(let plan): arrayCost(plan, item)
    }
  }

  private func objectCost(_ plan: ObjectPlan, _ item: StackItem) -> Int32 {
    let state = ObjectState(words: list(item.payload))
    switch ObjectPhase(item.state) {
    case .open, .firstSpace:
      let members = state.cost(plan, graph.cost)
      return Cost.sum(1, max(0, members - 1))
    case .comma, .space:
      let members = state.cost(plan, graph.cost)
      guard members == 0 else { return members }
      var cheapest = plan.extras.reduce(Cost.none) {
        min($0, Cost.sum(graph.cost[Int($1.key)], graph.cost[Int($1.value)]))
      }
      for (index, property) in plan.properties.enumerated() where !state.contains(index) {
        let rest = property.implied.isEmpty ? 0 : state.adding(index, plan).cost(plan, graph.cost)
        cheapest = min(
          cheapest, Cost.sum(rest, Cost.sum(graph.cost[Int(property.key)], graph.cost[Int(property.value)])))
      }
      return Cost.sum(1, cheapest)
    case .key(let index), .value(let index):
      let isProperty = index < plan.properties.count
      let next = isProperty ? state.adding(index, plan) : state.addingExtra(plan)
      var total = Cost.sum(1, next.cost(plan, graph.cost))
      if case .key = ObjectPhase(item.state) {
        let value =
          isProperty ? plan.properties[index].value : plan.extras[index - plan.properties.count].value
        total = Cost.sum(total, graph.cost[Int(value)])
      }
      return total
    }
  }

  private func arrayCost(_ plan: ArrayPlan, _ item: StackItem) -> Int32 {
    let state = ArrayState(words: list(item.payload))
    switch ArrayPhase(item.state) {
    case .open, .firstSpace: return Cost.sum(1, max(0, state.cost(plan, graph.cost) - 1))
    case .comma, .space:
      let items = state.cost(plan, graph.cost)
      guard items == 0 else { return items }
      let cheapest = plan.options(at: state.index).reduce(Cost.none) { min($0, graph.cost[Int($1.value)]) }
      return Cost.sum(1, cheapest)
    case .item(let index):
      let options = plan.options(at: state.index)
      guard index < options.count else { return Cost.none }
      return Cost.sum(1, state.adding(options[index], plan).cost(plan, graph.cost))
    }
  }

  // MARK: Steps

  /// The set at the start of an answer.
  mutating func start() -> Int32 {
    work = [.enter(graph.root, tail: Self.ended)]
    return close()
  }

  /// The set after the frames on top of `set` are complete.
  mutating func resume(_ set: Int32) -> Int32 {
    if let known = resumed[set] { return known }
    work = [.resume(set)]
    let result = close()
    resumed[set] = result
    return result
  }

  /// The same, behind a leaf whose texts must differ; `seen` holds all texts so far.
  mutating func resume(_ set: Int32, seen: Int32) -> Int32 {
    work = [.resumeWith(set, seen: seen)]
    return close()
  }

  /// The set after one more byte.
  mutating func step(_ set: Int32, _ byte: UInt8) -> Int32 {
    let key = UInt64(UInt32(bitPattern: set)) << 8 | UInt64(byte)
    if let known = steps[key] { return known }
    for index in Int(starts[Int(set)])..<Int(starts[Int(set) + 1]) {
      let item = items[index]
      guard item.node >= 0, case .leaf(let leaf) = graph.nodes[Int(item.node)] else { continue }
      let state = leaf.dfa.step(item.state, byte)
      guard state >= 0 else { continue }
      if leaf.textCounts != nil {
        stepDistinct(leaf, item, state, byte)
        continue
      }
      var payload = item.payload
      if let length = leaf.length {
        if leaf.beginsCharacter(item.state, byte) { payload += 1 }
        guard Int(payload) <= length.max else { continue }
        if leaf.dfa.accepting[Int(state)], Int(payload) < length.min { continue }
        // Behind the minimum, only a maximum needs counting.
        if length.max == Int.max { payload = min(payload, Int32(clamping: length.min)) }
      }
      if leaf.dfa.accepting[Int(state)] { work.append(.resume(item.tail)) }
      if leaf.dfa.continues[Int(state)] {
        out.append(StackItem(node: item.node, state: state, payload: payload, tail: item.tail))
      }
    }
    let result = close()
    steps[key] = result
    return result
  }

  /// The set after a token that stands for itself.
  mutating func step(_ set: Int32, token: Int32) -> Int32 {
    for item in items(of: set) {
      guard item.node >= 0, case .token(token) = graph.nodes[Int(item.node)] else { continue }
      work.append(.resume(item.tail))
    }
    return close()
  }

  // MARK: Texts that must differ

  mutating func appending(_ text: Int32, _ byte: UInt8) -> Int32 {
    let key = UInt64(UInt32(bitPattern: text)) << 8 | UInt64(byte)
    if let known = textNumber[key] { return known }
    let new = Int32(truncatingIfNeeded: texts.count)
    texts.append((text, byte, texts[Int(text)].length + 1))
    textNumber[key] = new
    return new
  }

  func bytes(ofText text: Int32) -> [UInt8] {
    var out: [UInt8] = []
    var at = text
    while at != 0 {
      out.append(texts[Int(at)].byte)
      at = texts[Int(at)].before
    }
    return out.reversed()
  }

  /// The texts of `seen` that begin with `prefix`.
  func texts(_ seen: [UInt64], from prefix: Int32) -> [Int32] {
    let length = texts[Int(prefix)].length
    return seen.compactMap { word in
      let text = Int32(truncatingIfNeeded: word)
      var at = text
      while texts[Int(at)].length > length { at = texts[Int(at)].before }
      return at == prefix ? text : nil
    }
  }

  /// The payload of a leaf: the texts before it, and its own text so far.
  func distinctPayload(_ payload: Int32) -> (seen: Int32, text: Int32) {
    let words = list(payload)
    return (Int32(truncatingIfNeeded: words[0]), Int32(truncatingIfNeeded: words[1]))
  }

  private mutating func payload(seen: Int32, text: Int32) -> Int32 {
    number(of: [UInt64(UInt32(bitPattern: seen)), UInt64(UInt32(bitPattern: text))])
  }

  /// The list `seen` with one more text; nil when it is there already.
  mutating func adding(_ text: Int32, to seen: Int32) -> Int32? {
    let word = UInt64(UInt32(bitPattern: text))
    let before = list(seen)
    guard !before.contains(word) else { return nil }
    return number(of: (before + [word]).sorted())
  }

  private mutating func stepDistinct(_ leaf: GrammarLeaf, _ item: StackItem, _ state: Int32, _ byte: UInt8) {
    let (seen, before) = distinctPayload(item.payload)
    let text = appending(before, byte)
    if leaf.dfa.accepting[Int(state)], let next = adding(text, to: seen) {
      work.append(.resumeWith(item.tail, seen: next))
    }
    // Longer texts only while one is left that has not been there.
    guard leaf.dfa.continues[Int(state)], let counts = leaf.textCounts else { return }
    let used =
      texts(list(seen), from: text).count - (list(seen).contains(UInt64(UInt32(bitPattern: text))) ? 1 : 0)
    let longer =
      counts[Int(state)] == .max
      ? Int.max : Int(counts[Int(state)]) - (leaf.dfa.accepting[Int(state)] ? 1 : 0)
    guard used < longer else { return }
    let payload = payload(seen: seen, text: text)
    out.append(StackItem(node: item.node, state: state, payload: payload, tail: item.tail))
  }

  // MARK: Closure

  private mutating func close() -> Int32 {
    visited.removeAll(keepingCapacity: true)
    while let next = work.popLast() {
      switch next {
      case .enter(let node, let tail):
        let key = UInt64(UInt32(bitPattern: node)) << 32 | UInt64(UInt32(bitPattern: tail))
        if visited.insert(key).inserted { enter(node, tail) }
      case .resume(let set):
        guard visited.insert(1 << 63 | UInt64(UInt32(bitPattern: set))).inserted else { continue }
        for index in Int(starts[Int(set)])..<Int(starts[Int(set) + 1]) { advance(items[index], seen: nil) }
      case .resumeWith(let set, let seen):
        for index in Int(starts[Int(set)])..<Int(starts[Int(set) + 1]) { advance(items[index], seen: seen) }
      }
    }
    let result = canonical(out)
    out.removeAll(keepingCapacity: true)
    return result
  }

  /// Whether `node` can still be completed on top of `tail`.
  private func fits(_ node: Int32, _ tail: Int32) -> Bool {
    depths[Int(tail)] + graph.depth[Int(node)] <= GrammarGraph.depthLimit && graph.cost[Int(node)] < Cost.none
  }

  private mutating func push(_ node: Int32, _ tail: Int32) { work.append(.enter(node, tail: tail)) }

  private mutating func enter(_ node: Int32, _ tail: Int32) {
    guard fits(node, tail) else { return }
    switch graph.nodes[Int(node)] {
    case .leaf(let leaf):
      if leaf.dfa.accepting[0] { work.append(.resume(tail)) }
      if leaf.dfa.continues[0] { out.append(StackItem(node: node, state: 0, payload: 0, tail: tail)) }
    case .token: out.append(StackItem(node: node, state: 0, payload: 0, tail: tail))
    case .choice(let branches): for branch in branches { push(branch, tail) }
    case .sequence: enterPart(node, 0, tail)
    case .repeated: enterRound(node, 0, tail)
    case .object(let plan):
      let state = number(of: ObjectState(plan).words)
      push(graph.marks.openObject, frame(node, ObjectPhase.open.number, state, tail))
    case .array(let plan):
      let state = number(of: ArrayState(plan).words)
      push(graph.marks.openArray, frame(node, ArrayPhase.open.number, state, tail))
    }
  }

  private mutating func frame(_ node: Int32, _ state: Int32, _ payload: Int32, _ tail: Int32) -> Int32 {
    single(StackItem(node: node, state: state, payload: payload, tail: tail))
  }

  /// The last part needs no frame: what follows it follows the sequence.
  private mutating func enterPart(_ node: Int32, _ index: Int, _ tail: Int32) {
    guard case .sequence(let parts) = graph.nodes[Int(node)] else { return }
    guard index < parts.count else {
      work.append(.resume(tail))
      return
    }
    if index == parts.count - 1 {
      push(parts[index], tail)
    } else {
      push(parts[index], frame(node, Int32(truncatingIfNeeded: index), 0, tail))
    }
  }

  private mutating func enterRound(_ node: Int32, _ round: Int, _ tail: Int32) {
    guard case .repeated(let inner, let min, let max) = graph.nodes[Int(node)] else { return }
    if round >= min { work.append(.resume(tail)) }
    guard round < max, fits(inner, tail) else { return }
    let counted = max == Int.max ? Swift.min(round, min) : round
    push(inner, frame(node, 0, Int32(clamping: counted), tail))
  }

  private mutating func advance(_ item: StackItem, seen: Int32?) {
    guard item.node >= 0 else {
      out.append(item)
      return
    }
    switch graph.nodes[Int(item.node)] {
    case .leaf, .token, .choice: break
    case .sequence: enterPart(item.node, Int(item.state) + 1, item.tail)
    case .repeated: enterRound(item.node, Int(item.payload) + 1, item.tail)
    case .object(let plan): advanceObject(plan, item)
    case .array(let plan): advanceArray(plan, item, seen: seen)
    }
  }

  private mutating func advanceObject(_ plan: ObjectPlan, _ item: StackItem) {
    let state = ObjectState(words: list(item.payload))
    let marks = graph.marks
    switch ObjectPhase(item.state) {
    case .open: push(marks.space, frame(item.node, ObjectPhase.firstSpace.number, item.payload, item.tail))
    case .comma: push(marks.space, frame(item.node, ObjectPhase.space.number, item.payload, item.tail))
    case .firstSpace, .space:
      if case .firstSpace = ObjectPhase(item.state), state.mayClose(plan) {
        push(marks.closeObject, item.tail)
      }
      for index in options(plan, state, item.tail) {
        let key =
          index < plan.properties.count
          ? plan.properties[index].key : plan.extras[index - plan.properties.count].key
        push(key, frame(item.node, ObjectPhase.key(index).number, item.payload, item.tail))
      }
    case .key(let index):
      let value =
        index < plan.properties.count
        ? plan.properties[index].value : plan.extras[index - plan.properties.count].value
      push(value, frame(item.node, ObjectPhase.value(index).number, item.payload, item.tail))
    case .value(let index):
      let next = index < plan.properties.count ? state.adding(index, plan) : state.addingExtra(plan)
      // The options are those of the state with this member.
      let payload = number(of: next.words)
      if next.mayClose(plan) { push(marks.spaceCloseObject, item.tail) }
      let after = StackItem(
        node: item.node, state: ObjectPhase.comma.number, payload: payload, tail: item.tail)
      if (0..<plan.properties.count + plan.extras.count).contains(where: {
        isPossible(plan, next, $0, item.tail)
      }) {
        push(marks.comma, single(after))
      }
    }
  }

  /// Whether member `index`, of the properties and then the extras, may come next.
  private func isPossible(_ plan: ObjectPlan, _ state: ObjectState, _ index: Int, _ tail: Int32) -> Bool {
    let isProperty = index < plan.properties.count
    if isProperty, state.contains(index) { return false }
    let value = isProperty ? plan.properties[index].value : plan.extras[index - plan.properties.count].value
    guard fits(value, tail) else { return false }
    // Without an upper bound and dependents, one more member never hurts.
    if plan.max == Int.max, !isProperty || plan.properties[index].implied.isEmpty { return true }
    let next = isProperty ? state.adding(index, plan) : state.addingExtra(plan)
    return next.isCompletable(plan) && next.cost(plan, graph.cost) < Cost.none
  }

  private func options(_ plan: ObjectPlan, _ state: ObjectState, _ tail: Int32) -> [Int] {
    (0..<plan.properties.count + plan.extras.count).filter { isPossible(plan, state, $0, tail) }
  }

  private mutating func advanceArray(_ plan: ArrayPlan, _ item: StackItem, seen: Int32?) {
    let state = ArrayState(words: list(item.payload))
    let marks = graph.marks
    switch ArrayPhase(item.state) {
    case .open: push(marks.space, frame(item.node, ArrayPhase.firstSpace.number, item.payload, item.tail))
    case .comma: push(marks.space, frame(item.node, ArrayPhase.space.number, item.payload, item.tail))
    case .firstSpace, .space:
      if case .firstSpace = ArrayPhase(item.state), state.mayClose(plan) { push(marks.closeArray, item.tail) }
      for index in options(plan, state, item.tail) {
        let below = frame(item.node, ArrayPhase.item(index).number, item.payload, item.tail)
        let value = plan.options(at: state.index)[index].value
        guard plan.isUnique else {
          push(value, below)
          continue
        }
        let payload = payload(seen: state.seen, text: 0)
        out.append(StackItem(node: value, state: 0, payload: payload, tail: below))
      }
    case .item(let index):
      let options = plan.options(at: state.index)
      guard index < options.count else { return }
      var next = state.adding(options[index], plan)
      if let seen { next.seen = seen }
      if next.mayClose(plan) { push(marks.spaceCloseArray, item.tail) }
      guard !self.options(plan, next, item.tail).isEmpty else { return }
      let payload = number(of: next.words)
      push(marks.comma, frame(item.node, ArrayPhase.comma.number, payload, item.tail))
    }
  }

  /// The kinds of items that may come next.
  private func options(_ plan: ArrayPlan, _ state: ArrayState, _ tail: Int32) -> [Int] {
    let options = plan.options(at: state.index)
    return options.indices.filter { index in
      let option = options[index]
      let next = state.adding(option, plan)
      guard fits(option.value, tail), next.isCompletable(plan), next.cost(plan, graph.cost) < Cost.none else {
        return false
      }
      guard plan.isUnique, case .leaf(let leaf) = graph.nodes[Int(option.value)],
        let counts = leaf.textCounts,
        counts[0] < .max
      else { return true }
      let used = list(state.seen).filter { leaf.dfa.accepts(bytes(ofText: Int32(truncatingIfNeeded: $0))) }
      return used.count < Int(counts[0])
    }
  }
}

/// What of an object runs above its frame.
enum ObjectPhase {
  case open, firstSpace, comma, space
  /// Of a property, or, counted on, of an extra.
  case key(Int)
  case value(Int)

  init(_ number: Int32) {
    switch number {
    case 0: self = .open
    case 1: self = .firstSpace
    case 2: self = .comma
    case 3: self = .space
    default: self = number % 2 == 0 ? .key(Int(number) / 2 - 2) : .value(Int(number) / 2 - 2)
    }
  }

  var number: Int32 {
    switch self {
    case .open: 0
    case .firstSpace: 1
    case .comma: 2
    case .space: 3
    case .key(let index): Int32(truncatingIfNeeded: 4 + index * 2)
    case .value(let index): Int32(truncatingIfNeeded: 5 + index * 2)
    }
  }
}

/// What of an array runs above its frame.
enum ArrayPhase {
  case open, firstSpace, comma, space
  case item(Int)

  init(_ number: Int32) {
    switch number {
    case 0: self = .open
    case 1: self = .firstSpace
    case 2: self = .comma
    case 3: self = .space
    default: self = .item(Int(number) - 4)
    }
  }

  var number: Int32 {
    switch self {
    case .open: 0
    case .firstSpace: 1
    case .comma: 2
    case .space: 3
    case .item(let index): Int32(truncatingIfNeeded: 4 + index)
    }
  }
}

/// Open addressing from hashes to numbers.
struct HashTable {
  private var slots = [Int32](repeating: -1, count: 256)
  private var count = 0

  func find(_ hash: UInt64, where isEqual: (Int32) -> Bool) -> Int32? {
    var at = Int(truncatingIfNeeded: hash) & (slots.count - 1)
    while slots[at] >= 0 {
      if isEqual(slots[at]) { return slots[at] }
      at = (at + 1) & (slots.count - 1)
    }
    return nil
  }

  /// - Parameter hashes: of all numbers, for growing.
  mutating func insert(_ hash: UInt64, _ number: Int32, hashes: [UInt64]) {
    count += 1
    if count * 2 > slots.count {
      slots = [Int32](repeating: -1, count: slots.count * 2)
      for (number, hash) in hashes.enumerated() { place(hash, Int32(truncatingIfNeeded: number)) }
    } else {
      place(hash, number)
    }
  }

  private mutating func place(_ hash: UInt64, _ number: Int32) {
    var at = Int(truncatingIfNeeded: hash) & (slots.count - 1)
    while slots[at] >= 0 { at = (at + 1) & (slots.count - 1) }
    slots[at] = number
  }
}
