// GGUF files: what breaks a rule is refused by name, and blocks have the values that llama.cpp decodes.

import JSON
import Platform
import Support
import Testing

@testable import Checkpoint
@testable import Compute

private let place = TestData.fixtures + "/gguf/"

/// What refuses a file; nil where it opens.
private func refusal(_ open: () throws -> Void) -> String? {
  do {
    try open()
    return nil
  } catch {
    return "\(error)"
  }
}

@Suite struct GGUFFileTests {
  private static let hostile: [JSONValue] =
    (try? JSONValue(parsing: File.read(place + "hostile/manifest.json", limit: 1 << 20)))?.arrayValue ?? []

  @Test func `hostile files are refused with the word for what is wrong, and odd ones open`() throws {
    #expect(Self.hostile.count == 47)
    for entry in Self.hostile {
      let name = try #require(entry["file"]?.stringValue)
      let word = try #require(entry["names"]?.stringValue)
      var error = refusal { _ = try GGUFFile(path: place + "hostile/" + name) }
      guard entry["verdict"]?.stringValue == "refused" else {
        #expect(error == nil, "\(name)")
        continue
      }
      // That parts are missing the model knows, not its file.
      error = error ?? refusal { _ = try GGUFModel(path: place + "hostile/" + name) }
      #expect(error?.contains(word) == true, "\(name): \(error ?? "opens"), expected '\(word)'")
    }
  }

  @Test func `types of tokens that are not whole numbers are those of ordinary tokens`() throws {
    let writer = GGUFWriter(
      "llama",
      [
        ("tokenizer.ggml.model", .string("gpt2")), ("tokenizer.ggml.pre", .string("gpt-2")),
        ("tokenizer.ggml.tokens", .strings(["a", "b", "ab", "<s>"])),
        ("tokenizer.ggml.merges", .strings(["a b"])),
        ("tokenizer.ggml.token_type", .floats([.nan, .infinity, 1e30, 3])),
      ])
    let folder = try TestFolder()
    try folder.write("m.gguf", writer.file)
    let file = try JSONValue(parsing: GGUFTokenizer(GGUFFile(path: folder.path + "/m.gguf")).file)
    #expect(file["added_tokens"]?.arrayValue?.compactMap { $0["content"]?.stringValue } == ["<s>"])
    #expect(file["model"]?["vocab"]?["ab"] == 2)
  }

  @Test(
    arguments: [
      ([("split.count", .int(3)), ("split.no", .unsigned(.max))], "of 3: keep all parts"),
      ([("gemma3.block_count", .int(1)), ("gemma3.nextn_predict_layers", .int(5))], "block_count"),
      ([("gemma3.block_count", .int(1 << 30))], "block_count"),
    ] as [([(String, GGUFWriter.Value)], String)])
  func `counts that nothing can be reckoned with are refused`(
    pairs: [(String, GGUFWriter.Value)], word: String
  )
    throws
  {
    var writer = GGUFWriter(
      "gemma3", [("gemma3.embedding_length", .int(64)), ("gemma3.attention.head_count", .int(2))] + pairs)
    writer.add("token_embd.weight", [4, 64], [Float](repeating: 0, count: 256))
    let folder = try TestFolder()
    try folder.write("m.gguf", writer.file)
    let error = refusal { _ = try GGUFModel(path: folder.path + "/m.gguf") }
    #expect(error?.contains(word) == true, "\(error ?? "opens")")
  }

  /// Whatever a key says, of whatever type: what is made of it is refused or made.
  @Test(arguments: GGUFArchitecture.all.map(\.name))
  func `a key with a value that it never has ends nothing`(architecture: String) throws {
    let own = [
      "block_count", "nextn_predict_layers", "embedding_length", "feed_forward_length", "context_length",
      "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
      "attention.layer_norm_rms_epsilon", "attention.sliding_window", "attention.sliding_window_pattern",
      "expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_feed_forward_length",
      "rope.freq_base", "rope.freq_base_swa", "rope.dimension_count", "rope.scaling.type",
      "rope.scaling.factor",
      "rope.scaling.original_context_length", "shortconv.l_cache", "logit_scale", "attn_logit_softcapping",
    ]
    let general = [
      "split.count", "split.no", "general.alignment", "general.sampling.top_k", "tokenizer.chat_template",
      "tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type",
      "tokenizer.ggml.merges", "tokenizer.ggml.scores", "tokenizer.ggml.bos_token_id",
      "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_bos_token", "tokenizer.ggml.unknown_token_id",
    ]
    let values: [GGUFWriter.Value] = [
      .unsigned(.max), .int(-1), .int(0), .int(1 << 30), .float(.nan), .float(1e30), .string(""), .ints([]),
      .ints([-1, 1 << 30]), .floats([.nan, 1e30]), .strings([]), .strings(["", " "]),
    ]
    let usual: [(String, GGUFWriter.Value)] = [
      (architecture + ".block_count", .int(2)), (architecture + ".embedding_length", .int(64)),
      (architecture + ".attention.head_count", .int(2)),
      (architecture + ".attention.head_count_kv", .ints([1, 0])),
      ("tokenizer.ggml.model", .string("gpt2")), ("tokenizer.ggml.pre", .string("gpt-2")),
      ("tokenizer.ggml.tokens", .strings(["a", "b", "ab", "<s>"])),
      ("tokenizer.ggml.merges", .strings(["a b"])),
      ("tokenizer.ggml.token_type", .ints([1, 1, 1, 3])),
    ]
    let folder = try TestFolder()
    let path = folder.path + "/m.gguf"
    // The reader of tokens and of sampling does not look at the architecture, so it is run for three of them.
    let readsAll = ["llama", "gemma4", "gpt-oss"].contains(architecture)
    for key in own.map({ architecture + "." + $0 }) + (readsAll ? general : []) {
      for value in values {
        var writer = GGUFWriter(architecture, usual.filter { $0.0 != key } + [(key, value)])
        writer.add("token_embd.weight", [4, 64], [Float](repeating: 0, count: 256))
        try folder.write("m.gguf", writer.file)
        _ = refusal {
          let model = try GGUFModel(path: path)
          guard readsAll else { return }
          _ = (model.tokenizerConfig, model.generationConfig)
          _ = try model.tokenizerFile()
        }
      }
    }
    #expect(refusal { _ = try GGUFFile(path: path) } == nil)
  }

