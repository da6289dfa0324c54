// The hidden state after every layer against the reference's: which layer is the first that differs.

import Compute
import JSON
import Models
import Platform
import Support
import Synchronization
import Testing

/// What a reference has after every layer (`layers.json`, by `Fixtures/scripts/layers`).
struct LayerGolden {
  /// Positions of the prompt whose rows are known.
  let positions: [Int]
  /// `[layer][position][hidden]`.
  let states: [[[Float]]]

  /// Two implementations in float32 are 1e-5 apart, in sums of up to 17; faults are some tenths.
  static let tolerance: Float = 1e-3

  init(_ golden: GoldenFolder) throws {
    let document = try GoldenFolder.document(golden.path + "/layers.json")
    positions = tokenIDs(document["positions"]).map(Int.init)
    states = (document["layers"]?.arrayValue ?? []).map { ($0.arrayValue ?? []).map(numbers) }
    try #require(!positions.isEmpty && !states.isEmpty && states.allSatisfy { $0.count == positions.count })
  }

  /// The first layer whose state is another than the reference's.
  ///
  /// - Parameter found: every token's row after every layer.
  func firstFault(in found: [[[Float]]]) -> LayerFault? {
    for (layer, rows) in states.enumerated() {
      let differences = zip(positions, rows).map { position, row in
        (position, layer < found.count ? distance(found[layer][position], row) : .infinity)
      }
      let (position, difference) = differences.max { $0.1 < $1.1 } ?? (0, .infinity)
      guard difference < Self.tolerance else {
        return LayerFault(layer: layer, layers: states.count, difference: difference, position: position)
      }
    }
    return nil
  }
}

/// A layer that gives something else than the reference, while all before it agree.
struct LayerFault: CustomStringConvertible {
  let layer, layers: Int
  /// The largest of the positions compared, and where it is.
  let difference: Float
  let position: Int

  var description: String {
    "layer \(layer) is the first of \(layers) that differs: by \(difference) at position \(position)"
  }
}

@Suite struct LayerTests {
  @Test(arguments: GoldenFolder.layered)
  func `every layer gives the expected hidden state`(golden: GoldenFolder) throws {
    let (expected, prompt) = (try LayerGolden(golden), try Expected(golden).inputs)
    for kernels in kernelSets {
      let runner = try Runner(golden.path, isa: kernels, useReference: kernels == nil)
      let found = runner.hiddenStates(of: prompt)
      #expect(found.count == expected.states.count)
      let fault = expected.firstFault(in: found)
      #expect(fault == nil, "\(String(describing: kernels)): \(fault?.description ?? "")")
    }
  }

  @Test(arguments: GoldenFolder.layered)
  func `a layer with a wrong tensor is named as the first`(golden: GoldenFolder) throws {
    let (expected, prompt) = (try LayerGolden(golden), try Expected(golden).inputs)
    for layer in expected.states.indices {
      try golden.withFault(inLayer: layer) { path in
        let fault = expected.firstFault(in: try Runner(path).hiddenStates(of: prompt))
        let words = try #require(fault).description
        #expect(words.hasPrefix("layer \(layer) is the first of \(expected.states.count) that differs: by "))
      }
    }
  }

  @Test func `every family of Fixtures has its layers`() {
    // Those of a quantized checkpoint may be with its unquantized twin.
    let layered = Set(GoldenFolder.layered.map(\.name))
    let without = GoldenFolder.fixtures.map(\.name).filter { name in
      let twin = name.hasSuffix("-q4") ? String(name.dropLast(3)) : name
      return !layered.contains(name) && !layered.contains(twin)
    }
    #expect(without == [])
  }
}

extension GoldenFolder {
  /// Goldens with `layers.json`.
  static let layered = all.filter { File.exists($0.path + "/layers.json") }

  /// A copy of the checkpoint in which the layer's way out of attention has the other sign.
  fileprivate func withFault(inLayer layer: Int, _ body: (_ path: String) throws -> Void) throws {
    let (header, data) = try tensors(of: "model.safetensors")
    let modules = [
      "self_attn.o_proj.", "self_attn.out_proj.", "linear_attn.out_proj.", "conv.out_proj.",
      "mamba.out_proj.", "mixer.out_proj.", "mixer.o_proj.", "mixer.down_proj.", "mixer.switch_mlp.fc2.",
      "attention.wo.", "attn.attention.out_proj.",
    ].map { ".\(layer)." + $0 }
    let entry = try #require(
      header.objectValue?.entries.first { name, entry in
        modules.contains(where: name.contains) && ["BF16", "F16"].contains(entry["dtype"]?.stringValue)
      }?.value)
    let offsets = (entry["data_offsets"]?.arrayValue ?? []).compactMap(\.intValue)
    var bytes = try File.read(path + "/model.safetensors", limit: 1 << 24)
    for at in stride(from: data.startIndex + offsets[0] + 1, to: data.startIndex + offsets[1], by: 2) {
      bytes[at] ^= 0x80
    }
    try withCheckpoint(config: try config().bytes, weights: bytes, body)
  }
}

extension Runner {
  /// Every token's row after every layer, `[layer][token][hidden]`, of a fresh sequence.
  fileprivate func hiddenStates(of tokens: [Int32]) -> [[[Float]]] {
    let seen = Seen()
    step([.init(tokens: tokens, start: 0, blocks: makeTable(tokens.count), logits: .all)]) { rows in
      let values = (0..<rows.count).map { rows.values(ofRow: $0) }
      seen.layers.withLock { $0.append(values) }
    }
    return seen.layers.withLock { $0 }
  }
}

/// What the layers left.
private final class Seen: Sendable {
  let layers = Mutex<[[[Float]]]>([])
}
