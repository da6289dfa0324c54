// JSON strings whose characters are counted: with the count in the states of an automaton, or beside it.

/// Languages of JSON strings.
enum StringLanguage {
  /// The strings of `dfa` with a number of characters between the two bounds.
  static func bounded(_ dfa: ByteDFA, min: Int, max: Int) throws(GrammarError) -> ByteDFA {
    let all = try CommonLanguages.canonicalString.get()
    if let cells = CharacterCells(dfa, within: all) {
      return try cells.counted(min: min, max: max).minimized()
    }
    return try explored(dfa, within: all, min: min, max: max).minimized()
  }

  /// An automaton of the strings of `dfa` beside which characters are counted, whatever the bounds are. Nil where
  /// the lengths of its texts have gaps, such as those of `(?:ab)*`: then the two must be looked at together.
  ///
  /// - Parameter builder: knows which texts can be written; others are left out.
  static func counted(
    _ dfa: ByteDFA, _ builder: GraphBuilder = GraphBuilder()
  ) throws(GrammarError) -> (dfa: ByteDFA, counts: CharacterCounts)? {
    let all = try CommonLanguages.canonicalString.get()
    var cells = CharacterCells(dfa, within: all)
    if cells == nil {
      // Each state beside one of all strings.
      cells = CharacterCells(try explored(dfa, within: all, min: 0, max: Int.max), within: all)
    }
    guard let cells, cells.isWithin else { return nil }
    let own = try builder.written(cells.dfa)
    let counted = own === cells.dfa ? cells : CharacterCells(own, within: all)
    guard let counts = counted.flatMap({ CharacterCounts($0) })
    else { return nil }
    return (try builder.writable(cells.dfa), counts)
  }

  /// The texts of the strings of `dfa`, without quotes and escapes, that have a number of characters between the two bounds.
  static func unquoted(_ dfa: ByteDFA, min: Int, max: Int) throws(GrammarError) -> ByteDFA {
    struct State: ExploredState {
      var own: Int32
      var count = 0

      var hash: UInt64 {
        HashTable.mix(UInt64(UInt32(bitPattern: own)) ^ UInt64(truncatingIfNeeded: count) << 32)
      }
    }
    let start = dfa.step(0, 0x22)
    guard start >= 0 else { return try ByteDFA.texts([]) }
    let escapes = (UInt8.min...UInt8.max).map { JSONText.escape(of: UInt32($0)) ?? [$0] }
    return try ByteDFA.explore(
      start: State(own: start),
      classOf: ByteDFA.classes { byte in
        escapes[Int(byte)].count > 1
          ? 1024 + UInt32(byte) : UInt32(dfa.classOf[Int(byte)]) << 1 | (byte & 0xC0 == 0x80 ? 1 : 0)
      },
      accepts: { state in
        let end = dfa.step(state.own, 0x22)
        return state.count >= min && end >= 0 && dfa.accepting[Int(end)]
      },
      step: { state, byte in
        var next = state
        for part in byte < 0x80 ? escapes[Int(byte)] : [byte] {
          next.own = dfa.step(next.own, part)
          guard next.own >= 0 else { return nil }
        }
        guard byte & 0xC0 != 0x80 else { return next }
        next.count += 1
        guard next.count <= max else { return nil }
        if max == Int.max { next.count = Swift.min(next.count, min) }
        return next
      }
    ).minimized()
  }

  /// The same for any language, by pairs of its states and those of all strings.
  static func explored(_ dfa: ByteDFA, within all: ByteDFA, min: Int, max: Int) throws(GrammarError)
    -> ByteDFA
  {
    struct State: ExploredState {
      var own: Int32 = 0
      var all: Int32 = 0
      var count = 0

      var hash: UInt64 {
        let states = UInt64(UInt32(bitPattern: own)) << 8 | UInt64(UInt32(bitPattern: all))
        return HashTable.mix(states ^ UInt64(truncatingIfNeeded: count) << 40)
      }
    }
    return try ByteDFA.explore(
      start: State(),
      classOf: ByteDFA.classes(dfa, all).classOf,
      accepts: { dfa.accepting[Int($0.own)] && $0.count >= min },
      step: { state, byte in
        let next = State(own: dfa.step(state.own, byte), all: all.step(state.all, byte), count: state.count)
        guard next.own >= 0, next.all >= 0 else { return nil }
        guard state.all == GrammarLeaf.betweenCharacters, byte != 0x22 else { return next }
        let count = state.count + 1
        guard count <= max else { return nil }
        return State(own: next.own, all: next.all, count: max == Int.max ? Swift.min(count, min) : count)
      }
    )
  }
}

