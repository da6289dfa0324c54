// Automata: made smaller, made of texts, framed; each against a slow way to the same.

import Support
import Testing
import Tokenizers

@testable import Grammar

@Suite struct AutomatonTests {
  static func random(
    states: Int, classes: Int, hasLoops: Bool = true, _ random: inout SeededGenerator
  ) -> ByteDFA {
    var table: [Int32] = []
    // Other bytes lead nowhere. Without loops, states lead to later ones alone.
    for state in 0..<Int32(states) {
      table += (0..<classes).map { _ in
        let target = Int32.random(in: -1..<Int32(states), using: &random)
        return hasLoops || target > state ? target : -1
      }
      table.append(-1)
    }
    let accepting = (0..<states).map { _ in Int.random(in: 0..<4, using: &random) == 0 }
    let classOf = ByteDFA.classes { UInt32(min(Int($0), classes)) }
    return ByteDFA(classOf: classOf, classCount: classes + 1, table: table, accepting: accepting)
  }

  /// Blocks of states that behave alike, found by comparing until nothing changes.
  static func blocks(_ dfa: ByteDFA) -> Int {
    var block = dfa.accepting.map { $0 ? 1 : 0 }
    while true {
      var number: [[Int]: Int] = [:]
      var next: [Int] = []
      for state in 0..<dfa.stateCount {
        let row = (0..<dfa.classCount).map { dfa.next[state * dfa.classCount + $0] }
        let key = [block[state]] + row.map { $0 < 0 ? -1 : block[Int($0)] }
        let new = number.count
        next.append(number[key, default: new])
        if number[key] == nil { number[key] = new }
      }
      if Set(next).count == Set(block).count { return Set(next).count }
      block = next
    }
  }

  /// Texts over the first bytes.
  static func texts(bytes: UInt8, length: Int) -> [[UInt8]] {
    var all: [[UInt8]] = [[]]
    for size in 0..<length {
      all += all.filter { $0.count == size }.flatMap { text in (0..<bytes).map { text + [$0] } }
    }
    return all
  }

  @Test func `the smallest automaton has the same language and a state for each way to behave`() {
    var random = SeededGenerator(seed: 3)
    let texts = Self.texts(bytes: 3, length: 6)
    for size in 1...60 {
      let dfa = Self.random(states: size, classes: 3, &random)
      let small = dfa.minimized()
      #expect(texts.allSatisfy { dfa.accepts($0) == small.accepts($0) }, "\(size) states")
      if !dfa.isEmpty { #expect(small.stateCount == Self.blocks(dfa), "\(size) states") }
      #expect(small.minimized().stateCount == small.stateCount)
    }
  }

  @Test func `from the ends backwards, the same states are alike as by splitting`() {
    var random = SeededGenerator(seed: 4)
    var (smaller, most) = (0, 0)
    for _ in 0..<300 {
      let dfa = Self.random(states: .random(in: 1...40, using: &random), classes: 3, hasLoops: false, &random)
      let (backwards, splitting) = (dfa.blocksWithoutLoops(), dfa.splitBlocks())
      #expect(backwards?.count == splitting.count)
      // The same pairs of states, in other numbers.
      let pairs = Set(zip(backwards?.blockOf ?? [], splitting.blockOf).map { [$0, $1] })
      #expect(pairs.count == splitting.count)
      if splitting.count < dfa.stateCount { smaller += 1 }
      most = max(most, splitting.count)
    }
    #expect(smaller > 100 && most > 10)
    for size in 1...60 {
      let dfa = Self.random(states: size, classes: 3, &random)
      let count = dfa.blocksWithoutLoops()?.count
      #expect(count == nil || count == dfa.splitBlocks().count)
    }
  }

  @Test func `a language of one text is known as such, and what it shares with others is found at once`()
    throws
  {
    var random = SeededGenerator(seed: 11)
    let texts = Self.texts(bytes: 3, length: 5)
    for text in texts {
      let one = try ByteDFA.texts([text])
      #expect(one.onlyText == text)
      let other = Self.random(states: Int.random(in: 1...9, using: &random), classes: 3, &random)
      let (quick, back) = (try one.intersection(other), try other.intersection(one))
      for both in [quick, back] {
        #expect(texts.allSatisfy { both.accepts($0) == ($0 == text && other.accepts($0)) }, "\(text)")
      }
    }
    // Where others say so, it is the only one that they accept.
    var found = 0
    for _ in 0..<400 {
      let dfa = Self.random(states: Int.random(in: 1...5, using: &random), classes: 3, &random).minimized()
      let accepted = Self.texts(bytes: 3, length: 6).filter { dfa.accepts($0) }
      guard let only = dfa.onlyText else { continue }
      #expect(accepted == [only])
      found += 1
    }
    #expect(found > 0)
    // Two bytes of one class are two texts.
    #expect(
      try ByteNFA.automaton(RegexParser.parse("a[bc]"), spelling: .plain, anywhere: false).onlyText == nil)
    #expect(try ByteDFA.texts([]).onlyText == nil)
  }

