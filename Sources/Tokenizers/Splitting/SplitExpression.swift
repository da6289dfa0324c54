// Any split expression: its program as an automaton that is made while it runs, so that no text is read again and again.

import Synchronization

/// Matches are those of a backtracking engine: at the leftmost place, the first alternative that leads to a match.
final class SplitExpression: Sendable {
  private let program: SplitProgram
  private let automaton: Mutex<SplitAutomaton>

  init(_ source: String) throws(RegexProblem) {
    program = try SplitProgram(RegexParser.parse(source, as: .oniguruma))
    automaton = Mutex(SplitAutomaton(program))
  }

  /// Calls `body` for every match and every gap between matches, in order; none is empty.
  func forEachPart(_ bytes: [UInt8], _ range: Range<Int>, _ body: (Range<Int>, _ isMatch: Bool) -> Void) {
    // The parts first: the automaton is not held while they are used.
    for (part, isMatch) in automaton.withLock({ $0.parts(SplitText(bytes, range, program)) }) {
      body(part, isMatch)
    }
  }
}

/// A text under an expression, with what its looks see.
struct SplitText {
  let bytes: [UInt8]
  let range: Range<Int>
  private let program: SplitProgram
  /// For each look that sees further than one scalar: at which bytes of the range it holds.
  private var far: [[Bool]] = []

  init(_ bytes: [UInt8], _ range: Range<Int>, _ program: SplitProgram) {
    (self.bytes, self.range, self.program) = (bytes, range, program)
    for index in program.farLooks {
      let look = program.looks[index]
      far.append(places(of: look.operations, isBackward: !look.isBehind))
    }
  }

  /// The class of the scalar at a place, and its length; nil and 0 at the end.
  @inline(__always)
  func next(_ at: Int) -> (value: UInt8?, length: Int) {
    guard at < range.upperBound else { return (nil, 0) }
    let (scalar, length) = decodeScalar(bytes, at: at)
    return (program.classes[scalar], length)
  }

  private func before(_ at: Int) -> (value: UInt8?, length: Int) {
    guard at > range.lowerBound else { return (nil, 0) }
    let start = bytes.scalarStart(before: at, from: range.lowerBound)
    return (program.classes[decodeScalar(bytes, at: start).value], at - start)
  }

  /// What holds at a place, of which the scalar after is taken next.
  func place(_ at: Int) -> SplitPlace {
    let next = next(at).value
    let before = program.looksBack ? before(at).value : nil
    var looks: UInt64 = 0
    var number = 0
    for (index, look) in program.looks.enumerated() {
      let holds: Bool
      if let set = look.set {
        holds = program.isIn(look.isBehind ? before : next, set)
      } else {
        holds = number < far.count && far[number][at - range.lowerBound]
        number += 1
      }
      if holds { looks |= 1 << UInt64(index) }
    }
    return SplitPlace(
      next: next, looks: looks, isStart: at == range.lowerBound, isEnd: at == range.upperBound)
  }

  /// At which bytes of the range, its end included, a match of the program ends, wherever it begins; backward, at which
  /// it begins. O(range · program).
  func places(of operations: [SplitOperation], isBackward: Bool) -> [Bool] {
    var out = [Bool](repeating: false, count: range.count + 1)
    var threads: [Int32] = []
    var at = isBackward ? range.upperBound : range.lowerBound
    while true {
      var place = place(at)
      let (value, length) = isBackward ? before(at) : next(at)
      place.next = value
      let (after, isMatch) = SplitProgram.step(
        threads + [0], operations, place, program.members, cuts: false)
      out[at - range.lowerBound] = isMatch
      guard length > 0 else { return out }
      threads = after
      at += isBackward ? -length : length
    }
  }
}

/// The states that texts have led to so far. A state is a list of threads; what follows it is found once per class of
/// scalars, and per set of looks that hold where some look back or far.
struct SplitAutomaton {
  private let program: SplitProgram
  private let isSimple: Bool
  private var states: [[Int32]] = []
  private var numbers: [[Int32]: Int32] = [:]
  /// Threads of all states.
  private(set) var held = 0
  /// The state after each state and symbol, doubled, and 1 more where a match ends at the place; -1 where it is not known.
  private var table: [Int32] = []
  /// Kinds of places that are told apart.
  private let width: Int
  private var symbols: [SymbolKey: Int] = [:]

