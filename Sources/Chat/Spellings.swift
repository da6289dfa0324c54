// Spellings of special tokens, and the places where text from outside could complete one.

import Tokenizers

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
      if cores.longestMatch(in: text, from: start)?.end == end,
        !isKeyword || !text[start..<end].allSatisfy(Self.isName)
      {
        marks.append(end)
      }
    }
    // A mark stands after the first character of a spelling.
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
      if let end = whole.longestMatch(in: text, from: at)?.end, mark < end, cuts.last != mark {
        cuts.append(mark)
      }
    }
    return cuts
  }

  /// The spellings in a text, in order, each followed by a zero.
  func sequence(in text: [UInt8]) -> [UInt8] {
    var found: [UInt8] = []
    var at = 0
    while at < text.count {
      guard let end = whole.longestMatch(in: text, from: at)?.end else {
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
