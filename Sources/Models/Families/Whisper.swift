// Whisper: sound in, text out. An encoder hears a window of 30 s, a decoder writes what was said.
//
// Source: arXiv:2212.04356; names follow the Hugging Face checkpoints, or those of MLX.
//
//   x = gelu(conv2(gelu(conv1(mel)))) + sinusoids        3 taps each; the second halves the frames
//   x += out(attend(q, k, v))                            of norm(x), every frame sees every other
//   x += fc2(gelu(fc1(norm(x))))                         memory = norm(x) after the last layer
//
//   h = embedding[id] + position[t]
//   h += out(attend(q, k, v))                            of norm(h), causal
//   h += out(attend(q, k of memory, v of memory))        q of norm(h)
//   h += fc2(gelu(fc1(norm(h))))                         logits = norm(h) · embeddingᵀ

package import Checkpoint
package import Compute
import JSON
package import Media
import Platform

/// A model with the state of one window: what was heard in it and what has been written of it. Engine thread only.
package final class Whisper {
  /// What both sides of the model do with the rows of norm(x).
  private struct Layer {
    let attentionNorm, norm: LayerNorm
    let qkv, out: Linear  // [hidden] → [q | k | v], [hidden] → [hidden]
    let up, down: Linear  // [hidden] → [intermediate] → [hidden]
    let cross: Cross?
  }

  /// How the decoder looks at what was heard.
  private struct Cross {
    let norm: LayerNorm
    let q, kv, out: Linear
  }

  package let sizes: WhisperSizes
  /// Whether windows begin with a language and a task: not in the `.en` sizes.
  package let isMultilingual: Bool
  /// Heads of the decoder that follow what is said, as generation_config.json lists them, layer and head; those of the upper
  /// half of the decoder where it is silent.
  package let alignmentHeads: [(layer: Int, head: Int)]
  private let compute: ComputeContext
  private let first, second: Linear  // [3 · bands] → [hidden], [3 · hidden] → [hidden]
  private let encoder, decoder: [Layer]
  private let encoderNorm, decoderNorm: LayerNorm
  private let embedding: WeightStack  // [vocabulary, hidden]
  private let head: Linear
  private let positions: WeightStack  // [textPositions, hidden]
  private let sinusoids: [Float]  // [audioPositions][hidden]

  /// Of one encoder layer, of the decoder's own tokens, and of the memory as each decoder layer sees it.
  private let heard, written, crossed: KVCache
  private let heardLayout = StepLayout(keepsKeys: false)
  private let layout = StepLayout()
  private let crossLayout = StepLayout()
  private let residual = ScratchBuffer()
  private let normed = ScratchBuffer()
  private let wide = ScratchBuffer()
  private let attended = ScratchBuffer()
  private let stream = ScratchBuffer()
  private let aligned = ScratchBuffer()
  private let scores = ScratchBuffer()
  private var logits = Logits()
  /// Shares of the encoder's work that are done; nil before the first window.
  private var share: Int?
  /// Tokens whose keys and values are kept.
  package private(set) var length = 0

  /// Binds a checkpoint's tensors.
  ///
  /// - Parameter format: of keys and values.
  /// - Throws: `ModelError` naming the config key or tensor that does not fit.
  package init(
    _ folder: ModelFolder, compute: ComputeContext, format: KVFormat = .f32
  ) throws(ModelError) {
    let sizes = try WhisperSizes(ConfigFields(folder.config))
    let arena = compute.makeArena(identity: folder.mappedFiles.identity)
    let checkpoint = LayerLoader(folder.weights, compute: compute, arena: arena).given(sizes.named)
    let names = checkpoint.has("encoder.blocks.0.attn_ln.weight") ? WhisperNames.mlx : .huggingFace
    let part = checkpoint.has("model.encoder.conv1.weight") ? checkpoint.at("model") : checkpoint
    let (hearing, writing) = (part.at("encoder"), part.at("decoder"))
    first = try Self.convolution("conv1", from: sizes.bands, sizes, hearing)
    second = try Self.convolution("conv2", from: sizes.hidden, sizes, hearing)
    var layers: [Layer] = []
    for index in 0..<sizes.encoderLayers {
      layers.append(try Self.layer(sizes, names, crosses: false, hearing.at(names.layers)[index]))
    }
    encoder = layers
    layers = []
    for index in 0..<sizes.decoderLayers {
      layers.append(try Self.layer(sizes, names, crosses: true, writing.at(names.layers)[index]))
    }
    decoder = layers
    encoderNorm = try LayerNorm(names.encoderNorm, sizes.hidden, epsilon: 1e-5, hearing)
    decoderNorm = try LayerNorm(names.decoderNorm, sizes.hidden, epsilon: 1e-5, writing)
    embedding = try writing.embedding(names.embedding, rows: sizes.vocabulary, columns: sizes.hidden)
    head = writing.linear(embedding)
    positions = try writing.table(
      try writing.tensor(names.positions, shape: [sizes.textPositions, sizes.hidden]))
    sinusoids =
      hearing.has(names.positions)
      ? try hearing.floats(names.positions, shape: [sizes.audioPositions, sizes.hidden])
      : Self.sinusoids(sizes)
    (heard, written, crossed) = try Self.caches(sizes, format)
    (self.sizes, self.compute) = (sizes, compute)
    let settings = folder.generationConfig.map { ConfigFields($0) }
    isMultilingual =
      try settings?.bool("is_multilingual", default: sizes.isMultilingual) ?? sizes.isMultilingual
    alignmentHeads = Self.alignmentHeads(settings?.value("alignment_heads")?.arrayValue ?? [], sizes)
    heardLayout.append(
      count: sizes.audioPositions, start: 0, table: Self.table(sizes.audioPositions),
      blockCount: heard.blockCount, ropeVariant: 0, groups: [0..<sizes.audioPositions])
  }

  private static func layer(
    _ sizes: WhisperSizes, _ names: WhisperNames, crosses: Bool, _ weights: LayerLoader
  ) throws(ModelError) -> Layer {
    let hidden = sizes.hidden
    func norm(_ name: String) throws(ModelError) -> LayerNorm {
      try LayerNorm(name, hidden, epsilon: 1e-5, weights)
    }
    let attention = weights.at(names.attention)
    var cross: Cross?
    if crosses {
      let attention = weights.at(names.cross)
      cross = Cross(
        norm: try norm(names.crossNorm),
        q: try attention.linear([names.q: hidden], from: hidden, bias: true),
        kv: try attention.linear([names.k: hidden, names.v: hidden], from: hidden),
        out: try attention.linear([names.out: hidden], from: hidden, bias: true))
    }
    return Layer(
      attentionNorm: try norm(names.attentionNorm), norm: try norm(names.norm),
      // Keys have no bias.
      qkv: try attention.linear([names.q: hidden, names.k: hidden, names.v: hidden], from: hidden),
      out: try attention.linear([names.out: hidden], from: hidden, bias: true),
      up: try weights.linear([names.up: sizes.intermediate], from: hidden, bias: true),
      down: try weights.linear([names.down: hidden], from: sizes.intermediate, bias: true), cross: cross)
  }

  private static func alignmentHeads(
    _ listed: [JSONValue], _ sizes: WhisperSizes
  ) -> [(layer: Int, head: Int)] {
    let heads = listed.compactMap { pair -> (layer: Int, head: Int)? in
      guard let layer = pair[0]?.intValue, let head = pair[1]?.intValue,
        0..<sizes.decoderLayers ~= layer, 0..<sizes.heads ~= head
      else { return nil }
      return (layer, head)
    }
    guard heads.isEmpty else { return heads }
    return (sizes.decoderLayers / 2..<sizes.decoderLayers).flatMap { layer in
      (0..<sizes.heads).map { (layer, $0) }
    }
  }

  /// MLX stores `[out][tap][in]`, other checkpoints `[out][in][tap]`.
  private static func convolution(
    _ name: String, from inputs: Int, _ sizes: WhisperSizes, _ weights: LayerLoader
  ) throws(ModelError) -> Linear {
    let (outputs, stored) = (sizes.hidden, weights.shape(of: name + ".weight"))
    let isForeign = stored == [outputs, inputs, 3]
    var values = try weights.floats(
      name + ".weight", shape: isForeign ? [outputs, inputs, 3] : [outputs, 3, inputs])
    if isForeign {
      let stored = values
      for output in 0..<outputs {
        for tap in 0..<3 {
          for input in 0..<inputs {
            values[(output * 3 + tap) * inputs + input] = stored[(output * inputs + input) * 3 + tap]
          }
        }
      }
    }
    let flat = TensorView(name: name, shape: [outputs, 3 * inputs], floats: values)
    let bias = try weights.vector(name + ".bias", outputs)
    let map = WeightTensors(
      weight: flat, bias: TensorView(name: name + ".bias", shape: [outputs], floats: bias), rows: outputs,
      columns: 3 * inputs)
    return try weights.linear([map])
  }

  /// `[sin(p · w) | cos(p · w)]` with frequencies w from 1 to 1/10000.
  private static func sinusoids(_ sizes: WhisperSizes) -> [Float] {
    let half = sizes.hidden / 2
    return (0..<sizes.audioPositions).flatMap { position in
      let angles = (0..<half).map { index in
        Double(position) * exp(-Double(index) * log(10_000) / Double(max(1, half - 1)))
      }
      return angles.map { Float(sin($0)) } + angles.map { Float(cos($0)) }
    }
  }

  private static func caches(
    _ sizes: WhisperSizes, _ format: KVFormat
  ) throws(ModelError) -> (heard: KVCache, written: KVCache, crossed: KVCache) {
    func cache(_ layers: Int, _ positions: Int) throws(ModelError) -> KVCache {
      let layer = KVLayerShape(kvHeads: sizes.heads, headDim: sizes.hidden / sizes.heads)
      return try computing(
        try KVCache(
          shape: [KVLayerShape](repeating: layer, count: layers),
          blockCount: KVCache.blocks(forTokens: positions), format: format))
    }
    return (
      try cache(1, sizes.audioPositions), try cache(sizes.decoderLayers, sizes.textPositions),
      try cache(sizes.decoderLayers, sizes.audioPositions)
    )
  }

  private static func table(_ positions: Int) -> [Int32] {
    (0..<KVCache.blocks(forTokens: positions)).map { Int32(clamping: $0) }
  }

  /// Bytes of keys, values and buffers: what the model takes beside its weights.
  package var workBytes: Int {
    let caches = [heard, written, crossed].reduce(0) { $0 + $1.bytesPerBlock * $1.blockCount }
    let wide = max(3 * sizes.hidden, sizes.intermediate) + 3 * sizes.hidden
    return caches + 4 * sizes.audioPositions * (wide + sizes.hidden)
      + 4 * 2 * sizes.audioPositions * (4 * sizes.bands + sizes.hidden)
      + 4 * sizes.vocabulary * 4 + 4 * 4 * sizes.textPositions * sizes.audioPositions
  }

  /// Bytes of tables of which a step reads the rows of its tokens and nothing else.
  package var tableBytes: Int { positions.byteCount }

  // MARK: Hearing

  /// Takes a window; `hear` computes it.
  ///
  /// - Throws: when it does not fit the model.
  package func begin(_ mel: MelFrames) throws(ModelError) {
    let frames = 2 * sizes.audioPositions
    guard mel.bins == sizes.bands, mel.count == frames else {
      throw .unusableMedia("it is not a spectrogram of \(frames) frames and \(sizes.bands) bands")
    }
    let spectrogram = attended.rows(frames, sizes.bands)
    for row in 0..<frames {
      spectrogram.set(row, to: mel.values[row * sizes.bands..<(row + 1) * sizes.bands])
    }
    share = 0
    length = 0
  }

  /// Computes the next share of a window, about one layer.
  ///
  /// - Returns: whether more of it is to be done.
  package func hear() -> Bool {
    guard let share, share <= encoder.count + 1 else { return false }
    self.share = share + 1
    let (x, h) = (memory, normed.rows(sizes.audioPositions, sizes.hidden))
    switch share {
    case 0: convolve(into: x)
    case 1...encoder.count: hear(encoder[share - 1], x, h)
    default: remember(x)
    }
    return share <= encoder.count
  }

  /// What the decoder sees, `[audioPositions, hidden]`.
  package var memory: Rows { residual.rows(sizes.audioPositions, sizes.hidden) }

  private func convolve(into x: Rows) {
    let frames = 2 * sizes.audioPositions
    let around = wide.rows(frames, 3 * sizes.bands)
    unfold(attended.rows(frames, sizes.bands), stride: 1, into: around)
    let between = normed.rows(frames, sizes.hidden)
    first(around, into: between)
    compute.erfGELU(between)
    let pairs = wide.rows(sizes.audioPositions, 3 * sizes.hidden)
    unfold(between, stride: 2, into: pairs)
    second(pairs, into: x)
    compute.erfGELU(x)
    let places = normed.rows(sizes.audioPositions, sizes.hidden)
    for row in 0..<x.count {
      places.set(row, to: sinusoids[row * sizes.hidden..<(row + 1) * sizes.hidden])
    }
    compute.add(places, to: x)
  }

  /// Every `stride`-th row between its neighbours, zeros outside: what a convolution of three taps multiplies.
  private func unfold(_ x: Rows, stride: Int, into out: Rows) {
    let nothing = [Float](repeating: 0, count: x.columns)
    for tap in 0..<3 {
      let target = out.columns(from: tap * x.columns, count: x.columns)
      for row in 0..<out.count {
        let from = row * stride + tap - 1
        if from >= 0, from < x.count {
          x.copyRow(from, to: target, at: row)
        } else {
          target.set(row, to: nothing[...])
        }
      }
    }
  }

  private func hear(_ layer: Layer, _ x: Rows, _ h: Rows) {
    layer.attentionNorm(x, into: h)
    let qkv = wide.rows(x.count, 3 * sizes.hidden)
    layer.qkv(h, into: qkv)
    let out = attended.rows(x.count, sizes.hidden)
    attend(qkv, in: heard, layer: 0, at: heardLayout, into: out)
    layer.out(out, into: h)
    compute.add(h, to: x)
    feed(layer, x, h)
  }

  /// `x += down(gelu(up(norm(x))))`.
  private func feed(_ layer: Layer, _ x: Rows, _ h: Rows) {
    layer.norm(x, into: h)
    let inner = wide.rows(x.count, sizes.intermediate)
    layer.up(h, into: inner)
    compute.erfGELU(inner)
    layer.down(inner, into: h)
    compute.add(h, to: x)
  }

  private func attend(_ qkv: Rows, in cache: KVCache, layer: Int, at layout: StepLayout, into out: Rows) {
    let hidden = sizes.hidden
    compute.attend(
      qkv.columns(from: 0, count: hidden),
      adding: (qkv.columns(from: hidden, count: hidden), qkv.columns(from: 2 * hidden, count: hidden)),
      shape: sizes.attention, layer: layer, of: cache, at: layout, into: out)
  }

  /// Keys and values of the memory, once for all tokens.
  private func remember(_ x: Rows) {
    encoderNorm(x, into: x)
    for (index, layer) in decoder.enumerated() {
      guard let kv = keysAndValues(of: layer, in: wide) else { continue }
      compute.store(
        keys: kv.columns(from: 0, count: sizes.hidden),
        values: kv.columns(from: sizes.hidden, count: sizes.hidden), layer: index, of: crossed,
        at: heardLayout)
    }
  }

  private func keysAndValues(of layer: Layer, in buffer: ScratchBuffer) -> Rows? {
    guard let cross = layer.cross else { return nil }
    let kv = buffer.rows(sizes.audioPositions, 2 * sizes.hidden)
    cross.kv(memory, into: kv)
    return kv
  }

  // MARK: Writing

  /// Goes back to the first tokens.
  ///
  /// - Precondition: `count` is at most `length`.
  package func keep(_ count: Int) {
    precondition(count >= 0 && count <= length, "keep: not so many tokens")
    length = count
  }

  /// Runs tokens behind those that are there.
  ///
  /// - Parameter rows: of which tokens logits are wanted, counted from the first of these.
  /// - Precondition: at least one token, all in the vocabulary and within `textPositions`; a window has been heard.
  /// - Returns: logits of these rows; the next call overwrites them.
  package func write(_ tokens: [Int32], logits rows: Range<Int>) -> Logits {
    let x = run(tokens) { _, _ in }
    let chosen = normed.rows(rows.count, sizes.hidden)
    for (place, row) in rows.enumerated() { x.copyRow(row, to: chosen, at: place) }
    decoderNorm(chosen, into: chosen)
    head(chosen, into: logits.resize(rows: rows.count, columns: sizes.vocabulary))
    return logits
  }

  /// How much each token looks at each position of the memory, for each of `alignmentHeads`: softmax over the first
  /// positions. The tokens begin anew.
  ///
  /// - Parameters:
  ///   - positions: those that count, at least one.
  ///   - visit: gets a head's `[tokens][positions]`.
  package func align(_ tokens: [Int32], positions: Int, visit: ([Float]) -> Void) {
    length = 0
    let size = sizes.hidden / sizes.heads
    let columns = min(positions, sizes.audioPositions)
    _ = run(tokens) { index, q in
      let heads = alignmentHeads.filter { $0.layer == index }
      guard !heads.isEmpty,
        let keys = keysAndValues(of: decoder[index], in: aligned)?.rows(from: 0, count: columns)
      else { return }
      let weights = scores.rows(tokens.count, columns)
      for head in heads {
        compute.weights(
          of: keys.columns(from: head.head * size, count: size),
          for: q.columns(from: head.head * size, count: size), scale: sizes.attention.scale, into: weights)
        visit((0..<tokens.count).flatMap { weights.values(ofRow: $0) })
      }
    }
  }

  /// - Parameter visit: gets the queries of every layer that look at the memory.
  /// - Returns: the residual stream.
  private func run(_ tokens: [Int32], visit: (_ layer: Int, _ q: Rows) -> Void) -> Rows {
    precondition(length + tokens.count <= sizes.textPositions, "write: too many tokens")
    layout.reset()
    layout.append(
      count: tokens.count, start: length, table: Self.table(sizes.textPositions),
      blockCount: written.blockCount, ropeVariant: 0)
    // All of the memory is seen: its positions are one group.
    crossLayout.reset()
    crossLayout.append(
      count: tokens.count, start: sizes.audioPositions - tokens.count,
      table: Self.table(sizes.audioPositions),
      blockCount: crossed.blockCount, ropeVariant: 0, groups: [0..<sizes.audioPositions])
    let (x, h) = (stream.rows(tokens.count, sizes.hidden), normed.rows(tokens.count, sizes.hidden))
    compute.gather(tokens, of: embedding, into: x)
    compute.gather(tokens.indices.map { Int32(clamping: length + $0) }, of: positions, into: h)
    compute.add(h, to: x)
    for (index, layer) in decoder.enumerated() {
      layer.attentionNorm(x, into: h)
      let qkv = wide.rows(tokens.count, 3 * sizes.hidden)
      layer.qkv(h, into: qkv)
      let out = attended.rows(tokens.count, sizes.hidden)
      attend(qkv, in: written, layer: index, at: layout, into: out)
      layer.out(out, into: h)
      compute.add(h, to: x)
      if let cross = layer.cross {
        cross.norm(x, into: h)
        let q = wide.rows(tokens.count, sizes.hidden)
        cross.q(h, into: q)
        visit(index, q)
        compute.attend(
          q, adding: nil, shape: sizes.attention, layer: index, of: crossed, at: crossLayout, into: out)
        cross.out(out, into: h)
        compute.add(h, to: x)
      }
      feed(layer, x, h)
    }
    length += tokens.count
    return x
  }
}

