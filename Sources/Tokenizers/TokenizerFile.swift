// Reads tokenizer.json: the small parts as JSON values, vocabulary and merges straight into their tables.

import JSON

/// A tokenizer.json, its large parts not read yet.
struct TokenizerFile {
  private(set) var normalizer = JSONValue.null
  private(set) var preTokenizer = JSONValue.null
  private(set) var postProcessor = JSONValue.null
  private(set) var decoder = JSONValue.null
  private var addedEntries: [JSONValue] = []
  /// The model's members other than vocabulary and merges.
  private var options = JSONValue.null
  private let reader: JSONReader
  private var vocabularyPosition: Int?
  private var mergesPosition: Int?

  init(_ bytes: [UInt8]) throws(TokenizerError) {
    do throws(JSONError) {
      var reader = try JSONReader(bytes)
      self.reader = reader
      var key: [UInt8] = []
      try reader.enterObject()
      while try reader.nextKey(into: &key) {
        switch String(decoding: key, as: UTF8.self) {
        case "normalizer": normalizer = try reader.readValue()
        case "pre_tokenizer": preTokenizer = try reader.readValue()
        case "post_processor": postProcessor = try reader.readValue()
        case "decoder": decoder = try reader.readValue()
        case "added_tokens": addedEntries = try reader.readValue().arrayValue ?? []
        case "model": try readModel(&reader)
        default: _ = try reader.readValue()
        }
      }
      try reader.finish()
    } catch {
      throw .json(error)
    }
  }

  private mutating func readModel(_ reader: inout JSONReader) throws(JSONError) {
    var members = JSONObject()
    var key: [UInt8] = []
    try reader.enterObject()
    while try reader.nextKey(into: &key) {
      switch String(decoding: key, as: UTF8.self) {
      case "vocab":
        vocabularyPosition = reader.position
        try reader.skipValue()
      case "merges":
        mergesPosition = reader.position
        try reader.skipValue()
      case let name: members[name] = try reader.readValue()
      }
    }
    options = .object(members)
  }

  // MARK: Model

  /// The model's type; old files do not name it.
  var modelType: String? {
    if let type = options["type"]?.stringValue { return type }
    if mergesPosition != nil { return "BPE" }
    if options["unk_id"] != nil { return "Unigram" }
    if options["max_input_chars_per_word"] != nil { return "WordPiece" }
    return options["unk_token"] != nil ? "WordLevel" : nil
  }

  /// - Parameter isByteLevel: whether a BPE model gets raw bytes for the byte-level alphabet.
  func model(isByteLevel: Bool) throws(TokenizerError) -> TokenizerModel {
    switch modelType {
    case "BPE": return .bpe(try bpe(isByteLevel))
    case "WordPiece": return .wordPiece(try wordPiece())
    case "Unigram": return .unigram(try unigram())
    case "WordLevel":
      let vocabulary = try vocabulary()
      return .wordLevel(vocabulary, unknown: try unknownToken(vocabulary))
    case let type: throw .unsupported(path: "model.type", what: "the model \(type ?? "without a type")")
    }
  }

  private func wordPiece() throws(TokenizerError) -> WordPiece {
    let vocabulary = try vocabulary()
    guard let unknown = try unknownToken(vocabulary) else {
      throw .field(path: "model.unk_token", problem: "is missing")
    }
    let prefix = options["continuing_subword_prefix"]?.stringValue ?? "##"
    let longest = options["max_input_chars_per_word"]?.intValue ?? 100
    return WordPiece(
      vocabulary: vocabulary, unknown: unknown, continuingPrefix: Array(prefix.utf8),
      longestWord: min(max(0, longest), 1000))
  }

  private func unigram() throws(TokenizerError) -> Unigram {
    var part = try largePart(vocabularyPosition, "model.vocab")
    var vocabulary = Vocabulary()
    var scores: [Double] = []
    do throws(JSONError) {
      var spelling: [UInt8] = []
      try part.enterArray()
      while try part.nextElement() {
        try part.enterArray()
        guard try part.nextElement() else { throw part.problem("expected a token") }
        try part.readString(into: &spelling)
        guard try part.nextElement(), let score = try part.readValue().doubleValue, try !part.nextElement()
        else {
          throw part.problem("expected a score")
        }
        vocabulary.append(spelling, id: Int32(truncatingIfNeeded: scores.count))
        scores.append(score)
      }
    } catch {
      throw .json(error)
    }
    try vocabulary.finish(path: "model.vocab")
    guard vocabulary.longest <= Unigram.longestToken else {
      throw .unsupported(path: "model.vocab", what: "a token of \(vocabulary.longest) bytes")
    }
    var unknown: Int32?
    if let id = options["unk_id"], !id.isNull {
      unknown = try tokenID(id, path: "model.unk_id")
      guard vocabulary.spelling(of: unknown ?? -1) != nil else {
        throw .field(path: "model.unk_id", problem: "is not a token of the vocabulary")
      }
    }
    return Unigram(
      vocabulary: vocabulary, scores: scores, unknown: unknown, fallsBackToBytes: try flag("byte_fallback"))
  }

