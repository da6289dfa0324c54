// Python's string operations on UTF-8 bytes and scalars; Swift's Characters never appear.

/// What the filters and methods of strings do.
package enum TextOperations {
  static func scalarCount(_ text: String) -> Int { text.utf8.count { $0 & 0xC0 != 0x80 } }

  /// The scalar at `index`; negative indices count from the end.
  static func scalar(of text: String, at index: Int) -> Unicode.Scalar? {
    let scalars = text.unicodeScalars
    if index >= 0 {
      guard index < text.utf8.count else { return nil }
      return scalars.dropFirst(index).first
    }
    guard index >= -text.utf8.count else { return nil }
    return scalars.reversed().dropFirst(-1 - index).first
  }

  static func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }

  // MARK: Searching

  /// Byte offsets of `part` in `text`, without overlaps and at most `limit`, in linear time (Knuth-Morris-Pratt).
  static func occurrences(of part: [UInt8], in text: [UInt8], limit: Int = .max) -> [Int] {
    guard !part.isEmpty, part.count <= text.count, limit > 0 else { return [] }
    // fallback[i]: length of the longest proper prefix of part[0...i] that also ends there.
    var fallback = [Int](repeating: 0, count: part.count)
    var length = 0
    for index in 1..<max(1, part.count) {
      while length > 0, part[index] != part[length] { length = fallback[length - 1] }
      if part[index] == part[length] { length += 1 }
      fallback[index] = length
    }
    var found: [Int] = []
    length = 0
    for (index, byte) in text.enumerated() {
      while length > 0, byte != part[length] { length = fallback[length - 1] }
      if byte == part[length] { length += 1 }
      if length == part.count {
        found.append(index + 1 - length)
        if found.count == limit { break }
        length = 0
      }
    }
    return found
  }

  /// Byte offset of the first `part`; 0 for the empty one.
  static func find(_ part: String, in text: String) -> Int? {
    if part.utf8.isEmpty { return 0 }
    return occurrences(of: Array(part.utf8), in: Array(text.utf8), limit: 1).first
  }

  /// Byte offset of the last `part`, in linear time.
  package static func findLast(_ part: String, in text: String) -> Int? {
    if part.utf8.isEmpty { return text.utf8.count }
    let reversed = occurrences(of: part.utf8.reversed(), in: text.utf8.reversed(), limit: 1).first
    return reversed.map { text.utf8.count - part.utf8.count - $0 }
  }

  static func hasPrefix(_ text: String, _ prefix: String) -> Bool {
    text.utf8.starts(with: prefix.utf8)
  }

  static func hasSuffix(_ text: String, _ suffix: String) -> Bool {
    text.utf8.count >= suffix.utf8.count && text.utf8.suffix(suffix.utf8.count).elementsEqual(suffix.utf8)
  }

  static func isEqual(_ a: String, _ b: String) -> Bool { a.utf8.elementsEqual(b.utf8) }

  // MARK: Stripping

  /// Without whitespace, or the scalars of `characters`, at its ends.
  static func strip(
    _ text: String, _ characters: String? = nil, start: Bool = true, end: Bool = true
  ) -> String {
    if let characters {
      let set = Set(characters.unicodeScalars)
      var rest = text.unicodeScalars[...]
      while start, let first = rest.first, set.contains(first) { rest.removeFirst() }
      while end, let last = rest.last, set.contains(last) { rest.removeLast() }
      return String(rest)
    }
    let bytes = Array(text.utf8)
    var low = 0
    var high = bytes.count
    while start, low < high {
      let length = Whitespace.length(in: bytes, at: low)
      if length == 0 { break }
      low += length
    }
    while end, high > low {
      let length = Whitespace.length(in: bytes, before: high)
      if length == 0 { break }
      high -= length
    }
    return low == 0 && high == bytes.count ? text : self.text(bytes[low..<high])
  }

  // MARK: Splitting

  /// `split(separator, limit)`; a negative limit is none.
  static func split(_ text: String, by separator: String, limit: Int, fromEnd: Bool = false) -> [String] {
    let bytes = Array(text.utf8)
    let size = separator.utf8.count
    let bound = limit < 0 ? Int.max : limit
    var cuts: [Int]
    if fromEnd, bound < Int.max {
      cuts = occurrences(of: separator.utf8.reversed(), in: bytes.reversed(), limit: bound)
        .map { bytes.count - size - $0 }.reversed()
    } else {
      cuts = occurrences(of: Array(separator.utf8), in: bytes, limit: bound)
    }
    var parts: [String] = []
    var start = 0
    for cut in cuts {
      parts.append(self.text(bytes[start..<cut]))
      start = cut + size
    }
    parts.append(self.text(bytes[start...]))
    return parts
  }

  /// `split()`: words between runs of whitespace. With a limit the last part (or the first, from
  /// the end) keeps the rest and its whitespace.
  static func splitWords(_ text: String, limit: Int, fromEnd: Bool = false) -> [String] {
    let bytes = Array(text.utf8)
    var words: [Range<Int>] = []
    var at = 0
    while at < bytes.count {
      let length = Whitespace.length(in: bytes, at: at)
      if length > 0 {
        at += length
        continue
      }
      let start = at
      while at < bytes.count, Whitespace.length(in: bytes, at: at) == 0 { at += 1 }
      words.append(start..<at)
    }
    guard limit >= 0, words.count - 1 > limit else { return words.map { self.text(bytes[$0]) } }
    if fromEnd {
      let rest = self.text(bytes[..<words[words.count - limit - 1].upperBound])
      return [rest] + words.suffix(limit).map { self.text(bytes[$0]) }
    }
    return words.prefix(limit).map { self.text(bytes[$0]) } + [self.text(bytes[words[limit].lowerBound...])]
  }

  /// `splitlines()`: at the line boundaries Python knows; a final one makes no empty line.
  static func lines(_ text: String, keepEnds: Bool = false) -> [String] {
    var lines: [String] = []
    var line = String.UnicodeScalarView()
    let scalars = Array(text.unicodeScalars)
    var at = 0
    while at < scalars.count {
      let scalar = scalars[at]
      at += 1
      switch scalar.value {
      case 0x0A...0x0D, 0x1C...0x1E, 0x85, 0x2028, 0x2029:
        let isPair = scalar.value == 0x0D && at < scalars.count && scalars[at].value == 0x0A
        if keepEnds {
          line.append(scalar)
          if isPair { line.append(scalars[at]) }
        }
        if isPair { at += 1 }
        lines.append(String(line))
        line = String.UnicodeScalarView()
      default: line.append(scalar)
      }
    }
    if !line.isEmpty { lines.append(String(line)) }
    return lines
  }

  // MARK: Replacing and case

  /// Replaces up to `limit` occurrences; negative means all. Nil when the result would exceed `maxBytes`.
  static func replace(
    _ text: String, _ old: String, with new: String, limit: Int, maxBytes: Int
  ) -> String? {
    let bound = limit < 0 ? Int.max : limit
    if old.utf8.isEmpty { return interleave(text, new, bound, maxBytes) }
    let parts = split(text, by: old, limit: bound == .max ? -1 : bound)
    let (added, overflow) = new.utf8.count.multipliedReportingOverflow(by: parts.count - 1)
    guard !overflow, added <= maxBytes else { return nil }
    return parts.joined(separator: new)
  }

  /// What Python makes of replacing the empty string: `new` before each scalar and at the end.
  private static func interleave(_ text: String, _ new: String, _ limit: Int, _ maxBytes: Int) -> String? {
    let (added, overflow) = new.utf8.count.multipliedReportingOverflow(by: text.utf8.count + 1)
    guard !overflow, added <= maxBytes else { return nil }
    var out = ""
    var count = 0
    for scalar in text.unicodeScalars {
      if count < limit {
        out += new
        count += 1
      }
      out.unicodeScalars.append(scalar)
    }
    return count < limit ? out + new : out
  }

  /// First scalar upper case, the rest lower.
  static func capitalize(_ text: String) -> String {
    guard let first = text.unicodeScalars.first else { return "" }
    return first.properties.titlecaseMapping + String(text.unicodeScalars.dropFirst()).lowercased()
  }

  /// `str.title`: each run of letters capitalised.
  static func titlecased(_ text: String) -> String {
    var out = ""
    var insideWord = false
    for scalar in text.unicodeScalars {
      out += insideWord ? scalar.properties.lowercaseMapping : scalar.properties.titlecaseMapping
      insideWord = scalar.properties.isCased
    }
    return out
  }

  /// The `title` filter: words begin after blanks and opening brackets only.
  static func titleFilter(_ text: String) -> String {
    var out = ""
    var isStart = true
    for scalar in text.unicodeScalars {
      let isSeparator: Bool
      switch scalar {
      case "-", "(", "{", "[", "<": isSeparator = true
      default: isSeparator = scalar.properties.isWhitespace
      }
      out += isStart ? scalar.properties.uppercaseMapping : scalar.properties.lowercaseMapping
      isStart = isSeparator
    }
    return out
  }

  /// `&`, `<`, `>` and quotes as HTML entities.
  static func escapedHTML(_ text: String) -> String {
    var out = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "&": out += "&amp;"
      case "<": out += "&lt;"
      case ">": out += "&gt;"
      case "'": out += "&#39;"
      case "\"": out += "&#34;"
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out
  }
}
