// Parameters of a checkpoint and their layout, as shapes and config.json tell them.

import Compute
import Testing

@testable import Checkpoint

@Suite struct StoredNumbersTests {
  private func folder(_ config: String, _ tensors: [TestTensor]) throws -> ModelFolder {
    let files = try TestFolder(["config.json": Array(config.utf8), "model.safetensors": safetensors(tensors)])
    return try ModelFolder(path: files.path)
  }

  /// A matrix of MLX's layout, and its helpers.
  private func packed(_ name: String, rows: Int, columns: Int, bits: Int, group: Int) -> [TestTensor] {
    [
      TestTensor(name + ".weight", "U32", [rows, columns * bits / 32]),
      TestTensor(name + ".scales", "F16", [rows, columns / group]),
      TestTensor(name + ".biases", "F16", [rows, columns / group]),
    ]
  }

  @Test func `packed elements are counted one by one, and helpers not at all`() throws {
    let tensors =
      packed("model.embed_tokens", rows: 10, columns: 576, bits: 8, group: 32)
      + packed("model.layers.0.mlp.up_proj", rows: 6, columns: 576, bits: 4, group: 32)
      + [TestTensor("model.norm.weight", "F16", [576]), TestTensor("model.norm.bias", "F32", [2, 3])]
    let count = 10 * 576 + 6 * 576 + 576 + 6
    let said = try folder(
      #"{"quantization":{"group_size":32,"bits":4,"model.embed_tokens":{"group_size":32,"bits":8}}}"#, tensors
    )
    #expect(said.parameterCount == count)
    // A row of 576 is one that the model knows, and 288 or 1152 are not.
    let bare = try folder(#"{"hidden_size":576}"#, tensors)
    #expect(bare.parameterCount == count)
    #expect(bare.quantization.base == nil)
    #expect(bare.storedQuantization == Quantization(bits: 8, groupSize: 32))
    #expect(try folder("{}", [TestTensor("a.weight", "BF16", [4, 4])]).storedQuantization == nil)
  }

  @Test func `widths of a text model inside another count too`() throws {
    let model = try folder(
      #"{"text_config":{"intermediate_size":768}}"#, packed("m", rows: 2, columns: 768, bits: 4, group: 128))
    #expect(model.parameterCount == 2 * 768)
    #expect(model.storedQuantization == Quantization(bits: 4, groupSize: 128))
  }

  @Test func `formats of floats are told by their scales`() throws {
    for (bits, group, mode) in [(4, 32, Quantization.Mode.mxfp4), (8, 32, .mxfp8), (4, 16, .nvfp4)] {
      let model = try folder(
        "{}",
        [
          TestTensor("m.weight", "U32", [2, 128 * bits / 32]),
          TestTensor("m.scales", "U8", [2, 128 / group]),
        ])
      #expect(model.parameterCount == 256)
      #expect(model.storedQuantization == Quantization(mode: mode, bits: bits, groupSize: group))
    }
    let blocks = try folder(
      "{}", [TestTensor("x_blocks", "U8", [2, 3, 4, 16]), TestTensor("x_scales", "U8", [2, 3, 4])])
    #expect(blocks.parameterCount == 2 * 3 * 4 * 32)
    #expect(blocks.storedQuantization == Quantization(mode: .mxfp4, bits: 4, groupSize: 32))
  }

  private func check(_ config: String, _ count: Int, _ tensors: [TestTensor]) throws {
    let model = try folder(#"{"quantization_config":{"quant_method":"# + config + "}}", tensors)
    #expect(model.parameterCount == count, "\(config)")
    #expect(model.storedQuantization == nil)
  }

  @Test func `layouts of other tools are counted as what they hold`() throws {
    try check(
      #""gptq","bits":4"#, 320,
      [
        TestTensor("m.qweight", "I32", [8, 5]), TestTensor("m.qzeros", "I32", [1, 1]),
        TestTensor("m.scales", "F16", [1, 5]), TestTensor("m.g_idx", "I32", [64]),
      ])
    try check(
      #""awq","bits":4"#, 1024,
      [
        TestTensor("m.qweight", "I32", [64, 2]), TestTensor("m.qzeros", "I32", [1, 2]),
        TestTensor("m.scales", "F16", [1, 16]),
      ])
    try check(
      #""compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8}}}"#, 256,
      [
        TestTensor("m.weight_packed", "I32", [4, 16]), TestTensor("m.weight_scale", "F16", [4, 1]),
        TestTensor("m.weight_shape", "I64", [2]),
      ])
    try check(
      #""bitsandbytes""#, 256,
      [
        TestTensor("m.weight", "U8", [128, 1]), TestTensor("m.weight.absmax", "F32", [4]),
        TestTensor("m.weight.quant_map", "F32", [16]),
        TestTensor("m.weight.quant_state.bitsandbytes__nf4", "U8", [90]),
      ])
    try check(
      #""fp8""#, 128,
      [TestTensor("m.weight", "F8_E4M3", [4, 32]), TestTensor("m.weight_scale_inv", "F32", [1, 1])])
    try check(
      #""hqq","quant_config":{"weight_quant_params":{"nbits":4}}"#, 260,
      [
        TestTensor("m.W_q", "U8", [2, 64]), TestTensor("m.scale", "F16", [4, 1]),
        TestTensor("m.zero", "F16", [4, 1]), TestTensor("m.nbits", "I32", [1]),
        TestTensor("m.bias", "F16", [4]),
      ])
    try check(
      #""bitnet""#, 512, [TestTensor("m.weight", "U8", [4, 32]), TestTensor("m.weight_scale", "BF16", [1])])
  }
}
