// NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15) on UTF-8.

/// The tables of normalisation, expanded once on first use.
package struct UnicodeNormalization: Sendable {
  /// The four forms of the annex.
  package enum Form: Sendable {
    case nfc, nfd, nfkc, nfkd

    var composes: Bool { self == .nfc || self == .nfkc }
    var isCompatible: Bool { self == .nfkc || self == .nfkd }
  }

  /// The only ones.
  package static let tables = UnicodeNormalization()

  private let combiningClass: ScalarTable
  /// One step of canonical decomposition: one or two scalars.
  private var canonical: [UInt32: [UInt32]] = [:]
  private var compatible: [UInt32: [UInt32]] = [:]
  /// Starter and follower to their composite.
  private var composites: [UInt64: UInt32] = [:]
  /// Scalars that may stand second in a composition.
  private var followers: Set<UInt32> = []

  private init() {
    combiningClass = ScalarTable(
      runs: UnicodeData.combiningClasses.words.map { word in
        let parts = word.split(separator: UInt8(ascii: "x")).map {
          $0.reduce(0) { $0 * 10 + Int($1 &- 0x30) }
        }
        return (UInt8(truncatingIfNeeded: parts.first ?? 0), parts.count > 1 ? parts[1] : 1)
      })
    for (source, target, composes) in Self.mappings(UnicodeData.canonical) {
      canonical[source] = target
      if composes, target.count == 2 {
        composites[UInt64(target[0]) << 32 | UInt64(target[1])] = source
        followers.insert(target[1])
      }
    }
    for (source, target, _) in Self.mappings(UnicodeData.compatible) { compatible[source] = target }
  }

  /// What the script that wrote the table has packed: `gap=target`, `gap!target`, `gap=target*count`.
  private static func mappings(
    _ table: StaticString
  ) -> [(source: UInt32, target: [UInt32], composes: Bool)] {
    var out: [(UInt32, [UInt32], Bool)] = []
    var source: UInt32 = 0
    for word in table.words {
      let parts = word.split(separator: UInt8(ascii: "*"))
      let sides = parts[0].split(omittingEmptySubsequences: false) {
        $0 == UInt8(ascii: "=") || $0 == UInt8(ascii: "!")
      }
      let count = parts.count > 1 ? parts[1].reduce(0) { $0 * 10 + UInt32($1 &- 0x30) } : 1
      source += hexadecimal(sides[0])
      var target = sides[1].split(separator: UInt8(ascii: "+")).map(hexadecimal)
      for _ in 0..<count {
        out.append((source, target, !word.contains(UInt8(ascii: "!"))))
        source += 1
        target[0] += 1
      }
    }
    return out
  }

  private static func hexadecimal(_ digits: ArraySlice<UInt8>) -> UInt32 {
    digits.reduce(0) { $0 << 4 | UInt32($1 < 0x40 ? $1 &- 0x30 : $1 &- 0x37) }
  }

  /// The UTF-8 text in `form`, or nil when it already is.
  package func normalized(_ bytes: [UInt8], _ range: Range<Int>, to form: Form) -> [UInt8]? {
    guard !isNormalized(bytes, range, form) else { return nil }
    var scalars = decomposed(bytes, range, isCompatible: form.isCompatible)
    reorder(&scalars)
    if form.composes { compose(&scalars) }
    var out: [UInt8] = []
    out.reserveCapacity(range.count)
    for scalar in scalars { out.append(scalar: scalar) }
    return out
  }

  /// The quick check of the annex: false also for some text that normalisation would leave as it is.
  private func isNormalized(_ bytes: [UInt8], _ range: Range<Int>, _ form: Form) -> Bool {
    // 0xCC opens U+0300: what is below has no marks and is composed already.
    let plainBelow: UInt8 = form == .nfc ? 0xCC : 0x80
    var lastClass: UInt8 = 0
    var at = range.lowerBound
    while at < range.upperBound {
      if bytes[at] < plainBelow {
        lastClass = 0
        at += 1
        continue
      }
      let (scalar, length) = decodeScalar(bytes, at: at)
      let cls = combiningClass[scalar]
      if cls != 0, cls < lastClass { return false }
      if mayChange(scalar, form) { return false }
      lastClass = cls
      at += length
    }
    return true
  }

  private func mayChange(_ scalar: UInt32, _ form: Form) -> Bool {
    if form.isCompatible, compatible[scalar] != nil { return true }
    if form.composes {
      if Hangul.isVowelOrTail(scalar) || followers.contains(scalar) { return true }
      // A decomposition that composes back is no change.
      guard let parts = canonical[scalar] else { return false }
      return parts.count != 2 || composites[UInt64(parts[0]) << 32 | UInt64(parts[1])] != scalar
    }
    return canonical[scalar] != nil || Hangul.syllables.contains(scalar)
  }

  /// The full canonical decomposition of the text, marks not yet in order.
  private func decomposed(_ bytes: [UInt8], _ range: Range<Int>, isCompatible: Bool) -> [UInt32] {
    var out: [UInt32] = []
    out.reserveCapacity(range.count)
    var at = range.lowerBound
    while at < range.upperBound {
      let (scalar, length) = decodeScalar(bytes, at: at)
      at += length
      append(scalar, isCompatible, to: &out)
    }
    return out
  }

  private func append(_ scalar: UInt32, _ isCompatible: Bool, to out: inout [UInt32]) {
    if scalar < 0xA0 {
      out.append(scalar)
    } else if Hangul.syllables.contains(scalar) {
      Hangul.decompose(scalar, into: &out)
    } else if isCompatible, let parts = compatible[scalar] {
      // Already decomposed all the way.
      out.append(contentsOf: parts)
    } else if let parts = canonical[scalar] {
      // The first part can decompose again, at most four levels deep; the second never does.
      for part in parts { append(part, isCompatible, to: &out) }
    } else {
      out.append(scalar)
    }
  }

  /// Sorts every run of marks by combining class, keeping the order within a class.
  private func reorder(_ scalars: inout [UInt32]) {
    var at = 0
    while at < scalars.count {
      guard combiningClass[scalars[at]] != 0 else {
        at += 1
        continue
      }
      let start = at
      while at < scalars.count, combiningClass[scalars[at]] != 0 { at += 1 }
      guard at - start > 1 else { continue }
      // The index in the key makes the sort stable.
      let keys = (start..<at).map { UInt64(combiningClass[scalars[$0]]) << 32 | UInt64($0) }.sorted()
      let sorted = keys.map { scalars[Int($0 & 0xFFFF_FFFF)] }
      scalars.replaceSubrange(start..<at, with: sorted)
    }
  }

  /// Joins each starter with the followers that are not blocked from it.
  private func compose(_ scalars: inout [UInt32]) {
    var written = 0
    var starter: Int?
    var lastClass: UInt8 = 0
    for at in scalars.indices {
      let scalar = scalars[at]
      let cls = combiningClass[scalar]
      // Blocked: a mark of the same or a higher class was kept in between.
      if let s = starter, s + 1 == written || lastClass < cls, let composite = composite(scalars[s], scalar) {
        scalars[s] = composite
        continue
      }
      if cls == 0 { starter = written }
      lastClass = cls
      scalars[written] = scalar
      written += 1
    }
    scalars.removeLast(scalars.count - written)
  }

  private func composite(_ first: UInt32, _ second: UInt32) -> UInt32? {
    Hangul.composite(first, second) ?? composites[UInt64(first) << 32 | UInt64(second)]
  }
}

/// Syllables composed by arithmetic (Unicode Standard, section 3.12).
private enum Hangul {
  static let syllables: ClosedRange<UInt32> = 0xAC00...0xD7A3

  static func isVowelOrTail(_ scalar: UInt32) -> Bool {
    (0x1161...0x1175).contains(scalar) || (0x11A8...0x11C2).contains(scalar)
  }

  static func decompose(_ syllable: UInt32, into out: inout [UInt32]) {
    let index = syllable - 0xAC00
    out.append(0x1100 + index / 588)
    out.append(0x1161 + index % 588 / 28)
    if index % 28 != 0 { out.append(0x11A7 + index % 28) }
  }

  static func composite(_ first: UInt32, _ second: UInt32) -> UInt32? {
    if (0x1100...0x1112).contains(first), (0x1161...0x1175).contains(second) {
      return 0xAC00 + (first - 0x1100) * 588 + (second - 0x1161) * 28
    }
    if syllables.contains(first), (first - 0xAC00) % 28 == 0, (0x11A8...0x11C2).contains(second) {
      return first + second - 0x11A7
    }
    return nil
  }
}
