// Which files of a folder are left out: what is hidden, and what `.gitignore` names.

/// The patterns of `.gitignore` files, as far as people write them: names, paths, `*`, `?`, `**`, `/` at either end, `!`.
package struct IgnoreRules: Sendable {
  private struct Pattern {
    /// The folder of the file that has the pattern; empty for the first.
    var base: String
    var parts: [[UInt8]]
    var isNegated: Bool
    var isFolderOnly: Bool
    /// Whether it holds from its folder on only, and not at any depth.
    var isAnchored: Bool
  }

  private var patterns: [Pattern] = []

  package init() {}

  /// Adds the lines of a file in a folder.
  package mutating func add(_ text: [UInt8], folder: String) {
    for line in text.split(separator: UInt8(ascii: "\n")).prefix(10_000) {
      var line = Array(line.drop { $0 == 0x20 })
      while let last = line.last, last == 0x20 || last == 0x0D { line.removeLast() }
      guard let first = line.first, first != UInt8(ascii: "#"), line.count <= 1_024 else { continue }
      let isNegated = first == UInt8(ascii: "!")
      if isNegated { line.removeFirst() }
      let isFolderOnly = line.last == UInt8(ascii: "/")
      if isFolderOnly { line.removeLast() }
      let isAnchored = line.contains(UInt8(ascii: "/"))
      let parts = line.split(separator: UInt8(ascii: "/")).map { Array($0) }
      guard !parts.isEmpty else { continue }
      patterns.append(
        Pattern(
          base: folder, parts: parts, isNegated: isNegated, isFolderOnly: isFolderOnly, isAnchored: isAnchored
        ))
    }
  }

  /// Whether a path is left out; the last pattern that fits decides.
  package func ignores(_ path: String, isFolder: Bool) -> Bool {
    var result = false
    for pattern in patterns where isFolder || !pattern.isFolderOnly {
      let inner: Substring
      if pattern.base.isEmpty {
        inner = path[...]
      } else {
        guard path.hasPrefix(pattern.base + "/") else { continue }
        inner = path.dropFirst(pattern.base.count + 1)
      }
      let names = inner.split(separator: "/").map { Array($0.utf8) }
      let fits =
        pattern.isAnchored
        ? Self.matches(pattern.parts[...], names[...])
        : names.last.map { Self.matches(pattern.parts[0][...], $0[...]) } ?? false
      if fits { result = !pattern.isNegated }
    }
    return result
  }

  private static func matches(_ parts: ArraySlice<[UInt8]>, _ names: ArraySlice<[UInt8]>) -> Bool {
    matches(parts, names, isMany: { $0.elementsEqual("**".utf8) }, fits: { matches($0[...], $1[...]) })
  }

  /// `*` and `?` in one name.
  private static func matches(_ pattern: ArraySlice<UInt8>, _ name: ArraySlice<UInt8>) -> Bool {
    matches(
      pattern, name, isMany: { $0 == UInt8(ascii: "*") }, fits: { $0 == UInt8(ascii: "?") || $0 == $1 })
  }

  /// Whether a pattern takes all of a name, where some of its parts stand for any number; in time that grows with both
  /// lengths, whatever the pattern: only the last of these parts need be tried anew.
  private static func matches<Part>(
    _ pattern: ArraySlice<Part>, _ name: ArraySlice<Part>, isMany: (Part) -> Bool, fits: (Part, Part) -> Bool
  ) -> Bool {
    var (p, n) = (pattern.startIndex, name.startIndex)
    var star: (pattern: Int, name: Int)?
    while n < name.endIndex {
      if p < pattern.endIndex, isMany(pattern[p]) {
        star = (p, n)
        p += 1
      } else if p < pattern.endIndex, fits(pattern[p], name[n]) {
        p += 1
        n += 1
      } else if let last = star {
        star = (last.pattern, last.name + 1)
        p = last.pattern + 1
        n = last.name + 1
      } else {
        return false
      }
    }
    while p < pattern.endIndex, isMany(pattern[p]) { p += 1 }
    return p == pattern.endIndex
  }
}
