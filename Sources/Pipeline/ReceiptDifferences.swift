// What differs between two receipts, in words: version, arithmetic, model, settings, prompt, answer.

import JSON

extension Receipt {
  /// What a member is called in a sentence.
  static func called(_ name: String) -> String {
    switch name {
    case "mlxserve": "version of mlxserve"
    case "cache": "type of the cache"
    case "model": "model's name"
    case "config": "config.json"
    case "template": "chat template"
    case "ended": "end"
    default: name
    }
  }

  /// One phrase for each difference, what decides an answer first; none where both are of the same answer.
  package func differences(from other: Receipt) -> [String] {
    let isComparable = hasTexts && other.hasTexts
    let (one, two) =
      isComparable ? (members, other.members) : (withoutTexts.members, other.withoutTexts.members)
    var names = one.keys
    names += two.keys.filter { one[$0] == nil }
    return names.flatMap { name -> [String] in
      guard !["receipt", "digest", "signature"].contains(name), one[name] != two[name] else { return [] }
      switch name {
      case "digests":
        return Self.members(one[name], two[name]) { name, _, _ in
          "the digest of the \(Self.called(name)) differs"
        }
      case "settings":
        return Self.members(one[name], two[name]) {
          "the setting \($0) is \(Self.text($1)) and \(Self.text($2))"
        }
      case "rules" where isComparable:
        return Self.members(one[name], two[name]) { name, _, _ in "the rule '\(name)' differs" }
      case "prompt", "answer": return [Self.tokens(one[name], two[name], of: name)]
      case "rules", "probabilities", "media": return ["the \(name) differ"]
      default: return ["the \(Self.called(name)) is \(Self.text(one[name])) and \(Self.text(two[name]))"]
      }
    }
  }

  private static func members(
    _ one: JSONValue?, _ two: JSONValue?, _ words: (String, JSONValue?, JSONValue?) -> String
  ) -> [String] {
    let (a, b) = (one?.objectValue ?? JSONObject(), two?.objectValue ?? JSONObject())
    return (a.keys + b.keys.filter { a[$0] == nil }).filter { a[$0] != b[$0] }.map { words($0, a[$0], b[$0]) }
  }

  private static func tokens(_ one: JSONValue?, _ two: JSONValue?, of name: String) -> String {
    guard let a = one?.arrayValue, let b = two?.arrayValue else { return "the \(name)s differ" }
    let index = zip(a, b).prefix { $0 == $1 }.map { _ in 0 }.count
    return "the \(name)s differ from token \(index + 1) on (\(a.count) and \(b.count) tokens)"
  }

  private static func text(_ value: JSONValue?) -> String {
    value.map { $0.stringValue ?? $0.text } ?? "not set"
  }
}

extension Receipt {
  /// Of the answer; none where the receipt does not tell them.
  package var tokens: [Int32] {
    (members["answer"]?.arrayValue ?? []).compactMap { $0.intValue.flatMap { Int32(exactly: $0) } }
  }
}
