// A decoder that encodes: Qwen3-Embedding and Qwen3-Reranker, whose tokens see those before them, and EmbeddingGemma,
// whose tokens see all of their text.

import Compute

/// Runs a decoder's layers over whole texts. Engine thread only.
final class DecoderEncoder: TextEncoder {
  private let decoder: Decoder
  private let isBidirectional: Bool
  private var cache: KVCache?
  let classifier: ClassifierHead?

  /// - Parameters:
  ///   - isBidirectional: whether a token sees those after it too.
  ///   - classifier: what scores the last token's state.
  init(_ decoder: Decoder, isBidirectional: Bool = false, classifier: ClassifierHead? = nil) {
    self.decoder = decoder
    self.isBidirectional = isBidirectional
    self.classifier = classifier
  }

  var hidden: Int { decoder.hidden }
  var vocabularySize: Int { decoder.vocabularySize }
  var maxTokens: Int { decoder.contextLength }
  var tableBytes: Int { decoder.embeddingBytes }

  var workBytesPerToken: Int {
    let keys = (try? KVCache.bytesPerToken(decoder.cacheShape.keysValues, format: .f32)) ?? 0
    return keys + decoder.bufferBytesPerToken
  }

  func forward(_ texts: [EncoderText]) throws(ModelError) -> Rows {
    let needed = texts.reduce(0) { $0 + KVCache.blocks(forTokens: $1.tokens.count) }
    let cache = try room(for: needed)
    var block: Int32 = 0
    let spans = texts.map { text in
      let blocks = Int32(clamping: KVCache.blocks(forTokens: text.tokens.count))
      var span = Batch.Span(
        tokens: text.tokens, start: 0, blocks: Array(block..<block + blocks),
        ropeVariant: decoder.ropeVariant(forTokens: text.tokens.count), logits: .all)
      if isBidirectional { span.groups = [0..<text.tokens.count] }
      block += blocks
      return span
    }
    return decoder.states(Batch(spans: spans), cache: cache)
  }

  /// Keys and values of one step; nothing outlives it.
  private func room(for blocks: Int) throws(ModelError) -> KVCache {
    if let cache, cache.blockCount >= blocks { return cache }
    cache = nil
    let fresh = try computing(
      try KVCache(
        shape: decoder.cacheShape.keysValues, blockCount: max(blocks, 32), format: decoder.cacheFormat))
    cache = fresh
    return fresh
  }
}