  @Test func `a file that is cut anywhere, or has a wrong byte, is refused or opens`() throws {
    let whole = try File.read(place + "llama-q4_0.gguf", limit: 1 << 20)
    let folder = try TestFolder()
    var random = SeededGenerator(seed: 7)
    for _ in 0..<64 {
      let end = Int.random(in: 0..<whole.count, using: &random)
      try folder.write("m.gguf", Array(whole[..<end]))
      #expect(refusal { _ = try GGUFFile(path: folder.path + "/m.gguf") } != nil, "cut at \(end)")
    }
    // The head is 43 kilobytes of 107.
    for _ in 0..<300 {
      var bytes = whole
      bytes[Int.random(in: 0..<43_000, using: &random)] = UInt8.random(in: 0...255, using: &random)
      try folder.write("m.gguf", bytes)
      _ = refusal {
        let model = try ModelFolder(path: folder.path + "/m.gguf")
        _ = try model.tokenizerFile
      }
    }
  }

  /// Rows of a tensor as float32.
  private func rows(
    _ tensor: GGUFFile.Tensor, _ format: BlockFormat, of file: GGUFFile, _ context: ComputeContext
  ) throws -> [[Float]] {
    let (count, columns) = (tensor.shape[0], tensor.shape[1])
    let view = TensorView(
      name: tensor.name, dtype: .u8, shape: [count, columns / format.values * format.bytes],
      bytes: UnsafeRawBufferPointer(rebasing: file.file.bytes[tensor.range]), owner: file.file)
    var tensors = WeightTensors(weight: view, rows: count, columns: columns)
    tensors.blocks = format
    let stack = try WeightStack([tensors])
    let buffer = ScratchBuffer()
    let out = buffer.rows(count, columns)
    context.gather((0..<count).map { Int32($0) }, of: stack, into: out)
    return (0..<count).map { row in (0..<columns).map { out.row(row)[$0] } }
  }

  @Test func `every block type has the values that llama.cpp decodes`() throws {
    let file = try GGUFFile(path: place + "blocks.gguf")
    let expected = try Safetensors(path: place + "blocks.expected.safetensors")
    let names = (0..<expected.count).map(expected.tensorName)
    let context = try ComputeContext(threads: 1)
    var found: Set<BlockFormat> = []
    for tensor in file.tensors {
      guard case .blocks(let format) = tensor.storage else { continue }
      found.insert(format)
      let index = try #require(names.firstIndex { $0 == tensor.name }, "\(tensor.name)")
      let values = try #require(try expected.tensor(index)?.floats())
      let decoded = try rows(tensor, format, of: file, context).flatMap(\.self)
      #expect(decoded == values, "\(format.name)")
    }
    #expect(found.count == 17, "\(found.map(\.name).sorted())")
  }
}

@Suite struct GGUFPartsTests {
  @Test func `parts are found by their numbers, and one that is missing is named`() throws {
    let folder = try TestFolder(["m-Q8_0-00001-of-00002.gguf": [], "m-Q8_0-00002-of-00002.gguf": []])
    let start = folder.path + "/m-Q8_0-0000"
    #expect(
      try GGUFParts(of: start + "2-of-00002.gguf").paths
        == [start + "1-of-00002.gguf", start + "2-of-00002.gguf"])
    #expect(GGUFParts.modelName(start + "1-of-00002.gguf") == "m-Q8_0")
    unlink(start + "2-of-00002.gguf")
    let error = refusal { _ = try GGUFParts(of: start + "1-of-00002.gguf") }
    #expect(error?.contains("m-Q8_0-00002-of-00002.gguf. It is part 2 of 2") == true, "\(error ?? "")")
  }

  @Test func `a folder has one model, whatever projects images into it`() throws {
    #expect(try GGUFParts.only(of: ["README.md"], in: "d") == nil)
    #expect(try GGUFParts.only(of: ["a.gguf", "mmproj-a.gguf"], in: "d") == "a.gguf")
    let parts = ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"]
    #expect(try GGUFParts.only(of: parts, in: "d") == "a-00001-of-00002.gguf")
    let error = refusal { _ = try GGUFParts.only(of: ["b.gguf", "a.gguf"], in: "d") }
    #expect(
      error?.contains("several GGUF models: name one of them, d/a.gguf, d/b.gguf") == true, "\(error ?? "")")
  }
}
