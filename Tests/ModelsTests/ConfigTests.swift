// config.json: what is refused, with the key's name in the error; RoPE frequencies from both key generations.

import Compute
import JSON
import Platform
import Testing

@testable import Models

@Suite struct ConfigTests {
  private let good: JSONValue = [
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 512,
  ]

  private func sizes(_ changes: JSONValue = [:]) throws -> DecoderSizes {
    try DecoderSizes(ConfigFields(merged(changes)), contextLength: 2048, tied: false)
  }

  private func merged(_ changes: JSONValue) -> JSONValue {
    var object = good.objectValue ?? JSONObject()
    for (key, value) in changes.objectValue?.entries ?? [] { object[key] = value }
    return .object(object)
  }

  private func rope(_ changes: JSONValue) throws -> RoPEScaling {
    try RoPEScaling(ConfigFields(merged(changes)), sizes: try sizes(changes), theta: 10_000)
  }

  @Test func `sizes come from the config, defaults fill what is absent`() throws {
    let plain = try sizes(["num_key_value_heads": nil, "max_position_embeddings": nil])
    #expect(plain.kvHeads == 4 && plain.headDim == 16 && plain.contextLength == 2048)
    let explicit = try sizes(["head_dim": 32, "hidden_size": 63, "tie_word_embeddings": true])
    #expect(explicit.queryWidth == 128 && explicit.keyWidth == 64 && explicit.tied)
  }

  @Test(arguments: [
    ("hidden_size", JSONValue.null), ("hidden_size", 0), ("hidden_size", -64), ("hidden_size", 1.5),
    ("hidden_size", "64"), ("hidden_size", 9_223_372_036_854_775_807), ("hidden_size", 63),
    ("num_hidden_layers", 0), ("num_hidden_layers", 100_000), ("num_attention_heads", 0),
    ("num_key_value_heads", 3), ("num_key_value_heads", 8), ("head_dim", 0), ("head_dim", 15),
    ("vocab_size", 0),
    ("intermediate_size", -1), ("max_position_embeddings", 0), ("rms_norm_eps", -1),
    ("rms_norm_eps", "small"),
    ("tie_word_embeddings", 1), ("hidden_act", "gelu"), ("hidden_act", 3),
  ])
  func `a value out of range is refused by name`(key: String, value: JSONValue) throws {
    let error = try #require(throws: ModelError.self) { try sizes(.object(JSONObject([(key, value)]))) }
    let names = key == "hidden_size" && value == 63 ? "num_attention_heads" : key
    #expect(error.description.contains(names))
  }

