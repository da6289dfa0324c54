// Which files of a folder git would leave out: the patterns of `.gitignore`, as git itself reads them (gitignore(5), git's
// dir.c and wildmatch.c). All compares bytes.

import Platform

/// The patterns that hold for a folder and what is in it.
package struct IgnoreRules: Sendable {
  private struct Pattern {
    /// Without the slash that binds it to its folder, and the one that says that it is for folders.
    var bytes: [UInt8]
    var isNegated = false
    var isFolderOnly = false
    /// Whether it has a slash, and so is for whole paths below its folder, and not for names.
    var isPath = false
    /// Bytes before the first that is special.
    var literal = 0
  }

  /// The patterns of one file, and the folder below which they hold, relative to the one that is searched. A folder above that one
  /// has the path from it instead.
  private struct Source {
    var folder: [UInt8] = []
    var above: [UInt8] = []
    var patterns: [Pattern]
  }

  /// Later ones count more.
  private var sources: [Source] = []

  /// Longer patterns are left out.
  private static let longest = 4_096

  package init() {}

  /// Adds the lines of a file in a folder below the one that is searched.
  package mutating func add(_ text: [UInt8], folder: String) {
    sources.append(Source(folder: Array(folder.utf8), patterns: Self.patterns(text)))
  }

  /// Adds the lines of a file in a folder above the one that is searched.
  ///
  /// - Parameter rest: the path from that folder to the one that is searched; empty for the same.
  package mutating func add(_ text: [UInt8], above rest: String) {
    sources.append(Source(above: Array(rest.utf8), patterns: Self.patterns(text)))
  }

  /// What holds for a folder, by its absolute path: its own patterns, and within a repository also those of the folders above,
  /// of the repository, and of its user.
  package init(for folder: String) {
    var names = folder.split(separator: "/")[...]
    var below: [Substring] = []
    func path(_ names: ArraySlice<Substring>) -> String { "/" + names.joined(separator: "/") }
    while !names.isEmpty, !File.exists(path(names) + "/.git") { below.insert(names.removeLast(), at: 0) }
    let top = path(names)
    guard !names.isEmpty else {
      addFile(of: folder, folder: "")
      return
    }
    let settings =
      Environment.value("XDG_CONFIG_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil }
      ?? Environment.value("HOME").map { $0 + "/.config" }
    for file in [settings.map { $0 + "/git/ignore" }, Self.repositoryFolder(top) + "/info/exclude"] {
      guard let file, let text = try? File.read(file, limit: Self.fileBytes) else { continue }
      add(text, above: below.joined(separator: "/"))
    }
    for count in 0...below.count {
      let place = path(names + below[..<count])
      guard let text = try? File.read([".gitignore"], below: place, limit: Self.fileBytes) else { continue }
      add(text, above: below[count...].joined(separator: "/"))
    }
  }

  /// Adds the patterns of a folder's own `.gitignore`, if it has one; git follows no link there.
  ///
  /// - Parameter folder: the same, relative to the one that is searched.
  package mutating func addFile(of path: String, folder: String) {
    guard let text = try? File.read([".gitignore"], below: path, limit: Self.fileBytes) else { return }
    add(text, folder: folder)
  }

  private static let fileBytes = 1 << 20

  /// What all working trees of a repository share; `.git` is a file in trees but the first.
  private static func repositoryFolder(_ top: String) -> String {
    func line(_ path: String) -> String? {
      guard let bytes = try? File.read(path, limit: 1 << 16) else { return nil }
      return String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }
    func absolute(_ path: String, _ place: String) -> String {
      path.hasPrefix("/") ? path : place + "/" + path
    }
    let mark = "gitdir: "
    guard let link = line(top + "/.git"), link.hasPrefix(mark) else { return top + "/.git" }
    let own = absolute(String(link.dropFirst(mark.count)), top)
    return line(own + "/commondir").map { absolute($0, own) } ?? own
  }

  /// Whether a path is left out; the last pattern that fits decides.
  package func ignores(_ path: String, isFolder: Bool) -> Bool {
    let path = Array(path.utf8)
    let slash = UInt8(ascii: "/")
    let name = path[((path.lastIndex(of: slash) ?? -1) + 1)...]
    for source in sources.reversed() {
      var inner = path[...]
      if !source.folder.isEmpty {
        guard path.starts(with: source.folder + [slash]) else { continue }
        inner = path[(source.folder.count + 1)...]
      } else if !source.above.isEmpty {
        inner = (source.above + [slash] + path)[...]
      }
      for pattern in source.patterns.reversed() where isFolder || !pattern.isFolderOnly {
        if Self.fits(pattern, pattern.isPath ? inner : name) { return !pattern.isNegated }
      }
    }
    return false
  }

  private static func fits(_ pattern: Pattern, _ text: ArraySlice<UInt8>) -> Bool {
    // What is not special is compared first. For paths this is more than speed: `**` behind it counts as a beginning.
    guard pattern.isPath else { return Wildcards.match(pattern.bytes[...], text, isPath: false) }
    let literal = pattern.bytes[..<pattern.literal]
    guard text.starts(with: literal) else { return false }
    return Wildcards.match(
      pattern.bytes[pattern.literal...], text.dropFirst(pattern.literal), isPath: true)
  }

  // MARK: Lines

  private static func patterns(_ text: [UInt8]) -> [Pattern] {
    let text = text.starts(with: [0xEF, 0xBB, 0xBF]) ? text.dropFirst(3) : text[...]
    return text.split(separator: UInt8(ascii: "\n")).prefix(10_000).compactMap { pattern(of: $0) }
  }

  /// Nil for a line without one.
  private static func pattern(of line: ArraySlice<UInt8>) -> Pattern? {
    guard line.first != UInt8(ascii: "#") else { return nil }
    var line = line
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    line = trimmed(line.prefix { $0 != 0 })
    var pattern = Pattern(bytes: [])
    if line.first == UInt8(ascii: "!") {
      pattern.isNegated = true
      line.removeFirst()
    }
    if line.last == UInt8(ascii: "/") {
      pattern.isFolderOnly = true
      line.removeLast()
    }
    pattern.isPath = line.contains(UInt8(ascii: "/"))
    if line.first == UInt8(ascii: "/") { line.removeFirst() }
    guard !line.isEmpty, line.count <= longest else { return nil }
    pattern.bytes = Array(line)
    pattern.literal = pattern.bytes.firstIndex(where: Wildcards.isSpecial) ?? pattern.bytes.count
    return pattern
  }

  /// Without spaces at the end, but for those behind a backslash.
  private static func trimmed(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    var end: Int?
    var at = line.startIndex
    while at < line.endIndex {
      switch line[at] {
      case UInt8(ascii: " "): end = end ?? at
      case UInt8(ascii: "\\"):
        at += 1
        guard at < line.endIndex else { return line }
        end = nil
      default: end = nil
      }
      at += 1
    }
    return line[..<(end ?? line.endIndex)]
  }
}

/// Patterns with `*`, `?`, `[…]` and `**` as git's wildmatch reads them.
private struct Wildcards {
  private enum Outcome {
    case fits, differs
    /// No longer text would fit either.
    case fitsNothing
    /// Only a `**` before it could still help.
    case fitsNoName
  }

  private let pattern: ArraySlice<UInt8>
  private let text: ArraySlice<UInt8>
  /// Whether `/` fits `/` alone and `**`.
  private let isPath: Bool
  /// What is known of places of both behind a star: some patterns ask for the same ones again and again.
  private var known: [Int: Outcome] = [:]
  /// Steps that are left: no pattern that people write needs as many.
  private var steps = 1 << 20

  private static let (star, slash) = (UInt8(ascii: "*"), UInt8(ascii: "/"))

  static func isSpecial(_ byte: UInt8) -> Bool {
    byte == star || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "[") || byte == UInt8(ascii: "\\")
  }

  static func match(_ pattern: ArraySlice<UInt8>, _ text: ArraySlice<UInt8>, isPath: Bool) -> Bool {
    var wildcards = Wildcards(pattern: pattern, text: text, isPath: isPath)
    return wildcards.outcome(pattern.startIndex, text.startIndex) == .fits
  }

  private init(pattern: ArraySlice<UInt8>, text: ArraySlice<UInt8>, isPath: Bool) {
    (self.pattern, self.text, self.isPath) = (pattern, text, isPath)
  }

  /// Zero at the end, as in C.
  private func pattern(at place: Int) -> UInt8 { place < pattern.endIndex ? pattern[place] : 0 }
  private func text(at place: Int) -> UInt8 { place < text.endIndex ? text[place] : 0 }

  private mutating func outcome(_ patternStart: Int, _ textStart: Int) -> Outcome {
    let key = (patternStart - pattern.startIndex) * (text.count + 1) + textStart - text.startIndex
    if let outcome = known[key] { return outcome }
    let outcome = compare(patternStart, textStart)
    known[key] = outcome
    return outcome
  }

  private mutating func compare(_ patternStart: Int, _ textStart: Int) -> Outcome {
    var (p, t) = (patternStart, textStart)
    while p < pattern.endIndex {
      steps -= 1
      guard steps > 0 else { return .fitsNothing }
      let byte = pattern[p]
      if t >= text.endIndex, byte != Self.star { return .fitsNothing }
      switch byte {
      case UInt8(ascii: "\\"):
        p += 1
        guard pattern(at: p) == text[t], p < pattern.endIndex else { return .differs }
      case UInt8(ascii: "?"): if isPath, text[t] == Self.slash { return .differs }
      case Self.star: return afterStars(p, t)
      case UInt8(ascii: "["):
        switch isInSet(text[t], &p) {
        case nil: return .fitsNothing
        case false?: return .differs
        case true?: if isPath, text[t] == Self.slash { return .differs }
        }
      default: if byte != text[t] { return .differs }
      }
      p += 1
      t += 1
    }
    return t < text.endIndex ? .differs : .fits
  }

  /// One star or several, and the rest.
  private mutating func afterStars(_ first: Int, _ textStart: Int) -> Outcome {
    var (p, t) = (first + 1, textStart)
    var takesSlashes = !isPath
    if pattern(at: p) == Self.star {
      while pattern(at: p) == Self.star { p += 1 }
      let isAtName = first == pattern.startIndex || pattern[first - 1] == Self.slash
      let isWholeName =
        p >= pattern.endIndex || pattern[p] == Self.slash
        || (pattern[p] == UInt8(ascii: "\\") && pattern(at: p + 1) == Self.slash)
      if isPath, isAtName, isWholeName {
        // `a/**/b` is `a/b`, too.
        if pattern(at: p) == Self.slash, outcome(p + 1, t) == .fits { return .fits }
        takesSlashes = true
      }
    }
    if p >= pattern.endIndex {
      return takesSlashes || !text[t...].contains(Self.slash) ? .fits : .fitsNoName
    }
    if !takesSlashes, pattern[p] == Self.slash {
      // A star before a slash is the rest of a name.
      guard let slash = text[t...].firstIndex(of: Self.slash) else { return .fitsNothing }
      return outcome(p + 1, slash + 1)
    }
    while t < text.endIndex {
      steps -= 1
      guard steps > 0 else { return .fitsNothing }
      if !Self.isSpecial(pattern[p]) {
        let next = text[t...].firstIndex { $0 == pattern[p] || (!takesSlashes && $0 == Self.slash) }
        guard let next, text[next] == pattern[p] else { return takesSlashes ? .fitsNothing : .fitsNoName }
        t = next
      }
      let rest = outcome(p, t)
      if rest != .differs {
        if !takesSlashes || rest != .fitsNoName { return rest }
      } else if !takesSlashes, text[t] == Self.slash {
        return .fitsNoName
      }
      t += 1
    }
    return .fitsNothing
  }

  // MARK: Sets

  /// Whether a byte is in the set that begins at a bracket; nil when the set does not end.
  ///
  /// - Parameter p: left at the closing bracket.
  private func isInSet(_ byte: UInt8, _ p: inout Int) -> Bool? {
    p += 1
    let isNegated = pattern(at: p) == UInt8(ascii: "!") || pattern(at: p) == UInt8(ascii: "^")
    if isNegated { p += 1 }
    var found = false
    // Zero where no range can begin.
    var previous: UInt8 = 0
    repeat {
      var member = pattern(at: p)
      guard p < pattern.endIndex else { return nil }
      let next = pattern(at: p + 1)
      if member == UInt8(ascii: "\\") {
        p += 1
        guard p < pattern.endIndex else { return nil }
        member = pattern[p]
        if byte == member { found = true }
      } else if member == UInt8(ascii: "-"), previous != 0, next != 0, next != UInt8(ascii: "]") {
        p += 1
        if pattern[p] == UInt8(ascii: "\\") { p += 1 }
        guard p < pattern.endIndex else { return nil }
        if previous <= byte, byte <= pattern[p] { found = true }
        member = 0
      } else if member == UInt8(ascii: "["), next == UInt8(ascii: ":") {
        guard let end = pattern[(p + 2)...].firstIndex(of: UInt8(ascii: "]")) else { return nil }
        if end > p + 2, pattern[end - 1] == UInt8(ascii: ":") {
          let name = String(decoding: pattern[(p + 2)..<(end - 1)], as: UTF8.self)
          guard let isMember = Self.isMember(byte, of: name) else { return nil }
          if isMember { found = true }
          p = end
          member = 0
        } else if byte == member {
          found = true
        }
      } else if byte == member {
        found = true
      }
      previous = member
      p += 1
    } while pattern(at: p) != UInt8(ascii: "]")
    return found != isNegated
  }

  /// Classes of bytes as C has them; nil for no name of one.
  private static func isMember(_ byte: UInt8, of name: String) -> Bool? {
    let isLower = (0x61...0x7A).contains(byte)
    let isUpper = (0x41...0x5A).contains(byte)
    let isDigit = (0x30...0x39).contains(byte)
    let isPrinted = (0x20...0x7E).contains(byte)
    switch name {
    case "alnum": return isLower || isUpper || isDigit
    case "alpha": return isLower || isUpper
    case "blank": return byte == 0x20 || byte == 0x09
    case "cntrl": return byte < 0x20 || byte == 0x7F
    case "digit": return isDigit
    case "graph": return isPrinted && byte != 0x20
    case "lower": return isLower
    case "print": return isPrinted
    case "punct": return isPrinted && byte != 0x20 && !isLower && !isUpper && !isDigit
    case "space": return byte == 0x20 || (0x09...0x0D).contains(byte)
    case "upper": return isUpper
    case "xdigit": return isDigit || (0x41...0x46).contains(byte) || (0x61...0x66).contains(byte)
    default: return nil
    }
  }
}
