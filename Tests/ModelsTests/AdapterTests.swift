// Adapters over bases that stay as they are: what mlx-lm and PEFT compute, the same bits in any company, and refusals.

import Checkpoint
import Compute
import JSON
import Models
import Platform
import Support
import Testing

/// An adapter with what a reference computed with it.
private struct GoldenAdapter: CustomTestStringConvertible {
  let path: String
  let expected: JSONValue
  let base: String

  var testDescription: String { path.split(separator: "/").last.map(String.init) ?? path }

  static let all: [GoldenAdapter] = {
    guard let shared = TestData.shared else { return [] }
    let place = shared + "/formats/adapters"
    return ((try? File.names(in: place)) ?? []).sorted().compactMap { name in
      guard let expected = try? GoldenFolder.document("\(place)/\(name)/expected.json"),
        let base = expected["base"]?.stringValue
      else { return nil }
      return GoldenAdapter(path: "\(place)/\(name)", expected: expected, base: "\(shared)/goldens/\(base)")
    }
  }()
}

private let haveAdapters: ConditionTrait = .enabled(
  if: !GoldenAdapter.all.isEmpty, "shared test data is absent")

extension Runner {
  /// Logits of every token of a sequence that is computed at once.
  fileprivate func logits(of tokens: [Int32], adapter: Int?) -> [[Float]] {
    step([span(tokens, adapter: adapter, logits: .all)])
  }

  fileprivate func span(_ tokens: [Int32], adapter: Int?, logits: LogitRows = .last) -> Batch.Span {
    var span = Batch.Span(tokens: tokens, start: 0, blocks: makeTable(tokens.count), logits: logits)
    span.adapter = adapter.map { Batch.AdapterUse(slot: $0) }
    return span
  }

  /// Loads an adapter; its slot.
  fileprivate func add(_ path: String) throws -> Int {
    let folder = try AdapterFolder(path: path)
    let shelf = try #require(model.adapters)
    _ = try shelf.add(folder)
    return try #require(shelf.slot(of: folder.digest))
  }

  /// Maps of the model that adapters may change.
  fileprivate func adaptableMaps() throws -> [AdapterWriter.Map] {
    let shelf = try #require(model.adapters)
    return folder.weights.matrices.filter { $0.count == nil && shelf.takes($0.name) }.map {
      AdapterWriter.Map(name: $0.name, rows: $0.rows, columns: $0.columns)
    }
  }
}

@Suite struct AdapterTests {
  private static let tolerance: Float = 1e-3

  @Test(haveAdapters, arguments: GoldenAdapter.all)
  private func agreesWithTheReference(_ golden: GoldenAdapter) throws {
    let runner = try Runner(golden.base)
    let inputs = tokenIDs(golden.expected["input_ids"])
    let before = runner.logits(of: inputs, adapter: nil)
    let slot = try runner.add(golden.path)
    let rows = runner.logits(of: inputs, adapter: slot)
    #expect(distance(rows[0], numbers(golden.expected["logits_first"])) < Self.tolerance)
    #expect(distance(rows[inputs.count - 1], numbers(golden.expected["logits_last"])) < Self.tolerance)
    #expect(rows.map(argmax) == tokenIDs(golden.expected["argmax_each"]))
    // Without it the model is what it was.
    let after = runner.logits(of: inputs, adapter: nil)
    #expect(sameBits(before, after))
    #expect(distance(after[inputs.count - 1], numbers(golden.expected["base_logits_last"])) < Self.tolerance)
  }

  @Test(haveAdapters, arguments: GoldenAdapter.all)
  private func goesOnAsTheReference(_ golden: GoldenAdapter) throws {
    let runner = try Runner(golden.base)
    let slot = try runner.add(golden.path)
    let (inputs, greedy) = (tokenIDs(golden.expected["input_ids"]), tokenIDs(golden.expected["greedy"]))
    let margins = numbers(golden.expected["greedy_margins"])
    let table = runner.makeTable(inputs.count + greedy.count)
    var (tokens, start) = (inputs, 0)
    for (index, wanted) in greedy.enumerated() where margins.prefix(index + 1).allSatisfy({ $0 > 1e-3 }) {
      var span = Batch.Span(tokens: tokens, start: start, blocks: table, logits: .last)
      span.adapter = Batch.AdapterUse(slot: slot)
      let row = runner.step([span])[0]
      #expect(argmax(row) == wanted)
      (start, tokens) = (start + tokens.count, [wanted])
    }
  }