/// A language whose states each correspond to one state of all strings. So a state alone says which bytes begin a
/// character, and characters are counted without pairs of states.
struct CharacterCells {
  let dfa: ByteDFA
  private let classOf: [UInt8]
  let classCount: Int
  /// Where each state leads by each class, -1 for nowhere.
  private(set) var targets: [Int32] = []
  /// Whether the byte begins a character.
  private var begins: [Bool] = []
  /// Whether each state is between two characters.
  let isBetween: [Bool]
  /// Whether all texts of the language are of `all`.
  private(set) var isWithin = true

  /// Nil where a state stands for several of `all`.
  init?(_ dfa: ByteDFA, within all: ByteDFA) {
    self.dfa = dfa
    let bytes = ByteDFA.classes(dfa, all).classOf
    let representatives = ByteDFA.representatives(bytes)
    // Twice where each state leads by each class, and one more where the byte begins a character; -1 for nowhere.
    var cells = [Int32](repeating: -1, count: dfa.stateCount * representatives.count)
    var twins = [Int32](repeating: -1, count: dfa.stateCount)
    twins[0] = 0
    var queue: [Int32] = [0]
    while let state = queue.popLast() {
      let twin = twins[Int(state)]
      for (column, byte) in representatives.enumerated() {
        let (target, other) = (dfa.step(state, byte), all.step(twin, byte))
        guard target >= 0, other >= 0 else {
          if target >= 0 { isWithin = false }
          continue
        }
        if twins[Int(target)] < 0 {
          twins[Int(target)] = other
          queue.append(target)
        }
        guard twins[Int(target)] == other else { return nil }
        cells[Int(state) * representatives.count + column] =
          2 * target + (twin == GrammarLeaf.betweenCharacters && byte != 0x22 ? 1 : 0)
      }
    }
    isBetween = twins.map { $0 == GrammarLeaf.betweenCharacters }
    // All strings tell many bytes apart that this language does not have: a third of the cells is left of host names.
    let (firsts, kinds) = ByteDFA.kinds(ofColumns: cells, representatives.count)
    classOf = bytes.map { kinds[Int($0)] }
    classCount = firsts.count
    for row in stride(from: 0, to: cells.count, by: representatives.count) {
      for first in firsts {
        let cell = cells[row + first]
        targets.append(cell < 0 ? -1 : cell / 2)
        begins.append(cell >= 0 && cell % 2 == 1)
      }
    }
  }

  /// The texts with a number of characters between the two bounds: states by the characters so far.
  func counted(min: Int, max: Int) throws(GrammarError) -> ByteDFA {
    let last = max == Int.max ? min : max
    var table: [Int32] = []
    var accepting: [Bool] = []
    var effort = 0
    // The rows of this and of one more character, and their states in the order of the rows.
    var rows = [Int32](repeating: -1, count: dfa.stateCount)
    var nextRows = rows
    var (states, nextStates): ([Int32], [Int32]) = ([0], [])
    rows[0] = 0
    accepting.append(false)
    table += [Int32](repeating: -1, count: classCount)
    for count in 0...last {
      var at = 0
      while at < states.count {
        let state = Int(states[at])
        at += 1
        let row = Int(rows[state])
        accepting[row] = dfa.accepting[state] && count >= min
        effort += classCount
        for column in 0..<classCount {
          let target = Int(targets[state * classCount + column])
          guard target >= 0 else { continue }
          let isNext = begins[state * classCount + column] && (count < last || max < Int.max)
          guard !isNext || count < last else { continue }
          var found = isNext ? nextRows[target] : rows[target]
          if found < 0 {
            guard accepting.count < ByteDFA.stateLimit else { throw ByteDFA.tooManyStates }
            found = Int32(truncatingIfNeeded: accepting.count)
            accepting.append(false)
            table += repeatElement(-1, count: classCount)
            if isNext {
              nextRows[target] = found
              nextStates.append(Int32(truncatingIfNeeded: target))
            } else {
              rows[target] = found
              states.append(Int32(truncatingIfNeeded: target))
            }
          }
          table[row * classCount + column] = found
        }
      }
      guard !nextStates.isEmpty else { break }
      for state in states { rows[Int(state)] = -1 }
      swap(&rows, &nextRows)
      swap(&states, &nextStates)
      nextStates.removeAll(keepingCapacity: true)
    }
    return ByteDFA(
      classOf: classOf, classCount: classCount, table: table, accepting: accepting, effort: effort)
  }
}
