// The formats of JSON Schema as regular expressions.

import Synchronization

/// Formats that are not here are annotations, as the standard has it.
enum Formats {
  private static let made = Mutex<[String: ByteDFA]>([:])

  /// The strings of a format in canonical spelling with quotes; nil for a format that nobody knows.
  static func automaton(_ name: String) throws(GrammarError) -> ByteDFA? {
    guard let expression = expression(name) else { return nil }
    if let known = made.withLock({ $0[name] }) { return known }
    var dfa = try ByteNFA.automaton(RegexParser.parse(expression), spelling: .json, anywhere: false)
      .wrapped([0x22], [0x22]).minimized()
    let limit: Int? = name.hasSuffix("hostname") ? 253 : nil
    if let limit { dfa = try StringLanguage.bounded(dfa, min: 1, max: limit) }
    made.withLock { $0[name] = dfa }
    return dfa
  }

  private static let date =
    #"(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"#
    + #"|(?:(?:\d{2}(?:0[48]|[2468][048]|[13579][26]))|(?:(?:[02468][048]|[13579][26])00))-02-29)"#
  /// Seconds below 60: whether a leap second is allowed depends on the offset.
  private static let time =
    #"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,18})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"#
  private static let label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
  /// Two hyphens at the third place are for encoded names, which are not checked here.
  private static let hostLabel =
    "(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]{0,2}[A-Za-z0-9]"
    + "|[A-Za-z0-9][A-Za-z0-9-](?:[A-Za-z0-9][A-Za-z0-9-]|-[A-Za-z0-9])[A-Za-z0-9-]{0,58}[A-Za-z0-9])"
  private static let byte = #"(?:25[0-5]|2[0-4]\d|1\d{2}|[1-9]?\d)"#
  private static let ipv4 = #"\#(byte)(?:\.\#(byte)){3}"#
  private static let group = "[0-9A-Fa-f]{1,4}"
  private static let ipv6: String = {
    let last = "(?:\(group):\(group)|\(ipv4))"
    var branches = ["(?:\(group):){6}\(last)", "::(?:\(group):){5}\(last)"]
    for count in 1...5 {
      branches.append("(?:(?:\(group):){0,\(count - 1)}\(group))?::(?:\(group):){\(5 - count)}\(last)")
    }
    branches.append("(?:(?:\(group):){0,5}\(group))?::\(group)")
    branches.append("(?:(?:\(group):){0,6}\(group))?::")
    return "(?:" + branches.joined(separator: "|") + ")"
  }()
  private static let escaped = "%[0-9A-Fa-f]{2}"
  private static func path(_ extra: String) -> String {
    "(?:[A-Za-z0-9._~!$&'()*+,;=:@\(extra)-]|\(escaped))"
  }
  private static func authority(_ extra: String) -> String {
    #"(?:(?:[A-Za-z0-9._~!$&'()*+,;=:\#(extra)-]|\#(escaped))*@)?(?:\[\#(ipv6)\]|(?:[A-Za-z0-9._~!$&'()*+,;=\#(extra)-]|\#(escaped))*)(?::\d*)?"#
  }
  private static func tail(_ extra: String) -> String {
    #"(?:\?(?:\#(path(extra))|[/?])*)?(?:#(?:\#(path(extra))|[/?])*)?"#
  }
  private static func uri(_ extra: String) -> String {
    let p = path(extra)
    return
      #"[A-Za-z][A-Za-z0-9+.-]*:(?://\#(authority(extra))(?:/\#(p)*)*|/(?:\#(p)+(?:/\#(p)*)*)?|\#(p)+(?:/\#(p)*)*|)\#(tail(extra))"#
  }
  private static func relative(_ extra: String) -> String {
    let p = path(extra)
    let first = "(?:[A-Za-z0-9._~!$&'()*+,;=@\(extra)-]|\(escaped))"
    return
      #"(?://\#(authority(extra))(?:/\#(p)*)*|/(?:\#(p)+(?:/\#(p)*)*)?|\#(first)+(?:/\#(p)*)*|)\#(tail(extra))"#
  }
  private static let beyond = #"\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"#
  private static let atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
  private static let pointer = "(?:/(?:[^/~]|~[01])*)*"

  private static func expression(_ name: String) -> String? {
    switch name {
    case "date": date
    case "time": time
    case "date-time": "\(date)[Tt]\(time)"
    case "duration":
      #"P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?"#
        + #"|T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))"#
    case "email", "idn-email": #"\#(atom)(?:\.\#(atom))*@\#(label)(?:\.\#(label))*"#
    case "hostname", "idn-hostname": #"\#(hostLabel)(?:\.\#(hostLabel))*"#
    case "ipv4": ipv4
    case "ipv6": ipv6
    case "uuid": "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
    case "uri": uri("")
    case "uri-reference": "(?:\(uri(""))|\(relative("")))"
    case "iri": uri(beyond)
    case "iri-reference": "(?:\(uri(beyond))|\(relative(beyond)))"
    case "uri-template":
      #"(?:[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=-]|\#(escaped)|\{[+#./;?&]?[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*(?::[1-9]\d{0,3}|\*)?(?:,[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*(?::[1-9]\d{0,3}|\*)?)*\})*"#
    case "json-pointer": pointer
    case "relative-json-pointer": "(?:0|[1-9][0-9]*)(?:#|\(pointer))"
    // Any expression of these few forms is one.
    case "regex": #"\^?(?:[A-Za-z0-9 _:,;=@#%&~-]|\\[dwsDWS.])*\$?"#
    default: nil
    }
  }
}

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
  private let dfa: ByteDFA
  private let classOf: [UInt8]
  private let classCount: Int
  /// Where each state leads by each class, -1 for nowhere.
  private var targets: [Int32] = []
  /// Whether the byte begins a character.
  private var begins: [Bool] = []

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
        guard target >= 0, other >= 0 else { continue }
        if twins[Int(target)] < 0 {
          twins[Int(target)] = other
          queue.append(target)
        }
        guard twins[Int(target)] == other else { return nil }
        cells[Int(state) * representatives.count + column] =
          2 * target + (GrammarLeaf.beginsCharacter(twin, byte) ? 1 : 0)
      }
    }
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
