// What families read from config.json beside sizes, and their table in the documentation.

import Checkpoint
import Compute
import JSON
import Media
import Models
import Platform
import Support
import Testing

@testable import Models

@Suite struct FamilyTableTests {
  @Test func `the documentation names exactly the families that can be loaded`() throws {
    let bytes = try File.read(TestData.root + "/docs/models.md", limit: 1 << 20)
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    let start = try #require(lines.firstIndex { $0.hasPrefix("| `model_type`") })
    let rows = lines[(start + 2)...].prefix { $0.hasPrefix("|") }
    let names = rows.flatMap { row in
      row.split(separator: "|")[0].split(separator: "`").filter { !$0.contains(" ") && $0 != "," }
    }
    #expect(names.map(String.init).sorted() == ModelFamily.supportedTypes)
    #expect(Set(ModelFamily.supportedTypes).count == ModelFamily.supportedTypes.count)
  }
}

@Suite struct RefusedTypeTests {
  @Test func `the documentation names the types that are refused, with their reasons`() throws {
    let bytes = try File.read(TestData.root + "/docs/models.md", limit: 1 << 20)
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    let start = try #require(lines.firstIndex { $0.hasPrefix("| Reason") })
    var found: [String] = []
    for row in lines[(start + 2)...].prefix(while: { $0.hasPrefix("|") }) {
      let cells = row.split(separator: "|").map { $0.trimmingPrefix(" ") }
      for type in cells[1].split(separator: "`").filter({ !$0.contains(" ") && $0 != "," }) {
        found.append("\(type): \(cells[0])".replacing(" :", with: ":").trimmed)
      }
    }
    #expect(found.sorted() == RefusedTypes.all.map { "\($0.type): \($0.reason)" }.sorted())
    #expect(Set(RefusedTypes.all.map(\.type)).isDisjoint(with: ModelFamily.supportedTypes))
    #expect(Set(RefusedTypes.all.map(\.type)).count == RefusedTypes.all.count)
  }

  @Test func `a known type is refused with its reason`() throws {
    let words = try refusal("llama-tiny-q3", ["model_type": "rwkv7"])
    #expect(words.contains("'rwkv7' is not supported: a recurrence of its own"))
  }

  @Test(
    arguments: [
      ("llama-tiny-q3", "attn_logit_softcapping", 50.0), ("llama-tiny-q3", "clip_qkv", 8.0),
      ("qwen3-tiny-q4", "logit_scale", 0.5), ("olmoe-tiny", "clip_qkv", 8.0),
      ("hunyuanmoe-tiny", "use_cla", true),
      ("hunyuanmoe-tiny", "norm_topk_prob", false), ("hunyuanmoe-tiny", "attention_head_dim", 16),
      ("hunyuanmoe-tiny", "moe_layer_num_skipped", 1), ("internlm3-tiny", "qkv_bias", false),
      ("exaone-tiny-q4", "activation_function", "gelu"),
      ("minicpm-tiny-q4", "sparse_config", ["dense_len": 8192]),
      ("afmoe-tiny", "num_expert_groups", 2), ("dots1-tiny", "scoring_func", "tanh"),
      ("exaonemoe-tiny", "mlp_layer_types", ["sparse"]), ("gemma2-tiny", "attention_chunk_size", 16),
      ("glm4-tiny", "layer_types", ["sliding_attention", "full_attention"]),
    ] as [(String, String, JSONValue)])
  func `a setting that another family computes by is refused`(name: String, key: String, value: JSONValue)
    throws
  {
    #expect(try refusal(name, .object(JSONObject([(key, value)]))).contains(key))
  }

  @Test func `a key of the rotation that nobody knows is refused`() throws {
    let words = try refusal(
      "llama-tiny-q3", ["rope_scaling": ["rope_type": "linear", "factor": 2, "truncates": false]])
    #expect(words.contains("rope_scaling.truncates"))
  }

  @Test(arguments: GoldenFolder.decoders)
  func `every setting of a golden's config is read, refused or known as harmless`(golden: GoldenFolder) throws
  {
    var unknown: [String] = []
    _ = try ModelFamily.load(
      try ModelFolder(path: golden.path), compute: try ComputeContext(threads: 1)
    ) { unknown = $0 }
    #expect(unknown == [])
  }

  @Test func `a setting of which nothing is known is told`() throws {
    #expect(try unknown("llama-tiny-q3", ["residual_twist": 2]) == ["residual_twist"])
  }

