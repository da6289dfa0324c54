// BERT, and what shares its layers: RoBERTa, XLM-R and MPNet.
//
// Sources: arXiv:1810.04805, arXiv:1907.11692, arXiv:1911.02116, arXiv:2004.09297; names follow the Hugging Face
// checkpoints.
//
//   x = norm(word[id] + position[t] + type[s])
//   x = norm(x + o(attend(q, k, v)))         with [q | k | v] of x
//   x = norm(x + output(gelu(intermediate(x))))
//
// RoBERTa, XLM-R and MPNet count positions from the padding's id on. MPNet has no types; each of its heads adds a bias to
// a score that depends on the distance of the two tokens.

package import Compute
import Platform

/// Post-norm encoder with learned positions. Engine thread only.
package final class Bert: TextEncoder {
  private struct Layer {
    let qkv, o: Linear  // [hidden] → [q | k | v], [hidden] → [hidden]
    let attentionNorm, outputNorm: LayerNorm  // [hidden]
    let intermediate, output: Linear  // [hidden] → [intermediate] → [hidden]
  }

  private let frame: EncoderFrame
  /// Of steps that take pauses: another step may run in one.
  private let pausingFrame: EncoderFrame
  private let sizes: EncoderSizes
  private let variant: BertVariant
  private let words: WeightStack  // [vocabulary, hidden]
  private let positions: WeightStack  // [positions, hidden]
  private let types: WeightStack?  // [types, hidden]
  private let norm: LayerNorm
  private let layers: [Layer]
  package let classifier: ClassifierHead?
  package let sparseHead: SparseHead?

  init(_ type: String, _ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) {
    let variant = try BertVariant(type, config)
    let sizes = try EncoderSizes(config, epsilon: variant.epsilon)
    let checkpoint = checkpoint.given(sizes.named)
    let part = try encoderPart(
      checkpoint, prefixes: ["bert", "roberta", "mpnet", "model"],
      having: "embeddings.word_embeddings.weight")
    let embeddings = part.at("embeddings")
    words = try embeddings.embedding("word_embeddings", rows: sizes.vocabulary, columns: sizes.hidden)
    positions = try embeddings.embedding(
      "position_embeddings", rows: variant.positions, columns: sizes.hidden)
    types =
      variant.types > 0
      ? try embeddings.embedding("token_type_embeddings", rows: variant.types, columns: sizes.hidden) : nil
    norm = try LayerNorm("LayerNorm", sizes.hidden, epsilon: sizes.epsilon, embeddings)
    var layers: [Layer] = []
    for index in 0..<sizes.layers {
      layers.append(try Self.layer(sizes, variant, part.at("encoder.layer")[index]))
    }
    self.layers = layers
    var shape = sizes.attention
    if variant.isMPNet { shape.bias = try Self.distanceBias(sizes, config, part.at("encoder")) }
    frame = EncoderFrame(hidden: sizes.hidden, shapes: [shape], checkpoint.compute)
    pausingFrame = EncoderFrame(hidden: sizes.hidden, shapes: [shape], checkpoint.compute)
    classifier = try ClassifierHead.bert(config, hidden: sizes.hidden, pooler: part, checkpoint)
    sparseHead = try SparseHead(sizes, words, checkpoint)
    (self.sizes, self.variant) = (sizes, variant)
  }

  private static func layer(
    _ sizes: EncoderSizes, _ variant: BertVariant, _ weights: LayerLoader
  ) throws(ModelError) -> Layer {
    let hidden = sizes.hidden
    let attention = weights.at("attention")
    let (names, o, norm): (KeyValuePairs<String, Int>, String, String) =
      variant.isMPNet
      ? (["attn.q": hidden, "attn.k": hidden, "attn.v": hidden], "attn.o", "LayerNorm")
      : (
        ["self.query": hidden, "self.key": hidden, "self.value": hidden], "output.dense", "output.LayerNorm"
      )
    return Layer(
      qkv: try attention.linear(names, from: hidden, bias: true),
      o: try attention.linear([o: hidden], from: hidden, bias: true),
      attentionNorm: try LayerNorm(norm, hidden, epsilon: sizes.epsilon, attention),
      outputNorm: try LayerNorm("output.LayerNorm", hidden, epsilon: sizes.epsilon, weights),
      intermediate: try weights.linear(
        ["intermediate.dense": sizes.intermediate], from: hidden, bias: true),
      output: try weights.linear(["output.dense": hidden], from: sizes.intermediate, bias: true))
  }

  /// Tables by bucket, `[32, heads]`, as values by distance.
  private static func distanceBias(
    _ sizes: EncoderSizes, _ config: ConfigFields, _ weights: LayerLoader
  ) throws(ModelError) -> DistanceBias {
    let buckets = try config.int("relative_attention_num_buckets", in: 4...1024, default: 32)
    let table = try weights.floats("relative_attention_bias.weight", shape: [buckets, sizes.heads])
    let reach = DistanceBuckets.reach
    var values: [Float] = []
    for head in 0..<sizes.heads {
      for distance in -reach...reach {
        values.append(table[DistanceBuckets.bucket(of: distance, count: buckets) * sizes.heads + head])
      }
    }
    return DistanceBias(values: values, reach: reach)
  }

  package var hidden: Int { sizes.hidden }
  package var vocabularySize: Int { sizes.vocabulary }
  package var maxTokens: Int { variant.positions - variant.firstPosition }
  package var workBytesPerToken: Int { frame.workBytes(intermediate: sizes.intermediate) }
  package var tableBytes: Int { words.byteCount + positions.byteCount }

  package func forward(_ texts: [EncoderText]) throws(ModelError) -> Rows {
    try forward(texts, in: frame, pause: {})
  }

  package var takesPauses: Bool { true }

  package func forward(_ texts: [EncoderText], pause: () -> Void) throws(ModelError) -> Rows {
    try forward(texts, in: pausingFrame, pause: pause)
  }

  private func forward(
    _ texts: [EncoderText], in frame: EncoderFrame, pause: () -> Void
  ) throws(ModelError) -> Rows {
    try frame.begin(texts)
    let (compute, x, h) = (frame.compute, frame.stream, frame.branch)
    embed(texts, into: x, h)
    norm(x, into: x)
    for layer in layers {
      pause()
      // x = norm(x + o(attend(q, k, v)))
      let qkv = frame.projections(3 * sizes.hidden)
      layer.qkv(x, into: qkv)
      layer.o(frame.attend(qkv), into: h)
      compute.add(h, to: x)
      layer.attentionNorm(x, into: x)
      // x = norm(x + output(gelu(intermediate(x))))
      let inner = frame.inner(sizes.intermediate)
      layer.intermediate(x, into: inner)
      compute.erfGELU(inner)
      layer.output(inner, into: h)
      compute.add(h, to: x)
      layer.outputNorm(x, into: x)
    }
    return x
  }

  /// `x = word + position + type`.
  private func embed(_ texts: [EncoderText], into x: Rows, _ h: Rows) {
    let compute = frame.compute
    compute.gather(texts.flatMap(\.tokens), of: words, into: x)
    compute.gather(texts.flatMap { variant.positions(of: $0.tokens) }, of: positions, into: h)
    compute.add(h, to: x)
    guard let types else { return }
    let ids = texts.flatMap { text in
      text.tokens.indices.map { Int32($0 < text.second ?? .max || variant.types < 2 ? 0 : 1) }
    }
    compute.gather(ids, of: types, into: h)
    compute.add(h, to: x)
  }
}

