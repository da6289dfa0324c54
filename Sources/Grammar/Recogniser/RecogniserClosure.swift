// What follows a completed part: the leaves that may come next.

extension Recogniser {
  // MARK: Closure

  mutating func close() -> Int32 {
    visited.removeAll()
    follow(atMost: .max)
    return closed()
  }

  /// Follows at most this many of the stacks that wait in `work`.
  mutating func follow(atMost count: Int) {
    var missing = count
    while missing > 0, let next = work.popLast() {
      missing -= 1
      spend(1)
      guard !isCut else {
        work.removeAll()
        break
      }
      switch next {
      case .enter(let node, let tail, let isFilled):
        let key = NumberTable.key(node, tail)
        if visited.set(isFilled ? 1 << 62 | key : key, 0) { enter(node, tail, isFilled) }
      case .resume(let set):
        guard visited.set(1 << 63 | UInt64(UInt32(bitPattern: set)), 0) else { continue }
        advanceAll(set, seen: nil)
      case .resumeWith(let set, let seen): advanceAll(set, seen: seen)
      }
    }
  }

  /// What a node is entered on: a set, or a frame that need not be a set of its own.
  enum Below {
    case set(Int32)
    case frame(StackItem)
  }

  /// The stacks of a set go on. Alternatives have much in common: a node that several of them come to is entered once, on
  /// the set of their frames, and not on each.
  mutating func advanceAll(_ set: Int32, seen: Int32?) {
    let range = Int(starts[Int(set)])..<Int(starts[Int(set) + 1])
    spend(range.count)
    isGathering = range.count > 1
    for index in range { advance(items[index], seen: seen) }
    guard isGathering else { return }
    isGathering = false
    gathered.sort { $0.key < $1.key }
    var from = 0
    while from < gathered.count {
      let key = gathered[from].key
      var to = from + 1
      while to < gathered.count, gathered[to].key == key { to += 1 }
      push(Int32(truncatingIfNeeded: key >> 1), .set(setBelow(from..<to)), isFilled: key & 1 != 0)
      from = to
    }
    gathered.removeAll(keepingCapacity: true)
  }

  /// The set of some of what was gathered.
  private mutating func setBelow(_ range: Range<Int>) -> Int32 {
    if range.count == 1 { return interned(gathered[range.lowerBound].below) }
    var (all, last) = ([StackItem](), Self.empty)
    for index in range {
      switch gathered[index].below {
      case .frame(let item): all.append(item)
      case .set(let set) where set == last: break
      case .set(let set):
        all += items(of: set)
        last = set
      }
    }
    return canonical(all)
  }

  private mutating func interned(_ below: Below) -> Int32 {
    switch below {
    case .set(let set): set
    case .frame(let item): single(item)
    }
  }

  /// The set of what was found.
  mutating func closed() -> Int32 {
    let result = canonical(out)
    out.removeAll(keepingCapacity: true)
    return result
  }

  /// Whether `node` can still be completed on top of `tail`. Inlined: a call takes a copy of the recogniser.
  @inline(__always)
  func fits(_ node: Int32, _ tail: Int32) -> Bool {
    depths[Int(tail)] + graph.depth[Int(node)] <= GrammarGraph.depthLimit && graph.cost[Int(node)] < Cost.none
  }

  mutating func push(_ node: Int32, _ below: Below, isFilled: Bool = false) {
    if isGathering {
      gathered.append((Int64(node) << 1 | (isFilled ? 1 : 0), below))
    } else {
      work.append(.enter(node, tail: interned(below), isFilled: isFilled))
    }
  }

  mutating func enter(_ node: Int32, _ tail: Int32, _ isFilled: Bool) {
    guard fits(node, tail) else { return }
    switch graph.nodes[Int(node)] {
    case .leaf(let leaf):
      if leaf.dfa.accepting[0], !isFilled { work.append(.resume(tail)) }
      if leaf.dfa.continues[0] { out.append(StackItem(node: node, state: 0, payload: 0, tail: tail)) }
    case .quote, .token: out.append(StackItem(node: node, state: 0, payload: 0, tail: tail))
    case .choice(let branches): for branch in branches { push(branch, .set(tail), isFilled: isFilled) }
    case .sequence: enterPart(node, 0, tail, isFilled)
    case .repeated: enterRound(node, 0, tail, isFilled)
    case .object(let plan):
      let state = number(of: ObjectState(plan).words)
      push(graph.marks.openObject, frame(node, ObjectPhase.open.number, state, tail))
    case .array(let plan):
      let state = number(of: ArrayState(plan).words)
      push(graph.marks.openArray, frame(node, ArrayPhase.open.number, state, tail))
    }
  }