  @Test(haveAdapters) func bothFormatsSayTheSame() throws {
    let twins = GoldenAdapter.all.filter { $0.path.hasSuffix("-peft") }
    #expect(twins.count == 5)
    for twin in twins {
      let runner = try Runner(twin.base)
      let inputs = tokenIDs(twin.expected["input_ids"])
      let one = runner.logits(of: inputs, adapter: try runner.add(String(twin.path.dropLast(5))))
      let other = runner.logits(of: inputs, adapter: try runner.add(twin.path))
      for (a, b) in zip(one, other) { #expect(distance(a, b) < 2e-5) }
    }
  }

  /// Rows of two adapters and of none in one step have the bits that they have alone.
  @Test(arguments: GoldenFolder.fixtures, [ComputeMode.exact, .fast])
  func keepsBitsInCompany(_ golden: GoldenFolder, mode: ComputeMode) throws {
    let format: KVFormat = mode == .exact ? .f32 : .q16
    let runner = try Runner(golden.path, threads: 2, mode: mode, blocks: 96, format: format)
    let maps = try runner.adaptableMaps()
    try #require(!maps.isEmpty)
    try AdapterWriter(maps, rank: 3, seed: 1).whileWritten { first in
      try AdapterWriter(
        maps.enumerated().filter { $0.offset % 3 != 1 }.map(\.element), rank: 40, peft: true, seed: 2
      )
      .whileWritten { second in
        let slots = [nil, try runner.add(first), try runner.add(second)]
        let vocabulary = Int32(runner.model.vocabularySize)
        let prompts = (0..<6).map { Self.prompt($0, vocabulary) }
        let alone = prompts.indices.map { runner.step([runner.span(prompts[$0], adapter: slots[$0 % 3])])[0] }
        let together = runner.step(prompts.indices.map { runner.span(prompts[$0], adapter: slots[$0 % 3]) })
        #expect(sameBits(alone, together))
        // It changes something.
        #expect(!sameBits([runner.step([runner.span(prompts[1], adapter: nil)])[0]], [alone[1]]))
        // Cut into pieces, it is the same.
        let (table, prompt) = (runner.makeTable(prompts[4].count), prompts[4])
        var last: [Float] = []
        for start in stride(from: 0, to: prompt.count, by: 5) {
          let end = min(prompt.count, start + 5)
          var span = Batch.Span(
            tokens: Array(prompt[start..<end]), start: start, blocks: table,
            logits: end == prompt.count ? .last : .none)
          span.adapter = slots[1].map { Batch.AdapterUse(slot: $0) }
          last = runner.step([span]).first ?? last
        }
        #expect(sameBits([last], [alone[4]]))
      }
    }
  }

  private static func prompt(_ row: Int, _ vocabulary: Int32) -> [Int32] {
    let start = Int32(11 * row + 5)
    return (0..<Int32(3 + 4 * row)).map { position in (37 * position + start) % vocabulary }
  }

  @Test func isGoneWhenItIsRemoved() throws {
    let golden = try GoldenFolder.fixture("qwen3-tiny-q4")
    let runner = try Runner(golden.path)
    let prompt: [Int32] = [1, 2, 3, 4, 5]
    let before = runner.logits(of: prompt, adapter: nil)
    try AdapterWriter(try runner.adaptableMaps()).whileWritten { path in
      let slot = try runner.add(path)
      let digest = try AdapterFolder(path: path).digest
      runner.model.adapters?.remove(digest)
      #expect(runner.model.adapters?.slot(of: digest) == nil)
      // Rows that still name its place get nothing of it.
      #expect(sameBits(before, runner.logits(of: prompt, adapter: slot)))
    }
  }

  /// A change, and what the refusal names.
  private static let faults: [(names: String, change: @Sendable (inout AdapterWriter) -> Void)] = [
    ("inputs", { $0.tensors[0].tensor = .init(shape: [96, 4], values: .init(repeating: 0, count: 384)) }),
    (
      "layers.7.mlp",
      {
        for i in 0..<2 {
          $0.tensors[i].name = i == 0 ? "model.layers.7.mlp.x.lora_a" : "model.layers.7.mlp.x.lora_b"
        }
      }
    ),
    ("finite", { $0.tensors[1].tensor.values[3] = .nan }),
    ("one matrix", { $0.tensors.removeLast() }),
    ("ranks", { $0.tensors[1].tensor = .init(shape: [5, 256], values: .init(repeating: 0, count: 1280)) }),
    ("shapes", { $0.tensors[0].tensor = .init(shape: [0, 128], values: []) }),
    ("none of LoRA's", { $0.tensors.append(("model.norm.weight", .init(shape: [1], values: [1]))) }),
    ("magnitudes", { $0.config = $0.config.replacing("\"lora\"", with: "\"dora\"") }),
    ("fine_tune_type is full", { $0.config = $0.config.replacing("\"lora\"", with: "\"full\"") }),
    ("lora_parameters.scale", { $0.config = "{\"fine_tune_type\": \"lora\"}" }),
    ("changes nothing", { $0.tensors = [] }),
    ("peft_type is 'IA3'", { $0.config = "{\"peft_type\": \"IA3\"}" }),
  ]

  @Test(arguments: faults.indices) func refusesByName(_ index: Int) throws {
    let golden = try GoldenFolder.fixture("qwen3-tiny-q4")
    let runner = try Runner(golden.path)
    let map = try #require(
      try runner.adaptableMaps().first { $0.name.hasSuffix("layers.0.self_attn.q_proj") })
    var writer = AdapterWriter([map])
    let (names, change) = Self.faults[index]
    change(&writer)
    let words = try writer.whileWritten { path -> String in
      do {
        _ = try runner.add(path)
        return "nothing"
      } catch {
        return "\(error)"
      }
    }
    #expect(words.contains(names), "\(words)")
    #expect(!words.contains("\n"))
  }