/// What config.json says, checked.
package struct WhisperSizes: Sendable {
  /// Mel bands.
  package let bands: Int
  package let hidden, heads, intermediate: Int
  package let encoderLayers, decoderLayers: Int
  package let vocabulary: Int
  /// Positions of the memory, two frames each, and most tokens of a window.
  package let audioPositions, textPositions: Int
  let attention: AttentionShape

  /// The vocabularies of the `.en` sizes are smaller.
  var isMultilingual: Bool { vocabulary >= 51_865 }

  /// As transformers writes it, or as MLX's examples do (`n_audio_state`).
  init(_ config: ConfigFields) throws(ModelError) {
    let isMLX = config.has("n_audio_state")
    func int(_ name: String, _ mlx: String, in range: ClosedRange<Int>) throws(ModelError) -> Int {
      try config.int(isMLX ? mlx : name, in: range)
    }
    bands = try int("num_mel_bins", "n_mels", in: 1...512)
    hidden = try int("d_model", "n_audio_state", in: 4...1 << 14)
    heads = try int("encoder_attention_heads", "n_audio_head", in: 1...256)
    encoderLayers = try int("encoder_layers", "n_audio_layer", in: 1...256)
    decoderLayers = try int("decoder_layers", "n_text_layer", in: 1...256)
    vocabulary = try int("vocab_size", "n_vocab", in: 1...1 << 24)
    audioPositions = try int("max_source_positions", "n_audio_ctx", in: 1...1 << 14)
    textPositions = try int("max_target_positions", "n_text_ctx", in: 8...min(1 << 14, audioPositions))
    intermediate = isMLX ? 4 * hidden : try config.int("encoder_ffn_dim", in: 1...1 << 16)
    let same = [
      ("decoder_attention_heads", "n_text_head", heads), ("decoder_ffn_dim", "", intermediate),
      ("", "n_text_state", hidden),
    ]
    for (name, mlx, value) in same where !(isMLX ? mlx : name).isEmpty {
      let found = try config.int(isMLX ? mlx : name, in: 1...1 << 16, default: value)
      guard found == value else {
        throw .unsupportedSetting(key: isMLX ? mlx : name, value: "\(found)", supported: "\(value)")
      }
    }
    guard hidden % heads == 0, hidden % 2 == 0 else {
      throw .invalidValue(
        key: isMLX ? "n_audio_head" : "encoder_attention_heads", found: "\(heads)",
        expected: "a divisor of the hidden size \(hidden), which is even")
    }
    if let activation = try config.string("activation_function"), activation != "gelu" {
      throw .unsupportedSetting(key: "activation_function", value: activation, supported: "gelu")
    }
    if try config.bool("scale_embedding", default: false) {
      throw .unsupportedSetting(key: "scale_embedding", value: "true", supported: "false")
    }
    let size = hidden / heads
    attention = AttentionShape(
      heads: heads, kvHeads: heads, headDim: size, scale: 1 / Float(size).squareRoot())
  }

  /// The sizes that shapes of tensors follow from.
  var named: KeyValuePairs<String, Int> {
    [
      "d_model (n_audio_state)": hidden, "encoder_ffn_dim": intermediate, "vocab_size (n_vocab)": vocabulary,
      "num_mel_bins (n_mels)": bands, "max_source_positions (n_audio_ctx)": audioPositions,
      "max_target_positions (n_text_ctx)": textPositions,
    ]
  }
}

/// What tensors are called.
private struct WhisperNames {
  let layers, attention, attentionNorm, cross, crossNorm, norm: String
  let q, k, v, out, up, down: String
  let encoderNorm, decoderNorm, embedding, positions: String

  static let huggingFace = WhisperNames(
    layers: "layers", attention: "self_attn", attentionNorm: "self_attn_layer_norm", cross: "encoder_attn",
    crossNorm: "encoder_attn_layer_norm", norm: "final_layer_norm", q: "q_proj", k: "k_proj", v: "v_proj",
    out: "out_proj", up: "fc1", down: "fc2", encoderNorm: "layer_norm", decoderNorm: "layer_norm",
    embedding: "embed_tokens", positions: "embed_positions.weight")
  static let mlx = WhisperNames(
    layers: "blocks", attention: "attn", attentionNorm: "attn_ln", cross: "cross_attn",
    crossNorm: "cross_attn_ln", norm: "mlp_ln", q: "query", k: "key", v: "value", out: "out", up: "mlp1",
    down: "mlp2", encoderNorm: "ln_post", decoderNorm: "ln", embedding: "token_embedding",
    positions: "positional_embedding")
}
