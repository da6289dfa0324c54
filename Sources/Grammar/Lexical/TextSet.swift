// Finite sets of texts as automata: the words of an enumeration, keys with their colon.

extension ByteDFA {
  /// Exactly these texts, with as few states as possible. O(bytes).
  static func texts(_ texts: [[UInt8]]) throws(GrammarError) -> ByteDFA {
    let tree = try TextTree(texts)
    let classOf = tree.classes
    let classCount = Int(classOf.max() ?? 0) + 1
    let (node, number) = tree.joined()
    var table = [Int32](repeating: -1, count: node.count * classCount)
    for (row, node) in node.enumerated() {
      var child = tree.firstChild[node]
      while child >= 0 {
        table[row * classCount + Int(classOf[Int(tree.byte[Int(child)])])] = number[Int(child)]
        child = tree.sibling[Int(child)]
      }
    }
    return ByteDFA(
      classOf: classOf, classCount: classCount, table: table, accepting: node.map { tree.isEnd[$0] },
      effort: tree.byte.count)
  }
}

/// Texts by their common beginnings; every node comes before what is below it.
private struct TextTree {
  private(set) var byte: [UInt8] = [0]
  private(set) var isEnd = [false]
  private(set) var firstChild: [Int32] = [-1]
  private(set) var sibling: [Int32] = [-1]

  init(_ texts: [[UInt8]]) throws(GrammarError) {
    var path: [Int] = [0]
    var last: [UInt8] = []
    for text in texts.count > 1 ? texts.sorted(by: { $0.lexicographicallyPrecedes($1) }) : texts {
      var common = 0
      while common < min(last.count, text.count), last[common] == text[common] { common += 1 }
      path.removeLast(path.count - 1 - common)
      for value in text.dropFirst(common) {
        guard byte.count < ByteDFA.stateLimit else {
          throw .tooLarge(reason: "the constants of this schema need more than \(ByteDFA.stateLimit) states")
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

  var classes: [UInt8] {
    var isUsed = [Bool](repeating: false, count: 256)
    for value in byte.dropFirst() { isUsed[Int(value)] = true }
    return ByteDFA.classes { isUsed[Int($0)] ? UInt32($0) + 1 : 0 }
  }

  /// One node of all that have the same texts below them: the nodes that stand for others, in the order of the tree,
  /// and for each node the number of the one that stands for it.
  func joined() -> (nodes: [Int], number: [Int32]) {
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