  private func bpe(_ isByteLevel: Bool) throws(TokenizerError) -> BPE {
    let vocabulary = try vocabulary()
    var settings = BPE.Options()
    settings.isByteLevel = isByteLevel
    // The reference asks for the unknown token only when it needs it; byte-level models never do.
    settings.unknown = options["unk_token"]?.stringValue.flatMap { vocabulary.id(of: $0) }
    settings.fallsBackToBytes = try flag("byte_fallback")
    settings.fusesUnknown = try flag("fuse_unk")
    settings.ignoresMerges = try flag("ignore_merges")
    settings.continuingPrefix = Array((options["continuing_subword_prefix"]?.stringValue ?? "").utf8)
    settings.endSuffix = Array((options["end_of_word_suffix"]?.stringValue ?? "").utf8)
    if let dropout = options["dropout"]?.doubleValue, dropout > 0 {
      throw .unsupported(path: "model.dropout", what: "random merging")
    }
    let part = try largePart(mergesPosition, "model.merges")
    let merges = try MergeReader(part, vocabulary, settings)
    return BPE(
      vocabulary: vocabulary, merges: merges.table, options: settings, mayCutAtSpaces: merges.allJoinSpellings
    )
  }

  private func largePart(_ position: Int?, _ path: String) throws(TokenizerError) -> JSONReader {
    guard let position else { throw .field(path: path, problem: "is missing") }
    var part = reader
    part.move(to: position)
    return part
  }

  /// `{"token": id, …}`.
  private func vocabulary() throws(TokenizerError) -> Vocabulary {
    var part = try largePart(vocabularyPosition, "model.vocab")
    var vocabulary = Vocabulary()
    do throws(JSONError) {
      var spelling: [UInt8] = []
      try part.enterObject()
      while try part.nextKey(into: &spelling) {
        let id = try part.readInt()
        guard (0...Vocabulary.largestID).contains(id) else {
          throw part.problem("the id \(id) is out of range")
        }
        vocabulary.append(spelling, id: Int32(truncatingIfNeeded: id))
      }
    } catch {
      throw .json(error)
    }
    try vocabulary.finish(path: "model.vocab")
    return vocabulary
  }

  private func unknownToken(_ vocabulary: Vocabulary) throws(TokenizerError) -> Int32? {
    guard let spelling = options["unk_token"], !spelling.isNull else { return nil }
    guard let text = spelling.stringValue, let id = vocabulary.id(of: text) else {
      throw .field(path: "model.unk_token", problem: "is not a token of the vocabulary")
    }
    return id
  }

  private func flag(_ name: String) throws(TokenizerError) -> Bool {
    guard let value = options[name], !value.isNull else { return false }
    guard let flag = value.boolValue else {
      throw .field(path: "model.\(name)", problem: "is \(value.kind), not a boolean")
    }
    return flag
  }

  // MARK: Added tokens

  /// The entries of `added_tokens`; empty contents are left out, as in the reference.
  func addedTokens(vocabulary: Vocabulary) throws(TokenizerError) -> [AddedToken] {
    var tokens: [AddedToken] = []
    for (index, entry) in addedEntries.enumerated() {
      let path = "added_tokens[\(index)]"
      guard let content = entry["content"]?.stringValue else {
        throw .field(path: "\(path).content", problem: "is not a string")
      }
      guard content.utf8.count <= AddedToken.longestContent else {
        throw .unsupported(path: "\(path).content", what: "a token of \(content.utf8.count) bytes")
      }
      let id = try tokenID(entry["id"], path: "\(path).id")
      guard Int(id) <= 65536 + 16 * (vocabulary.count + addedEntries.count) else {
        throw .field(path: "\(path).id", problem: "is far beyond the vocabulary")
      }
      let isSpecial = entry["special"]?.boolValue ?? false
      guard !content.isEmpty else { continue }
      tokens.append(
        AddedToken(
          id: id, content: Array(content.utf8), isSingleWord: entry["single_word"]?.boolValue ?? false,
          stripsLeft: entry["lstrip"]?.boolValue ?? false, stripsRight: entry["rstrip"]?.boolValue ?? false,
          isNormalized: entry["normalized"]?.boolValue ?? !isSpecial, isSpecial: isSpecial))
    }
    return tokens
  }
}
