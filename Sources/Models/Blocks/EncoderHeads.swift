// What comes after an encoder: a classifier, or the head of a language model that makes sparse vectors.

import Checkpoint
import Compute
import JSON
import Platform

/// Makes a logit for each label from the states of a text.
package struct ClassifierHead {
  /// What is done to the pooled state before the last map.
  private enum Inner {
    case tanh(Linear)
    case geluNorm(Linear, LayerNorm)
    case none
  }

  /// The last map.
  private enum Output {
    case map(Linear)  // [hidden] → [labels]
    /// One label: the product with this vector.
    case direction([Float])
  }

  package let labels: Int
  private let pooling: Pooling
  private let inner: Inner
  private let out: Output
  private let compute: ComputeContext
  private let buffer = ScratchBuffer()
  private let logitBuffer = ScratchBuffer()

  private init(
    pooling: Pooling = .cls, _ inner: Inner, _ out: Output, labels: Int, _ compute: ComputeContext
  ) {
    (self.pooling, self.inner, self.out) = (pooling, inner, out)
    (self.labels, self.compute) = (labels, compute)
  }

  /// As many as `id2label` has; where it is absent there are `num_labels`, or two.
  static func labelCount(_ config: ConfigFields) throws(ModelError) -> Int {
    if let count = config.value("id2label")?.objectValue?.count, count > 0 { return count }
    return try config.int("num_labels", in: 1...4096, default: 2)
  }

  /// BERT's head works on its pooler, RoBERTa's and XLM-R's on a dense layer of its own: `out(tanh(dense(state[0])))`.
  /// Nil where the checkpoint has none.
  ///
  /// - Parameters:
  ///   - pooler: where `pooler.dense` is.
  ///   - checkpoint: where `classifier` is.
  static func bert(
    _ config: ConfigFields, hidden: Int, pooler: LayerLoader, _ checkpoint: LayerLoader
  ) throws(ModelError) -> ClassifierHead? {
    let isOwn = checkpoint.has("classifier.out_proj.weight")
    guard isOwn || checkpoint.has("classifier.weight") else { return nil }
    let labels = try labelCount(config)
    let dense =
      isOwn
      ? try checkpoint.linear(["classifier.dense": hidden], from: hidden, bias: true)
      : try pooler.linear(["pooler.dense": hidden], from: hidden, bias: true)
    let out = try checkpoint.linear(
      [isOwn ? "classifier.out_proj" : "classifier": labels], from: hidden, bias: true)
    return ClassifierHead(.tanh(dense), .map(out), labels: labels, checkpoint.compute)
  }

  /// ModernBERT's: `classifier(norm(gelu(dense(pooled))))`.
  static func modernBert(
    _ config: ConfigFields, _ sizes: EncoderSizes, normBias: Bool, _ checkpoint: LayerLoader
  ) throws(ModelError) -> ClassifierHead? {
    guard checkpoint.has("classifier.weight") else { return nil }
    let name = try config.string("classifier_pooling") ?? "cls"
    guard let pooling = ["cls": Pooling.cls, "mean": .mean][name] else {
      throw .unsupportedSetting(key: "classifier_pooling", value: name, supported: "cls, mean")
    }
    if let activation = try config.string("classifier_activation"), activation != "gelu" {
      throw .unsupportedSetting(key: "classifier_activation", value: activation, supported: "gelu")
    }
    let (labels, hidden) = (try labelCount(config), sizes.hidden)
    return ClassifierHead(
      pooling: pooling,
      .geluNorm(
        try checkpoint.linear(["head.dense": hidden], from: hidden),
        try LayerNorm("head.norm", hidden, epsilon: sizes.epsilon, bias: normBias, checkpoint)),
      .map(try checkpoint.linear(["classifier": labels], from: hidden)), labels: labels, checkpoint.compute)
  }

  /// Decoders score their last token: `score.weight`. Nil where the checkpoint has none.
  static func lastToken(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError)
    -> ClassifierHead?
  {
    guard let shape = checkpoint.shape(of: "score.weight"), shape.count == 2 else { return nil }
    let hidden = try config.int("hidden_size", in: 1...1 << 17)
    let map = try checkpoint.linear(["score": shape[0]], from: hidden)
    return ClassifierHead(pooling: .lastToken, .none, .map(map), labels: shape[0], checkpoint.compute)
  }

  /// Decoders that answer with one of two tokens: how much likelier the first is than the second.
  static func judge(_ decoder: Decoder, _ answers: AnswerTokens) throws(ModelError) -> ClassifierHead {
    for token in [answers.yes, answers.no] where token < 0 || Int(token) >= decoder.vocabularySize {
      throw .invalidValue(
        key: "vocab_size", found: "\(decoder.vocabularySize)", expected: "more than the token \(token)")
    }
    let rows = decoder.headRows([answers.yes, answers.no])
    return ClassifierHead(
      pooling: .lastToken, .none, .direction(zip(rows[0], rows[1]).map { $0 - $1 }), labels: 1,
      decoder.compute)
  }

  /// - Parameter states: of the tokens of one text, `[n, hidden]`.
  func callAsFunction(_ states: Rows) -> [Float] {
    let state = buffer.rows(1, states.columns)
    state.set(0, to: states.pooled(pooling)[...])
    switch inner {
    case .tanh(let dense):
      let hidden = logitBuffer.rows(1, states.columns)
      dense.exactly(state, into: hidden)
      compute.tanh(hidden, into: state)
    case .geluNorm(let dense, let norm):
      let hidden = logitBuffer.rows(1, states.columns)
      dense.exactly(state, into: hidden)
      compute.erfGELU(hidden)
      norm(hidden, into: state)
    case .none: break
    }
    switch out {
    case .map(let map):
      let logits = logitBuffer.rows(1, labels)
      map.exactly(state, into: logits)
      return logits.values(ofRow: 0)
    case .direction(let direction):
      let products = zip(state.values(ofRow: 0), direction).map { Double($0) * Double($1) }
      return [Float(products.reduce(0, +))]
    }
  }
}

