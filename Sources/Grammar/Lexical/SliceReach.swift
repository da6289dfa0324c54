// How far unescaped characters lead in an automaton, whichever they are.

import Synchronization

/// For each state and set of kinds: how many characters of these kinds may come, whichever, without the text coming to
/// an end or to a place where the automaton accepts. What the vocabulary has of such text need not be walked.
final class SliceReach: Sendable {
  private let dfa: ByteDFA
  /// The most bytes that completing the text takes from any state that is reached from each; empty where the automaton
  /// is large.
  private let maxCost: [Int32]
  /// The same from any state.
  private let maxCostOfAll: Int32
  /// The classes of the bytes of each kind of ASCII, by the kind's bit.
  private let columns: [[Int]]
  /// The classes of bytes that lead from each place inside a character to another, without ASCII.
  private let beyond: [[(column: Int, next: UnescapedCharacter)]]
  private let counts = Mutex<[CharacterKinds: [UInt8]]>([:])

  /// Any number of characters.
  static let endless: UInt8 = 255
  /// Larger automata are not looked at as a whole.
  private static let smallest = 1024
  /// Most characters that are counted in those, and most states that are looked at for one of them.
  private static let farthest: UInt8 = 24
  private static let widest = 256

  init(_ dfa: ByteDFA) {
    self.dfa = dfa
    columns = (0..<5).map { bit in
      let bytes = UInt8(0)..<0x80
      let own = bytes.filter { CharacterKinds(ascii: $0).rawValue == 1 << UInt8(bit) }
      return Array(Set(own.map { Int(dfa.classOf[Int($0)]) }))
    }
    beyond = UnescapedCharacter.all.map { place in
      var found: [(column: Int, next: UnescapedCharacter)] = []
      for byte: UInt8 in 0x80...0xFF {
        guard let next = place.next(byte) else { continue }
        let column = Int(dfa.classOf[Int(byte)])
        if !found.contains(where: { $0.column == column && $0.next == next }) { found.append((column, next)) }
      }
      return found
    }
    maxCost = dfa.stateCount > Self.smallest ? [] : Self.maxCost(dfa)
    maxCostOfAll = dfa.cost.reduce(0, max)
  }

  /// The most bytes that completing the text takes from any state that is reached from this one, or more than that.
  func maxCost(after state: Int32) -> Int32 { maxCost.isEmpty ? maxCostOfAll : maxCost[Int(state)] }

  var byteCount: Int { dfa.stateCount * (4 + CharacterKinds.usual.count) + 1024 }

  private static func maxCost(_ dfa: ByteDFA) -> [Int32] {
    let before = ReverseEdges(table: dfa.next, columnCount: dfa.classCount)
    var found = [Int32](repeating: -1, count: dfa.stateCount)
    // From the states with the largest costs back: who comes first has the most.
    for state in dfa.cost.indices.sorted(by: { dfa.cost[$0] > dfa.cost[$1] }) where found[state] < 0 {
      let cost = dfa.cost[state]
      found[state] = cost
      var queue = [state]
      while let next = queue.popLast() {
        for source in before.sources(of: next) where found[Int(source)] < 0 {
          found[Int(source)] = cost
          queue.append(Int(source))
        }
      }
    }
    return found
  }

  /// Whether it is worth finding out: each of the usual sets has all small letters or all capitals.
  static func mayHelp(_ dfa: ByteDFA, _ state: Int32) -> Bool {
    func goesOn(_ letters: String) -> Bool {
      letters.utf8.allSatisfy { byte in
        let target = dfa.step(state, byte)
        return target >= 0 && !dfa.accepting[Int(target)]
      }
    }
    return goesOn("aeqz") || goesOn("AEQZ")
  }

  /// The set of kinds, by its place in `usual`, of which many characters may come from a state, and how many.
  func best(_ state: Int32) -> (kinds: Int, count: UInt8)? {
    var few: (kinds: Int, count: UInt8)?
    for (index, kinds) in CharacterKinds.usual.enumerated() where targets(Int(state), kinds) != nil {
      let count = count(state, kinds)
      if count >= 8 { return (index, count) }
      if few == nil, count >= 2 { few = (index, count) }
    }
    return few
  }

  /// For each state, how many characters of these kinds may come; nil where the automaton is large.
  func counts(_ kinds: CharacterKinds) -> [UInt8]? { maxCost.isEmpty ? nil : allCounts(kinds) }

  private func count(_ state: Int32, _ kinds: CharacterKinds) -> UInt8 {
    maxCost.isEmpty ? nearCount(state, kinds) : allCounts(kinds)[Int(state)]
  }

  private func allCounts(_ kinds: CharacterKinds) -> [UInt8] {
    counts.withLock { known in
      if let known = known[kinds] { return known }
      let made = counted(kinds)
      known[kinds] = made
      return made
    }
  }

  /// The same count as far as it is found near a state, a character at a time.
  private func nearCount(_ state: Int32, _ kinds: CharacterKinds) -> UInt8 {
    var seen: Set<Int32> = [state]
    var layer = [state]
    for count in 0..<Self.farthest {
      var next: [Int32] = []
      for state in layer {
        guard let targets = targets(Int(state), kinds) else { return count }
        for target in targets where seen.insert(target).inserted { next.append(target) }
      }
      guard !next.isEmpty else { return Self.endless }
      guard seen.count <= Self.widest else { return count + 1 }
      layer = next
    }
    return Self.farthest
  }

  /// The states after one character; nil where one of these kinds ends the text, or may.
  private func targets(_ state: Int, _ kinds: CharacterKinds) -> [Int32]? {
    var found: [Int32] = []
    for bit in 0..<5 where kinds.rawValue & 1 << UInt8(bit) != 0 {
      for column in columns[bit] {
        let target = dfa.next[state * dfa.classCount + column]
        guard target >= 0, !dfa.accepting[Int(target)] else { return nil }
        if found.last != target { found.append(target) }
      }
    }
    guard kinds.contains(.beyond) else { return found }
    var seen: [(state: Int32, place: UnescapedCharacter)] = [(Int32(truncatingIfNeeded: state), .between)]
    var at = 0
    while at < seen.count {
      let (state, place) = seen[at]
      at += 1
      for (column, next) in beyond[Int(place.rawValue)] {
        let target = dfa.next[Int(state) * dfa.classCount + column]
        guard target >= 0, !dfa.accepting[Int(target)] else { return nil }
        if next == .between {
          if !found.contains(target) { found.append(target) }
        } else if !seen.contains(where: { $0.state == target && $0.place == next }) {
          seen.append((target, next))
        }
      }
    }
    return found
  }

  /// Backwards from the states that one character may leave, a character at a time.
  private func counted(_ kinds: CharacterKinds) -> [UInt8] {
    var counts = [UInt8](repeating: Self.endless, count: dfa.stateCount)
    var from: [Int32] = []
    var to: [Int32] = []
    var queue: [Int32] = []
    for state in 0..<dfa.stateCount {
      let number = Int32(truncatingIfNeeded: state)
      guard let targets = targets(state, kinds) else {
        counts[state] = 0
        queue.append(number)
        continue
      }
      for target in targets {
        from.append(number)
        to.append(target)
      }
    }
    let before = ReverseEdges(from: from, to: to, rowCount: dfa.stateCount)
    var head = 0
    while head < queue.count {
      let state = Int(queue[head])
      head += 1
      for source in before.sources(of: state) where counts[Int(source)] == Self.endless {
        counts[Int(source)] = min(counts[state] + 1, Self.endless - 1)
        queue.append(source)
      }
    }
    return counts
  }
}
