// How many characters may still come in a string, so that a count runs beside its automaton.

/// Bounds on the characters of JSON strings.
struct CharacterBounds: Sendable {
  let min: Int
  /// `Int.max` without a bound.
  let max: Int
  let counts: CharacterCounts

  /// Whether a text with so many characters may still come to an end within the bounds.
  @inline(__always)
  func allow(_ state: Int32, after count: Int) -> Bool {
    counts.allow(state, after: count, min: min, max: max)
  }

  /// Bytes with which a text of so many characters is completed.
  func cost(_ state: Int32, after count: Int) -> Int32 {
    counts.cost(state, missing: Swift.max(0, min - count))
  }
}

/// For each state of an automaton of JSON strings, how many characters begin behind it until the text is complete. There
/// are no gaps: any number between the least and the most is the number of some text.
final class CharacterCounts: Sendable {
  /// Whether each state is between two characters.
  private let isBetween: [Bool]
  private let least: [Int32]
  /// `Int32.max` where there is no end.
  private let most: [Int32]
  /// Bytes that end the current character and the text.
  private let beside: [Int32]
  /// Wherever a character may come, one of at most so many bytes may.
  let width: Int32

  /// The least of the state where that is largest.
  let largestLeast: Int
  /// The most of the state where that is largest, of those where there is an end.
  let largestMost: Int
  /// Whether any number of characters may come from all states but the ends.
  let isEndless: Bool
  /// The most bytes with which a text is completed from any state.
  let maxCost: Int32
  /// Whether the strings are all strings.
  let isFree: Bool

  /// All strings, in any spelling.
  static let free = Result { () throws(GrammarError) in
    let all = try CommonLanguages.freeString.get()
    return CharacterCounts(
      isBetween: (0..<all.stateCount).map { $0 == Int(GrammarLeaf.betweenCharacters) },
      least: [Int32](repeating: 0, count: all.stateCount),
      most: all.accepting.map { $0 ? 0 : Int32.max }, beside: all.cost, width: 1, isFree: true)
  }

  private init(
    isBetween: [Bool], least: [Int32], most: [Int32], beside: [Int32], width: Int32, isFree: Bool
  ) {
    (self.isBetween, self.least, self.most) = (isBetween, least, most)
    (self.beside, self.width, self.isFree) = (beside, width, isFree)
    largestLeast = Int(least.reduce(0, max))
    largestMost = most.reduce(0) { $1 < Int32.max ? max($0, Int($1)) : $0 }
    isEndless = zip(most, beside).allSatisfy { $0 == Int32.max || $1 == 0 }
    maxCost = zip(beside, least).reduce(0) { max($0, Cost.sum($1.0, Cost.product(width, Int($1.1)))) }
  }

  /// Nil where there are gaps.
  convenience init?(_ cells: CharacterCells) {
    let walk = LengthWalk(cells)
    let (least, most) = (walk.least(), walk.most())
    guard walk.hasNoGaps(least, most, isShort: false) else { return nil }
    let rest = walk.rest()
    // Nearly always, one byte is a character wherever one may come.
    let width = walk.hasNoGaps(least, most, isShort: true) ? 1 : rest.reduce(0, max) + 1
    let accepting = cells.dfa.accepting
    self.init(
      isBetween: cells.isBetween, least: least, most: most,
      beside: rest.indices.map { accepting[$0] ? 0 : rest[$0] + 1 }, width: width, isFree: false)
  }

  @inline(__always)
  func begins(_ state: Int32, _ byte: UInt8) -> Bool { isBetween[Int(state)] && byte != 0x22 }

  /// Whether a text with so many characters may still come to an end within bounds.
  @inline(__always)
  func allow(_ state: Int32, after count: Int, min: Int, max: Int) -> Bool {
    let most = most[Int(state)]
    return count <= max - Int(least[Int(state)]) && (most == Int32.max || count >= min - Int(most))
  }

