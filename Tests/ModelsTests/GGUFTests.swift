// Models in GGUF: the logits of their goldens, and of every family's golden when it is written as converters to GGUF do.

import Checkpoint
import Compute
import JSON
import Models
import Platform
import Support
import Testing

/// A GGUF file with what transformers computed from its decoded weights.
private struct GGUFGolden: CustomTestStringConvertible {
  let path: String
  var testDescription: String { path.split(separator: "/").last.map(String.init) ?? path }

  static let all: [GGUFGolden] = {
    let shared = TestData.shared.map { $0 + "/formats/gguf/" }
    let more = shared.map { place in
      ["gemma3-q4_1", "llama-mxfp4", "llama-q4_k_m", "llama3-q8_0", "qwen2-q5_0", "qwen3-q5_1"].map {
        place + $0
      }
    }
    return ([TestData.fixtures + "/gguf/llama-q4_0"] + (more ?? [])).map { GGUFGolden(path: $0) }
  }()

  func expected() throws -> JSONValue { try GoldenFolder.document(path + ".expected.json") }
}

@Suite struct GGUFTests {
  @Test(arguments: GGUFGolden.all)
  fileprivate func `logits are those of the decoded weights`(_ golden: GGUFGolden) throws {
    let expected = try golden.expected()
    let runner = try Runner(golden.path + ".gguf")
    let inputs = tokenIDs(expected["input_ids"])
    let rows = runner.logits(of: inputs)
    #expect(distance(rows[0], numbers(expected["logits_first"])) < 1e-3)
    #expect(distance(try #require(rows.last), numbers(expected["logits_last"])) < 1e-3)
    #expect(rows.map(argmax) == tokenIDs(expected["argmax_each"]))
    #expect(runner.greedy(inputs, count: 8) == tokenIDs(expected["greedy"]))
  }

  @Test(arguments: GGUFGolden.all)
  fileprivate func `the fast mode comes near, and has the same bits with panels, without, and in any batch`(
    _ golden: GGUFGolden
  ) throws {
    let expected = try golden.expected()
    let inputs = tokenIDs(expected["input_ids"])
    let panels = try Runner(golden.path + ".gguf", mode: .fast).logits(of: inputs)
    let mapped = try Runner(golden.path + ".gguf", mode: .fast, interleaves: false)
    #expect(sameBits(panels, mapped.logits(of: inputs)))
    #expect(sameBits(panels, mapped.logits(of: inputs, chunk: 3)))
    let last = numbers(expected["logits_last"])
    let size = last.reduce(0) { $0 + abs($1) } / Float(last.count)
    #expect(distance(try #require(panels.last), last) < 0.2 * size)
  }

  /// What a fixture is called in GGUF, and the keys of its metadata.
  fileprivate struct Family: CustomTestStringConvertible {
    let fixture, architecture: String
    /// Keys of config.json and what the file calls them, without the architecture.
    var keys: [(String, String)] = []
    var pairs: [(String, GGUFWriter.Value)] = []
    /// Rows of queries and keys are put side by side in pairs.
    var turnsPairs = false
    var normsPlusOne = false
    /// Beginnings of names, in the order in which they are replaced.
    var names: [(String, String)] = []
    /// What the file cannot say of the fixture, in which the model's own value stands.
    var edits: [(String, JSONValue)] = []
    var testDescription: String { fixture }
  }

