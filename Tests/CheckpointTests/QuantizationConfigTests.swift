// The quantization object of config.json: values, overrides, prefixes, and methods that are not MLX's.

import Compute
import JSON
import Support
import Testing

@testable import Checkpoint

private func read(_ config: JSONValue) throws(CheckpointError) -> QuantizationConfig {
  try QuantizationConfig(config: config, file: "config.json")
}

private func fault(_ config: JSONValue) -> String {
  do {
    _ = try read(config)
    return "no error"
  } catch {
    return error.description
  }
}

private func quantized(_ bits: Int, _ group: Int, _ mode: Quantization.Mode = .affine)
  -> QuantizationConfig.Rule
{
  .quantized(Quantization(mode: mode, bits: bits, groupSize: group))
}

@Suite struct QuantizationConfigTests {
  @Test func `a configuration without quantization has no rules`() throws {
    for config: JSONValue in [[:], ["quantization": nil], ["quantization_config": nil]] {
      #expect(try read(config).base == nil)
      #expect(try read(config).rule(for: "lm_head") == nil)
    }
  }

  @Test func `absent values take MLX's defaults`() throws {
    #expect(try read(["quantization": [:] as JSONValue]).base == Quantization(bits: 4, groupSize: 64))
    #expect(
      try read(["quantization": ["mode": "mxfp8"]]).base == Quantization(mode: .mxfp8, bits: 8, groupSize: 32)
    )
    #expect(
      try read(["quantization": ["mode": "nvfp4"]]).base == Quantization(mode: .nvfp4, bits: 4, groupSize: 16)
    )
    #expect(
      try read(["quantization": ["mode": nil, "bits": 3]]).base == Quantization(bits: 3, groupSize: 64))
  }

  @Test func `the object may stand in four places`() throws {
    let object: JSONValue = ["bits": 8, "group_size": 32]
    let expected = Quantization(bits: 8, groupSize: 32)
    #expect(try read(["quantization": object]).base == expected)
    #expect(try read(["quantization_config": object]).base == expected)
    #expect(try read(["text_config": ["quantization": object]]).base == expected)
    #expect(try read(["text_config": ["quantization_config": object]]).base == expected)
    #expect(
      try read(["quantization": object, "quantization_config": ["quant_method": "fp8"]]).base == expected)
  }

  @Test func `overrides apply to one module, with or without the wrapper's prefixes`() throws {
    let config = try read([
      "quantization": [
        "bits": 4, "group_size": 64, "mode": "affine",
        "model.layers.0.mlp.gate": ["bits": 8],
        "language_model.model.per_layer": false,
        "lm_head": ["bits": 6, "group_size": 32],
        "model.norm": true,
      ]
    ])
    #expect(config.rule(for: "model.layers.0.mlp.gate") == quantized(8, 64))
    #expect(config.rule(for: "language_model.model.layers.0.mlp.gate") == quantized(8, 64))
    #expect(config.rule(for: "model.language_model.layers.0.mlp.gate") == quantized(8, 64))
    #expect(config.rule(for: "layers.0.mlp.gate") == quantized(8, 64))
    #expect(config.rule(for: "model.layers.10.mlp.gate") == quantized(4, 64))
    #expect(config.rule(for: "model.per_layer") == .plain)
    #expect(config.rule(for: "language_model.lm_head") == quantized(6, 32))
    #expect(config.rule(for: "model.norm") == quantized(4, 64))
  }

  @Test func `an override without a mode is affine`() throws {
    let config = try read([
      "quantization": [
        "bits": 4, "group_size": 32, "mode": "mxfp4", "router": ["bits": 8, "group_size": 64],
      ]
    ])
    #expect(config.rule(for: "router") == quantized(8, 64))
    #expect(config.rule(for: "up") == quantized(4, 32, .mxfp4))
  }

  @Test func `an affine layout of another program is read`() throws {
    let gptq = try read([
      "quantization_config": ["quant_method": "gptq", "bits": 4, "group_size": -1, "sym": false]
    ])
    #expect(gptq.base == nil && gptq.foreign?.method == .gptq(lessOne: true, symmetric: false))
    #expect(gptq.foreign?.groupSize == nil && gptq.foreign?.bits == 4)
    let marlin: JSONValue = ["quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"]
    #expect(fault(["quantization_config": marlin]).contains("'gptq'"))
    let awq = try read([
      "quantization_config": ["quant_method": "awq", "version": "gemv", "q_group_size": 64]
    ])
    #expect(awq.foreign?.method == .awq(byInputs: false) && awq.foreign?.groupSize == 64)
    #expect(try read(["quantization_config": ["quant_method": "mxfp4"]]).foreign == nil)
  }

  @Test func `what another program does to activations is left out and said`() throws {
    let fp8 = try read(["quantization_config": ["quant_method": "fp8", "activation_scheme": "dynamic"]])
    #expect(fp8.method == "fp8" && fp8.leftOut == ["rounding of activations"])
    let plain = try read(["quantization_config": ["quant_method": "gptq", "bits": 4]])
    #expect(plain.leftOut.isEmpty)
  }

  @Test(arguments: ["quanto", "torchao", "exl3"])
  func `another program's method is named`(method: String) {
    #expect(
      fault(["quantization_config": ["quant_method": .string(method), "bits": 4]])
        == "config.json: the checkpoint is quantized with '\(method)', which is not supported. "
        + "Use an MLX conversion (mlx_lm.convert -q) of the original model.")
  }

  @Test(
    arguments: [
      (["quantization": 4], "config.json: quantization is an integer, expected an object"),
      (
        ["quantization": ["bits": 7]],
        "config.json: quantization.bits is 7, expected one of 2, 3, 4, 5, 6, 8"
      ),
      (
        ["quantization": ["bits": 4.5]],
        "config.json: quantization.bits is 4.5, expected one of 2, 3, 4, 5, 6, 8"
      ),
      (
        ["quantization": ["group_size": 0]],
        "config.json: quantization.group_size is 0, expected one of 16, 32, 64, 128"
      ),
      (
        ["quantization": ["group_size": -64]],
        "config.json: quantization.group_size is -64, expected one of 16, 32, 64, 128"
      ),
      (
        ["quantization": ["group_size": "64"]],
        "config.json: quantization.group_size is \"64\", expected one of 16, 32, 64, 128"
      ),
      (
        ["quantization": ["mode": "int8"]],
        "config.json: quantization.mode is \"int8\", expected one of affine, mxfp4, mxfp8, nvfp4"
      ),
      (
        ["quantization": ["mode": 3]],
        "config.json: quantization.mode is 3, expected one of affine, mxfp4, mxfp8, nvfp4"
      ),
      (
        ["quantization": ["lm_head": ["bits": 1]]],
        "config.json: quantization.lm_head.bits is 1, expected one of 2, 3, 4, 5, 6, 8"
      ),
    ] as [(JSONValue, String)])
  func `values that MLX does not have are refused`(config: JSONValue, words: String) {
    #expect(fault(config) == words)
  }

  @Test func `huge shapes cannot overflow the layout's arithmetic`() {
    let sizes = [0, 1, 64, .max / 32, .max / 2, .max]
    for packed in sizes {
      for groups in sizes {
        for columns in sizes {
          for isByte in [false, true] {
            let found = QuantizationConfig.resolve(
              configured: Quantization(bits: 4, groupSize: 64), scalesAreBytes: isByte, packed: packed,
              groups: groups, columns: columns)
            if let found, packed > 0 { #expect(packed * 32 == groups * found.groupSize * found.bits) }
          }
        }
      }
    }
  }
}
