// The post-processor: special tokens around a text, such as BOS, or CLS and SEP.

import JSON

/// What stands before and after the tokens of a single text.
struct PostProcessor: Sendable {
  var before: [Int32] = []
  var after: [Int32] = []

  /// - Throws: when the type is unknown or a template does not hold the text exactly once.
  init(_ description: JSONValue, path: String) throws(TokenizerError) {
    switch description["type"]?.stringValue {
    case nil where description.isNull: break
    case "ByteLevel": break
    case "BertProcessing", "RobertaProcessing":
      before = [try Self.pairID(description, "cls", path)]
      after = [try Self.pairID(description, "sep", path)]
    case "TemplateProcessing": try readTemplate(description, path)
    case "Sequence":
      for (index, part) in (description["processors"]?.arrayValue ?? []).enumerated() {
        let inner = try PostProcessor(part, path: "\(path).processors[\(index)]")
        before = inner.before + before
        after += inner.after
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
    var sawText = false
    for (index, part) in (description["single"]?.arrayValue ?? []).enumerated() {
      if part["Sequence"] != nil {
        guard !sawText else {
          throw .unsupported(path: "\(path).single", what: "a template with the text twice")
        }
        sawText = true
        continue
      }
      guard let name = part["SpecialToken"]?["id"]?.stringValue,
        let ids = description["special_tokens"]?[name]?["ids"]?.arrayValue
      else {
        throw .field(
          path: "\(path).single[\(index)]", problem: "is neither the text nor a listed special token")
      }
      for id in ids {
        let id = try tokenID(id, path: "\(path).special_tokens.\(name).ids")
        if sawText { after.append(id) } else { before.append(id) }
      }
    }
    guard sawText else {
      throw .field(path: "\(path).single", problem: "the template does not contain the text")
    }
  }
}

/// A token id of the file.
func tokenID(_ value: JSONValue?, path: String) throws(TokenizerError) -> Int32 {
  guard let id = value?.intValue, (0...Vocabulary.largestID).contains(id) else {
    throw .field(path: path, problem: "is not a token id from 0 to \(Vocabulary.largestID)")
  }
  return Int32(truncatingIfNeeded: id)
}
