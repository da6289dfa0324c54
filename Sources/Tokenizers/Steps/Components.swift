// The normalizer and pre-tokenizer descriptions of tokenizer.json as lists of steps.

import JSON

extension Normalizer {
  /// The steps of a normalizer, sequences flattened.
  static func list(_ description: JSONValue, path: String) throws(TokenizerError) -> [Normalizer] {
    if description.isNull { return [] }
    let type = description["type"]?.stringValue
    guard type == "Sequence" else { return [try one(description, type, path)] }
    var steps: [Normalizer] = []
    for (index, part) in (description["normalizers"]?.arrayValue ?? []).enumerated() {
      steps += try list(part, path: "\(path).normalizers[\(index)]")
    }
    return steps
  }

  private static func one(
    _ description: JSONValue, _ type: String?, _ path: String
  ) throws(TokenizerError) -> Normalizer {
    func flag(_ name: String, _ fallback: Bool) -> Bool { description[name]?.boolValue ?? fallback }
    switch type {
    case "NFC": return .unicode(.nfc)
    case "NFD": return .unicode(.nfd)
    case "NFKC": return .unicode(.nfkc)
    case "NFKD": return .unicode(.nfkd)
    case "Lowercase": return .lowercase
    case "StripAccents": return .stripAccents
    case "Strip": return .strip(left: flag("strip_left", true), right: flag("strip_right", true))
    case "Nmt": return .nmt
    case "ByteLevel": return .spellBytes
    case "Prepend": return .prepend(try description.text("prepend", path))
    case "Replace":
      return .replace(
        try TextPattern(description["pattern"], path: "\(path).pattern"),
        content: try description.text("content", path))
    case "BertNormalizer":
      let lowercases = flag("lowercase", true)
      return .bert(
        cleansText: flag("clean_text", true), spacesIdeographs: flag("handle_chinese_chars", true),
        stripsAccents: flag("strip_accents", lowercases), lowercases: lowercases)
    case "Precompiled":
      guard let text = description["precompiled_charsmap"]?.stringValue,
        let map = PrecompiledMap(base64: text)
      else {
        throw .field(path: "\(path).precompiled_charsmap", problem: "is not a compiled character map")
      }
      return .precompiled(map)
    default: throw .unsupported(path: path, what: "the normalizer \(type ?? "without a type")")
    }
  }
}

extension PreTokenizer {
  /// The steps of a pre-tokenizer, sequences flattened.
  static func list(_ description: JSONValue, path: String) throws(TokenizerError) -> [PreTokenizer] {
    if description.isNull { return [] }
    let type = description["type"]?.stringValue
    guard type == "Sequence" else { return try steps(description, type, path) }
    var steps: [PreTokenizer] = []
    for (index, part) in (description["pretokenizers"]?.arrayValue ?? []).enumerated() {
      steps += try list(part, path: "\(path).pretokenizers[\(index)]")
    }
    return steps
  }

  private static func steps(
    _ description: JSONValue, _ type: String?, _ path: String
  ) throws(TokenizerError) -> [PreTokenizer] {
    func flag(_ name: String, _ fallback: Bool) -> Bool { description[name]?.boolValue ?? fallback }
    switch type {
    case "Split":
      return [
        .split(
          try TextPattern(description["pattern"], path: "\(path).pattern"),
          try behavior(description["behavior"], path), isInverted: flag("invert", false))
      ]
    case "ByteLevel":
      let words = PreTokenizer.split(
        .words(WordScanner(style: .gpt2, digits: 1)), .isolated, isInverted: false)
      return (flag("add_prefix_space", true) ? [.prefixSpace] : []) + (flag("use_regex", true) ? [words] : [])
        + [.spellBytes]
    case "Metaspace":
      let scheme =
        description["prepend_scheme"]?.stringValue ?? (flag("add_prefix_space", true) ? "always" : "never")
      guard let scheme = PrependScheme(rawValue: scheme) else {
        throw .field(path: "\(path).prepend_scheme", problem: "is neither always, first nor never")
      }
      let replacement = description["replacement"]?.stringValue ?? "\u{2581}"
      return [.metaspace(replacement: Array(replacement.utf8), scheme, splits: flag("split", true))]
    case "Digits": return [.digits(individually: flag("individual_digits", false))]
    case "WhitespaceSplit": return [.whitespaceSplit]
    case "Whitespace": return [.wordsAndSymbols]
    case "Punctuation": return [.punctuation(try behavior(description["behavior"] ?? "Isolated", path))]
    case "BertPreTokenizer": return [.bert]
    case "CharDelimiterSplit":
      return [.split(.literal(try description.text("delimiter", path)), .removed, isInverted: false)]
    default: throw .unsupported(path: path, what: "the pre-tokenizer \(type ?? "without a type")")
    }
  }

  private static func behavior(_ value: JSONValue?, _ path: String) throws(TokenizerError) -> Behavior {
    guard let behavior = value?.stringValue.flatMap(Behavior.init(rawValue:)) else {
      throw .field(path: "\(path).behavior", problem: "is not a split behavior")
    }
    return behavior
  }
}

extension TextPattern {
  /// `{"String": …}` or `{"Regex": …}`.
  init(_ description: JSONValue?, path: String) throws(TokenizerError) {
    if let text = description?["String"]?.stringValue {
      self = .literal(Array(text.utf8))
    } else if let regex = description?["Regex"]?.stringValue {
      do throws(RegexProblem) {
        self = try TextPattern(regex: regex)
      } catch {
        throw .unsupported(path: "\(path).Regex", what: "the regular expression '\(regex)' (\(error.words))")
      }
    } else {
      throw .field(path: path, problem: "is neither a String nor a Regex")
    }
  }
}

extension JSONValue {
  /// A required string member as UTF-8.
  fileprivate func text(_ name: String, _ path: String) throws(TokenizerError) -> [UInt8] {
    guard let text = self[name]?.stringValue else {
      throw .field(path: "\(path).\(name)", problem: "is not a string")
    }
    return Array(text.utf8)
  }
}
