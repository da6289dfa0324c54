// Text that stands in a source: a leaf of a grammar whose language is all that can be quoted.

import Synchronization

/// Any run of whole words and other characters of some texts, as it is or as a JSON string has it, with bounds on its length:
/// it ends within a word only where the upper bound wants it.
///
/// A state is one of the suffix tree, or that after the backslash with which JSON writes the next character.
final class QuoteLeaf: Sendable {
  /// Characters, at least one.
  let min: Int
  let max: Int
  let byteCount: Int
  private let steps: Mutex<Steps>

  /// Most bytes of all sources of one quote.
  static let largestSource = 4 << 20
  /// Most bytes of a character, or of its escape.
  private static let widest: Int32 = 4
  private static let afterBackslash: Int32 = 1 << 30

  /// - Parameters:
  ///   - texts: no quote has parts of two of them.
  ///   - min, max: characters.
  ///   - missing: bytes that the model cannot write; no quote has them.
  ///   - excluded: all texts with something that no quote has.
  /// - Throws: where the texts are too large.
  init(
    _ texts: [String], spelling: Spelling, min: Int, max: Int, missing: [UInt8], excluded: ByteDFA?
  ) throws(GrammarError) {
    guard texts.reduce(0, { $0 + $1.utf8.count + 1 }) <= Self.largestSource else {
      throw .tooLarge(reason: "the sources of a quote have more than \(Self.largestSource >> 20) MiB")
    }
    (self.min, self.max) = (Swift.max(1, min), max)
    let isJSON = if case .json = spelling { true } else { false }
    let text = Self.parts(of: texts, isJSON: isJSON, missing: missing, excluded: excluded)
    let tree = SuffixTree(text, places: Self.beginnings(in: text, atLeast: self.min))
    // With what answers and masks will add to it.
    byteCount = tree.byteCount + text.count
    steps = Mutex(Steps(tree: tree, isJSON: isJSON))
  }

  /// The texts without what no quote has: there they are parted.
  private static func parts(
    of texts: [String], isJSON: Bool, missing: [UInt8], excluded: ByteDFA?
  ) -> [UInt8] {
    var isUsable = [Bool](repeating: true, count: 256)
    for byte in missing { isUsable[Int(byte)] = false }
    let spelled = (UInt8.min...UInt8.max).map { byte in
      isJSON && byte < 0x80 ? JSONText.escape(of: UInt32(byte)) ?? [byte] : [byte]
    }
    if isJSON {
      // Of control characters those with a short escape.
      for byte in 0..<0x80 where spelled[byte].count > 2 || spelled[byte].contains(where: missing.contains) {
        isUsable[byte] = false
      }
    }
    var out: [UInt8] = []
    out.reserveCapacity(texts.reduce(1) { $0 + $1.utf8.count + 1 })
    for text in texts {
      var state: Int32 = 0
      var character = 0
      for byte in text.utf8 {
        if byte & 0xC0 != 0x80 { character = out.count }
        out.append(isUsable[Int(byte)] ? byte : SuffixTree.end)
        guard let excluded else { continue }
        for part in spelled[Int(byte)] where state >= 0 { state = excluded.step(state, part) }
        guard state >= 0, excluded.accepting[Int(state)] else { continue }
        out.replaceSubrange(character..., with: CollectionOfOne(SuffixTree.end))
        state = 0
      }
      out.append(SuffixTree.end)
    }
    return out
  }

  /// Where words and other characters begin after which so many characters can be read, the first included.
  private static func beginnings(in text: [UInt8], atLeast count: Int) -> [Int32] {
    var places: [Int32] = []
    var left = 0
    for (place, byte) in text.enumerated().reversed() {
      if byte == SuffixTree.end {
        left = 0
      } else if byte & 0xC0 != 0x80 {
        left += 1
        if left >= count, WordBorders.isBorder(text, place) {
          places.append(Int32(truncatingIfNeeded: place))
        }
      }
    }
    return places.reversed()
  }

  /// Whether nothing can be quoted.
  var isEmpty: Bool { use { $0.tree.isEmpty } }

  // MARK: Steps

  /// What one more byte leads to.
  struct Step {
    let state: Int32
    /// Whether the byte begins a character.
    let begins: Bool
    let mayEnd: Bool
    let goesOn: Bool
  }

  /// Characters that must still come, and that may.
  struct Room {
    let missing: Int
    let left: Int

    func after(_ step: Step) -> Room { after(characters: step.begins ? 1 : 0) }