  @Test func `a setting that another one makes idle is not told`() throws {
    let length: JSONValue = ["original_max_position_embeddings": 4096]
    #expect(try unknown("llama-tiny-q3", length) == [])
    let still: JSONValue = ["use_sliding_window": false, "max_window_layers": 28, "sliding_window": 32_768]
    #expect(try unknown("qwen2-tiny-q4", still) == [])
    let stretched: JSONValue = [
      "original_max_position_embeddings": 4096, "rope_scaling": ["type": "linear", "factor": 2],
    ]
    #expect(try unknown("llama-tiny-q3", stretched) == ["original_max_position_embeddings"])
    #expect(try unknown("llama-tiny-q3", ["num_experts_per_tok": 8, "num_local_experts": 0]) == [])
    #expect(
      try unknown("llama-tiny-q3", ["num_experts_per_tok": 8, "num_experts": 4])
        == ["num_experts", "num_experts_per_tok"])
    #expect(
      try unknown("smollm3-tiny", ["no_rope_layers": [1, 1, 1, 0, 1], "no_rope_layer_interval": 4]) == [])
  }

  private func unknown(_ name: String, _ changes: JSONValue) throws -> [String] {
    var unknown: [String] = []
    try withChanges(TestData.fixtures + "/models/" + name, changes) { path in
      _ = try ModelFamily.load(
        try ModelFolder(path: path), compute: try ComputeContext(threads: 1)
      ) { unknown = $0 }
    }
    return unknown
  }

  @Test func `values that say nothing are no setting`() throws {
    let path = TestData.fixtures + "/models/llama-tiny-q3"
    try withChanges(path, ["logit_scale": 1.0, "use_qk_norm": false, "attn_logit_softcapping": nil]) { path in
      _ = try ModelFamily.load(try ModelFolder(path: path), compute: try ComputeContext(threads: 1))
    }
  }

  private func refusal(_ name: String, _ changes: JSONValue) throws -> String {
    var words = ""
    try withChanges(TestData.fixtures + "/models/" + name, changes) { path in
      let error = try #require(throws: ModelError.self) {
        _ = try ModelFamily.load(try ModelFolder(path: path), compute: try ComputeContext(threads: 1))
      }
      words = error.description
    }
    return words
  }

  private func withChanges(_ path: String, _ changes: JSONValue, _ body: (String) throws -> Void) throws {
    var object = try #require(
      try JSONValue(parsing: try File.read(path + "/config.json", limit: 1 << 20)).objectValue)
    for (key, value) in changes.objectValue?.entries ?? [] { object[key] = value }
    try withCheckpoint(
      config: JSONValue.object(object).bytes,
      weights: try File.read(path + "/model.safetensors", limit: 1 << 24), body)
  }
}

extension String {
  fileprivate var trimmed: String { hasSuffix(" ") ? String(dropLast()) : self }
}

@Suite struct WrapperTests {
  @Test(
    arguments: [
      ("qwen2-tiny-q4", "qwen2_5_vl"), ("qwen2-tiny-q4", "qwen2_vl"),
      ("qwen3moe-mixed-tiny", "qwen3_vl_moe"), ("gemma4-keqv-tiny", "gemma4_unified"),
    ])
  func `the text part of a model of images computes what the text model computes`(
    fixture: String, wrapper: String
  ) throws {
    let path = TestData.fixtures + "/models/" + fixture
    let config = try JSONValue(parsing: try File.read(path + "/config.json", limit: 1 << 20))
    var outer = JSONObject([
      ("model_type", .string(wrapper)), ("text_config", config["text_config"] ?? config),
    ])
    outer["quantization"] = config["quantization"]
    outer["vision_config"] = ["hidden_size": 64]
    let weights = try File.read(path + "/model.safetensors", limit: 1 << 24)
    let tokens: [Int32] = [3, 1, 4, 1, 5, 9]
    let plain = try Runner(path).logits(of: tokens)
    try withCheckpoint(config: JSONValue.object(outer).bytes, weights: weights) { path in
      let wrapped = try Runner(path).logits(of: tokens)
      #expect(wrapped == plain)
    }
  }
}

