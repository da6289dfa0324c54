// Steps of the recogniser over bytes and tokens.

extension Recogniser {
  // MARK: Steps

  /// The set at the start of an answer.
  ///
  /// - Parameter isUnwanted: whether nobody waits for it any more; asked now and then. The empty set, which is not
  ///   remembered, where that is so.
  mutating func start(isUnwanted: () -> Bool = { false }) -> Int32 {
    if let started { return started }
    work = [.enter(graph.root, tail: Self.ended, isFilled: false)]
    visited.removeAll()
    while !work.isEmpty {
      guard !isUnwanted() else {
        work.removeAll()
        out.removeAll()
        return Self.empty
      }
      follow(atMost: CompileWatch.cellsPerQuestion)
    }
    let result = closed()
    started = result
    return result
  }

  /// The set after the frames on top of `set` are complete.
  mutating func resume(_ set: Int32) -> Int32 {
    let key = UInt64(UInt32(bitPattern: set))
    if let known = resumed[key] { return known }
    work = [.resume(set)]
    let result = close()
    resumed.set(key, result)
    return result
  }

  /// The same, after a leaf whose texts must differ; `seen` holds all texts so far.
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
      guard item.node >= 0 else { continue }
      if case .quote(let quote) = graph.nodes[Int(item.node)] {
        stepQuote(quote, item, byte)
        continue
      }
      guard case .leaf(let leaf) = graph.nodes[Int(item.node)] else { continue }
      let state = leaf.dfa.step(item.state, byte)
      guard state >= 0 else { continue }
      if leaf.textCounts != nil {
        stepDistinct(leaf, item, state, byte)
        continue
      }
      var payload = item.payload
      if let length = leaf.length {
        if length.counts.begins(item.state, byte) { payload += 1 }
        guard length.allow(state, after: Int(payload)) else { continue }
        // Behind the minimum, only a maximum needs counting.
        if length.max == Int.max { payload = min(payload, Int32(clamping: length.min)) }
      }
      if leaf.dfa.accepting[Int(state)] { work.append(.resume(item.tail)) }
      if leaf.dfa.continues[Int(state)] {
        out.append(StackItem(node: item.node, state: state, payload: payload, tail: item.tail))
      }
    }
    let result = close()
    steps.set(key, result)
    return result
  }

  private mutating func stepQuote(_ quote: QuoteLeaf, _ item: StackItem, _ byte: UInt8) {
    guard let step = quote.step(item.state, after: Int(item.payload), byte) else { return }
    if step.mayEnd { work.append(.resume(item.tail)) }
    guard step.goesOn else { return }
    // Behind the minimum, only a maximum needs counting.
    let count = min(Int(item.payload) + (step.begins ? 1 : 0), quote.max == Int.max ? quote.min : Int.max)
    out.append(
      StackItem(node: item.node, state: step.state, payload: Int32(clamping: count), tail: item.tail))
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
    textNumber.set(key, new)
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

  mutating func payload(seen: Int32, text: Int32) -> Int32 {
    number(of: [UInt64(UInt32(bitPattern: seen)), UInt64(UInt32(bitPattern: text))])
  }

  /// The list `seen` with one more text; nil when it is there already.
  mutating func adding(_ text: Int32, to seen: Int32) -> Int32? {
    let word = UInt64(UInt32(bitPattern: text))
    let before = list(seen)
    guard !before.contains(word) else { return nil }
    return number(of: (before + [word]).sorted())
  }

  mutating func stepDistinct(_ leaf: GrammarLeaf, _ item: StackItem, _ state: Int32, _ byte: UInt8) {
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
}
