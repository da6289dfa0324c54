// A text as passages of a given number of tokens, cut where its structure allows, and each passage as windows that fit the model.

/// How texts are cut.
package struct SplitRules: Sendable, Equatable {
  /// Most tokens of a passage.
  package var tokens: Int
  /// Tokens that a passage shares with the one before it, about.
  package var overlap: Int

  package init(tokens: Int, overlap: Int) {
    self.tokens = max(1, tokens)
    self.overlap = max(0, min(overlap, tokens / 2))
  }

  /// Small passages, which point at what answers.
  package static let notes = SplitRules(tokens: 200, overlap: 0)

  /// The same for a model whose texts have at most `room` tokens.
  package static func notes(room: Int) -> SplitRules {
    SplitRules(tokens: min(notes.tokens, max(32, room)), overlap: 0)
  }
}

/// A passage before it has vectors.
package struct TextPassage: Sendable, Equatable {
  /// Bytes of the text.
  package var range: Range<Int>
  /// Headings above it, joined by ` > `.
  package var heading: String
  /// What the model is given, one text for each vector; the heading stands in front of each.
  package var windows: [String]
}

/// Cuts texts.
package struct Splitter: Sendable {
  private let rules: SplitRules
  private let windowTokens: Int
  private let count: @Sendable (String) -> Int

  /// - Parameters:
  ///   - windowTokens: most tokens of a text that the model takes, without special ones.
  ///   - count: tokens of a text, without special ones.
  package init(_ rules: SplitRules, windowTokens: Int, count: @escaping @Sendable (String) -> Int) {
    self.rules = rules
    self.windowTokens = max(8, windowTokens)
    self.count = count
  }

  /// Bytes that a unit takes: in a list that grows, among those that fit with its tokens, and as the end of a sentence.
  private static let bytesPerUnit = 200
  /// Units that are claimed at a time where they become more.
  private static let moreUnits = 1_024

  /// Passages that together have every byte of the text, one after another.
  ///
  /// For each unit it takes 200 bytes, and for a passage what its windows take; `most(in:)` says how many units a text has.
  ///
  /// - Parameter reserve: told the bytes that are needed next; false where they are not to be had.
  /// - Throws: `noMemory`, and what `take` throws.
  package func forEachPassage(
    of source: SourceText, reserve: (Int) -> Bool = { _ in true },
    _ take: (TextPassage) throws(SearchError) -> Void
  ) throws(SearchError) {
    let text = source.text
    let most = UnitSplitter.most(in: text)
    try Self.claim(Self.bytesPerUnit * most, reserve)
    let (units, counts) = try fitting(
      UnitSplitter.units(text, kind: source.kind), text, most: most, reserve)
    var headings = HeadingTrail(units, text)
    var start = 0
    while start < units.count {
      let end = passageEnd(units, counts, from: start)
      try take(try passage(text, units, counts, start..<end, heading: headings.above(start), reserve))
      guard end < units.count else { break }
      start = max(start + 1, overlapStart(units, counts, before: end))
    }
  }

  private static func claim(_ bytes: Int, _ reserve: (Int) -> Bool) throws(SearchError) {
    guard reserve(bytes) else { throw .noMemory(bytes: bytes) }
  }

  /// Units that fit a passage and the model, with their tokens: one that does not is halved.
  ///
  /// - Parameter room: units whose bytes are claimed.
  private func fitting(
    _ units: [TextUnit], _ text: [UInt8], most room: Int = .max, _ reserve: (Int) -> Bool = { _ in true }
  ) throws(SearchError) -> (units: [TextUnit], counts: [Int]) {
    let most = min(windowTokens, rules.tokens)
    var room = room
    var fitting: [TextUnit] = []
    var counts: [Int] = []
    fitting.reserveCapacity(units.count)
    counts.reserveCapacity(units.count)
    var pending: [TextUnit] = []
    for unit in units {
      pending.append(unit)
      while let unit = pending.popLast() {
        let tokens = count(String(decoding: text[unit.range], as: UTF8.self))
        var middle = (unit.range.lowerBound + unit.range.upperBound) / 2
        while middle < unit.range.upperBound, text[middle] & 0xC0 == 0x80 { middle += 1 }
        // At a space, if there is one in the second half.
        if let space = text[middle..<unit.range.upperBound].firstIndex(of: 0x20),
          space + 1 < unit.range.upperBound
        {
          middle = space + 1
        }
        guard tokens > most, unit.range.count > 4, middle < unit.range.upperBound else {
          if fitting.count >= room {
            try Self.claim(Self.bytesPerUnit * Self.moreUnits, reserve)
            room += Self.moreUnits
          }
          fitting.append(unit)
          counts.append(tokens)
          continue
        }
        var (first, second) = (unit, unit)
        first.range = unit.range.lowerBound..<middle
        first.score = BreakScore.space
        second.range = middle..<unit.range.upperBound
        second.heading = 0
        pending += [second, first]
      }
    }
    return (fitting, counts)
  }

  /// Where the passage ends that begins at a unit: at the best break of its last quarter.
  private func passageEnd(_ units: [TextUnit], _ counts: [Int], from start: Int) -> Int {
    var tokens = counts[start]
    var end = start + 1
    while end < units.count, tokens + counts[end] <= rules.tokens {
      tokens += counts[end]
      end += 1
    }
    guard end < units.count else { return end }
    let window = max(1, rules.tokens / 4)
    var best = (end: end, score: -1.0)
    var distance = 0
    var at = end
    while at > start {
      let unit = units[at - 1]
      let far = Double(distance) / Double(window)
      // In the middle of a sentence is no end while there is a better one before.
      if far > 1, best.score > Double(BreakScore.space) { break }
      var score = Double(unit.score) * max(0.1, 1 - 0.7 * far * far)
      // A heading belongs to what follows it, and a fence that could stay whole is not cut.
      if unit.heading > 0 { score = 0 }
      if unit.isFenced, at < units.count, units[at].isFenced { score = 0 }
      if score > best.score { best = (at, score) }
      distance += counts[at - 1]
      at -= 1
    }
    return best.end
  }

  /// Where the next passage begins: at a break, some tokens before the end.
  private func overlapStart(_ units: [TextUnit], _ counts: [Int], before end: Int) -> Int {
    var start = end
    var tokens = 0
    for at in (0..<end).reversed() {
      tokens += counts[at]
      guard tokens <= rules.overlap else { break }
      // White space without tokens is repeated only in front of words that are.
      if counts[at] > 0 { start = at }
    }
    return start
  }

  private func passage(
    _ text: [UInt8], _ units: [TextUnit], _ counts: [Int], _ part: Range<Int>, heading: String,
    _ reserve: (Int) -> Bool
  ) throws(SearchError) -> TextPassage {
    let range = units[part.lowerBound].range.lowerBound..<units[part.upperBound - 1].range.upperBound
    let (prefix, windows) = windows(units, counts, part, heading: heading)
    // Each window as it is joined, and its place.
    try Self.claim(
      windows.reduce(heading.utf8.count) { $0 + 2 * (prefix.utf8.count + $1.count) + 96 }, reserve)
    return TextPassage(
      range: range, heading: heading,
      windows: windows.map { prefix + String(decoding: text[$0], as: UTF8.self) })
  }

  /// The windows of a passage that was cut from a text before, bytes of it; about those that it had then where its text was no
  /// Markdown.
  package func windows(of passage: [UInt8], heading: String) -> [Range<Int>] {
    // Nothing is claimed, and so nothing refused.
    guard let (units, counts) = try? fitting(UnitSplitter.units(passage, kind: .markdown), passage) else {
      return []
    }
    return windows(units, counts, units.indices, heading: heading).ranges
  }

  /// What stands in front of each window, and the bytes of the windows.
  private func windows(
    _ units: [TextUnit], _ counts: [Int], _ part: Range<Int>, heading: String
  ) -> (prefix: String, ranges: [Range<Int>]) {
    let prefix = heading.isEmpty ? "" : heading + "\n"
    let prefixTokens = prefix.isEmpty ? 0 : count(prefix)
    // A heading that takes more than a quarter of the room is left out.
    let isTitled = prefixTokens * 4 <= windowTokens
    let room = windowTokens - (isTitled ? prefixTokens : 0)
    var windows: [Range<Int>] = []
    var start = part.lowerBound
    while start < part.upperBound {
      var tokens = counts[start]
      var end = start + 1
      while end < part.upperBound, tokens + counts[end] <= room {
        tokens += counts[end]
        end += 1
      }
      windows.append(units[start].range.lowerBound..<units[end - 1].range.upperBound)
      guard end < part.upperBound else { break }
      // A tenth of a window is in the next one too.
      var next = end
      var shared = 0
      while next > start + 1, shared + counts[next - 1] <= room / 10 {
        shared += counts[next - 1]
        next -= 1
      }
      start = next
    }
    return (isTitled ? prefix : "", windows)
  }
}

/// The headings above a place of a text, found while walking on: a text of a million lines has a million such places.
private struct HeadingTrail {
  private let units: [TextUnit]
  private let text: [UInt8]
  private var path: [(level: Int, title: String)] = []
  private var next = 0

  /// Characters of a title that are kept, and the bytes that are looked at for them.
  private static let titleLength = (characters: 80, bytes: 2_000)

  init(_ units: [TextUnit], _ text: [UInt8]) { (self.units, self.text) = (units, text) }

  /// The titles above a unit, joined. Units are asked for in their order.
  ///
  /// A heading is above what follows it; a passage that begins with it shows it anyway.
  mutating func above(_ number: Int) -> String {
    while next < number {
      let unit = units[next]
      next += 1
      guard unit.heading > 0 else { continue }
      path.removeAll { $0.level >= unit.heading }
      let title = String(decoding: text[unit.range].prefix(Self.titleLength.bytes), as: UTF8.self)
        .drop { $0 == "#" || $0 == " " }
      path.append(
        (unit.heading, String(title.prefix { !$0.isNewline }.prefix(Self.titleLength.characters))))
    }
    let level = units[number].heading
    return path.filter { level == 0 || $0.level < level }.map(\.title).joined(separator: " > ")
  }
}
