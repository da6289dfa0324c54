// What the vocabulary can do inside a string whose characters are counted, whatever the count: one walk for all counts.

import Synchronization

/// The tokens that stay inside a string from one state of its automaton, by the characters that they begin.
final class StringReach: Sendable {
  /// Tokens that begin as many characters and leave the string to be closed with as many bytes.
  private struct Group {
    let characters: Int
    let cost: Int32
    let tokens: [Int32]
  }

  /// Those with fewer characters first.
  private let groups: [Group]
  /// Nodes of the trie at which the string is complete, and the characters up to there.
  private let exits: [(node: Int32, characters: Int)]
  /// Most characters up to one of those, and to the end of a token.
  private let longestExit: Int
  private let longest: Int
  /// The most bytes that closing the string takes from any state.
  private let maxCost: Int32
  /// Place n: the tokens that begin up to n characters; the last one has all.
  private let upTo: [TokenMask]
  private let kept = Mutex<[Int: LeafMask]>([:])
  /// Where tokens leave the string, by the least and the most characters up to there.
  private let leaving = Mutex<[Range<Int>: LeafExits]>([:])

  /// Most characters for which there is a mask of their own, and most masks that are kept.
  private static let counted = 16
  private static let keptLimit = 160

  init(_ string: ByteDFA, _ counts: CharacterCounts, state: Int32, vocabulary: GrammarVocabulary) {
    struct Key: Hashable {
      var characters: Int
      var cost: Int32
    }
    let trie = vocabulary.trie
    var states = [Int32](repeating: state, count: vocabulary.longestToken + 1)
    var begun = [Int](repeating: 0, count: vocabulary.longestToken + 1)
    var found: [Key: [Int32]] = [:]
    // Neighbours in the trie are nearly always of one group.
    var run = (key: Key(characters: -1, cost: 0), tokens: [Int32]())
    var exits: [(node: Int32, characters: Int)] = []
    var node = 1
    while node < trie.count {
      let depth = Int(trie.depth[node])
      let before = states[depth - 1]
      let after = string.step(before, trie.byte[node])
      guard after >= 0 else {
        node = Int(trie.end[node])
        continue
      }
      let count = begun[depth - 1] + (counts.begins(before, trie.byte[node]) ? 1 : 0)
      if string.accepting[Int(after)] { exits.append((Int32(truncatingIfNeeded: node), count)) }
      guard string.continues[Int(after)] else {
        node = Int(trie.end[node])
        continue
      }
      let tokens = trie.tokens(at: node)
      if !tokens.isEmpty {
        let key = Key(characters: count, cost: string.cost[Int(after)])
        if key != run.key {
          found[run.key, default: []] += run.tokens
          run = (key, [])
        }
        run.tokens += trie.tokens[tokens]
      }
      states[depth] = after
      begun[depth] = count
      node += 1
    }
    found[run.key, default: []] += run.tokens
    groups = found.filter { !$0.value.isEmpty }
      .map { Group(characters: $0.key.characters, cost: $0.key.cost, tokens: $0.value) }
      .sorted { $0.characters < $1.characters }
    self.exits = exits
    longestExit = exits.reduce(0) { max($0, $1.characters) }
    longest = groups.reduce(longestExit) { max($0, $1.characters) }
    maxCost = counts.maxCost
    upTo = Self.masks(groups, count: vocabulary.count)
  }

  private static func masks(_ groups: [Group], count: Int) -> [TokenMask] {
    var masks: [TokenMask] = []
    var mask = TokenMask(count: count)
    var rest = groups[...]
    for most in 0..<counted {
      while let group = rest.first, group.characters <= most {
        mask.insert(group.tokens)
        rest.removeFirst()
      }
      masks.append(mask)
    }
    for group in rest { mask.insert(group.tokens) }
    return masks + [mask]
  }

  /// - Parameters:
  ///   - missing: characters that must still come, as far as a token can tell.
  ///   - left: characters that may still come, as far as a token can tell.
  /// - Returns: the mask, whose costs are short of the characters that are missing, and whether it is kept here.
  func mask(missing: Int, left: Int, vocabulary: GrammarVocabulary) -> (mask: LeafMask, isShared: Bool) {
    // What no token reaches makes no difference.
    let left = min(left, longest)
    if missing == 0, let known = kept.withLock({ $0[left] }) { return (known, true) }
    var inside = upTo[upTo.count - 1]
    if left < Self.counted {
      inside = upTo[max(0, left)]
    } else {
      // Hardly any token has so many.
      for group in groups.reversed() {
        guard group.characters > left else { break }
        for token in group.tokens { inside.remove(token) }
      }
    }
    let made = LeafMask(
      inside: .many(inside), maxCost: maxCost,
      leaving: exits(after: missing, before: min(left, longestExit) + 1, vocabulary))
    let isShared = kept.withLock { kept in
      guard missing == 0, kept.count < Self.keptLimit else { return false }
      kept[left] = made
      return true
    }
    return (made, isShared)
  }

  private func exits(after missing: Int, before end: Int, _ vocabulary: GrammarVocabulary) -> LeafExits {
    guard missing < end else { return .none }
    if let known = leaving.withLock({ $0[missing..<end] }) { return known }
    // Outside the lock: two threads may both make the same.
    let open = exits.filter { (missing..<end).contains($0.characters) }
    let made = open.isEmpty ? .none : LeafExits(open.map(\.node), vocabulary: vocabulary)
    leaving.withLock { leaving in
      if leaving.count < Self.keptLimit { leaving[missing..<end] = made }
    }
    return made
  }

  /// The tokens of such a mask by what closing the string costs after them, all characters that are missing included.
  func costs(missing: Int, left: Int) -> LeafCosts {
    var found: [Int32: [Int32]] = [:]
    for group in groups where group.characters <= left {
      let cost = Cost.sum(group.cost, Int32(clamping: max(0, missing - group.characters)))
      found[cost, default: []] += group.tokens
    }
    return LeafCosts(found)
  }
}
