// Gemma 4's experts as the published checkpoints store them, beside MLX's layout of the same weights.

import Checkpoint
import JSON
import Models
import Platform
import Support
import Testing

@Suite struct Gemma4ExpertsTests {
  private static let converted = TestData.fixtures + "/models/gemma4-moe-tiny"

  /// A tensor of the fixture, whose elements are all BF16.
  private struct Stored {
    var shape: [Int]
    var bytes: [UInt8]
  }

  /// The fixture's tensors under the names of a published checkpoint, with gate and up as one.
  private func published() throws -> [String: Stored] {
    let bytes = try File.read(Self.converted + "/model.safetensors", limit: 1 << 24)
    let start = 8 + bytes.prefix(8).reversed().reduce(0) { $0 << 8 | Int($1) }
    let header = try #require(JSONValue(parsing: Array(bytes[8..<start])).objectValue)
    var tensors: [String: Stored] = [:]
    for (name, entry) in header.entries where name != "__metadata__" {
      let offsets = (entry["data_offsets"]?.arrayValue ?? []).compactMap(\.intValue)
      try #require(entry["dtype"]?.stringValue == "BF16" && offsets.count == 2)
      tensors["model.language_" + name] = Stored(
        shape: (entry["shape"]?.arrayValue ?? []).compactMap(\.intValue),
        bytes: Array(bytes[start + offsets[0]..<start + offsets[1]]))
    }
    for layer in 0..<3 {
      let experts = "model.language_model.layers.\(layer).experts."
      func take(_ name: String) throws -> Stored {
        let found = tensors.removeValue(forKey: experts + "switch_glu.\(name).weight")
        return try #require(found)
      }
      let gate = try take("gate_proj")
      let up = try take("up_proj")
      let size = gate.bytes.count / gate.shape[0]
      var both = Stored(shape: [gate.shape[0], 2 * gate.shape[1], gate.shape[2]], bytes: [])
      for start in stride(from: 0, to: gate.bytes.count, by: size) {
        both.bytes += gate.bytes[start..<start + size]
        both.bytes += up.bytes[start..<start + size]
      }
      tensors[experts + "gate_up_proj"] = both
      tensors[experts + "down_proj"] = try take("down_proj")
    }
    return tensors
  }

  /// Writes a checkpoint whose config.json wraps the text model's, as published ones do, and removes it after `body`.
  private func withCheckpoint(_ tensors: [String: Stored], _ body: (String) throws -> Void) throws {
    let text = try JSONValue(parsing: try File.read(Self.converted + "/config.json", limit: 1 << 20))
    let config: JSONValue = ["model_type": "gemma4", "text_config": text]
    var header = JSONObject([])
    var data: [UInt8] = []
    for (name, tensor) in tensors {
      header[name] = [
        "dtype": "BF16", "shape": .array(tensor.shape.map { .int($0) }),
        "data_offsets": [.int(data.count), .int(data.count + tensor.bytes.count)],
      ]
      data += tensor.bytes
    }
    let front = JSONValue.object(header).bytes
    let length = (0..<8).map { UInt8(truncatingIfNeeded: front.count >> ($0 * 8)) }
    try ModelsTests.withCheckpoint(config: config.bytes, weights: length + front + data, body)
  }

  @Test func `a published checkpoint computes the same bits as its conversion`() throws {
    let expected = try Expected(.fixture("gemma4-moe-tiny"))
    try withCheckpoint(try published()) { path in
      #expect(try ModelFolder(path: path).weights.has("model.language_model.layers.2.experts.gate_up_proj"))
      for kernels in kernelSets {
        let raw = try Runner(path, isa: kernels, useReference: kernels == nil)
        let mlx = try Runner(Self.converted, isa: kernels, useReference: kernels == nil)
        #expect(sameBits(raw.logits(of: expected.inputs), mlx.logits(of: expected.inputs)))
        #expect(raw.greedy(expected.inputs, count: expected.greedy.count) == expected.greedy)
        #expect(raw.model.weightBytesPerToken == mlx.model.weightBytesPerToken)
      }
    }
  }

  @Test(arguments: [("gate_up_proj", "[4, 48, 64]"), ("down_proj", "[4, 64, 24]")])
  func `a published checkpoint with experts of another size is refused by their name`(
    name: String, size: String
  ) throws {
    var tensors = try published()
    let tensor = "model.language_model.layers.1.experts." + name
    tensors[tensor]?.shape[1] -= 8
    tensors[tensor]?.bytes.removeLast(8 * 4 * 2 * (name == "down_proj" ? 24 : 64))
    try withCheckpoint(tensors) { path in
      let error = try #require(throws: ModelError.self) { _ = try Runner(path) }
      #expect(error.description.contains("'\(tensor)'") && error.description.contains("expected \(size)"))
    }
  }
}
