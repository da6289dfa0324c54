// Two texts as the tokens of one, for models that say how well a document fits a query.
//
// An encoder reads `[CLS] query [SEP] document [SEP]`. A decoder is asked in its chat format whether the document
// fits, and answers with one of two words; neither text can spell a special token there, which would end the turn.

import Chat
import Checkpoint
import Inference
import JSON
import Platform
import Tokenizers

/// How pairs are cut that are too long, and what is asked about them.
package struct PairOptions: Sendable {
  /// Which end of both texts goes, the longer one's first; nil refuses pairs that are too long.
  package var truncation: Embedder.Truncation?
  /// Most tokens of a pair; nil and larger numbers are the model's limit.
  package var maxTokens: Int?
  /// Most tokens of a document, which loses its end.
  package var maxDocumentTokens: Int?
  /// What a decoder is to judge by; nil for its usual instruction.
  package var instruction: String?

  package init() {}
}

/// The turn in which a decoder is asked about a document.
struct JudgePrompt: Sendable {
  let before: [Int32]
  let after: [Int32]
  /// Texts from outside, without special tokens.
  private let encoder: PromptEncoder

  private static let system =
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    + #"Note that the answer can only be "yes" or "no"."#
  private static let task = "Given a web search query, retrieve relevant passages that answer the query"

  init(_ tokenizer: Tokenizer) {
    encoder = PromptEncoder(tokenizer: tokenizer)
    let opening = "<|im_start|>system\n\(Self.system)<|im_end|>\n<|im_start|>user\n"
    let closing = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    before = tokenizer.encode(opening, addSpecialTokens: false)
    after = tokenizer.encode(closing, addSpecialTokens: false)
  }

  /// The words between which the decoder chooses; nil for folders that are asked nothing.
  static func answers(of folder: ModelFolder, _ tokenizer: Tokenizer) -> (yes: Int32, no: Int32)? {
    guard folder.task == .rerank, folder.config["model_type"]?.stringValue == "qwen3",
      let yes = tokenizer.id(of: "yes"), let no = tokenizer.id(of: "no")
    else { return nil }
    return (yes, no)
  }

  /// What stands before a document.
  func head(_ query: String, _ instruction: String?) -> String {
    "<Instruct>: \(instruction ?? Self.task)\n<Query>: \(query)\n<Document>:"
  }

  func tokens(_ text: String) -> [Int32] { encoder.tokens(ofForeign: text) }
}

/// Finds the tokens of pairs. Usable from any thread.
struct PairReader: Sendable {
  let judge: JudgePrompt?
  private let tokenizer: Tokenizer
  private let lowercases: Bool

  init(_ tokenizer: Tokenizer, judge: JudgePrompt?, lowercases: Bool) {
    (self.tokenizer, self.judge, self.lowercases) = (tokenizer, judge, lowercases)
  }

  /// A query that documents are read with.
  struct Query {
    /// Of the query alone, or of all that stands before a document, without special tokens.
    let tokens: [Int32]
    fileprivate let head: String
  }

  func query(_ text: String, _ instruction: String?) -> Query {
    guard let judge else { return Query(tokens: plain(text), head: "") }
    let head = judge.head(text, instruction)
    return Query(tokens: judge.tokens(head), head: head)
  }

  private func plain(_ text: String) -> [Int32] {
    tokenizer.encode(lowercases ? text.lowercased() : text, addSpecialTokens: false)
  }

  /// A pair as the model reads it.
  ///
  /// - Parameter limit: most tokens.
  /// - Returns: nil where it has more and may not be cut, or has no room for any text, and how many it has.
  func pair(
    _ query: Query, _ document: String, limit: Int, _ options: PairOptions
  ) -> (text: EmbeddingText?, tokens: Int, isCut: Bool) {
    guard let judge else { return encoded(query, plain(document), limit, options) }
    var body = judge.tokens(query.head + " " + document)
    // A token that the two texts share begins with the query.
    let start = zip(body, query.tokens).prefix { $0 == $1 }.count
    var isCut = false
    func cut(_ count: Int) {
      guard count < body.count else { return }
      body = Array(body.prefix(max(0, count)))
      isCut = true
    }
    if let most = options.maxDocumentTokens { cut(start + most) }
    let count = judge.before.count + body.count + judge.after.count
    let room = limit - judge.before.count - judge.after.count
    if count > limit {
      guard options.truncation != nil, room > 0 else { return (nil, count, isCut) }
      cut(room)
    }
    let second = judge.before.count + min(start, body.count)
    let tokens = judge.before + body + judge.after
    return (EmbeddingText(tokens: tokens, second: second, output: .labels), tokens.count, isCut)
  }

