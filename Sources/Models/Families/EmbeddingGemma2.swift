// EmbeddingGemma 2, text: Gemma's sandwich norms without 1 + w, two sizes of heads, and a small input to every layer.
//
// Source: transformers' embedding_gemma2 (text); names follow the Hugging Face checkpoints. Norms are of the root mean
// square, with plain weights.
//
//   x = word[id] · √hidden,  p = norm(project(x) / √hidden), a share for each layer
//   x += norm(o(attend(rope(norm(q)), rope(norm(k)), norm(v))))    of norm(x), scores not scaled
//   x += norm(down(gelu(gate) · up))                               of norm(x)
//   x += norm(projection(gelu(gate(x)) · p))
//   x *= scalar
//   state = embedding_projection(norm(x))

package import Compute
import JSON

/// Encoder with per-layer inputs. Engine thread only.
package final class EmbeddingGemma2: TextEncoder {
  private struct Layer {
    let shape: Int
    let inputNorm, postAttentionNorm, preFeedforwardNorm, postFeedforwardNorm: [Float]  // [hidden]
    let qNorm, kNorm: [Float]  // [headDim]
    let qkv, o: Linear  // [hidden] → [q | k | v], [heads · headDim] → [hidden]
    let gateUp, down: Linear  // [hidden] → [gate | up], [intermediate] → [hidden]
    let inputGate, inputProjection: Linear  // [hidden] → [input], [input] → [hidden]
    let postInputNorm: [Float]  // [hidden]
    let scalar: Float
  }

  private let frame: EncoderFrame
  private let shapes: [AttentionShape]
  private let ropes: [RoPE]
  private let sizes: DecoderSizes
  private let words: WeightStack  // [vocabulary, hidden]
  private let layers: [Layer]
  /// Elements of a layer's input.
  private let inputSize: Int
  private let inputProjection: Linear  // [hidden] → [layers · input]
  private let inputNorm: [Float]  // [input]
  private let finalNorm: [Float]  // [hidden]
  private let output: Linear  // [hidden] → [dimensions]
  private let inputs = ScratchBuffer()
  private let gated = ScratchBuffer()
  private let projected = ScratchBuffer()

  init(_ config: ConfigFields, _ checkpoint: LayerLoader) throws(ModelError) {
    let sizes = try DecoderSizes(
      config, contextLength: 262_144, tied: true,
      defaults: .init(headDim: 256, activations: ["gelu_pytorch_tanh"]))
    let checkpoint = checkpoint.given(sizes.named)
    let part = try encoderPart(
      checkpoint, prefixes: ["model.language_model", "language_model", "model"], having: "embed_tokens.weight"
    )
    let sliding = try sizes.slidingLayers(config) { ($0 + 1) % 6 != 0 }
    var shapes: [AttentionShape] = []
    var ropes: [RoPE] = []
    var places: [Int] = []
    for index in 0..<sizes.layers {
      let shape = try Self.shape(config, sizes, layer: index, slides: sliding[index])
      let place = shapes.firstIndex {
        $0.headDim == shape.headDim && $0.kvHeads == shape.kvHeads && $0.window == shape.window
      }
      places.append(place ?? shapes.count)
      guard place == nil else { continue }
      shapes.append(shape)
      ropes.append(try Self.rope(config, headDim: shape.headDim, slides: sliding[index]))
    }
    inputSize = try config.int("hidden_size_per_layer_input", in: 1...1 << 16)
    words = try part.embedding("embed_tokens", rows: sizes.vocabulary, columns: sizes.hidden)
    inputProjection = try part.linear(
      ["ple.per_layer_model_projection": sizes.layers * inputSize], from: sizes.hidden)
    inputNorm = try part.norm("ple.per_layer_projection_norm", inputSize)
    finalNorm = try part.norm("norm", sizes.hidden)
    let dimensions = try config.int("embedding_dim", in: 1...1 << 16, default: 768)
    output = try part.linear(["embedding_projection": dimensions], from: sizes.hidden)
    var layers: [Layer] = []
    for index in 0..<sizes.layers {
      layers.append(
        try Self.layer(
          sizes, shapes[places[index]], place: places[index], inputSize: inputSize, part.at("layers")[index]))
    }
    (self.layers, self.shapes, self.ropes) = (layers, shapes, ropes)
    self.sizes = sizes
    frame = EncoderFrame(hidden: sizes.hidden, shapes: shapes, checkpoint.compute)
  }

  /// `sliding_window` is how far a token sees to either side, itself not counted.
  private static func shape(
    _ config: ConfigFields, _ sizes: DecoderSizes, layer: Int, slides: Bool
  ) throws(ModelError) -> AttentionShape {
    let own = try config.object("per_layer_config")?.object(String(layer))
    let headDim = try own?.int("head_dim", in: 2...4096, default: sizes.headDim) ?? sizes.headDim
    let kvHeads = try own?.int("num_key_value_heads", in: 1...4096, default: sizes.kvHeads) ?? sizes.kvHeads
    guard sizes.heads % kvHeads == 0, headDim % 2 == 0 else {
      throw .invalidValue(
        key: "per_layer_config.\(layer)", found: "\(kvHeads) heads of \(headDim)",
        expected: "a divisor of num_attention_heads = \(sizes.heads), and an even size")
    }
    var shape = AttentionShape(heads: sizes.heads, kvHeads: kvHeads, headDim: headDim, scale: 1)
    if slides {
      shape.window = try config.int("sliding_window", in: 1...1 << 24, default: 512) + 1
      shape.windowIsSymmetric = true
    }
    return shape
  }

  private static func rope(
    _ config: ConfigFields, headDim: Int, slides: Bool
  ) throws(ModelError) -> RoPE {
    let parameters = try config.object("rope_parameters")?
      .object(slides ? "sliding_attention" : "full_attention")
    let theta =
      try parameters?.double("rope_theta", in: 2...1e15, default: slides ? 10_000 : 1_000_000)
      ?? (slides ? 10_000 : 1_000_000)
    return RoPE(variants: RoPEScaling(theta: theta, headDim: headDim).variants)
  }

  private static func layer(
    _ sizes: DecoderSizes, _ shape: AttentionShape, place: Int, inputSize: Int, _ weights: LayerLoader
  ) throws(ModelError) -> Layer {
    let (hidden, attention, block) = (sizes.hidden, weights.at("self_attn"), weights.at("ple_block"))
    let (queries, width) = (shape.heads * shape.headDim, shape.kvHeads * shape.headDim)
    return Layer(
      shape: place, inputNorm: try weights.norm("input_layernorm", hidden),
      postAttentionNorm: try weights.norm("post_attention_layernorm", hidden),
      preFeedforwardNorm: try weights.norm("pre_feedforward_layernorm", hidden),
      postFeedforwardNorm: try weights.norm("post_feedforward_layernorm", hidden),
      qNorm: try attention.norm("q_norm", shape.headDim), kNorm: try attention.norm("k_norm", shape.headDim),
      qkv: try attention.linear(["q_proj": queries, "k_proj": width, "v_proj": width], from: hidden),
      o: try attention.linear(["o_proj": hidden], from: queries),
      gateUp: try weights.linear(
        ["mlp.gate_proj": sizes.intermediate, "mlp.up_proj": sizes.intermediate], from: hidden),
      down: try weights.linear(["mlp.down_proj": hidden], from: sizes.intermediate),
      inputGate: try block.linear(["per_layer_input_gate": inputSize], from: hidden),
      inputProjection: try block.linear(["per_layer_projection": hidden], from: inputSize),
      postInputNorm: try block.norm("post_per_layer_input_norm", hidden),
      scalar: try weights.floats("layer_scalar", shape: weights.shape(of: "layer_scalar") == [] ? [] : [1])
        .first ?? 1)
  }

  package var hidden: Int { output.rows }
  package var vocabularySize: Int { sizes.vocabulary }
  package var maxTokens: Int { sizes.contextLength }
  package var workBytesPerToken: Int {
    frame.workBytes(intermediate: 2 * sizes.intermediate) + 4 * inputSize * (sizes.layers + 1) + 4 * hidden
  }
  package var tableBytes: Int { words.byteCount }

  package func forward(_ texts: [EncoderText]) throws(ModelError) -> Rows {
    try frame.begin(texts)
    for rope in ropes { rope.prepare(frame.layout) }
    let (compute, epsilon, x, h) = (frame.compute, sizes.epsilon, frame.stream, frame.branch)
    compute.gather(texts.flatMap(\.tokens), of: words, into: x)
    compute.scale(x, by: gemmaEmbeddingScale(width: sizes.hidden))
    let inputs = inputs.rows(x.count, sizes.layers * inputSize)
    inputProjection(x, into: inputs)
    compute.scale(inputs, by: 1 / Float(sizes.hidden).squareRoot())
    compute.rmsNormHeads(inputs, gain: inputNorm, epsilon: epsilon)
    for (index, layer) in layers.enumerated() {
      compute.rmsNorm(x, gain: layer.inputNorm, epsilon: epsilon, into: h)
      attend(layer, h)
      compute.rmsNorm(h, gain: layer.postAttentionNorm, epsilon: epsilon, into: h)
      compute.add(h, to: x)

      compute.rmsNorm(x, gain: layer.preFeedforwardNorm, epsilon: epsilon, into: h)
      let gateUp = frame.inner(2 * sizes.intermediate)
      let inner = gateUp.columns(from: 0, count: sizes.intermediate)
      layer.gateUp(h, into: gateUp)
      compute.gatedGELU(
        inner, gateUp.columns(from: sizes.intermediate, count: sizes.intermediate), into: inner)
      layer.down(inner, into: h)
      compute.rmsNorm(h, gain: layer.postFeedforwardNorm, epsilon: epsilon, into: h)
      compute.add(h, to: x)

      let gate = gated.rows(x.count, inputSize)
      layer.inputGate(x, into: gate)
      compute.gatedGELU(gate, inputs.columns(from: index * inputSize, count: inputSize), into: gate)
      layer.inputProjection(gate, into: h)
      compute.rmsNorm(h, gain: layer.postInputNorm, epsilon: epsilon, into: h)
      compute.add(h, to: x)
      compute.scale(x, by: layer.scalar)
    }
    compute.rmsNorm(x, gain: finalNorm, epsilon: epsilon, into: x)
    let states = projected.rows(x.count, output.rows)
    output(x, into: states)
    return states
  }

  /// `h = o(attention of h)`.
  private func attend(_ layer: Layer, _ h: Rows) {
    let (compute, shape) = (frame.compute, shapes[layer.shape])
    let (queries, width) = (shape.heads * shape.headDim, shape.kvHeads * shape.headDim)
    let all = frame.projections(queries + 2 * width)
    layer.qkv(h, into: all)
    let q = all.columns(from: 0, count: queries)
    let k = all.columns(from: queries, count: width)
    let v = all.columns(from: queries + width, count: width)
    compute.rmsNormHeads(q, gain: layer.qNorm, epsilon: sizes.epsilon)
    compute.rmsNormHeads(k, gain: layer.kNorm, epsilon: sizes.epsilon)
    compute.rmsNormHeads(
      v, gain: [Float](repeating: 1, count: shape.headDim), epsilon: sizes.epsilon)
    compute.rotate(q, headDim: shape.headDim, by: ropes[layer.shape])
    compute.rotate(k, headDim: shape.headDim, by: ropes[layer.shape])
    layer.o(frame.attend(all, shape: layer.shape), into: h)
  }
}