  private struct SymbolKey: Hashable {
    var next: UInt8?
    var looks: UInt64
    var edges: UInt8
  }

  private static let cellLimit = 1 << 20
  static let threadLimit = 1 << 20
  /// The state of no threads, and of the one at the start.
  private static let dead: Int32 = 0
  private static let first: Int32 = 1

  init(_ program: SplitProgram) {
    self.program = program
    isSimple = !program.looksBack && program.farLooks.isEmpty
    width = isSimple ? program.classCount + 1 : 512
    reset()
  }

  private mutating func reset() {
    (states, numbers, table, symbols, held) = ([], [:], [], [:], 0)
    _ = number(of: [])
    _ = number(of: [0])
  }

  private mutating func number(of threads: [Int32]) -> Int32 {
    if let known = numbers[threads] { return known }
    let new = Int32(truncatingIfNeeded: states.count)
    states.append(threads)
    held += threads.count
    numbers[threads] = new
    table += [Int32](repeating: -1, count: width)
    return new
  }

  private mutating func symbol(_ place: SplitPlace) -> Int? {
    let edges: UInt8 = (place.isStart ? 1 : 0) | (place.isEnd ? 2 : 0)
    let key = SymbolKey(next: place.next, looks: place.looks, edges: edges)
    if let known = symbols[key] { return known }
    guard symbols.count < width else { return nil }
    symbols[key] = symbols.count
    return symbols.count - 1
  }

  /// Where the match that begins at a place ends, nil without one; and how many scalars were read.
  private mutating func end(of text: SplitText, from start: Int) -> (end: Int?, read: Int) {
    var state = Self.first
    var at = start
    var end: Int?
    var read = 0
    while state != Self.dead {
      let (value, length) = text.next(at)
      let step = isSimple ? simpleStep(state, value, text, at) : step(state, text.place(at))
      if step & 1 == 1 { end = at }
      state = step >> 1
      guard length > 0 else { break }
      at += length
      read += 1
    }
    return (end, read)
  }

  @inline(__always)
  private mutating func simpleStep(_ state: Int32, _ value: UInt8?, _ text: SplitText, _ at: Int) -> Int32 {
    let symbol = value.map { Int($0) } ?? program.classCount
    let known = table[Int(state) * width + symbol]
    if known >= 0 { return known }
    return make(state, symbol, text.place(at))
  }

  private mutating func step(_ state: Int32, _ place: SplitPlace) -> Int32 {
    var state = state
    var number = symbol(place)
    if number == nil {
      let threads = states[Int(state)]
      reset()
      state = self.number(of: threads)
      number = symbol(place)
    }
    guard let number else { return Self.dead }
    let known = table[Int(state) * width + number]
    return known >= 0 ? known : make(state, number, place)
  }

  private mutating func make(_ state: Int32, _ symbol: Int, _ place: SplitPlace) -> Int32 {
    let (threads, isMatch) = SplitProgram.step(
      states[Int(state)], program.operations, place, program.members, cuts: true)
    guard (table.count < Self.cellLimit && held < Self.threadLimit) || numbers[threads] != nil else {
      reset()
      return number(of: threads) << 1 | (isMatch ? 1 : 0)
    }
    let step = number(of: threads) << 1 | (isMatch ? 1 : 0)
    table[Int(state) * width + symbol] = step
    return step
  }

  /// Matches and gaps in order. Where many attempts fail late, the places at which a match begins are found first.
  mutating func parts(_ text: SplitText) -> [(Range<Int>, Bool)] {
    var out: [(Range<Int>, Bool)] = []
    var gapStart = text.range.lowerBound
    var at = text.range.lowerBound
    var wasted = 0
    var beginnings: [Bool]?
    while at < text.range.upperBound {
      if wasted > 16 * text.range.count + 1024, beginnings == nil {
        beginnings = text.places(of: program.reversed, isBackward: true)
      }
      var end: Int?
      if beginnings?[at - text.range.lowerBound] ?? true {
        let found = self.end(of: text, from: at)
        end = found.end
        if end == nil { wasted += found.read }
      }
      if let end {
        if gapStart < at { out.append((gapStart..<at, false)) }
        gapStart = at
        if end > at {
          out.append((at..<end, true))
          gapStart = end
          at = end
          continue
        }
      }
      at += text.next(at).length
    }
    if gapStart < text.range.upperBound { out.append((gapStart..<text.range.upperBound, false)) }
    return out
  }
}