  /// Bytes with which a text is completed, or more than that. There is always a byte after which it is at least one less.
  ///
  /// - Parameter missing: characters that must still come.
  func cost(_ state: Int32, missing: Int) -> Int32 {
    Cost.sum(beside[Int(state)], Cost.product(width, max(missing, Int(least[Int(state)]))))
  }

  var byteCount: Int { isBetween.count * 13 + 96 }
}

/// Finds how many characters follow each state.
private struct LengthWalk {
  private let cells: CharacterCells
  private let accepting: [Bool]
  private let before: ReverseEdges

  init(_ cells: CharacterCells) {
    self.cells = cells
    accepting = cells.dfa.accepting
    before = ReverseEdges(table: cells.targets, columnCount: cells.classCount)
  }

  /// Characters that a step begins: one between two of them, but for the closing quote.
  private func step(from source: Int, to target: Int) -> Int32 {
    cells.isBetween[source] && !accepting[target] ? 1 : 0
  }

  private func targets(_ state: Int) -> ArraySlice<Int32> {
    cells.targets[state * cells.classCount..<(state + 1) * cells.classCount]
  }

  /// The fewest: from the ends backwards, a character at a time.
  func least() -> [Int32] {
    var least = [Int32](repeating: Int32.max, count: accepting.count)
    var layer = accepting.indices.filter { accepting[$0] }
    var count: Int32 = 0
    while !layer.isEmpty {
      var next: [Int] = []
      while let state = layer.popLast() {
        guard least[state] > count else { continue }
        least[state] = count
        for source in before.sources(of: state) {
          if step(from: Int(source), to: state) == 0 {
            layer.append(Int(source))
          } else {
            next.append(Int(source))
          }
        }
      }
      layer = next
      count += 1
    }
    return least
  }

  /// The most; `Int32.max` of states that lead to a cycle.
  func most() -> [Int32] {
    var most = [Int32](repeating: Int32.max, count: accepting.count)
    before.eachBackwards { state in
      most[state] = targets(state).reduce(0) { longest, target in
        target < 0 ? longest : max(longest, most[Int(target)] + step(from: state, to: Int(target)))
      }
    }
    return most
  }

  /// Whether each number of characters between the least and the most of each state is that of some next state, too. Then
  /// all of them are found, by induction over the characters.
  ///
  /// - Parameter isShort: whether only characters of one byte are taken where one begins.
  func hasNoGaps(_ least: [Int32], _ most: [Int32], isShort: Bool) -> Bool {
    func end(_ state: Int) -> Int { most[state] == Int32.max ? Int.max : Int(most[state]) }
    var found: [(least: Int, most: Int)] = []
    for state in accepting.indices where !accepting[state] {
      found.removeAll(keepingCapacity: true)
      var last: Int32 = -1
      for target in targets(state) where target >= 0 && target != last {
        last = target
        let next = Int(target)
        guard !isShort || !cells.isBetween[state] || cells.isBetween[next] || accepting[next] else {
          continue
        }
        let begun = Int(step(from: state, to: next))
        found.append((Int(least[next]) + begun, most[next] == Int32.max ? Int.max : end(next) + begun))
      }
      found.sort { $0.least < $1.least }
      var reached = Int(least[state]) - 1
      for next in found where reached < Int.max {
        guard next.least <= reached + 1 else { return false }
        reached = max(reached, next.most)
      }
      guard reached >= end(state) else { return false }
    }
    return true
  }

  /// The most bytes to the end of the character at hand; of the start, the opening quote.
  func rest() -> [Int32] {
    var rest = accepting.indices.map { accepting[$0] || cells.isBetween[$0] ? Int32(0) : -1 }
    var stack = Array(accepting.indices)
    // As deep as the longest spelling of a character.
    while let state = stack.last {
      guard rest[state] < 0 else {
        stack.removeLast()
        continue
      }
      let open = targets(state).filter { $0 >= 0 && rest[Int($0)] < 0 }
      if open.isEmpty {
        rest[state] = 1 + targets(state).reduce(0) { $1 < 0 ? $0 : max($0, rest[Int($1)]) }
      } else {
        stack += open.map { Int($0) }
      }
    }
    return rest
  }
}
