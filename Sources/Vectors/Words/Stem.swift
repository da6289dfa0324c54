// A word while its endings are taken off: letters, a place that moves from the end to the beginning, and regions.

/// What the stemmers of all languages are made of. Snowball's definitions (snowballstem.org) name these steps likewise.
struct Stem {
  /// Lowercase letters, one byte each as in ISO 8859-1; capitals are letters that count as consonants for a while.
  var letters: [UInt8]
  /// What is before it is still to be looked at.
  var at: Int
  /// The end of what was found last, which begins at `at`.
  var end: Int
  /// Nothing before it is looked at.
  var low = 0
  /// Where the regions begin in which endings may stand.
  var (pV, p1, p2): (Int, Int, Int)

  init(_ letters: [UInt8]) {
    self.letters = letters
    (at, end) = (letters.count, letters.count)
    (pV, p1, p2) = (letters.count, letters.count, letters.count)
  }

  // MARK: Letters

  /// Some letters.
  struct Letters {
    private var isIn = [Bool](repeating: false, count: 256)

    init(_ text: String) { for byte in Stem.bytes(text) { isIn[Int(byte)] = true } }

    func has(_ byte: UInt8) -> Bool { isIn[Int(byte)] }
  }

  static func bytes(_ text: some StringProtocol) -> [UInt8] {
    text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
  }

  /// The place behind the first letter from a place on that is one of some, or none of them.
  func past(_ start: Int?, _ set: Letters, isIn: Bool) -> Int? {
    guard let start, start <= letters.count else { return nil }
    return letters[start...].firstIndex { set.has($0) == isIn }.map { $0 + 1 }
  }

  /// Behind the first consonant that follows a vowel.
  func region(from start: Int?, _ vowels: Letters) -> Int? {
    past(past(start, vowels, isIn: true), vowels, isIn: false)
  }

  func isVowel(_ index: Int, _ vowels: Letters) -> Bool {
    index < letters.count && vowels.has(letters[index])
  }

  /// Letters become others wherever they stand.
  mutating func replaceAll(_ pairs: [UInt8: UInt8]) { letters = letters.map { pairs[$0] ?? $0 } }

  // MARK: Endings

  /// Endings in groups, each group a list with spaces between.
  struct Endings {
    private var groups: [[UInt8]: Int] = [:]
    private var longest = 0

    init(_ groups: String...) {
      for (number, group) in groups.enumerated() {
        for text in group.split(separator: " ") {
          let bytes = Stem.bytes(text)
          self.groups[bytes] = number
          longest = max(longest, bytes.count)
        }
      }
    }

    /// The longest one that stands before a place: its group, and where it begins.
    func find(_ letters: [UInt8], before end: Int, low: Int) -> (group: Int, start: Int)? {
      var length = min(longest, end - low)
      while length > 0 {
        if let group = groups[Array(letters[end - length..<end])] { return (group, end - length) }
        length -= 1
      }
      return nil
    }
  }

  var inV: Bool { pV <= at }
  var in1: Bool { p1 <= at }
  var in2: Bool { p2 <= at }
  var isAtStart: Bool { at == low }

  /// Begins anew at the end.
  mutating func rewind() { (at, end) = (letters.count, letters.count) }

  /// Moves before the longest of some endings; its group.
  mutating func find(_ endings: Endings) -> Int? {
    guard let found = endings.find(letters, before: at, low: low) else { return nil }
    (end, at) = (at, found.start)
    return found.group
  }

  /// Whether one ending stands at the end.
  mutating func findAtEnd(_ endings: Endings) -> Int? {
    rewind()
    return find(endings)
  }

  /// Whether letters stand before the place.
  func follows(_ text: String) -> Bool {
    let bytes = Self.bytes(text)
    return at - low >= bytes.count && letters[at - bytes.count..<at].elementsEqual(bytes)
  }

  /// Whether letters stand before the place, and nothing before them.
  func isWhole(_ text: String) -> Bool { follows(text) && at - text.utf8.count == low }

  /// The letter so many before the place.
  func before(_ distance: Int = 1) -> UInt8? { at - distance >= low ? letters[at - distance] : nil }

  func isBefore(_ set: Letters, _ distance: Int = 1) -> Bool { before(distance).map(set.has) ?? false }

  /// Whether there is a letter there that is none of some.
  func isBefore(not set: Letters, _ distance: Int = 1) -> Bool {
    before(distance).map { !set.has($0) } ?? false
  }

  /// Takes letters into what was found; false where they do not stand there.
  mutating func takes(_ text: String) -> Bool {
    guard follows(text) else { return false }
    at -= Self.bytes(text).count
    return true
  }

  /// What was found becomes something else.
  @discardableResult mutating func put(_ text: String, if isAllowed: Bool = true) -> Bool {
    guard isAllowed else { return false }
    let bytes = Self.bytes(text)
    letters.replaceSubrange(at..<end, with: bytes)
    end = at + bytes.count
    return true
  }

  /// What was found goes.
  @discardableResult mutating func cut(if isAllowed: Bool = true) -> Bool { put("", if: isAllowed) }

  /// Cuts what stands before the place where it is one text.
  @discardableResult mutating func cut(_ text: String, if isAllowed: (Stem) -> Bool) -> Bool {
    let old = (at, end)
    end = at
    guard takes(text), isAllowed(self) else {
      (at, end) = old
      return false
    }
    return cut()
  }
}