  @Test func `a set of texts is those texts, with as few states as possible`() throws {
    var random = SeededGenerator(seed: 4)
    let all = Self.texts(bytes: 3, length: 5)
    for count in [0, 1, 2, 5, 40] {
      let chosen = (0..<count).compactMap { _ in all.randomElement(using: &random) }
      let dfa = try ByteDFA.texts(chosen)
      #expect(all.allSatisfy { dfa.accepts($0) == chosen.contains($0) }, "\(count) texts")
      if count > 0 { #expect(dfa.stateCount == Self.blocks(dfa), "\(count) texts") }
    }
  }

  @Test func `what two automata make together is what each state says alone`() throws {
    var random = SeededGenerator(seed: 12)
    let texts = Self.texts(bytes: 4, length: 5)
    for size in 1...40 {
      let a = Self.random(states: size, classes: 3, &random)
      // Other classes, so that those of both together are more than of one.
      let b = Self.random(states: 1 + size / 2, classes: 2 + size % 3, &random)
      let (both, either, rest) = (try a.intersection(b), try a.union(b), try a.subtracting(b))
      #expect(texts.allSatisfy { both.accepts($0) == (a.accepts($0) && b.accepts($0)) }, "\(size)")
      #expect(texts.allSatisfy { either.accepts($0) == (a.accepts($0) || b.accepts($0)) }, "\(size)")
      #expect(texts.allSatisfy { rest.accepts($0) == (a.accepts($0) && !b.accepts($0)) }, "\(size)")
      for dfa in [both, either, rest] {
        let made = ByteDFA(
          classOf: dfa.classOf, classCount: dfa.classCount, table: dfa.next, accepting: dfa.accepting)
        #expect(made.next == dfa.next && made.cost == dfa.cost && made.continues == dfa.continues, "\(size)")
      }
    }
  }

  @Test(arguments: [Spelling.plain, .json])
  func `the bytes of a set spell its scalars and no others, with a state for each way to go on`(
    spelling: Spelling
  ) throws {
    var random = SeededGenerator(seed: 13)
    let edges: [UInt32] = [
      0, 0x1F, 0x22, 0x5C, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF,
    ]
    for count in 1...40 {
      let set = ScalarSet(
        (0..<count % 9 + 1).map { _ in
          let low =
            edges.randomElement(using: &random).map { $0 + UInt32.random(in: 0..<3, using: &random) } ?? 0
          return min(low, 0x10FFFF)...min(0x10FFFF, low + UInt32.random(in: 0..<0x900, using: &random))
        })
      let spelled = SpelledSet(spelling.sequences(set))
      func accepts(_ bytes: [UInt8]) -> Bool {
        var state: Int32 = 0
        for byte in bytes {
          let next = spelled.edges[Int(state)].filter { $0.low <= byte && byte <= $0.high }
          guard let only = next.first, next.count == 1 else { return false }
          state = only.to
        }
        return state == SpelledSet.end
      }
      for low in edges {
        for value in (low > 2 ? low - 2 : 0)...min(0x10FFFF, low + 0x905) {
          guard let scalar = Unicode.Scalar(value) else { continue }
          #expect(accepts(spelling.bytes(of: [scalar])) == set.contains(value), "\(value) in \(set.ranges)")
        }
      }
      #expect(Set(spelled.edges.dropFirst(2)).count == spelled.edges.count - 2)
    }
  }

  @Test func `columns that are alike are of one kind`() {
    let cells: [Int32] = [1, 2, 1, 3, 2, 5, 5, 5, 5, 5, -1, 0, -1, 0, 0]
    let (firsts, kinds) = ByteDFA.kinds(ofColumns: cells, 5)
    #expect(firsts == [0, 1, 3] && kinds == [0, 1, 0, 2, 1])
  }

  @Test func `all keys but some are those that are left when they are subtracted`() throws {
    var random = SeededGenerator(seed: 5)
    let (key, string) = (try CommonLanguages.key.get(), try CommonLanguages.canonicalString.get())
    var direct = 0
    for count in 0..<60 {
      let keys = (0..<count % 9).map { _ in
        String(
          (0..<Int.random(in: 0..<4, using: &random)).compactMap { _ in
            "ab\n\"é\u{1}n".randomElement(using: &random)
          })
      }
      let quoted = keys.map { JSONText.quoted($0) }
      let slow = try string.subtracting(ByteDFA.texts(quoted)).keyed()
      guard let dfa = try key.without(beginnings: quoted) else { continue }
      direct += 1
      #expect(dfa.isEquivalent(0, slow, 0), "\(keys)")
      #expect(slow.isEquivalent(0, dfa, 0), "\(keys)")
      let made = ByteDFA(
        classOf: dfa.classOf, classCount: dfa.classCount, table: dfa.next, accepting: dfa.accepting)
      #expect(made.stateCount == dfa.stateCount && made.cost == dfa.cost && made.continues == dfa.continues)
    }
    #expect(direct > 30)
    // Another way is taken where texts are not beginnings, begin with one another, or leave nothing.
    #expect(try key.without(beginnings: [Array("a".utf8)]) == nil)
    #expect(try key.without(beginnings: [Array("\"a".utf8), Array("\"abc".utf8)]) == nil)
    #expect(try ByteDFA.texts([Array("ab".utf8)]).without(beginnings: [Array("ab".utf8)]) == nil)
    #expect(try key.without(beginnings: []) == nil)
  }

  @Test func `strings with a bound on their characters are those that are found pair by pair`() throws {
    let all = try CommonLanguages.canonicalString.get()
    let expressions = [
      "^[a-c]+$", "^(?:ab|é)*$", "^.{3}$", "x", "^[^0-9]*$", "^(?:\\\\|n)+$", "^$", "^[a-z]{2,9}\\.x?$",
    ]
    for expression in expressions {
      let dfa = try ByteNFA.automaton(RegexParser.parse(expression), spelling: .json, anywhere: true)
        .wrapped([0x22], [0x22])
      for (min, max) in [(0, 0), (0, 3), (2, 5), (3, Int.max), (7, 7), (0, 40)] {
        let slow = try StringLanguage.explored(dfa, within: all, min: min, max: max)
        let cells = try #require(CharacterCells(dfa, within: all))
        let quick = try cells.counted(min: min, max: max)
        #expect(quick.isEmpty == slow.isEmpty)
        #expect(quick.isEquivalent(0, slow, 0), "\(expression) \(min) \(max)")
        #expect(quick.stateCount == slow.stateCount, "\(expression) \(min) \(max)")
      }
    }
  }

  @Test func `a frame adds its bytes and nothing else`() throws {
    var random = SeededGenerator(seed: 6)
    let texts = Self.texts(bytes: 3, length: 4)
    for _ in 0..<20 {
      let dfa = Self.random(states: 6, classes: 3, &random)
      let framed = try dfa.wrapped([0x22, 0x21], [0x23, 0x24])
      let key = try dfa.keyed()
      // The last has links in the way of others, unless a text ends where none goes on.
      for made in [framed, key, try dfa.wrapped([], [0])] where !made.isEmpty {
        let slow = ByteDFA(
          classOf: made.classOf, classCount: made.classCount, table: made.next, accepting: made.accepting)
        #expect(made.cost == slow.cost && made.next == slow.next)
      }
      for text in texts {
        #expect(framed.accepts([0x22, 0x21] + text + [0x23, 0x24]) == dfa.accepts(text))
        #expect(!framed.accepts(text) && !framed.accepts([0x22, 0x21] + text + [0x23]))
        guard dfa.accepts(text) else { continue }
        #expect(key.accepts(text + [0x3A]) && key.accepts(text + [0x3A, 0x20]) && !key.accepts(text))
      }
    }
  }

  /// What `SliceReach` says, by trying characters.
  @Test(arguments: [
    "[a-z]{3,9}x*\"", "[^\"]*\"", ".{0,5}\"", "(?:[A-Z][a-z]+ )*\"", "[a-zé日]{4}\"", "fox|dog",
  ])
  func `as many unescaped characters as are said lead on, whichever they are`(_ expression: String) throws {
    let dfa = try ByteNFA.automaton(RegexParser.parse(expression), spelling: .plain, anywhere: false)
    let reach = SliceReach(dfa)
    let samples: [(CharacterKinds, String)] = [
      (.lower, "az"), (.upper, "AZ"), (.digit, "09"), (.space, " "), (.punctuation, "!~-"),
      (.beyond, "é\u{80}\u{7FF}日\u{FFFF}😀\u{10FFFF}"),
    ]
    var random = SeededGenerator(seed: 9)
    for state in 0..<Int32(dfa.stateCount) {
      guard let best = reach.best(state) else { continue }
      let kinds = CharacterKinds.usual[best.kinds]
      let characters = samples.filter { kinds.contains($0.0) }.flatMap { Array($0.1.unicodeScalars) }
      for _ in 0..<50 {
        var at = state
        for _ in 0..<min(Int(best.count), 40) {
          for byte in String(characters.randomElement(using: &random) ?? "a").utf8 where at >= 0 {
            at = dfa.step(at, byte)
          }
          #expect(at >= 0 && !dfa.accepting[Int(at)], "\(expression) from \(state)")
          guard at >= 0 else { return }
          #expect(dfa.cost[Int(at)] <= reach.maxCost(after: state))
        }
      }
    }
  }

  @Test func `in a large automaton unescaped characters are counted as far as tokens are long`() throws {
    let dfa = try ByteNFA.automaton(RegexParser.parse("[a-z]{1200}\""), spelling: .plain, anywhere: false)
    let reach = SliceReach(dfa)
    let lower = try #require(CharacterKinds.usual.firstIndex(of: .lower))
    for state in 0..<Int32(dfa.stateCount) {
      // Letters that must still come, before the quote.
      let left = Int(dfa.cost[Int(state)]) - 1
      let best = reach.best(state)
      #expect(best.map { Int($0.count) } == (left < 2 ? nil : min(left, 24)))
      #expect(best == nil || best?.kinds == lower)
      #expect(reach.maxCost(after: state) >= dfa.cost[Int(state)])
    }
    let open = try ByteNFA.automaton(
      RegexParser.parse("[a-z]*(?:[0-9]{1200})?\""), spelling: .plain, anywhere: false)
    #expect(SliceReach(open).best(0)?.count == SliceReach.endless)
  }
}