    fileprivate func after(characters count: Int) -> Room {
      Room(missing: Swift.max(0, missing - count), left: left == Int.max ? left : left - count)
    }
  }

  /// - Parameter count: characters so far.
  func room(after count: Int) -> Room { Room(missing: min, left: max).after(characters: count) }

  func step(_ state: Int32, after count: Int, _ byte: UInt8) -> Step? {
    use { $0.step(state, room(after: count), byte) }
  }

  /// Bytes with which the quote is completed, or more than that.
  func cost(_ state: Int32, after count: Int) -> Int32 { use { $0.cost(state, room(after: count)) } }

  /// The most bytes that so many characters take, and the rest of a word.
  static func largestCost(ofCharacters count: Int) -> Int32 {
    Cost.product(widest, count + WordBorders.longestWord + 1)
  }

  /// Several questions, between which nobody else asks.
  func use<Answer: Sendable>(_ body: (inout Steps) -> Answer) -> Answer {
    steps.withLock { steps in body(&steps) }
  }

  /// The tree, read in the leaf's spelling.
  struct Steps {
    fileprivate var tree: SuffixTree
    fileprivate let isJSON: Bool

    /// - Parameter room: before the byte.
    mutating func step(_ state: Int32, _ room: Room, _ byte: UInt8) -> Step? {
      let next = next(state, byte)
      guard next >= 0 else { return nil }
      let begins = state & afterBackslash == 0 && byte & 0xC0 != 0x80
      let room = room.after(characters: begins ? 1 : 0)
      guard room.left >= 0 else { return nil }
      guard isBetween(next) else { return Step(state: next, begins: begins, mayEnd: false, goesOn: true) }
      let mayEnd =
        room.missing == 0
        && (room.left == 0 || tree.hasPlace(next) { WordBorders.isBorder(tree.text, $0) })
      // Several places may all be ends of parts, which is not looked at here: such a text may end.
      let goesOn = room.left > 0 && tree.onlyByte(next) != SuffixTree.end
      return Step(state: next, begins: begins, mayEnd: mayEnd, goesOn: goesOn)
    }

    private mutating func next(_ state: Int32, _ byte: UInt8) -> Int32 {
      if state & afterBackslash != 0 {
        guard let raw = Self.unescaped(byte) else { return -1 }
        return tree.step(state & ~afterBackslash, raw)
      }
      guard isJSON else { return tree.step(state, byte) }
      if byte == 0x5C {
        return tree.mayFollow(state) { Self.letter(of: $0) != nil } ? state | afterBackslash : -1
      }
      return Self.letter(of: byte) == nil ? tree.step(state, byte) : -1
    }

    /// Bytes with which the quote is completed at the first place of a state: perhaps more than at another.
    func cost(_ state: Int32, _ room: Room) -> Int32 {
      var (place, count, bytes) = (tree.firstPlace(state & ~afterBackslash), 0, Int32(0))
      if state & afterBackslash != 0 { (place, bytes) = (place + 1, 1) }
      while tree.text[place] != SuffixTree.end {
        let isBetween = tree.text[place] & 0xC0 != 0x80
        if isBetween {
          guard count < room.left, count < room.missing || !WordBorders.isBorder(tree.text, place) else {
            break
          }
          count += 1
        }
        bytes += isJSON && Self.letter(of: tree.text[place]) != nil ? 2 : 1
        place += 1
      }
      return bytes
    }

    /// Whether the text of a state ends with a character; it does so at all of its places or at none.
    private func isBetween(_ state: Int32) -> Bool {
      state & afterBackslash == 0 && tree.text[tree.firstPlace(state)] & 0xC0 != 0x80
    }

    /// The only byte that may come in a state; nil where there may be several.
    func onlyByte(_ state: Int32) -> UInt8? {
      guard let raw = tree.onlyByte(state & ~afterBackslash) else { return nil }
      guard isJSON, let letter = Self.letter(of: raw) else { return raw }
      return state & afterBackslash != 0 ? letter : 0x5C
    }

    /// What stands after the backslash for each character that JSON escapes in short.
    private static let letters: [UInt8?] = (UInt8.min...UInt8.max).map { byte in
      byte < 0x80 ? JSONText.escape(of: UInt32(byte)).flatMap { $0.count == 2 ? $0[1] : nil } : nil
    }

    private static func letter(of byte: UInt8) -> UInt8? { letters[Int(byte)] }

    private static func unescaped(_ letter: UInt8) -> UInt8? {
      letters.firstIndex(of: letter).map { UInt8(truncatingIfNeeded: $0) }
    }
  }
}
