// How much longer the steps of a file can make a text: their factors multiply, so the file's author could choose any.

/// The steps of one kind, in the order in which they work.
struct TextGrowth {
  /// Known tokenizers have about ten.
  private static let mostSteps = 100
  /// Known tokenizers reach 132: a compiled map, then a space that becomes a symbol.
  private static let mostBytes = 256

  private let path: String
  private var steps = 0
  private var bytes = 1

  /// - Parameter path: what the steps are called in errors.
  init(path: String) { self.path = path }

  /// Counts a step that makes at most `growth` bytes of one.
  ///
  /// - Throws: where all of them together are too many, or can make too much of a text.
  mutating func add(_ growth: Int) throws(TokenizerError) {
    steps += 1
    guard steps <= Self.mostSteps else {
      throw .unsupported(path: path, what: "a chain of more than \(Self.mostSteps) steps")
    }
    let (product, overflow) = bytes.multipliedReportingOverflow(by: max(1, growth))
    guard !overflow, product <= Self.mostBytes else {
      throw .unsupported(
        path: path, what: "a chain of steps that can make a text more than \(Self.mostBytes) times as long")
    }
    bytes = product
  }

  /// Bytes that a replacement makes of one byte of what it replaces, rounded up.
  static func of(_ old: [UInt8], _ new: [UInt8]) -> Int {
    old.isEmpty ? 1 : (new.count + old.count - 1) / old.count
  }
}

extension Normalizer {
  /// Most bytes of text that the step makes of one, as far as steps multiply: what Unicode's forms and cases add comes
  /// once, however often they follow each other.
  var growth: Int {
    switch self {
    case .unicode, .lowercase, .stripAccents, .strip, .nmt: 1
    case .replace(.literal(let old), let content): TextGrowth.of(old, content)
    case .replace(_, let content): content.count
    // Before each text between added tokens, of a byte or more.
    case .prepend(let prefix): 1 + prefix.count
    case .bert, .spellBytes: 2
    case .precompiled(let map): map.longestReplacement
    }
  }
}

extension PreTokenizer {
  /// Most bytes of text that the step makes of one.
  var growth: Int {
    switch self {
    case .split, .digits, .whitespaceSplit, .wordsAndSymbols, .punctuation, .bert: 1
    case .prefixSpace, .spellBytes: 2
    case .metaspace(let replacement, _, _): 1 + replacement.count
    }
  }
}
