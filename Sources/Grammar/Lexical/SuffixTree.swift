// What stands in a text, as a suffix tree that grows only where it is asked.

/// The places of a text by what follows them: a state of the tree stands for the same few bytes at one or several places.
/// Nothing is sorted before somebody asks: the first question at a node takes a step for each of its places, so that a long
/// text costs a pass over it, and what no answer comes to costs nothing (Giegerich, Kurtz and Stoye, "Efficient
/// implementation of lazy suffix trees", 2003).
struct SuffixTree {
  /// Ends each part of the text. UTF-8 has no such byte, and nothing leads over it.
  static let end: UInt8 = 0xFF
  static let root: Int32 = 0
  /// Most bytes of a text. States above are free for others.
  static let largest = 1 << 28

  /// A state that is not a node: the one place at which its text goes on.
  private static let atPlace: Int32 = 1 << 28

  private struct Node {
    /// In `places`: those where its text begins.
    var places: Range<Int32>
    /// Bytes of its text.
    var length: Int32
    /// In `children`; nil as long as nobody has asked.
    var children: Range<Int32>?
  }

  let text: [UInt8]
  /// Those of a node stand together.
  private var places: [Int32]
  private var nodes: [Node]
  /// What follows nodes, those of one in the order of their bytes.
  private var children: [(byte: UInt8, state: Int32)] = []

  /// - Parameters:
  ///   - text: ends with `end`.
  ///   - places: where texts of the language may begin, in order.
  init(_ text: [UInt8], places: [Int32]) {
    (self.text, self.places) = (text, places)
    nodes = [Node(places: 0..<Int32(truncatingIfNeeded: places.count), length: 0)]
  }

  var isEmpty: Bool { places.isEmpty }
  /// About how much memory it takes as it is now.
  var byteCount: Int { text.count + places.count * 4 + nodes.count * 24 + children.count * 8 }

  /// The first place after the text of a state.
  func firstPlace(_ state: Int32) -> Int {
    if state >= Self.atPlace { return Int(state - Self.atPlace) }
    let node = nodes[Int(state)]
    return Int(places[Int(node.places.lowerBound)] + node.length)
  }

  /// Whether some place after the text of a state is wanted.
  func hasPlace(_ state: Int32, _ isWanted: (Int) -> Bool) -> Bool {
    if state >= Self.atPlace { return isWanted(Int(state - Self.atPlace)) }
    let node = nodes[Int(state)]
    return node.places.contains { isWanted(Int(places[Int($0)] + node.length)) }
  }

  /// The byte after the text of a state at its only place, which may be `end`; nil where there are several places.
  func onlyByte(_ state: Int32) -> UInt8? {
    state >= Self.atPlace ? text[Int(state - Self.atPlace)] : nil
  }

  /// The state after one more byte; -1 where that text does not stand anywhere.
  mutating func step(_ state: Int32, _ byte: UInt8) -> Int32 {
    guard byte != Self.end else { return -1 }
    if state >= Self.atPlace { return text[Int(state - Self.atPlace)] == byte ? state + 1 : -1 }
    for child in grown(Int(state)) where children[Int(child)].byte >= byte {
      return children[Int(child)].byte == byte ? children[Int(child)].state : -1
    }
    return -1
  }

  /// Whether some byte of a set follows the text of a state.
  mutating func mayFollow(_ state: Int32, _ isWanted: (UInt8) -> Bool) -> Bool {
    if state >= Self.atPlace { return isWanted(text[Int(state - Self.atPlace)]) }
    return grown(Int(state)).contains { isWanted(children[Int($0)].byte) }
  }

  /// The children of a node, whose places are sorted by their next byte if they are not yet.
  private mutating func grown(_ number: Int) -> Range<Int32> {
    let node = nodes[number]
    if let known = node.children { return known }
    let all = Int(node.places.lowerBound)..<Int(node.places.upperBound)
    var counts = [Int32](repeating: 0, count: 256)
    for place in all { counts[Int(text[Int(places[place] + node.length)])] += 1 }
    var next = [Int32](repeating: 0, count: 256)
    var at = node.places.lowerBound
    let first = Int32(truncatingIfNeeded: children.count)
    for byte in 0..<256 where counts[byte] > 0 {
      next[byte] = at
      at += counts[byte]
    }
    let before = Array(places[all])
    for place in before {
      let byte = Int(text[Int(place + node.length)])
      places[Int(next[byte])] = place
      next[byte] += 1
    }
    for byte in 0..<Int(Self.end) where counts[byte] > 0 {
      let these = next[byte] - counts[byte]..<next[byte]
      let state: Int32
      if these.count == 1 {
        state = Self.atPlace + places[Int(these.lowerBound)] + node.length + 1
      } else {
        state = Int32(truncatingIfNeeded: nodes.count)
        nodes.append(Node(places: these, length: node.length + 1))
      }
      children.append((UInt8(truncatingIfNeeded: byte), state))
    }
    let found = first..<Int32(truncatingIfNeeded: children.count)
    nodes[number].children = found
    return found
  }
}