  private func encoded(
    _ query: Query, _ document: [Int32], _ limit: Int, _ options: PairOptions
  ) -> (text: EmbeddingText?, tokens: Int, isCut: Bool) {
    let frame = tokenizer.pairFrame
    var (first, second) = (query.tokens, document)
    var isCut = false
    if let most = options.maxDocumentTokens, second.count > most {
      second = Array(second.prefix(most))
      isCut = true
    }
    let count = frame.count + first.count + second.count
    let room = limit - frame.count
    if count > limit {
      guard let end = options.truncation, room > 0 else { return (nil, count, isCut) }
      let shares = Self.shares(of: room, first.count, second.count)
      first = Self.cut(first, to: shares.0, end)
      second = Self.cut(second, to: shares.1, end)
      isCut = true
    }
    let start = frame.before.count + first.count + frame.between.count
    let tokens = frame.before + first + frame.between + second + frame.after
    return (
      EmbeddingText(tokens: tokens, second: frame.hasTypes ? start : nil, output: .labels), tokens.count,
      isCut
    )
  }

  private static func cut(_ tokens: [Int32], to count: Int, _ end: Embedder.Truncation) -> [Int32] {
    Array(end == .right ? tokens.prefix(count) : tokens.suffix(count))
  }

  /// Tokens of two texts that must share a room: the longer one gives first, and half of it is safe for either.
  static func shares(of room: Int, _ first: Int, _ second: Int) -> (Int, Int) {
    let half = room / 2
    if min(first, second) <= half {
      return first < second ? (first, room - first) : (room - second, second)
    }
    return first <= second ? (half, room - half) : (room - half, half)
  }
}

extension Embedder {
  /// Whether two texts make one score.
  package var scoresPairs: Bool { service.limits.labels == 1 }
  /// Whether an instruction says what to judge by.
  package var takesInstruction: Bool { pairs.judge != nil }

  /// Tokens of documents beside the query that each has, checked.
  ///
  /// - Parameters:
  ///   - queries: one for all documents, or one for each.
  /// - Throws: `tooLong` for a pair that may not be cut, by the index of its document.
  package func preparePairs(
    _ queries: [String], _ documents: [String], _ options: PairOptions = PairOptions()
  ) throws(EmbeddingError) -> Prepared {
    let limit = min(max(1, options.maxTokens ?? maxTokens), maxTokens)
    var prepared = Prepared()
    var last: (text: String, query: PairReader.Query)?
    for (index, document) in documents.enumerated() {
      let text = queries.count == 1 ? queries[0] : queries[index]
      if last.map({ !$0.text.utf8.elementsEqual(text.utf8) }) ?? true {
        last = (text, pairs.query(text, options.instruction))
      }
      guard let query = last?.query else { continue }
      let pair = pairs.pair(query, document, limit: limit, options)
      guard let text = pair.text else {
        let alone = pairs.pair(query, "", limit: .max, PairOptions()).tokens
        throw .tooLong(index: alone >= limit ? -1 : index, tokens: max(alone, pair.tokens), limit: limit)
      }
      guard !text.tokens.isEmpty else { throw .empty(index: index) }
      if pair.isCut { prepared.truncated.append(index) }
      prepared.texts.append(text)
    }
    return prepared
  }

  /// From 0 to 1, of one label's logit.
  package static func sigmoid(_ logit: Float) -> Float {
    Float(1 / (1 + exp(-Double(logit))))
  }

  /// Shares of all labels; their sum is 1.
  package static func softmax(_ logits: [Float]) -> [Float] {
    let largest = logits.max() ?? 0
    let powers = logits.map { exp(Double($0) - Double(largest)) }
    let sum = powers.reduce(0, +)
    return powers.map { Float($0 / sum) }
  }
}
