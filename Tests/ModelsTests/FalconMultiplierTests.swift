// Falcon-H1 as its authors store it: multipliers beside the weights give what weights that contain them give.

import Compute
import JSON
import Models
import Platform
import Support
import Testing

@Suite struct FalconMultiplierTests {
  /// Powers of two, by which half-precision weights are divided exactly.
  private static let settings =
    [
      ("embedding_multiplier", 4), ("lm_head_multiplier", 0.5), ("key_multiplier", 0.25),
      ("attention_in_multiplier", 2), ("attention_out_multiplier", 0.5), ("ssm_in_multiplier", 2),
      ("ssm_out_multiplier", 0.25), ("ssm_multipliers", [2, 0.5, 4, 0.25, 0.5]),
      ("mlp_multipliers", [0.5, 4]),
    ] as [(String, JSONValue)]

  @Test func `multipliers beside the weights are the weights times them`() throws {
    let golden = try GoldenFolder.fixture("falconh1-tiny")
    let expected = try Expected(golden)
    var config = try #require(try golden.config().objectValue)
    for (key, value) in Self.settings { config[key] = value }
    // Rows of z, x, B, C and dt.
    let (heads, width, state) = (
      try golden.setting("mamba_n_heads"),
      try golden.setting("mamba_n_heads") * golden.setting("mamba_d_head"),
      try golden.setting("mamba_n_groups") * golden.setting("mamba_d_state")
    )
    let rows = [(width, 2.0), (width, 0.5), (state, 4), (state, 0.25), (heads, 0.5)]
      .flatMap { [Int](repeating: exponent($1) + 1, count: $0) }
    let factors: [(String, [Int])] = [
      ("embed_tokens.weight", [2]), ("lm_head.weight", [-1]), ("q_proj.weight", [1]), ("k_proj.weight", [-1]),
      ("v_proj.weight", [1]), ("o_proj.weight", [-1]), ("in_proj.weight", rows), ("out_proj.weight", [-2]),
      ("gate_proj.weight", [-1]), ("down_proj.weight", [2]),
    ]
    var file = try File.read(golden.path + "/model.safetensors", limit: 1 << 24)
    let (header, data) = try golden.tensors(of: "model.safetensors")
    for (name, entry) in try #require(header.objectValue).entries {
      let start = data.startIndex + (entry["data_offsets"]?[0]?.intValue ?? 0)
      let count = (entry["shape"]?.arrayValue ?? []).compactMap(\.intValue).reduce(1, *)
      guard let (_, exponents) = factors.first(where: { name.hasSuffix($0.0) }) else { continue }
      try #require(entry["dtype"]?.stringValue == "BF16")
      for i in 0..<count {
        let bits = UInt16(file[start + 2 * i]) | UInt16(file[start + 2 * i + 1]) << 8
        guard bits & 0x7FFF != 0 else { continue }
        let exponent = exponents[i * exponents.count / count]
        let divided = UInt16(Int(bits) - exponent << 7)
        (file[start + 2 * i], file[start + 2 * i + 1]) = (
          UInt8(truncatingIfNeeded: divided), UInt8(divided >> 8)
        )
      }
    }
    // The original has taps last: the same numbers, and a header of the same length.
    let weights = replacing(",4,1]", by: ",1,4]", in: file)
    try #require(weights != file)
    try withCheckpoint(config: JSONValue.object(config).bytes, weights: weights) { path in
      let runner = try Runner(path)
      let logits = runner.logits(of: expected.inputs)
      for (position, values) in expected.logits {
        #expect(distance(logits[position], values) < 1e-3, "position \(position)")
      }
      #expect(logits.map(argmax) == expected.argmaxEach)
    }
  }

  private func exponent(_ value: Double) -> Int { Int(value.exponent) }

  private func replacing(_ old: String, by new: String, in bytes: [UInt8]) -> [UInt8] {
    var result = bytes
    let (from, to) = (Array(old.utf8), Array(new.utf8))
    let length = bytes.prefix(8).reversed().reduce(0) { $0 << 8 | Int($1) }
    var at = 8
    while at + from.count <= 8 + length {
      if Array(result[at..<at + from.count]) == from { result.replaceSubrange(at..<at + to.count, with: to) }
      at += 1
    }
    return result
  }
}
