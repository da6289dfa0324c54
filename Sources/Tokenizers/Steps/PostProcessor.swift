// The post-processor: special tokens around a text, such as BOS, or CLS and SEP.

import JSON

/// The special tokens around two texts that are read together.
package struct PairFrame: Sendable, Equatable {
  package var before: [Int32] = []
  package var between: [Int32] = []
  package var after: [Int32] = []
  /// Whether the second text and what follows it are tokens of type 1.
  package var hasTypes = false

  /// Of all three places.
  package var count: Int { before.count + between.count + after.count }
}

/// What stands before and after the tokens of a single text, and around those of two.
struct PostProcessor: Sendable {
  var before: [Int32] = []
  var after: [Int32] = []
  var pair = PairFrame()

  /// - Throws: when the type is unknown or a template does not hold the text exactly once.
  init(_ description: JSONValue, path: String) throws(TokenizerError) {
    switch description["type"]?.stringValue {
    case nil where description.isNull: break
    case "ByteLevel": break
    case let type? where type == "BertProcessing" || type == "RobertaProcessing":
      before = [try Self.pairID(description, "cls", path)]
      after = [try Self.pairID(description, "sep", path)]
      let isBert = type == "BertProcessing"
      pair = PairFrame(
        before: before, between: isBert ? after : after + after, after: after, hasTypes: isBert)
    case "TemplateProcessing": try readTemplate(description, path)
    case "Sequence":
      for (index, part) in (description["processors"]?.arrayValue ?? []).enumerated() {
        let inner = try PostProcessor(part, path: "\(path).processors[\(index)]")
        before = inner.before + before
        after += inner.after
        pair.before = inner.pair.before + pair.before
        pair.between += inner.pair.between
        pair.after += inner.pair.after
        pair.hasTypes = pair.hasTypes || inner.pair.hasTypes
      }
    case let type: throw .unsupported(path: path, what: "the post-processor \(type ?? "without a type")")
    }
  }

  /// The id of `["[CLS]", 101]`.
  private static func pairID(_ description: JSONValue, _ key: String, _ path: String) throws(TokenizerError)
    -> Int32
  {
    try tokenID(description[key]?[1], path: "\(path).\(key)[1]")
  }

  private mutating func readTemplate(_ description: JSONValue, _ path: String) throws(TokenizerError) {
    let single = try Self.parts(description, "single", path)
    guard single.count == 2 else {
      throw .unsupported(
        path: "\(path).single", what: "a template that does not contain the text exactly once")
    }
    (before, after) = (single[0].ids, single[1].ids)
    // Most models never see a pair, and their files need not be right about it.
    guard let double = try? Self.parts(description, "pair", path), double.count == 3 else { return }
    pair = PairFrame(
      before: double[0].ids, between: double[1].ids, after: double[2].ids, hasTypes: double[1].nextType == 1)
  }

  /// Special tokens before the first text, between texts, and after the last one.
  private static func parts(
    _ description: JSONValue, _ key: String, _ path: String
  ) throws(TokenizerError) -> [(ids: [Int32], nextType: Int)] {
    var parts: [(ids: [Int32], nextType: Int)] = [([], 0)]
    for (index, part) in (description[key]?.arrayValue ?? []).enumerated() {
      if let sequence = part["Sequence"] {
        parts[parts.count - 1].nextType = sequence["type_id"]?.intValue ?? 0
        parts.append(([], 0))
        continue
      }
      guard let name = part["SpecialToken"]?["id"]?.stringValue,
        let ids = description["special_tokens"]?[name]?["ids"]?.arrayValue
      else {
        throw .field(
          path: "\(path).\(key)[\(index)]", problem: "is neither the text nor a listed special token")
      }
      for id in ids {
        parts[parts.count - 1].ids.append(
          try tokenID(id, path: "\(path).special_tokens.\(name).ids"))
      }
    }
    return parts
  }
}

/// A token id of the file.
func tokenID(_ value: JSONValue?, path: String) throws(TokenizerError) -> Int32 {
  guard let id = value?.intValue, (0...Vocabulary.largestID).contains(id) else {
    throw .field(path: path, problem: "is not a token id from 0 to \(Vocabulary.largestID)")
  }
  return Int32(truncatingIfNeeded: id)
}
