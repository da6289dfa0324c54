// The vocabulary of one model as the grammar sees it: the bytes of every ordinary token.

import Synchronization
package import Tokenizers

/// Built once per model and shared by all grammars.
package final class GrammarVocabulary: Sendable {
  let names: TokenNames
  /// Ids are below this.
  package var count: Int { names.count }
  /// The ids that end an answer: allowed when the pattern is complete.
  package let endTokens: Set<Int32>
  /// All ids but the end tokens: what a text may go on with.
  package let continuing: TokenMask

  /// The ordinary tokens: special tokens and markers such as `<tool_call>` never stand for their text.
  let trie: TokenTrie
  /// The most bytes of an ordinary token.
  let longestToken: Int
  /// The bytes of UTF-8 that no token has alone, in order. What needs one is left out of all patterns, and so are tokens
  /// that have one.
  package let missingBytes: [UInt8]
  private let bytes: [UInt8]
  private let starts: [Int32]
  let slices: TokenSlices
  /// Masks of the states that all grammars share, such as the inside of a string. Set once, when all else is known.
  private let shared = Mutex<[SharedState: LeafMask]>([:])
  /// What tokens reach from the states of strings whose characters are counted.
  private let reaches = Mutex<[Int32: StringReach]>([:])
  /// The narrower mask of the last request.
  private let narrowed = Mutex<(key: [UInt8], mask: TokenMask)?>(nil)

  /// The vocabulary of a model that writes nothing.
  package static let nothing = GrammarVocabulary(count: 0, endTokens: []) { _ in [] }

  /// O(vocabulary).
  package convenience init(tokenizer: Tokenizer, endTokens: Set<Int32>) {
    let isSpecial = { @Sendable (id: Int32) in
      tokenizer.isSpecial(id) || tokenizer.isAdded(id) && Self.isMarker(tokenizer.token(of: id) ?? "")
    }
    let names = TokenNames(count: tokenizer.vocabularySize) { name in
      tokenizer.id(of: name).flatMap { isSpecial($0) ? $0 : nil }
    }
    self.init(names, endTokens: endTokens) { isSpecial($0) ? [] : tokenizer.bytes(of: $0) }
  }

  convenience init(count: Int, endTokens: Set<Int32>, bytes: (Int32) -> [UInt8]) {
    self.init(TokenNames(count: count), endTokens: endTokens, bytes: bytes)
  }

  /// - Parameter bytes: the bytes of a token; none for those that never stand for text.
  init(_ names: TokenNames, endTokens: Set<Int32>, bytes: (Int32) -> [UInt8]) {
    let count = names.count
    (self.names, self.endTokens) = (names, endTokens)
    continuing = TokenMask(count: count) { !endTokens.contains($0) }
    var alone = [Bool](repeating: false, count: 256)
    let texts = (0..<Int32(clamping: count)).map { id in
      let text = endTokens.contains(id) ? [] : bytes(id)
      if text.count == 1 { alone[Int(text[0])] = true }
      return text
    }
    var all: [UInt8] = []
    var starts: [Int32] = [0]
    var longest = 0
    for text in texts {
      // Longer tokens do not exist; one in a hostile file is never generated.
      if text.count <= Self.longestToken, text.allSatisfy({ alone[Int($0)] }) {
        all += text
        longest = max(longest, text.count)
      }
      starts.append(Int32(clamping: all.count))
    }
    trie = TokenTrie(ids: Array(0..<Int32(clamping: count)), bytes: all, starts: starts)
    slices = TokenSlices(trie, count: count)
    longestToken = longest
    // C0, C1 and F5 to FF are no UTF-8.
    missingBytes = (UInt8.min...0xF4).filter { !alone[Int($0)] && $0 != 0xC0 && $0 != 0xC1 }
    self.bytes = all
    self.starts = starts
    prepare()
  }

  /// Walks the vocabulary once from each state that all grammars share, so that no answer waits for it.
  private func prepare() {
    Formats.prepare()
    for (leaf, common) in CommonLanguages.shared.enumerated() {
      let reach = SliceReach(common.dfa)
      for state in common.states {
        let mask = LeafMask.make(common.dfa, state: state, reach: reach, vocabulary: self) {
          LeafExits($0, vocabulary: self)
        }
        shared.withLock { $0[SharedState(leaf: leaf, state: state)] = mask }
      }
    }
    guard let string = try? CommonLanguages.freeString.get(), let counts = try? CharacterCounts.free.get()
    else { return }
    for state in 0..<Int32(truncatingIfNeeded: string.stateCount) where string.continues[Int(state)] {
      _ = reach(string, counts, state)
    }
  }

  /// The mask of a state that many grammars share.
  func mask(_ state: SharedState) -> LeafMask? { shared.withLock { $0[state] } }

  /// - Parameter string: the automaton of all strings.
  func reach(_ string: ByteDFA, _ counts: CharacterCounts, _ state: Int32) -> StringReach {
    if let known = reaches.withLock({ $0[state] }) { return known }
    // Outside the lock: two threads may both make the same.
    let made = StringReach(string, counts, state: state, vocabulary: self)
    reaches.withLock { $0[state] = made }
    return made
  }

  private static let longestToken = 1024

  /// Added tokens in angle or square brackets are markers even where the file does not call them special.
  private static func isMarker(_ spelling: String) -> Bool {
    let text = Array(spelling.utf8)
    return text.first == 0x3C && text.last == 0x3E
      || text.first == 0x5B && text.last == 0x5D && text.count > 2
  }

  /// `continuing` without the ids that `isLeftOut`. O(vocabulary), and at once the second time: one mask is
  /// kept, because all requests of a model leave out the same ids.
  ///
  /// - Parameter key: names what `isLeftOut` decides.
  package func continuing(key: [UInt8], without isLeftOut: (Int32) -> Bool) -> TokenMask {
    if let kept = narrowed.withLock({ $0 }), kept.key == key { return kept.mask }
    // Outside the lock: two threads may both make a new one.
    let mask = TokenMask(count: count) { continuing.contains($0) && !isLeftOut($0) }
    narrowed.withLock { $0 = (key, mask) }
    return mask
  }

  /// The bytes of a token; none where it never stands for text.
  func bytes(of id: Int32) -> ArraySlice<UInt8> {
    guard id >= 0, Int(id) < count else { return [] }
    return bytes[Int(starts[Int(id)])..<Int(starts[Int(id) + 1])]
  }
}
