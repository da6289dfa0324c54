// A split expression as a program: threads in order of preference that step over one scalar at a time.

/// What one thread does at one place of the program.
enum SplitOperation {
  /// Takes a scalar of a set, and goes on after.
  case set(Int)
  /// Goes on at both places, rather at the first.
  case split(Int, Int)
  case jump(Int)
  /// Goes on after where a look holds, or does not.
  case look(Int, isNegative: Bool)
  case edge(isStart: Bool)
  case match
}

/// What holds at one place of a text.
struct SplitPlace {
  /// The class of the scalar that is taken next; nil at the end.
  var next: UInt8?
  /// Bit n: look n holds.
  var looks: UInt64
  var isStart: Bool
  var isEnd: Bool
}

/// Programs of the expression and of its looks, over classes of scalars.
struct SplitProgram {
  /// A condition on the text before or after a place.
  struct Look {
    /// A set that the scalar next to the place must be in; otherwise a program, which runs towards the place.
    let set: Int?
    let operations: [SplitOperation]
    let isBehind: Bool
  }

  private(set) var operations: [SplitOperation] = []
  /// The same, run from the end of a match to its start.
  private(set) var reversed: [SplitOperation] = []
  private(set) var looks: [Look] = []
  /// Whether the program asks for the start of the text, or for what stands before a place.
  private(set) var looksBack = false
  private(set) var classes = ScalarTable(runs: [])
  private(set) var classCount = 0
  /// For each set, whether the scalars of each class are in it.
  private(set) var members: [[Bool]] = []

  private var sets: [ScalarSet] = []
  /// Trees that were looked at: counts in counts repeat even what adds no operation.
  private var visits = 0

  private static let operationLimit = 20_000
  private static let visitLimit = 200_000
  private static let lookLimit = 60
  private static let setLimit = 500

  init(_ tree: RegexTree) throws(RegexProblem) {
    operations = try program(tree, isReversed: false)
    reversed = try program(tree, isReversed: true)
    try findClasses()
  }

  private mutating func program(_ tree: RegexTree, isReversed: Bool) throws(RegexProblem) -> [SplitOperation]
  {
    var out: [SplitOperation] = []
    try add(tree, to: &out, isReversed)
    out.append(.match)
    return out
  }

  private mutating func add(
    _ tree: RegexTree, to out: inout [SplitOperation], _ isReversed: Bool
  ) throws(RegexProblem) {
    visits += 1
    guard out.count < Self.operationLimit, visits < Self.visitLimit else {
      throw RegexProblem.tooLarge("it is too large")
    }
    switch tree {
    case .empty: break
    case .once(let inner): try add(inner, to: &out, isReversed)
    case .set(let set): out.append(.set(try number(of: set)))
    case .sequence(let parts):
      for part in isReversed ? parts.reversed() : parts { try add(part, to: &out, isReversed) }
    case .choice(let branches):
      var jumps: [Int] = []
      for (index, branch) in branches.enumerated() {
        let split = out.count
        if index + 1 < branches.count { out.append(.split(split + 1, 0)) }
        try add(branch, to: &out, isReversed)
        guard index + 1 < branches.count else { continue }
        jumps.append(out.count)
        out.append(.jump(0))
        out[split] = .split(split + 1, out.count)
      }
      for jump in jumps { out[jump] = .jump(out.count) }
    case .repeated(let inner, let min, let max, let isLazy):
      for _ in 0..<min { try add(inner, to: &out, isReversed) }
      func fork(_ enter: Int, _ leave: Int) -> SplitOperation {
        isLazy ? .split(leave, enter) : .split(enter, leave)
      }
      guard let max else {
        let loop = out.count
        out.append(.match)
        try add(inner, to: &out, isReversed)
        out.append(.jump(loop))
        out[loop] = fork(loop + 1, out.count)
        return
      }
      var forks: [Int] = []
      for _ in 0..<Swift.max(0, max - min) {
        forks.append(out.count)
        out.append(.match)
        try add(inner, to: &out, isReversed)
      }
      for place in forks { out[place] = fork(place + 1, out.count) }
    case .lookaround(let inner, let isAhead, let isPositive):
      out.append(.look(try look(inner, !isAhead), isNegative: !isPositive))
    case .start:
      looksBack = true
      out.append(.edge(isStart: true))
    case .end: out.append(.edge(isStart: false))
    }
  }

