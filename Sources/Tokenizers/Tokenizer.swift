// The tokenizer of a model: text to token ids and back, exactly as the reference library reads tokenizer.json.

/// Immutable and therefore usable from any thread.
package final class Tokenizer: Sendable {
  private let rawTokens: AddedTokenSearch
  private let normalizedTokens: AddedTokenSearch
  private let normalizers: [Normalizer]
  private let preTokenizers: [PreTokenizer]
  private let model: TokenizerModel
  private let postProcessor: PostProcessor
  let decoder: Decoder
  private let addedByID: [Int32: AddedToken]
  private let addedBySpelling: [[UInt8]: Int32]

  /// 1 + the largest id.
  package let vocabularySize: Int

  /// - Parameter bytes: a `tokenizer.json`.
  /// - Throws: `TokenizerError` naming the field that is malformed or not supported.
  package init(tokenizerJSON bytes: [UInt8]) throws(TokenizerError) {
    let file = try TokenizerFile(bytes)
    normalizers = try Normalizer.list(file.normalizer, path: "normalizer")
    var steps = try PreTokenizer.list(file.preTokenizer, path: "pre_tokenizer")
    var growth = TextGrowth(path: "normalizer, pre_tokenizer")
    for step in normalizers { try growth.add(step.growth) }
    for step in steps { try growth.add(step.growth) }
    // BPE does the last step, bytes to the byte-level alphabet, by a table of its own.
    var isByteLevel = false
    if file.modelType == "BPE", case .spellBytes? = steps.last {
      steps.removeLast()
      isByteLevel = true
    }
    preTokenizers = steps
    model = try file.model(isByteLevel: isByteLevel)
    postProcessor = try PostProcessor(file.postProcessor, path: "post_processor")
    decoder = try Decoder(file.decoder, path: "decoder")
    let added = try file.addedTokens(vocabulary: model.vocabulary)
    rawTokens = AddedTokenSearch(added.filter { !$0.isNormalized }.map { ($0, $0.content) })
    let normalizers = normalizers
    normalizedTokens = AddedTokenSearch(
      added.filter(\.isNormalized).map { ($0, Self.normalize($0.content, 0..<$0.content.count, normalizers)) }
    )
    addedByID = Dictionary(added.map { ($0.id, $0) }) { _, last in last }
    addedBySpelling = Dictionary(added.map { ($0.content, $0.id) }) { _, last in last }
    vocabularySize = added.reduce(model.vocabulary.idLimit) { max($0, Int($1.id) + 1) }
  }

  /// What stands for text that no token spells; nil where there is no such token.
  package var unknownToken: Int32? { model.unknown }

  // MARK: Encoding

  /// The token ids of a text.
  ///
  /// - Parameter addSpecialTokens: whether the post-processor adds its tokens (BOS, CLS and SEP). False for
  ///   rendered chat prompts, whose template writes them.
  /// - Complexity: linear in the text for every input, up to a logarithm of the number of distinct merges.
  package func encode(_ text: String, addSpecialTokens: Bool) -> [Int32] {
    let bytes = Array(text.utf8)
    var ids = addSpecialTokens ? postProcessor.before : []
    var workspace = MergeWorkspace()
    rawTokens.split(bytes, 0..<bytes.count) { part in
      switch part {
      case .token(let id): ids.append(id)
      case .text(let range): encodeSegment(bytes, range, &workspace, into: &ids)
      }
    }
    if addSpecialTokens { ids += postProcessor.after }
    return ids
  }

  /// The special tokens around a single text.
  package var textFrame: (before: [Int32], after: [Int32]) { (postProcessor.before, postProcessor.after) }

  /// The special tokens around two texts.
  package var pairFrame: PairFrame { postProcessor.pair }

  private static func normalize(_ bytes: [UInt8], _ range: Range<Int>, _ normalizers: [Normalizer]) -> [UInt8]
  {
    var text = bytes
    var range = range
    for normalizer in normalizers {
      guard let new = normalizer.apply(text, range) else { continue }
      text = new
      range = 0..<new.count
    }
    return range == 0..<text.count ? text : Array(text[range])
  }

  /// Text between added tokens: normalised, searched for normalised added tokens, then tokenised.
  private func encodeSegment(
    _ bytes: [UInt8], _ range: Range<Int>, _ workspace: inout MergeWorkspace, into ids: inout [Int32]
  ) {
    let text = Self.normalize(bytes, range, normalizers)
    normalizedTokens.split(text, 0..<text.count) { part in
      switch part {
      case .token(let id): ids.append(id)
      case .text(let part):
        let startsInput = range.lowerBound == 0 && part.lowerBound == 0
        var pieces = Pieces(bytes: text, ranges: [part], startInput: startsInput)
        for step in preTokenizers { step.apply(to: &pieces) }
        model.encode(pieces, &workspace, into: &ids)
      }
    }
  }

  // MARK: Decoding

  /// The text of complete token ids. Ids without a token are left out.
  package func decode(_ ids: [Int32], skipSpecialTokens: Bool) -> String {
    var detokenizer = Detokenizer(
      tokenizer: self, skipsSpecialTokens: skipSpecialTokens, holdsByteRuns: true)
    var text = ""
    for id in ids { text += detokenizer.push(id) }
    return text + detokenizer.finish()
  }

  /// A detokenizer for the tokens of one response.
  ///
  /// - Parameter isContinuation: the response goes on with a text before it, so its first token keeps the space
  ///   that some decoders strip from the start of a text.
  package func makeDetokenizer(skipSpecialTokens: Bool, isContinuation: Bool = false) -> Detokenizer {
    Detokenizer(
      tokenizer: self, skipsSpecialTokens: skipSpecialTokens, holdsByteRuns: false,
      isContinuation: isContinuation)
  }

  // MARK: Vocabulary

  /// The id of a token by its spelling in the vocabulary: `<|im_end|>`, `Ġthe`.
  package func id(of token: String) -> Int32? {
    let spelling = Array(token.utf8)
    return addedBySpelling[spelling] ?? model.vocabulary.id(of: spelling)
  }

  /// The vocabulary's own spelling of a token.
  package func token(of id: Int32) -> String? { spelling(of: id).map { String(decoding: $0, as: UTF8.self) } }

  func spelling(of id: Int32) -> [UInt8]? {
    addedByID[id]?.content ?? model.vocabulary.spelling(of: id).map(Array.init)
  }

  /// What the token contributes to text when it is not the first; may be part of a character.
  package func bytes(of id: Int32) -> [UInt8] {
    guard let spelling = spelling(of: id) else { return [] }
    let piece = decoder.apply(spelling, isFirst: false, isLast: false)
    switch decoder.joining {
    case .plain: return piece
    case .byteLevel: return ByteAlphabet.bytes(of: piece)
    case .byteFallback: return Detokenizer.fallbackByte(piece).map { [$0] } ?? piece
    }
  }

  /// Whether the token is an added token marked special.
  package func isSpecial(_ id: Int32) -> Bool { addedByID[id]?.isSpecial ?? false }

  /// Whether the token is found in text before anything else: special tokens and other added ones.
  package func isAdded(_ id: Int32) -> Bool { addedByID[id] != nil }

  /// Whether a text can be cut at `start` without a change of its tokens behind the cut: an added token begins there, or
  /// nothing.
  package func isBorder(_ text: [UInt8], at start: Int) -> Bool {
    start == text.count || rawTokens.matches(in: text, at: start)
  }
}