@Suite struct WrongSizeTests {
  @Test(arguments: [
    ("llama-tiny-q3", "intermediate_size", 256, "mlp.gate_proj.weight"),
    ("mixtral-tiny", "num_local_experts", 5, "block_sparse_moe.gate.weight"),
    ("gemma4-keqv-tiny", "global_head_dim", 64, "self_attn.q_norm.weight"),
  ])
  func `a tensor that does not fit config.json is refused with the size that config.json gives`(
    name: String, key: String, value: Int, tensor: String
  ) throws {
    let folder = try ModelFolder(path: TestData.fixtures + "/models/" + name)
    var object = try #require(folder.config.objectValue)
    object[key] = .int(value)
    let config = ConfigFields(.object(object))
    let weights = LayerLoader(folder.weights, compute: try ComputeContext(threads: 1))
    let type = try #require(folder.config["model_type"]?.stringValue)
    let error = try #require(throws: ModelError.self) {
      guard type.hasPrefix("gemma4") else {
        _ = try Llama.decoder(type, config, weights)
        return
      }
      _ = try Gemma4(config, towers: MediaTowers(), weights)
    }
    let words = error.description
    #expect(words.contains(tensor) && words.contains(": config.json says hidden_size = "), "\(words)")
    #expect(words.contains(", \(key) = \(value)"), "\(words)")
  }
}

@Suite struct VariantTests {
  private func variant(_ type: String, _ extra: JSONValue) throws -> LlamaVariant {
    var object = JSONObject([
      ("hidden_size", 64), ("num_hidden_layers", 8), ("num_attention_heads", 4), ("intermediate_size", 96),
      ("vocab_size", 160),
    ])
    for (key, value) in extra.objectValue?.entries ?? [] { object[key] = value }
    let config = ConfigFields(.object(object))
    return try LlamaVariant(
      type, config, sizes: try DecoderSizes(config, contextLength: 2048, tied: false))
  }

  @Test func `SmolLM3 leaves every fourth layer without positions, or those that it lists`() throws {
    let usual = [true, true, true, false, true, true, true, false]
    #expect(try variant("smollm3", [:]).rotates == usual)
    #expect(
      try variant("smollm3", ["no_rope_layers": [0, 1, 1, 1, 1, 1, 1, 1]]).rotates
        == [false] + [Bool](repeating: true, count: 7))
    #expect(throws: ModelError.self) { try variant("smollm3", ["no_rope_layers": [1, 1]]) }
    #expect(throws: ModelError.self) { try variant("smollm3", ["no_rope_layers": "all"]) }
  }

  @Test func `Llama ignores what only others read`() throws {
    let llama = try variant("llama", ["residual_multiplier": 0.5, "num_local_experts": 4])
    #expect(llama.residualScale == 1 && llama.experts == nil && llama.scoreScale == 0.25)
    #expect(llama.rotates.allSatisfy { $0 } && llama.queryGrowth == nil)
  }

  @Test func `Granite's factors are read, and zero is refused`() throws {
    let granite = try variant(
      "granite",
      [
        "residual_multiplier": 0.5, "embedding_multiplier": 12, "logits_scaling": 8,
        "attention_multiplier": 0.125,
      ])
    #expect(granite.residualScale == 0.5 && granite.embeddingScale == 12)
    #expect(granite.logitScale == 0.125 && granite.scoreScale == 0.125)
    #expect(throws: ModelError.self) { try variant("granite", ["logits_scaling": 0]) }
  }

  @Test func `Ministral's queries grow in steps of the original context`() throws {
    let ministral = try variant(
      "ministral3",
      ["rope_parameters": ["llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 16]])
    let growth = try #require(ministral.queryGrowth)
    #expect(growth.factor(at: 15) == 1)
    #expect(abs(growth.factor(at: 16) - 1.346_573_6) < 1e-6)
    #expect(abs(growth.factor(at: 47) - 1.549_306_1) < 1e-6)
  }

  @Test(
    arguments: [
      ("num_local_experts", nil), ("num_local_experts", 0), ("num_experts_per_tok", 5),
      ("num_experts_per_tok", nil),
    ] as [(String, Int?)])
  func `a mixture of experts needs sensible counts`(key: String, value: Int?) throws {
    var counts = JSONObject([("num_local_experts", 4), ("num_experts_per_tok", 2)])
    counts[key] = value.map { .int($0) }
    let error = try #require(throws: ModelError.self) { try variant("mixtral", .object(counts)) }
    #expect(error.description.contains(key))
  }
}