  /// Looks inside others come before them.
  private mutating func look(_ tree: RegexTree, _ isBehind: Bool) throws(RegexProblem) -> Int {
    if isBehind { looksBack = true }
    let look: Look
    if case .set(let set) = tree {
      let number = try number(of: set)
      if let known = looks.firstIndex(where: { $0.set == number && $0.isBehind == isBehind }) { return known }
      look = Look(set: number, operations: [], isBehind: isBehind)
    } else {
      look = Look(set: nil, operations: try program(tree, isReversed: !isBehind), isBehind: isBehind)
    }
    guard looks.count < Self.lookLimit else {
      throw RegexProblem.tooLarge("it has more than \(Self.lookLimit) conditions on other text")
    }
    looks.append(look)
    return looks.count - 1
  }

  private mutating func number(of set: ScalarSet) throws(RegexProblem) -> Int {
    if let known = sets.firstIndex(of: set) { return known }
    guard sets.count < Self.setLimit else {
      throw RegexProblem.tooLarge("it has more than \(Self.setLimit) sets")
    }
    sets.append(set)
    return sets.count - 1
  }

  /// Scalars that are in the same sets are of one class.
  private mutating func findClasses() throws(RegexProblem) {
    var cuts: Set<UInt32> = [0, 0x110000]
    for range in sets.flatMap(\.ranges) {
      cuts.insert(range.lowerBound)
      cuts.insert(range.upperBound + 1)
    }
    let sorted = cuts.sorted()
    var number: [[Bool]: UInt8] = [:]
    var runs: [(value: UInt8, length: Int)] = []
    for (start, end) in zip(sorted, sorted.dropFirst()) {
      let key = sets.map { $0.contains(start) }
      guard number.count < 250 || number[key] != nil else {
        throw RegexProblem.tooLarge("it tells more than 250 kinds of characters apart")
      }
      let value = number[key] ?? UInt8(truncatingIfNeeded: number.count)
      number[key] = value
      runs.append((value, Int(end - start)))
    }
    classes = ScalarTable(runs: runs)
    classCount = number.count
    members = sets.indices.map { _ in [Bool](repeating: false, count: number.count) }
    for (key, value) in number { for index in key.indices { members[index][Int(value)] = key[index] } }
  }

  /// Whether the scalars of a class are in a set; nothing is in none.
  func isIn(_ value: UInt8?, _ set: Int) -> Bool { value.map { members[set][Int($0)] } ?? false }

  /// Looks that need more than the scalars beside a place.
  var farLooks: [Int] { looks.indices.filter { looks[$0].set == nil } }

  /// Where the threads stand after a place, in order of preference, and whether one of them has matched there.
  ///
  /// - Parameter cuts: whether threads that are worse than a match end.
  static func step(
    _ threads: [Int32], _ operations: [SplitOperation], _ place: SplitPlace, _ members: [[Bool]], cuts: Bool
  ) -> (next: [Int32], isMatch: Bool) {
    var isSeen = [Bool](repeating: false, count: operations.count)
    var next: [Int32] = []
    var isMatch = false
    var stack = [Int](threads.reversed().map { Int($0) })
    while let at = stack.popLast() {
      guard !isSeen[at] else { continue }
      isSeen[at] = true
      switch operations[at] {
      case .set(let set):
        if let value = place.next, members[set][Int(value)] { next.append(Int32(truncatingIfNeeded: at + 1)) }
      case .split(let first, let second):
        stack.append(second)
        stack.append(first)
      case .jump(let to): stack.append(to)
      case .look(let index, let isNegative):
        if (place.looks >> UInt64(index) & 1 == 1) != isNegative { stack.append(at + 1) }
      case .edge(let isStart): if isStart ? place.isStart : place.isEnd { stack.append(at + 1) }
      case .match:
        isMatch = true
        if cuts { return (next, true) }
      }
    }
    return (next, isMatch)
  }
}