  @inline(__always)
  func frame(_ node: Int32, _ state: Int32, _ payload: Int32, _ tail: Int32) -> Below {
    .frame(StackItem(node: node, state: state, payload: payload, tail: tail))
  }

  /// The last part needs no frame: what follows it follows the sequence. Where the text must not be empty, it begins
  /// with the first part that is not.
  mutating func enterPart(_ node: Int32, _ first: Int, _ tail: Int32, _ isFilled: Bool) {
    guard case .sequence(let parts) = graph.nodes[Int(node)] else { return }
    for index in first..<max(first, parts.count) {
      let below =
        index == parts.count - 1 ? .set(tail) : frame(node, Int32(truncatingIfNeeded: index), 0, tail)
      push(parts[index], below, isFilled: isFilled)
      guard isFilled, graph.nullable[Int(parts[index])] else { return }
    }
    if !isFilled { work.append(.resume(tail)) }
  }

  /// A round takes at least a byte: the empty ones change nothing, and would all be entered at once.
  mutating func enterRound(_ node: Int32, _ round: Int, _ tail: Int32, _ isFilled: Bool) {
    guard case .repeated(let inner, let min, let max) = graph.nodes[Int(node)] else { return }
    if round >= min, !isFilled { work.append(.resume(tail)) }
    guard round < max, fits(inner, tail) else { return }
    let counted = max == Int.max ? Swift.min(round, min) : round
    push(inner, frame(node, 0, Int32(clamping: counted), tail), isFilled: graph.nullable[Int(inner)])
  }

  mutating func advance(_ item: StackItem, seen: Int32?) {
    guard item.node >= 0 else {
      out.append(item)
      return
    }
    switch graph.nodes[Int(item.node)] {
    case .leaf, .quote, .token, .choice: break
    case .sequence: enterPart(item.node, Int(item.state) + 1, item.tail, false)
    case .repeated: enterRound(item.node, Int(item.payload) + 1, item.tail, false)
    case .object(let plan): advanceObject(plan, item, seen: seen)
    case .array(let plan): advanceArray(plan, item, seen: seen)
    }
  }

  mutating func advanceObject(_ plan: ObjectPlan, _ item: StackItem, seen: Int32?) {
    let marks = graph.marks
    switch ObjectPhase(item.state) {
    case .close:
      work.append(.resumeWith(item.tail, seen: ObjectState(words: list(item.payload)).texts))
    case .open: push(marks.space, frame(item.node, ObjectPhase.firstSpace.number, item.payload, item.tail))
    case .comma: push(marks.space, frame(item.node, ObjectPhase.space.number, item.payload, item.tail))
    case .firstSpace, .space:
      let needs = needs(item.node, item.payload, plan)
      if case .firstSpace = ObjectPhase(item.state), needs.mayClose(plan) {
        push(marks.closeObject, afterObject(plan, item, item.payload))
      }
      spend(plan.memberCount / 8)
      for index in 0..<plan.memberCount where isPossible(plan, needs, index, item.tail) {
        let key =
          index < plan.properties.count
          ? plan.properties[index].key : plan.extras[index - plan.properties.count].key
        let below = frame(item.node, ObjectPhase.key(index).number, item.payload, item.tail)
        if plan.countsExtras, index >= plan.properties.count {
          let payload = payload(seen: needs.state.texts, text: 0)
          out.append(StackItem(node: key, state: 0, payload: payload, tail: interned(below)))
        } else {
          push(key, below)
        }
      }
    case .key(let index):
      let value =
        index < plan.properties.count
        ? plan.properties[index].value : plan.extras[index - plan.properties.count].value
      var state = item.payload
      if let seen {
        var next = ObjectState(words: list(state))
        // Beyond the minimum, equal keys do no harm.
        if next.count < plan.min { next.texts = seen }
        state = number(of: next.words)
      }
      let below = frame(item.node, ObjectPhase.value(index).number, state, item.tail)
      guard index == plan.differing else {
        push(value, below)
        break
      }
      let texts = ObjectState(words: list(item.payload)).texts
      let payload = payload(seen: texts, text: 0)
      out.append(StackItem(node: value, state: 0, payload: payload, tail: interned(below)))
    case .value(let index):
      var state = ObjectState(words: list(item.payload))
      if let seen { state.texts = seen }
      let next = index < plan.properties.count ? state.adding(index, plan) : state.addingExtra(plan)
      // The options are those of the state with this member.
      let payload = number(of: next.words)
      let needs = needs(item.node, payload, plan)
      if needs.mayClose(plan) { push(marks.spaceCloseObject, afterObject(plan, item, payload)) }
      let after = StackItem(
        node: item.node, state: ObjectPhase.comma.number, payload: payload, tail: item.tail)
      spend(plan.memberCount / 8)
      if (0..<plan.memberCount).contains(where: { isPossible(plan, needs, $0, item.tail) }) {
        push(marks.comma, .frame(after))
      }
    }
  }

