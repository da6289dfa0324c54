// A decoder that encodes: Qwen3-Embedding and Qwen3-Reranker, whose tokens see those before them, and EmbeddingGemma,
// whose tokens see all of their text.
//
// Documents that are judged for one query begin with the same tokens. Keys and values of that beginning are computed
// once, in blocks that its texts share, and stay for the next step.

import Compute

/// Runs a decoder's layers over whole texts. Engine thread only.
final class DecoderEncoder: TextEncoder {
  /// The beginning of texts that are scored, in whole blocks.
  private struct Beginning {
    let tokens: ArraySlice<Int32>
    let blocks: [Int32]
  }

  private let decoder: Decoder
  private let isBidirectional: Bool
  private var cache: KVCache?
  /// What the last step has left in the cache.
  private var beginnings: [Beginning] = []
  private(set) var classifier: ClassifierHead?
  private(set) var reusedTokens = 0

  /// - Parameters:
  ///   - isBidirectional: whether a token sees those after it too.
  ///   - classifier: what scores the last token's state.
  init(_ decoder: Decoder, isBidirectional: Bool = false, classifier: ClassifierHead? = nil) {
    (self.decoder, self.isBidirectional, self.classifier) = (decoder, isBidirectional, classifier)
  }

  /// Scores texts by the answer that the decoder would give, unless the checkpoint has a classifier.
  func judge(_ answers: AnswerTokens) throws(ModelError) {
    if classifier == nil { classifier = try .judge(decoder, answers) }
  }

  var hidden: Int { decoder.hidden }
  var vocabularySize: Int { decoder.vocabularySize }
  var maxTokens: Int { decoder.contextLength }
  var tableBytes: Int { decoder.embeddingBytes }

  var workBytesPerToken: Int {
    let keys = (try? KVCache.bytesPerToken(decoder.cacheShape.keysValues, format: .f32)) ?? 0
    return keys + decoder.bufferBytesPerToken
  }

  func rows(of text: EncoderText) -> Int { text.output == .labels ? 1 : text.tokens.count }

  func forward(_ texts: [EncoderText]) throws(ModelError) -> Rows {
    // As if none shared a block: the cache need not be made again when it turns out that none does.
    let needed = texts.reduce(0) { $0 + KVCache.blocks(forTokens: $1.tokens.count) }
    let cache = try room(for: needed + beginnings.reduce(0) { $0 + $1.blocks.count })
    let starts = texts.map { $0.tokens[..<sharedTokens($0)] }
    beginnings.removeAll { !starts.contains($0.tokens) }
    let taken = Set(beginnings.flatMap(\.blocks))
    var free = (0..<Int32(clamping: cache.blockCount)).reversed().filter { !taken.contains($0) }
    func take(_ count: Int) -> [Int32] {
      defer { free.removeLast(min(count, free.count)) }
      return free.suffix(count).reversed()
    }
    computeMissing(starts, cache, take)
    let spans = zip(texts, starts).map { text, start in
      let shared = beginnings.first { $0.tokens == start }?.blocks ?? []
      let own = KVCache.blocks(forTokens: text.tokens.count) - shared.count
      var span = Batch.Span(
        tokens: Array(text.tokens[start.count...]), start: start.count, blocks: shared + take(own),
        ropeVariant: decoder.ropeVariant(forTokens: text.tokens.count),
        logits: text.output == .labels ? .last : .all)
      if isBidirectional { span.groups = [0..<text.tokens.count] }
      return span
    }
    return decoder.states(Batch(spans: spans), cache: cache)
  }

  /// Tokens at the start of a text that others may share: in whole blocks, up to where the document begins.
  private func sharedTokens(_ text: EncoderText) -> Int {
    guard text.output == .labels, !isBidirectional, let second = text.second else { return 0 }
    let size = KVCache.blockTokens
    let count = min(second, text.tokens.count - 1) / size * size
    let variants = [count, text.tokens.count].map { decoder.ropeVariant(forTokens: $0) }
    return variants[0] == variants[1] ? count : 0
  }

  /// Keys and values of the beginnings that no earlier step has left.
  private func computeMissing(
    _ starts: [ArraySlice<Int32>], _ cache: KVCache, _ take: (Int) -> [Int32]
  ) {
    var spans: [Batch.Span] = []
    for start in starts where !start.isEmpty {
      guard !beginnings.contains(where: { $0.tokens == start }) else {
        reusedTokens += start.count
        continue
      }
      let blocks = take(KVCache.blocks(forTokens: start.count))
      beginnings.append(Beginning(tokens: start, blocks: blocks))
      spans.append(
        Batch.Span(
          tokens: Array(start), start: 0, blocks: blocks,
          ropeVariant: decoder.ropeVariant(forTokens: start.count), logits: .none))
    }
    if !spans.isEmpty { _ = decoder.states(Batch(spans: spans), cache: cache) }
  }

  /// Keys and values of one step; of earlier ones, the beginnings alone outlive it.
  private func room(for blocks: Int) throws(ModelError) -> KVCache {
    if let cache, cache.blockCount >= blocks { return cache }
    cache = nil
    beginnings = []
    let fresh = try computing(
      try KVCache(
        shape: decoder.cacheShape.keysValues, blockCount: max(blocks, 32), format: decoder.cacheFormat))
    cache = fresh
    return fresh
  }
}
