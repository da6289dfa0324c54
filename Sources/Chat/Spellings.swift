// Spellings of special tokens, and the places where text from outside could complete one.

/// Some spellings.
///
/// A spelling in a prompt holds text from outside in one of two ways. It begins in such a text, and then goes on to its
/// own end or beyond the end of the text. Or the template has begun it, with `<` before a name, say. Marks stand where
/// either is possible; what stands beside the text in the prompt shows later whether it was so.
struct Spellings: Sendable {
  private var whole = ByteTrie()
  /// What follows the signs that a spelling begins with: `im_end|>`.
  private var rests = ByteTrie()
  /// The same without the signs that it ends with: `im_end`.
  private var cores = ByteTrie()

  /// Adds a spelling; one of a single character cannot be broken up and is left out.
  mutating func add(_ spelling: [UInt8]) {
    guard spelling.count(where: { !Self.isContinuation($0) }) > 1 else { return }
    whole.insert(spelling[...])
    // Templates put signs around words of others, never parts of words.
    let lead = spelling.prefix { !Self.isName($0) }.count
    let trail = spelling.reversed().prefix { !Self.isName($0) }.count
    for start in 1..<max(1, min(lead + 1, spelling.count)) {
      rests.insert(spelling[start...])
      for end in max(start + 1, spelling.count - trail)..<max(start + 1, spelling.count) {
        cores.insert(spelling[start..<end])
      }
    }
  }

  /// Offsets at which marks must stand in a text from outside.
  ///
  /// A template may take white space away from the ends of a text, and joins what is left to other text. Bytes that are
  /// not ASCII count as white space here, because some of them are.
  ///
  /// - Parameter isKeyword: whether templates may look the text up: then a mere word gets no mark.
  func marks(in text: [UInt8], isKeyword: Bool) -> [Int] {
    func isInk(_ byte: UInt8) -> Bool { (0x21...0x7F).contains(byte) }
    var marks: [Int] = []
    let end = text.lastIndex(where: isInk).map { $0 + 1 } ?? 0
    if let start = text.firstIndex(where: isInk) {
      if rests.longestMatch(in: text, from: start) != nil { marks.append(start) }
      // At the end, where it changes the order among other names least.
      if cores.longestMatch(in: text, from: start) == end,
        !isKeyword || !text[start..<end].allSatisfy(Self.isName)
      {
        marks.append(end)
      }
    }
    // A mark stands behind the first character of a spelling.
    var isPending = false
    for at in text.indices {
      if isPending, !Self.isContinuation(text[at]) {
        marks.append(at)
        isPending = false
      }
      if !isPending { isPending = whole.matches(in: text, from: at, endingAt: end) }
    }
    if isPending { marks.append(text.count) }
    return marks.sorted()
  }

  /// Those of `marks` at which `text` must be cut so that no piece holds a spelling which held a mark.
  func cuts(in text: [UInt8], marks: [Int]) -> [Int] {
    var cuts: [Int] = []
    var next = 0
    for at in text.indices {
      while next < marks.count, marks[next] <= at { next += 1 }
      guard next < marks.count else { break }
      let mark = marks[next]
      if let end = whole.longestMatch(in: text, from: at), mark < end, cuts.last != mark { cuts.append(mark) }
    }
    return cuts
  }

  /// The spellings in a text, in order, each followed by a zero.
  func sequence(in text: [UInt8]) -> [UInt8] {
    var found: [UInt8] = []
    var at = 0
    while at < text.count {
      guard let end = whole.longestMatch(in: text, from: at) else {
        at += 1
        continue
      }
      found += text[at..<end]
      found.append(0)
      at = end
    }
    return found
  }

  private static func isContinuation(_ byte: UInt8) -> Bool { byte & 0xC0 == 0x80 }

  private static func isName(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
      true
    default: false
    }
  }
}

/// Byte strings by their beginnings.
private struct ByteTrie: Sendable {
  /// (node, byte) to node; nodes count from 0, the root.
  private var edges: [UInt64: Int32] = [:]
  private var isEnd = [false]
  private var isFirst = [Bool](repeating: false, count: 256)

  mutating func insert(_ string: ArraySlice<UInt8>) {
    guard let first = string.first else { return }
    isFirst[Int(first)] = true
    var node: Int32 = 0
    for byte in string {
      let edge = UInt64(node) << 8 | UInt64(byte)
      if let next = edges[edge] {
        node = next
      } else {
        node = Int32(truncatingIfNeeded: isEnd.count)
        edges[edge] = node
        isEnd.append(false)
      }
    }
    isEnd[Int(node)] = true
  }

  /// The end of the longest string that stands at `start`.
  func longestMatch(in text: [UInt8], from start: Int) -> Int? {
    var longest: Int?
    walk(text, from: start) { at, isEnd in
      if isEnd { longest = at }
      return true
    }
    return longest
  }

  /// Whether a string stands at `start`, or begins with everything from there to `end`.
  func matches(in text: [UInt8], from start: Int, endingAt end: Int) -> Bool {
    var matches = false
    walk(text, from: start) { at, isEnd in
      matches = isEnd || at >= end
      return !matches
    }
    return matches
  }

  /// Follows the text as long as a string goes on like it, and `body`, which gets the place behind each byte, says so.
  private func walk(_ text: [UInt8], from start: Int, _ body: (_ at: Int, _ isEnd: Bool) -> Bool) {
    guard isFirst[Int(text[start])] else { return }
    var node: Int32 = 0
    var at = start
    while at < text.count, let next = edges[UInt64(node) << 8 | UInt64(text[at])] {
      node = next
      at += 1
      guard body(at, isEnd[Int(node)]) else { return }
    }
  }
}