  /// What the closing brace stands on.
  func afterObject(_ plan: ObjectPlan, _ item: StackItem, _ payload: Int32) -> Below {
    plan.differing == nil ? .set(item.tail) : frame(item.node, ObjectPhase.close.number, payload, item.tail)
  }

  /// Whether member `index`, of the properties and then the extras, may come next.
  func isPossible(_ plan: ObjectPlan, _ needs: ObjectNeeds, _ index: Int, _ tail: Int32) -> Bool {
    let isProperty = index < plan.properties.count
    if isProperty, needs.state.contains(index) { return false }
    let value = isProperty ? plan.properties[index].value : plan.extras[index - plan.properties.count].value
    guard fits(value, tail) else { return false }
    // Without an upper bound and dependents, one more member never hurts.
    if plan.max == Int.max, !isProperty || plan.properties[index].implied.isEmpty { return true }
    let rest = isProperty ? needs.rest(after: index, plan, graph.cost) : needs.restAfterExtra(plan)
    return rest.cost < Cost.none && (plan.max == Int.max || needs.state.count + 1 + rest.count <= plan.max)
  }

  mutating func advanceArray(_ plan: ArrayPlan, _ item: StackItem, seen: Int32?) {
    let state = ArrayState(words: list(item.payload))
    let marks = graph.marks
    switch ArrayPhase(item.state) {
    case .open: push(marks.space, frame(item.node, ArrayPhase.firstSpace.number, item.payload, item.tail))
    case .comma: push(marks.space, frame(item.node, ArrayPhase.space.number, item.payload, item.tail))
    case .firstSpace, .space:
      if case .firstSpace = ArrayPhase(item.state), state.mayClose(plan) {
        push(marks.closeArray, .set(item.tail))
      }
      for index in options(plan, state, item.tail) {
        let below = frame(item.node, ArrayPhase.item(index).number, item.payload, item.tail)
        let value = plan.options(at: state.index)[index].value
        guard plan.isUnique else {
          push(value, below)
          continue
        }
        if case .object(let item) = graph.nodes[Int(value)] {
          let payload = number(of: ObjectState(item, texts: state.seen).words)
          push(marks.openObject, frame(value, ObjectPhase.open.number, payload, interned(below)))
        } else {
          let payload = payload(seen: state.seen, text: 0)
          out.append(StackItem(node: value, state: 0, payload: payload, tail: interned(below)))
        }
      }
    case .item(let index):
      let options = plan.options(at: state.index)
      guard index < options.count else { return }
      var next = state.adding(options[index], plan)
      if let seen { next.seen = seen }
      if next.mayClose(plan) { push(marks.spaceCloseArray, .set(item.tail)) }
      guard !self.options(plan, next, item.tail).isEmpty else { return }
      let payload = number(of: next.words)
      push(marks.comma, frame(item.node, ArrayPhase.comma.number, payload, item.tail))
    }
  }

  /// The kinds of items that may come next.
  func options(_ plan: ArrayPlan, _ state: ArrayState, _ tail: Int32) -> [Int] {
    let options = plan.options(at: state.index)
    return options.indices.filter { index in
      let option = options[index]
      let next = state.adding(option, plan)
      guard fits(option.value, tail), next.isCompletable(plan), next.cost(plan, graph.cost) < Cost.none else {
        return false
      }
      guard plan.isUnique, let leaf = graph.differing(option.value), let counts = leaf.textCounts,
        counts[0] < .max
      else { return true }
      let used = list(state.seen).filter { leaf.dfa.accepts(bytes(ofText: Int32(truncatingIfNeeded: $0))) }
      return used.count < Int(counts[0])
    }
  }
}
