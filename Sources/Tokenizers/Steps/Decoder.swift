// Decoders: from the spellings of tokens back to text.

import JSON

/// The decoder of a file: steps per token, then one way of joining, then stripping of the whole.
struct Decoder: Sendable {
  /// Rewrites the spelling of one token.
  enum TokenStep: Sendable {
    case replace([UInt8], with: [UInt8])
    /// The replacement becomes a space; in the first token it vanishes if one was put in front in encoding.
    case metaspace([UInt8], dropsFirst: Bool)
    /// A space before every token but the first, or the prefix removed.
    case wordPiece(prefix: [UInt8], cleansUp: Bool)
    /// The suffix becomes a space, but not at the end of the text.
    case suffix([UInt8])
    case strip([UInt8], start: Int, stop: Int)
  }

  enum Joining: Sendable {
    case plain
    /// Spellings in the byte-level alphabet; the bytes of all tokens together are UTF-8.
    case byteLevel
    /// Tokens `<0xXX>` are bytes; a run of them is UTF-8.
    case byteFallback
  }

  private(set) var steps: [TokenStep] = []
  private(set) var joining = Joining.plain
  /// Put between tokens where the file has no decoder.
  private(set) var separator: [UInt8] = []
  /// Removed from the start of the whole text, at most `count` times.
  private(set) var leading: (content: [UInt8], count: Int) = ([], 0)
  /// After joining, only the whole text can be stripped.
  private var isJoined = false
  private var growth: TextGrowth

  init(_ description: JSONValue, path: String) throws(TokenizerError) {
    growth = TextGrowth(path: path)
    if description.isNull { separator = [0x20] } else { try add(description, path) }
  }

  /// Whether a token's text depends on whether it is the last.
  var needsLookahead: Bool {
    steps.contains { if case .suffix = $0 { true } else { false } }
  }

  private mutating func add(_ description: JSONValue, _ path: String) throws(TokenizerError) {
    func text(_ key: String, _ fallback: String?) throws(TokenizerError) -> [UInt8] {
      guard let text = description[key]?.stringValue ?? fallback else {
        throw .field(path: "\(path).\(key)", problem: "is not a string")
      }
      return Array(text.utf8)
    }
    func count(_ key: String) throws(TokenizerError) -> Int {
      guard let count = description[key]?.intValue, (0...1 << 16).contains(count) else {
        throw .field(path: "\(path).\(key)", problem: "is not a count")
      }
      return count
    }
    switch description["type"]?.stringValue {
    case "Sequence":
      for (index, part) in (description["decoders"]?.arrayValue ?? []).enumerated() {
        try add(part, "\(path).decoders[\(index)]")
      }
    case "ByteLevel": try join(.byteLevel, path)
    case "ByteFallback": try join(.byteFallback, path)
    case "Fuse": isJoined = true
    case "Replace":
      guard let pattern = description["pattern"]?["String"]?.stringValue else {
        throw .unsupported(path: "\(path).pattern", what: "a pattern other than a string")
      }
      try addStep(.replace(Array(pattern.utf8), with: try text("content", nil)), path)
    case "Metaspace":
      let scheme = description["prepend_scheme"]?.stringValue
      let prepends =
        scheme.map { !$0.utf8.elementsEqual("never".utf8) }
        ?? description["add_prefix_space"]?.boolValue ?? true
      try addStep(.metaspace(try text("replacement", "\u{2581}"), dropsFirst: prepends), path)
    case "WordPiece":
      let cleans = description["cleanup"]?.boolValue ?? true
      try addStep(.wordPiece(prefix: try text("prefix", "##"), cleansUp: cleans), path)
    case "BPEDecoder": try addStep(.suffix(try text("suffix", "</w>")), path)
    case "Strip":
      let content = try text("content", nil)
      let (start, stop) = (try count("start"), try count("stop"))
      if !isJoined {
        try addStep(.strip(content, start: start, stop: stop), path)
      } else if stop == 0, leading.count == 0 {
        leading = (content, start)
      } else {
        throw .unsupported(path: path, what: "stripping the end of the whole text")
      }
    case let type: throw .unsupported(path: path, what: "the decoder \(type ?? "without a type")")
    }
  }

  private mutating func addStep(_ step: TokenStep, _ path: String) throws(TokenizerError) {
    guard case .plain = joining, !isJoined else {
      throw .unsupported(path: path, what: "a step per token after the tokens are joined")
    }
    switch step {
    case .replace(let old, let new): try growth.add(TextGrowth.of(old, new))
    case .wordPiece: try growth.add(2)
    case .metaspace(let mark, _): try growth.add(TextGrowth.of(mark, [0x20]))
    case .suffix(let suffix): try growth.add(TextGrowth.of(suffix, [0x20]))
    case .strip: try growth.add(1)
    }
    steps.append(step)
  }

  private mutating func join(_ joining: Joining, _ path: String) throws(TokenizerError) {
    guard case .plain = self.joining, !isJoined else {
      throw .unsupported(path: path, what: "joining the tokens twice")
    }
    self.joining = joining
    if case .byteLevel = joining { isJoined = true }
  }

  /// A spelling after all steps.
  func apply(_ spelling: [UInt8], isFirst: Bool, isLast: Bool) -> [UInt8] {
    var text = spelling
    for step in steps {
      switch step {
      case .replace(let old, let new): text = Self.replacing(text, old, with: new)
      case .metaspace(let mark, let dropsFirst):
        text = Self.replacing(text, mark, with: isFirst && dropsFirst ? [] : [0x20])
      case .wordPiece(let prefix, let cleansUp):
        if !isFirst {
          text = !prefix.isEmpty && text.starts(with: prefix) ? Array(text[prefix.count...]) : [0x20] + text
        }
        if cleansUp { text = Self.cleanedUp(text) }
      case .suffix(let suffix): text = Self.replacing(text, suffix, with: isLast ? [] : [0x20])
      case .strip(let content, let start, let stop): text = Self.stripped(text, content, start, stop)
      }
    }
    if !separator.isEmpty, !isFirst { text = separator + text }
    return text
  }

  private static func replacing(_ text: [UInt8], _ old: [UInt8], with new: [UInt8]) -> [UInt8] {
    guard let first = old.first, text.contains(first) else { return text }
    var out: [UInt8] = []
    TextPattern.literal(old).forEachPart(text, 0..<text.count) { part, isMatch in
      out.append(contentsOf: isMatch ? new[...] : text[part])
    }
    return out
  }

  private static func stripped(_ text: [UInt8], _ content: [UInt8], _ start: Int, _ stop: Int) -> [UInt8] {
    guard !content.isEmpty else { return text }
    var rest = text[...]
    var left = start
    while left > 0, rest.starts(with: content) {
      rest = rest.dropFirst(content.count)
      left -= 1
    }
    left = stop
    while left > 0, rest.suffix(content.count).elementsEqual(content) {
      rest = rest.dropLast(content.count)
      left -= 1
    }
    return Array(rest)
  }

  /// English spacing as the reference repairs it, in its order.
  private static let repairs: [([UInt8], [UInt8])] = [
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
    (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
  ].map { (Array($0.0.utf8), Array($0.1.utf8)) }

  private static func cleanedUp(_ text: [UInt8]) -> [UInt8] {
    repairs.reduce(text) { replacing($0, $1.0, with: $1.1) }
  }
}
