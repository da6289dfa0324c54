// Finite sets of texts as automata: the words of an enumeration, keys with their colon.

extension ByteDFA {
  /// Exactly these texts, with as few states as possible. O(bytes).
  static func texts(_ texts: [[UInt8]]) throws(GrammarError) -> ByteDFA {
    if texts.count == 1 { return try text(texts[0]) }
    let tree = try TextTree(texts)
    let classOf = tree.classes
    let classCount = Int(classOf.max() ?? 0) + 1
    let (node, number) = tree.joined()
    var table = [Int32](repeating: -1, count: node.count * classCount)
    var cost = [Int32](repeating: Cost.none, count: node.count)
    // Children come after their parents.
    for (row, node) in node.enumerated().reversed() {
      if tree.isEnd[node] { cost[row] = 0 }
      var child = tree.firstChild[node]
      while child >= 0 {
        let next = number[Int(child)]
        table[row * classCount + Int(classOf[Int(tree.byte[Int(child)])])] = next
        cost[row] = min(cost[row], cost[Int(next)] + 1)
        child = tree.sibling[Int(child)]
      }
    }
    return ByteDFA(
      classOf: classOf, classCount: classCount, trimmed: table, accepting: node.map { tree.isEnd[$0] },
      cost: cost, effort: tree.byte.count)
  }

  /// Exactly this text: a state behind each byte.
  private static func text(_ text: [UInt8]) throws(GrammarError) -> ByteDFA {
    guard text.count < stateLimit else { throw TextTree.tooLong }
    let classOf = classes(of: text)
    let classCount = Int(classOf.max() ?? 0) + 1
    var table = [Int32](repeating: -1, count: (text.count + 1) * classCount)
    for (row, byte) in text.enumerated() {
      table[row * classCount + Int(classOf[Int(byte)])] = Int32(truncatingIfNeeded: row + 1)
    }
    return ByteDFA(text: text, classOf: classOf, classCount: classCount, table: table)
  }

  /// A class for each byte that is used, and one for all others, in the order of their first bytes.
  fileprivate static func classes(of used: some Sequence<UInt8>) -> [UInt8] {
    var isUsed = [Bool](repeating: false, count: 256)
    for byte in used { isUsed[Int(byte)] = true }
    var classOf = [UInt8](repeating: 0, count: 256)
    var (count, others): (UInt8, UInt8?) = (0, nil)
    for byte in 0..<256 {
      if !isUsed[byte], let others {
        classOf[byte] = others
        continue
      }
      if !isUsed[byte] { others = count }
      classOf[byte] = count
      count &+= 1
    }
    return classOf
  }
}

extension ByteDFA {
  /// This language without what begins with one of these texts; nil where that is not found in one pass over the texts.
  /// O(cells).
  func without(beginnings texts: [[UInt8]]) throws(GrammarError) -> ByteDFA? {
    guard !texts.isEmpty, !next.contains(0) else { return nil }
    let tree = try TextTree(texts)
    let (node, number) = tree.joined()
    let (usedClasses, own) = (tree.classes, self.classOf)
    let classOf = Self.classes { UInt32(own[Int($0)]) << 8 | UInt32(usedClasses[Int($0)]) }
    let representatives = Self.representatives(classOf)
    let classCount = representatives.count
    // The rows of nodes that are no whole text, in the order of the tree; then those of the states but the start.
    var rowOf = [Int32](repeating: -1, count: node.count)
    var rowCount = 0
    for (index, node) in node.enumerated() where !tree.isEnd[node] {
      rowOf[index] = Int32(truncatingIfNeeded: rowCount)
      rowCount += 1
    }
    guard rowOf[0] == 0 else { return nil }
    let base = Int32(truncatingIfNeeded: rowCount) - 1
    let plain = (0..<Int32(truncatingIfNeeded: stateCount)).map { state in
      representatives.map { byte in
        let target = step(state, byte)
        return target < 0 ? -1 : base + target
      }
    }
    var table: [Int32] = []
    table.reserveCapacity((rowCount + stateCount - 1) * classCount)
    // This automaton's state at each node; children come after their parents.
    var twin = [Int32](repeating: -1, count: node.count)
    twin[0] = 0
    for (index, node) in node.enumerated() where rowOf[index] >= 0 {
      // A text begins with another.
      guard twin[index] >= 0 else { return nil }
      let start = table.count
      table += plain[Int(twin[index])]
      var child = tree.firstChild[node]
      while child >= 0 {
        let (byte, to) = (tree.byte[Int(child)], Int(number[Int(child)]))
        let state = step(twin[index], byte)
        // A text that this language has no beginning of, or the same texts after two states of it.
        guard state >= 0, twin[to] < 0 || twin[to] == state || tree.isEnd[Int(child)] else { return nil }
        twin[to] = state
        table[start + Int(classOf[Int(byte)])] = rowOf[to]
        child = tree.sibling[Int(child)]
      }
    }
    for state in plain.dropFirst() { table += state }
    let ends = node.indices.filter { rowOf[$0] >= 0 }.map { accepting[Int(twin[$0])] } + accepting.dropFirst()
    var cost = [Int32](repeating: Cost.none, count: rowCount) + self.cost.dropFirst()
    for row in (0..<rowCount).reversed() {
      var best: Int32 = ends[row] ? 0 : Cost.none
      for target in table[row * classCount..<(row + 1) * classCount] where target >= 0 {
        best = min(best, cost[Int(target)] + 1)
      }
      // Nothing else begins so.
      guard best < Cost.none else { return nil }
      cost[row] = best
    }
    return ByteDFA(classOf: classOf, classCount: classCount, trimmed: table, accepting: ends, cost: cost)
  }
}