  private static let names: [(String, String)] =
    [
      ("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output"),
      ("model.embedding_norm", "token_embd_norm"), ("input_layernorm", "attn_norm"),
      ("operator_norm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"),
      ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
      ("self_attn.o_proj", "attn_output"), ("self_attn.out_proj", "attn_output"),
      ("self_attn.qkv_proj", "attn_qkv"), ("self_attn.q_norm", "attn_q_norm"),
      ("self_attn.k_norm", "attn_k_norm"), ("self_attn.q_layernorm", "attn_q_norm"),
      ("self_attn.k_layernorm", "attn_k_norm"), ("self_attn.query_layernorm", "attn_q_norm"),
      ("self_attn.key_layernorm", "attn_k_norm"), ("self_attn.sinks", "attn_sinks.weight"),
      ("mlp.gate_up_proj", "ffn_up"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"),
      ("mlp.down_proj", "ffn_down"), ("mlp.c_fc", "ffn_up"), ("mlp.c_proj", "ffn_down"),
      ("feed_forward.w1", "ffn_gate"), ("feed_forward.w3", "ffn_up"), ("feed_forward.w2", "ffn_down"),
      ("mlp.gate.", "ffn_gate_inp."), ("mlp.router", "ffn_gate_inp"),
      ("block_sparse_moe.gate", "ffn_gate_inp"), ("mlp.shared_expert_gate", "ffn_gate_inp_shexp"),
      ("mlp.shared_expert.gate_proj", "ffn_gate_shexp"), ("mlp.shared_expert.up_proj", "ffn_up_shexp"),
      ("mlp.shared_expert.down_proj", "ffn_down_shexp"), ("conv.", "shortconv."), ("ffn_norm", "ffn_norm"),
    ]
    + ["mlp.switch_mlp", "mlp.experts", "block_sparse_moe.switch_mlp"].flatMap { start in
      ["gate", "up", "down"].map { ("\(start).\($0)_proj", "ffn_\($0)_exps") }
    }

  private static let afterNorms = [
    ("post_attention_layernorm", "post_attention_norm"), ("post_feedforward_layernorm", "post_ffw_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
  ]
  private static let experts = [
    ("num_local_experts", "expert_count"), ("num_experts", "expert_count"),
    ("num_experts_per_tok", "expert_used_count"), ("moe_intermediate_size", "expert_feed_forward_length"),
  ]

  fileprivate static let families: [Family] = [
    .init(fixture: "mixtral-tiny", architecture: "llama", keys: experts, turnsPairs: true),
    .init(
      fixture: "phi4-tiny", architecture: "phi3"),
    .init(fixture: "gemma-tiny", architecture: "gemma", normsPlusOne: true),
    .init(
      fixture: "gemma2-tiny", architecture: "gemma2",
      keys: [
        ("sliding_window", "attention.sliding_window"), ("attn_logit_softcapping", "attn_logit_softcapping"),
        ("final_logit_softcapping", "final_logit_softcapping"),
      ], normsPlusOne: true, names: afterNorms, edits: [("query_pre_attn_scalar", 16)]),
    .init(
      fixture: "gptoss-tiny", architecture: "gpt-oss",
      keys: experts + [("sliding_window", "attention.sliding_window")],
      pairs: [
        ("rope.scaling.type", .string("yarn")), ("rope.scaling.factor", .float(32)),
        ("rope.scaling.original_context_length", .int(128)), ("expert_feed_forward_length", .int(32)),
      ], names: afterNorms, edits: [("swiglu_limit", 7)]),
    .init(
      fixture: "ministral3-tiny", architecture: "mistral3",
      pairs: [
        ("rope.scaling.type", .string("yarn")), ("rope.scaling.factor", .float(4)),
        ("rope.scaling.original_context_length", .int(8)), ("rope.scaling.yarn_beta_fast", .float(32)),
        ("rope.scaling.yarn_beta_slow", .float(1)), ("rope.scaling.yarn_log_multiplier", .float(1)),
        ("attention.temperature_scale", .float(0.1)),
      ], turnsPairs: true),
    .init(
      fixture: "granite-tiny", architecture: "granite",
      keys: [
        ("attention_multiplier", "attention.scale"), ("embedding_multiplier", "embedding_scale"),
        ("residual_multiplier", "residual_scale"), ("logits_scaling", "logit_scale"),
      ], turnsPairs: true),
    .init(fixture: "smollm3-tiny", architecture: "smollm3", turnsPairs: true),
    .init(
      fixture: "lfm2-tiny", architecture: "lfm2",
      pairs: [
        ("attention.head_count_kv", .ints([0, 2, 0, 0])), ("shortconv.l_cache", .int(3)),
        ("feed_forward_length", .int(48)),
      ]),
    .init(fixture: "olmo2-tiny", architecture: "olmo2", names: afterNorms),
    .init(
      fixture: "olmo3-tiny", architecture: "olmo2", keys: [("sliding_window", "attention.sliding_window")],
      pairs: [
        ("rope.scaling.type", .string("yarn")), ("rope.scaling.factor", .float(8)),
        ("rope.scaling.original_context_length", .int(64)), ("rope.freq_base", .float(10_000)),
        ("attention.sliding_window_pattern", .int(2)),
      ], names: afterNorms,
      edits: [
        ("rope_parameters", nil), ("rope_theta", 10_000),
        (
          "rope_scaling", ["rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 64]
        ),
      ]),
    .init(
      fixture: "qwen2moe-tiny", architecture: "qwen2moe",
      keys: experts + [("shared_expert_intermediate_size", "expert_shared_feed_forward_length")]),
    .init(fixture: "olmoe-tiny", architecture: "olmoe", keys: experts),
    .init(fixture: "seedoss-tiny", architecture: "seed_oss", names: Array(afterNorms.prefix(1))),
    .init(
      // The converter folds the scaling into the base: 10,000 · 1000^(16/14).
      fixture: "hunyuan-tiny", architecture: "hunyuan-dense",
      pairs: [("rope.freq_base", .float(Float(10_000 * pow(1000, 16.0 / 14.0))))]),
    .init(fixture: "ernie45-tiny", architecture: "ernie4_5"),
    .init(
      fixture: "starcoder2-tiny", architecture: "starcoder2",
      keys: [("sliding_window", "attention.sliding_window")]),
    .init(
      fixture: "glm4-tiny", architecture: "glm4", pairs: [("rope.dimension_count", .int(8))],
      names: [("post_self_attn_layernorm", "post_attention_norm"), ("post_mlp_layernorm", "post_ffw_norm")]),
    .init(
      fixture: "exaone4-tiny", architecture: "exaone4",
      keys: [("sliding_window", "attention.sliding_window")],
      pairs: [("attention.sliding_window_pattern", .int(2))], names: afterNorms),
    .init(fixture: "cohere-tiny", architecture: "command-r", keys: [("logit_scale", "logit_scale")]),
    .init(
      fixture: "cohere2-tiny", architecture: "cohere2",
      keys: [("logit_scale", "logit_scale"), ("sliding_window", "attention.sliding_window")],
      pairs: [("attention.sliding_window_pattern", .int(2))]),
  ]

  @Test(arguments: families)
  fileprivate func `a golden that is written as GGUF has the same logits`(_ family: Family) throws {
    let golden = try GoldenFolder.fixture(family.fixture)
    let config = try golden.config()
    let source = try ModelFolder(path: golden.path)
    var writer = GGUFWriter(family.architecture)
    func number(_ key: String, _ name: String) {
      guard let value = config[key] ?? config["rope_parameters"]?[key] else { return }
      let stored: GGUFWriter.Value? =
        value.intValue.map { .int($0) } ?? value.doubleValue.map { .float(Float($0)) }
      guard let stored, !family.pairs.contains(where: { $0.0 == name }) else { return }
      writer.pairs.append((family.architecture + "." + name, stored))
    }
    let keys = [
      ("hidden_size", "embedding_length"), ("num_hidden_layers", "block_count"),
      ("intermediate_size", "feed_forward_length"), ("max_position_embeddings", "context_length"),
      ("num_attention_heads", "attention.head_count"), ("num_key_value_heads", "attention.head_count_kv"),
      ("head_dim", "attention.key_length"), ("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
      ("norm_eps", "attention.layer_norm_rms_epsilon"), ("layer_norm_eps", "attention.layer_norm_epsilon"),
      ("norm_epsilon", "attention.layer_norm_epsilon"),
      ("rope_theta", "rope.freq_base"),
    ]
    for (key, name) in keys + family.keys { number(key, name) }
    writer.pairs += family.pairs.map { (family.architecture + "." + $0.0, $0.1) }
    for name in source.weights.names {
      let shape = try #require(source.weights.shape(of: name))
      var tensor = try source.weights.tensor(name, shape: shape)
      let heads = try golden.setting(name.contains("k_proj") ? "num_key_value_heads" : "num_attention_heads")
      if family.turnsPairs, name.contains("q_proj") || name.contains("k_proj") {
        // Pairs of halves of a head with two rows each time: the other way around.
        tensor = try #require(paired(tensor, headRows: shape[0] / heads))
      }
      var values = try tensor.floats()
      if family.normsPlusOne, name.contains("norm") { values = values.map { $0 + 1 } }
      var (start, rest) = ("", name)
      if name.hasPrefix("model.layers.") {
        let parts = name.split(separator: ".")
        (start, rest) = ("blk.\(parts[2]).", parts.dropFirst(3).joined(separator: "."))
      }
      let (from, to) = try #require((family.names + Self.names).first { rest.hasPrefix($0.0) }, "\(name)")
      // Channels of a convolution have one input each.
      let isConvolution = shape.count == 3 && rest.hasPrefix("conv")
      writer.add(
        start + to + rest.dropFirst(from.count), isConvolution ? shape.filter { $0 != 1 } : shape, values)
    }
    var template = Array("/tmp/mlxserve-gguf-XXXXXX".utf8CString)
    let made = template.withUnsafeMutableBufferPointer { $0.baseAddress.flatMap(mkdtemp) }
    let folder = String(cString: try #require(made))
    let path = folder + "/m.gguf"
    defer {
      unlink(path)
      rmdir(folder)
    }
    let stream = try #require(fopen(path, "w"))
    let bytes = writer.file
    #expect(fwrite(bytes, 1, bytes.count, stream) == bytes.count)
    fclose(stream)

    let expected = try Expected(golden)
    // A folder with one such file is the model too.
    let rows = try Runner(folder).logits(of: expected.inputs)
    guard family.edits.isEmpty else {
      var edited = try #require(config.objectValue)
      for (key, value) in family.edits { edited[key] = value.isNull ? nil : value }
      let weights = try File.read(golden.path + "/model.safetensors", limit: 1 << 24)
      return try withCheckpoint(config: JSONValue.object(edited).bytes, weights: weights) { path in
        let wanted = try Runner(path).logits(of: expected.inputs)
        #expect(zip(rows, wanted).allSatisfy { distance($0, $1) < 1e-3 })
      }
    }
    for (position, logits) in expected.logits {
      #expect(distance(rows[position], logits) < 1e-3, "position \(position)")
    }
    #expect(rows.map(argmax) == expected.argmaxEach)
  }

  /// Halves of each head's rows as pairs of neighbours.
  private func paired(_ tensor: TensorView, headRows: Int) -> TensorView? {
    guard let values = try? tensor.floats() else { return nil }
    let width = values.count / tensor.shape[0]
    var result = values
    for row in 0..<tensor.shape[0] {
      let (head, index) = (row / headRows, row % headRows)
      let source = head * headRows + index % 2 * (headRows / 2) + index / 2
      for column in 0..<width { result[row * width + column] = values[source * width + column] }
    }
    return TensorView(name: tensor.name, shape: tensor.shape, floats: result)
  }
}