  @Test func `sliding windows follow layer types, else the family's rule`() throws {
    let sizes = try sizes()
    func windows(_ config: JSONValue, slides: Bool) throws -> [Int?] {
      try sizes.windows(ConfigFields(config)) { _ in slides }
    }
    #expect(try windows([:], slides: true) == [nil, nil])
    #expect(try windows(["sliding_window": nil], slides: true) == [nil, nil])
    #expect(try windows(["sliding_window": 8], slides: true) == [8, 8])
    #expect(try windows(["sliding_window": 8], slides: false) == [nil, nil])
    #expect(
      try windows(
        ["sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]], slides: true) == [
          8, nil,
        ])
    #expect(throws: ModelError.self) {
      try windows(["sliding_window": 8, "layer_types": ["x"]], slides: true)
    }
    #expect(throws: ModelError.self) { try windows(["sliding_window": 0], slides: true) }
  }

  @Test func `plain frequencies fall from one by powers of theta`() throws {
    let plain = try rope(["head_dim": 4]).variants
    #expect(plain.count == 1 && plain[0].inverse == [1, 0.01] && plain[0].magnitude == 1)
    let both = try rope(["head_dim": 4, "rope_parameters": ["rope_type": "default", "rope_theta": 100.0]])
    #expect(both.variants[0].inverse.map { ($0 * 1e6).rounded() } == [1e6, 1e5])
    let keyed = try rope(["head_dim": 4, "rope_parameters": ["full_attention": ["rope_theta": 100.0]]])
    #expect(keyed.variants[0].inverse == both.variants[0].inverse)
    #expect(try rope(["head_dim": 8, "partial_rotary_factor": 0.5]).variants[0].inverse == [1, 0.01])
  }

  @Test func `proportional frequencies fall over the whole head, and only the first share turns`() throws {
    let full: JSONValue = [
      "rope_type": "proportional", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "factor": 2.0,
    ]
    let found = try rope([
      "head_dim": 8, "rope_theta": 5.0, "partial_rotary_factor": 0.1,
      "rope_parameters": ["full_attention": full, "sliding_attention": ["rope_type": "default"]],
    ])
    #expect(found.variants[0].inverse.map { ($0 * 1e6).rounded() } == [500_000, 50_000, 0, 0])
  }

  @Test func `a kind of layers has the frequencies of its own object and head size`() throws {
    let config = ConfigFields(
      merged([
        "rope_theta": 5.0,
        "rope_parameters": [
          "full_attention": ["rope_theta": 4.0], "sliding_attention": ["rope_type": "default"],
        ],
      ]))
    let local = try RoPEScaling(
      config, sizes: try sizes(), theta: 100, headDim: 4, layerType: "sliding_attention")
    #expect(local.variants[0].inverse.map { ($0 * 1e6).rounded() } == [1e6, 1e5])
    #expect(RoPEScaling(theta: 100, headDim: 4).variants[0].inverse == local.variants[0].inverse)
  }

  @Test func `layers of an unknown kind are refused`() throws {
    let config = ConfigFields(["layer_types": ["full_attention", "chunked_attention"]])
    let error = try #require(throws: ModelError.self) {
      try sizes().slidingLayers(config) { _ in false }
    }
    #expect(error.description.contains("layer_types = chunked_attention"))
  }

  @Test func `Gemma's embeddings are scaled by a root that is rounded to bfloat16`() {
    let known: [(Int, Float)] = [
      (640, 25.25), (768, 27.75), (1152, 34), (2560, 50.5), (3840, 62), (5376, 73.5),
    ]
    for (width, scale) in known { #expect(gemmaEmbeddingScale(width: width) == scale) }
    #expect(gemmaEmbeddingScale(width: 1536) == 39.25 && gemmaEmbeddingScale(width: 256) == 16)
  }

  @Test(arguments: ["use_bidirectional_attention", "attn_logit_softcapping"])
  func `Gemma 3 refuses what it does not compute`(key: String) throws {
    let value: JSONValue = key == "attn_logit_softcapping" ? 50.0 : true
    let error = try #require(throws: ModelError.self) {
      try Gemma3.refuseWhatIsMissing(ConfigFields(.object(JSONObject([(key, value)]))))
    }
    #expect(error.description.contains(key))
    try Gemma3.refuseWhatIsMissing(ConfigFields(.object(JSONObject([(key, .null)]))))
  }

  private let goodGemma4: JSONValue = [
    "hidden_activation": "gelu_pytorch_tanh", "num_hidden_layers": 4, "num_kv_shared_layers": 2,
    "sliding_window": 8, "head_dim": 16, "global_head_dim": 32, "attention_k_eq_v": true,
    "num_global_key_value_heads": 1,
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
    "rope_parameters": [
      "full_attention": ["rope_type": "proportional", "partial_rotary_factor": 0.25],
      "sliding_attention": ["rope_type": "default"],
    ],
  ]

  private func gemma4(_ changes: JSONValue) throws -> Gemma4Config {
    var object = merged(goodGemma4).objectValue ?? JSONObject()
    for (key, value) in changes.objectValue?.entries ?? [] { object[key] = value }
    return try Gemma4Config(ConfigFields(.object(object)))
  }

  @Test func `Gemma 4's upper layers read the last lower layer of their kind`() throws {
    let config = try gemma4([:])
    let sources = try (0..<4).map(config.cacheLayer)
    #expect(config.writers == 2 && sources == [0, 1, 1, 0])
    let (full, local) = (config.attention(3), config.attention(2))
    #expect(full.headDim == 32 && full.kvHeads == 1 && full.window == nil && full.scale == 1)
    #expect(local.headDim == 16 && local.kvHeads == 2 && local.window == 8 && local.scale == 1)
    #expect(
      config.fullRope.variants[0].inverse.count == 16 && config.localRope.variants[0].inverse.count == 8)
    #expect(config.secondWidth == 256 && config.secondVocabulary == 100)
    #expect(throws: ModelError.self) { try gemma4(["num_kv_shared_layers": 3]).cacheLayer(2) }
  }

  @Test(
    arguments: [
      ("use_bidirectional_attention", "all"),
      ("use_bidirectional_attention", true),
      ("layer_types", nil), ("rope_parameters", nil), ("rope_parameters", ["full_attention": [:]]),
      ("num_kv_shared_layers", nil), ("num_kv_shared_layers", 4), ("num_global_key_value_heads", 3),
      ("global_head_dim", 31), ("sliding_window", nil), ("hidden_activation", "relu"),
      ("vocab_size_per_layer_input", 99), ("final_logit_softcapping", 0),
    ] as [(String, JSONValue)])
  func `Gemma 4 refuses what it cannot run by name`(key: String, value: JSONValue) throws {
    let error = try #require(throws: ModelError.self) {
      try gemma4(.object(JSONObject([(key, value)])))
    }
    #expect(error.description.contains(key))
  }

  @Test func `linear scaling divides, llama3 keeps, blends and divides`() throws {
    let linear = try rope(["head_dim": 4, "rope_scaling": ["type": "linear", "factor": 4.0]])
    #expect(linear.variants[0].inverse == [0.25, 0.0025])
    let llama3 = try rope([
      "head_dim": 6, "rope_theta": 1e6,
      "rope_scaling": [
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1000,
      ],
    ]).variants[0].inverse
    // Wavelengths 6.28 (kept), 628 (between 250 and 1000: blend (1000/628.3 - 1)/3 = 0.19718), 62832 (divided).
    #expect(llama3[0] == 1 && abs(llama3[2] - 1e-4 / 8) < 1e-12)
    #expect(abs(llama3[1] - (0.80282 * 0.01 / 8 + 0.19718 * 0.01)) < 1e-7)
  }

  @Test func `longrope has two tables, a limit and a magnitude`() throws {
    let long = try rope([
      "head_dim": 4, "max_position_embeddings": 131_072, "original_max_position_embeddings": 4096,
      "rope_scaling": ["type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [4.0, 10.0]],
    ])
    #expect(long.variants.map(\.inverse) == [[1, 0.005], [0.25, 0.001]])
    #expect(long.variants.allSatisfy { abs($0.magnitude - 1.190238) < 1e-6 })
    #expect([1, 4096, 4097].map(long.variant(forTokens:)) == [0, 0, 1])
    #expect(try rope([:]).variant(forTokens: 1 << 40) == 0)
  }

  @Test func `yarn keeps fast pairs, stretches slow ones and raises the magnitude`() throws {
    let yarn = try rope([
      "head_dim": 64, "hidden_size": 256, "max_position_embeddings": 131_072,
      "rope_scaling": ["rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768],
    ]).variants[0]
    let plain = try rope(["head_dim": 64, "hidden_size": 256]).variants[0].inverse
    #expect(yarn.inverse[0] == plain[0])
    #expect(abs(yarn.inverse[31] / plain[31] - 0.25) < 1e-9)
    #expect(abs(yarn.magnitude - 1.138629) < 1e-6)
  }

  @Test func `yarn stretches the context, also where the stated one was left as it was`() throws {
    func context(_ stated: Int, _ scaling: JSONValue) throws -> Int {
      let config: JSONValue = [
        "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 96,
        "vocab_size": 160, "max_position_embeddings": .int(stated), "rope_scaling": scaling,
      ]
      return try DecoderSizes(ConfigFields(config), contextLength: 2048, tied: false).contextLength
    }
    let yarn: JSONValue = ["rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768]
    #expect(try context(40_960, yarn) == 131_072)
    #expect(try context(262_144, yarn) == 262_144)
    #expect(try context(40_960, ["type": "yarn", "factor": 4.0]) == 40_960)
    #expect(try context(40_960, ["rope_type": "linear", "factor": 4.0]) == 40_960)
  }

  @Test func `YaRN's border between pairs is rounded to whole ones, unless truncate is false`() throws {
    let yarn = JSONObject([
      ("rope_type", "yarn"), ("factor", 32.0), ("original_max_position_embeddings", 4096),
      ("beta_fast", 32.0), ("beta_slow", 1.0),
    ])
    func inverse(_ truncate: JSONValue?) throws -> [Double] {
      var scaling = yarn
      if let truncate { scaling["truncate"] = truncate }
      return try rope(["rope_theta": 150_000, "rope_scaling": .object(scaling)]).variants[0].inverse
    }
    #expect(try inverse(nil) == inverse(true))
    #expect(try inverse(false) != inverse(true))
    // 16 elements: pair(32) = 8 log(4096 / 64π) / log 150,000 = 2.023, pair(1) = 4.349; of pair 3 the ramp is 0.4199.
    let plain = 1 / pow(150_000, 6.0 / 16)
    let ramp = (3 - 2.0226) / (4.3493 - 2.0226)
    let wanted = (1 - ramp) * plain + ramp * plain / 32
    #expect(abs(try inverse(false)[3] / wanted - 1) < 1e-3)
    #expect(throws: ModelError.self) { try inverse("never") }
  }

  @Test func `neighbours are paired where the family or rope_traditional says so`() throws {
    #expect(try !rope([:]).isInterleaved && rope(["rope_traditional": true]).isInterleaved)
  }

  @Test func `Hunyuan's base is raised by alpha`() throws {
    let scaled = try rope(["rope_theta": 10_000, "rope_scaling": ["type": "dynamic", "alpha": 1000.0]])
    let base = 10_000 * pow(1000, 16.0 / 14)
    #expect(abs(scaled.variants[0].inverse[1] / pow(base, -2.0 / 16) - 1) < 1e-12)
  }

  @Test func `a base that only longer sequences raise is the plain one within the context`() throws {
    let scaled = try rope(["rope_scaling": ["rope_type": "dynamic", "factor": 6.0]])
    #expect(try scaled.variants.map(\.inverse) == rope([:]).variants.map(\.inverse))
  }

  @Test(
    arguments: [
      ["rope_scaling": ["type": "dynamic"]], ["rope_scaling": ["type": "linear"]],
      ["rope_scaling": ["type": "linear", "factor": 0.0]], ["rope_scaling": 5], ["rope_scaling": ["type": 5]],
      ["rope_theta": 0], ["rope_theta": "big"], ["partial_rotary_factor": 2.0],
      ["partial_rotary_factor": 0.01],
      ["rope_traditional": "yes"], ["rope_scaling": ["type": "dynamic", "alpha": 0.0]],
      ["rope_scaling": ["type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0]],
      ["rope_scaling": ["type": "longrope", "short_factor": [1.0], "long_factor": [1.0]]],
      [
        "original_max_position_embeddings": 4096,
        "rope_scaling": ["type": "longrope", "short_factor": [1.0], "long_factor": [1.0]],
      ],
    ] as [JSONValue])
  func `a scaling without a rule is refused by name`(config: JSONValue) throws {
    let error = try #require(throws: ModelError.self) { try rope(config) }
    #expect(error.description.contains("config.json"))
    #expect(["rope", "rotary", "original_max"].contains { error.description.contains($0) })
  }
}