/// The tokens of which one answers whether a document fits a query.
package struct AnswerTokens: Sendable, Equatable {
  package var yes: Int32
  package var no: Int32

  package init(yes: Int32, no: Int32) {
    (self.yes, self.no) = (yes, no)
  }
}

/// SPLADE: `weight[v] = max over tokens of ln(1 + relu(logit[v]))` of a masked language model's head.
package struct SparseHead {
  private let transform: Linear  // [hidden] → [hidden]
  private let norm: LayerNorm
  private let decoder: Linear  // [hidden] → [vocabulary], tied to the embedding
  private let bias: [Float]
  private let compute: ComputeContext
  private let buffer = ScratchBuffer()
  private let logitBuffer = ScratchBuffer()

  /// Nil where the checkpoint has no such head.
  init?(_ sizes: EncoderSizes, _ words: WeightStack, _ checkpoint: LayerLoader) throws(ModelError) {
    let weights = checkpoint.at("cls.predictions")
    guard weights.has("transform.dense.weight"), weights.has("bias") else { return nil }
    transform = try weights.linear(["transform.dense": sizes.hidden], from: sizes.hidden, bias: true)
    norm = try LayerNorm("transform.LayerNorm", sizes.hidden, epsilon: sizes.epsilon, weights)
    bias = try weights.vector("bias", sizes.vocabulary)
    decoder = weights.linear(words)
    compute = weights.compute
  }

  /// - Parameter states: of the tokens of one text, `[n, hidden]`.
  /// - Returns: a weight for each token of the vocabulary.
  func callAsFunction(_ states: Rows) -> [Float] {
    let inner = buffer.rows(states.count, states.columns)
    transform.exactly(states, into: inner)
    compute.erfGELU(inner)
    norm(inner, into: inner)
    var best = [Float](repeating: 0, count: bias.count)
    // One token after the other: a row of logits is as long as the vocabulary.
    let logits = logitBuffer.rows(1, bias.count)
    for r in 0..<inner.count {
      decoder.exactly(inner.rows(from: r, count: 1), into: logits)
      let row = logits.values(ofRow: 0)
      for v in row.indices where row[v] + bias[v] > best[v] { best[v] = row[v] + bias[v] }
    }
    return best.map { log1p($0) }
  }
}