  /// Keys of PEFT's config that would be served wrongly.
  @Test(arguments: [
    ("modules_to_save", "[\"lm_head\"]"), ("bias", "\"all\""), ("alora_invocation_tokens", "[1, 2]"),
    ("layer_replication", "[[0, 4]]"), ("use_qalora", "true"), ("target_parameters", "[\"mlp.experts\"]"),
    ("fan_in_fan_out", "true"), ("rank_pattern", "{\"q.*\": 4}"), ("lora_bias", "true"),
  ])
  func refusesWhatPEFTCanDoBeside(_ key: String, _ value: String) throws {
    let golden = try GoldenFolder.fixture("qwen3-tiny-q4")
    let runner = try Runner(golden.path)
    let map = try #require(try runner.adaptableMaps().first)
    var writer = AdapterWriter([map], peft: true)
    writer.config = writer.config.replacing("\"bias\": \"none\"", with: "\"\(key)\": \(value)")
    try writer.whileWritten { path in
      #expect(throws: CheckpointError.self) { try runner.add(path) }
      do { _ = try runner.add(path) } catch { #expect("\(error)".contains(key)) }
    }
  }

  /// The factor of a module: alpha over its rank, or over the root of that, by patterns of names.
  @Test func factorsFollowPatterns() throws {
    let maps = ["model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj"].map {
      AdapterWriter.Map(name: $0, rows: 8, columns: 16)
    }
    var writer = AdapterWriter(maps, rank: 4, peft: true)
    for (more, factors) in [
      ("", [2, 2]), ("\"use_rslora\": true,", [4, 4]),
      ("\"alpha_pattern\": {\"k_proj\": 2},", [2, 0.5]),
      ("\"alpha_pattern\": {\"self_attn.q_proj\": 2, \"q_proj\": 9}, \"use_rslora\": true,", [1, 4]),
    ] as [(String, [Float])] {
      writer.config = "{\"peft_type\": \"LORA\", \(more) \"r\": 4, \"lora_alpha\": 8}"
      let found = try writer.whileWritten { try AdapterFolder(path: $0).modules.map(\.tensors.factor) }
      #expect(found == factors)
    }
    writer.config =
      "{\"peft_type\": \"LORA\", \"rank_pattern\": {\"k_proj\": 8}, \"r\": 4, \"lora_alpha\": 8}"
    #expect(throws: CheckpointError.self) { try writer.whileWritten { try AdapterFolder(path: $0) } }
  }

  @Test func everyByteOfAHostileFileIsReadWithinBounds() throws {
    var random = SeededGenerator(seed: 7)
    let writer = AdapterWriter([.init(name: "model.layers.0.self_attn.q_proj", rows: 8, columns: 16)])
    try withFolder { folder in
      try writer.write(to: folder)
      for _ in 0..<300 {
        let bytes = mutated(writer.weights, using: &random)
        try File.replace(folder + "/adapters.safetensors", with: bytes)
        _ = try? AdapterFolder(path: folder)
      }
    }
  }
}