/// Texts by their common beginnings; every node comes before what is below it.
private struct TextTree {
  private(set) var byte: [UInt8] = [0]
  private(set) var isEnd = [false]
  private(set) var firstChild: [Int32] = [-1]
  private(set) var sibling: [Int32] = [-1]

  static let tooLong = GrammarError.tooLarge(
    reason: "the constants of this schema need more than \(ByteDFA.stateLimit) states")

  init(_ texts: [[UInt8]]) throws(GrammarError) {
    var path: [Int] = [0]
    var last: [UInt8] = []
    for text in texts.count > 1 ? texts.sorted(by: { $0.lexicographicallyPrecedes($1) }) : texts {
      var common = 0
      while common < min(last.count, text.count), last[common] == text[common] { common += 1 }
      path.removeLast(path.count - 1 - common)
      for value in text.dropFirst(common) {
        guard byte.count < ByteDFA.stateLimit else {
          throw Self.tooLong
        }
        let (node, parent) = (byte.count, path[path.count - 1])
        byte.append(value)
        isEnd.append(false)
        firstChild.append(-1)
        sibling.append(firstChild[parent])
        firstChild[parent] = Int32(truncatingIfNeeded: node)
        path.append(node)
      }
      isEnd[path[path.count - 1]] = true
      last = text
    }
  }

  var classes: [UInt8] { ByteDFA.classes(of: byte.dropFirst()) }

  /// One node of all that have the same texts below them: the nodes that stand for others, in the order of the tree,
  /// and for each node the number of the one that stands for it.
  func joined() -> (nodes: [Int], number: [Int32]) {
    // One text, or the beginnings of one: no two go on alike.
    if !sibling.contains(where: { $0 >= 0 }) {
      return (Array(byte.indices), byte.indices.map { Int32(truncatingIfNeeded: $0) })
    }
    // Which node stands for each; children are known before their parents.
    var standsFor = [Int32](repeating: -1, count: byte.count)
    var kept: [Int] = []
    var hashes: [UInt64] = []
    var table = HashTable()
    for node in byte.indices.reversed() {
      var hash: UInt64 = isEnd[node] ? 1 : 0
      var child = firstChild[node]
      while child >= 0 {
        let other = UInt64(UInt32(bitPattern: standsFor[Int(child)]))
        hash = HashTable.mix(hash ^ (other << 8 | UInt64(byte[Int(child)])))
        child = sibling[Int(child)]
      }
      if let known = table.find(hash, where: { isSame(node, kept[Int($0)], standsFor) }) {
        standsFor[node] = Int32(truncatingIfNeeded: kept[Int(known)])
        continue
      }
      standsFor[node] = Int32(truncatingIfNeeded: node)
      hashes.append(hash)
      table.insert(hash, Int32(truncatingIfNeeded: kept.count), hashes: hashes)
      kept.append(node)
    }
    kept.reverse()
    var number = [Int32](repeating: -1, count: byte.count)
    for (index, node) in kept.enumerated() { number[node] = Int32(truncatingIfNeeded: index) }
    return (kept, standsFor.map { number[Int($0)] })
  }

  private func isSame(_ a: Int, _ b: Int, _ standsFor: [Int32]) -> Bool {
    guard isEnd[a] == isEnd[b] else { return false }
    var (x, y) = (firstChild[a], firstChild[b])
    while x >= 0, y >= 0 {
      guard byte[Int(x)] == byte[Int(y)], standsFor[Int(x)] == standsFor[Int(y)] else { return false }
      (x, y) = (sibling[Int(x)], sibling[Int(y)])
    }
    return x < 0 && y < 0
  }
}