/// What sets BERT's relatives apart.
private struct BertVariant {
  let isMPNet: Bool
  let epsilon: Double
  /// Rows of the table of positions.
  let positions: Int
  /// The position of a text's first token.
  let firstPosition: Int
  private let padding: Int32
  /// Token types; 0 where the model has no table of them.
  let types: Int

  init(_ type: String, _ config: ConfigFields) throws(ModelError) {
    isMPNet = type == "mpnet"
    epsilon = type == "bert" ? 1e-12 : 1e-5
    let counts = type != "bert"
    positions = try config.int("max_position_embeddings", in: 2...1 << 20, default: 512)
    let id = try config.int("pad_token_id", in: 0...1 << 24, default: counts ? 1 : 0)
    padding = Int32(clamping: id)
    firstPosition = counts ? id + 1 : 0
    guard positions > firstPosition else {
      throw .invalidValue(
        key: "max_position_embeddings", found: "\(positions)", expected: "more than \(firstPosition)")
    }
    types = isMPNet ? 0 : try config.int("type_vocab_size", in: 0...1024, default: 2)
    if let kind = try config.string("position_embedding_type"), kind != "absolute" {
      throw .unsupportedSetting(key: "position_embedding_type", value: kind, supported: "absolute")
    }
  }

  /// The rows of the table. Where positions are counted from the padding's id on, a token that is the padding stays there
  /// and is not counted.
  func positions(of tokens: [Int32]) -> [Int32] {
    guard firstPosition > 0 else { return tokens.indices.map { Int32(clamping: $0) } }
    var next = Int32(clamping: firstPosition)
    return tokens.map { token in
      guard token != padding else { return padding }
      defer { next += 1 }
      return next
    }
  }
}

/// T5's buckets of distances, as MPNet has them: near ones each by itself, far ones by their logarithm.
enum DistanceBuckets {
  /// Distances beyond share the last bucket of their side.
  static let reach = 128

  /// - Parameter distance: from the query to the key.
  static func bucket(of distance: Int, count: Int) -> Int {
    let half = count / 2
    let side = distance > 0 ? half : 0
    let n = abs(distance)
    let exact = half / 2
    guard n >= exact else { return side + n }
    // Where the near ones reach as far, there is nothing to divide by.
    guard n < reach else { return side + half - 1 }
    let ratio = log(Double(n) / Double(exact)) / log(Double(reach) / Double(exact))
    return side + min(half - 1, exact + Int(ratio * Double(half - exact)))
  }
}
