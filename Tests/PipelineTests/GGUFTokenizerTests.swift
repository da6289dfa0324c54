// Vocabularies of GGUF files: the ids that the models' own tokenizers give, and texts that come back.

import Checkpoint
import JSON
import Pipeline
import Platform
import Support
import Testing
import Tokenizers

@Suite struct GGUFTokenizerTests {
  private static let files: [String] = {
    let shared = TestData.shared.map { $0 + "/formats/gguf/" }
    let more = shared.map { place in
      ["gemma3-q4_1", "llama-mxfp4", "llama-q4_k_m", "llama3-q8_0", "qwen2-q5_0", "qwen3-q5_1"].map {
        place + $0
      }
    }
    return [TestData.fixtures + "/gguf/llama-q4_0"] + (more ?? [])
  }()

  private func ids(_ value: JSONValue?) -> [[Int32]] {
    (value?.arrayValue ?? []).map { ($0.arrayValue ?? []).compactMap { $0.intValue.map { Int32($0) } } }
  }

  @Test(arguments: files)
  func `texts become the ids of the model's own tokenizer`(_ path: String) throws {
    let expected = try JSONValue(parsing: try File.read(path + ".expected.json", limit: 1 << 24))
    let folder = try ModelFolder(path: path + ".gguf")
    let tokenizer = try folder.tokenizer()
    let texts = (expected["texts"]?.arrayValue ?? []).compactMap(\.stringValue)
    let (plain, whole) = (ids(expected["tokens_tokenizers"]), ids(expected["tokens_llamacpp"]))
    try #require(!texts.isEmpty && texts.count == plain.count && texts.count == whole.count)
    for (index, text) in texts.enumerated() {
      #expect(tokenizer.encode(text, addSpecialTokens: false) == plain[index], "'\(text)'")
      #expect(tokenizer.encode(text, addSpecialTokens: true) == whole[index], "'\(text)'")
      #expect(tokenizer.decode(plain[index], skipSpecialTokens: false) == text)
    }
  }

  /// As its converter writes it: tokens and merges as they are.
  @Test(.enabled(if: TestData.shared != nil, "needs ../shared"))
  func `a vocabulary of Gemma 4 is its own tokenizer`() throws {
    let folder = try #require(TestData.shared) + "/tokenizers/gemma-4"
    let bytes = try File.read(folder + "/tokenizer.json", limit: 1 << 27)
    let (file, own) = (try JSONValue(parsing: bytes), try Tokenizer(tokenizerJSON: bytes))
    let vocabulary = try #require(file["model"]?["vocab"]?.objectValue)
    var (tokens, kinds) = (
      [String](repeating: "", count: vocabulary.count), [Int](repeating: 1, count: vocabulary.count)
    )
    for (token, id) in vocabulary.entries { tokens[try #require(id.intValue)] = token }
    for (id, token) in tokens.enumerated() where token.hasPrefix("<0x") && token.utf8.count == 6 {
      kinds[id] = 6
    }
    for token in file["added_tokens"]?.arrayValue ?? [] {
      let isSpecial = token["special"]?.boolValue == true
      kinds[try #require(token["id"]?.intValue)] = isSpecial ? 3 : 4
    }
    let merges = (file["model"]?["merges"]?.arrayValue ?? []).map { merge in
      merge.stringValue ?? (merge.arrayValue ?? []).compactMap(\.stringValue).joined(separator: " ")
    }
    var writer = GGUFWriter(
      "gemma4",
      [
        ("tokenizer.ggml.model", .string("gemma4")), ("tokenizer.ggml.tokens", .strings(tokens)),
        ("tokenizer.ggml.token_type", .ints(kinds)), ("tokenizer.ggml.merges", .strings(merges)),
        ("tokenizer.ggml.bos_token_id", .int(2)), ("tokenizer.ggml.add_bos_token", .bool(true)),
        ("tokenizer.ggml.add_space_prefix", .bool(false)),
      ])
    writer.pairs += Self.smallest
    writer.add("token_embd.weight", [tokens.count, 1], [Float](repeating: 0, count: tokens.count))
    try compare(
      writer, own,
      [
        "The quick brown fox  jumps.\n\n\n\tTabs, 12345 and naïve façades — 日本語 😀.", "", " ",
        "a\u{0}b\u{FFFD}",
        "<bos><|turn>user\nHi<turn|>\n<|turn>model\n<|channel>thought\n<channel|>Hello<turn|>",
      ])
  }

  /// As its converter writes it: what words begin with behind a mark, what goes on with them without one.
  @Test(.enabled(if: TestData.shared != nil, "needs ../shared"))
  func `a vocabulary of BERT is its own tokenizer`() throws {
    let folder = try #require(TestData.shared) + "/tokenizers/minilm-bert"
    let bytes = try File.read(folder + "/tokenizer.json", limit: 1 << 27)
    let (file, own) = (try JSONValue(parsing: bytes), try Tokenizer(tokenizerJSON: bytes))
    let vocabulary = try #require(file["model"]?["vocab"]?.objectValue)
    let special = Set((file["added_tokens"]?.arrayValue ?? []).compactMap { $0["content"]?.stringValue })
    var (tokens, kinds) = (
      [String](repeating: "", count: vocabulary.count), [Int](repeating: 1, count: vocabulary.count)
    )
    for (token, value) in vocabulary.entries {
      let id = try #require(value.intValue)
      kinds[id] = special.contains(token) ? 3 : 1
      tokens[id] =
        kinds[id] == 3 ? token : token.hasPrefix("##") ? String(token.dropFirst(2)) : "\u{2581}" + token
    }
    func id(_ token: String) throws -> GGUFWriter.Value { .int(try #require(vocabulary[token]?.intValue)) }
    var writer = GGUFWriter(
      "bert",
      [
        ("tokenizer.ggml.model", .string("bert")), ("tokenizer.ggml.tokens", .strings(tokens)),
        ("tokenizer.ggml.token_type", .ints(kinds)), ("tokenizer.ggml.cls_token_id", try id("[CLS]")),
        ("tokenizer.ggml.seperator_token_id", try id("[SEP]")), ("bert.pooling_type", .int(1)),
        ("tokenizer.ggml.unknown_token_id", try id("[UNK]")), ("bert.embedding_length", .int(1)),
        ("bert.block_count", .int(1)), ("bert.attention.head_count", .int(1)),
      ])
    writer.add("token_embd.weight", [tokens.count, 1], [Float](repeating: 0, count: tokens.count))
    try compare(
      writer, own, ["Unaffable NAÏVE words, 12345!", "", "日本語 😀 [MASK] ##ing", "\u{2581}x a\u{301}b"])
  }

  /// That texts have the same ids, and come back the same, by a file and by the model's own tokenizer.
  private func compare(_ writer: GGUFWriter, _ own: Tokenizer, _ texts: [String]) throws {
    let path = "/tmp/mlxserve-vocabulary-\(getpid())-\(own.vocabularySize).gguf"
    defer { unlink(path) }
    try File.replace(path, with: writer.file)
    let read = try ModelFolder(path: path).tokenizer()
    for text in texts {
      for special in [false, true] {
        let ids = own.encode(text, addSpecialTokens: special)
        #expect(read.encode(text, addSpecialTokens: special) == ids, "'\(text)'")
        #expect(read.decode(ids, skipSpecialTokens: true) == own.decode(ids, skipSpecialTokens: true))
      }
    }
  }

  /// What a file says of a model of one layer.
  private static let smallest: [(key: String, value: GGUFWriter.Value)] = [
    ("embedding_length", 1), ("block_count", 2), ("attention.head_count", 1), ("attention.head_count_kv", 1),
    ("feed_forward_length", 1), ("attention.key_length", 2), ("attention.key_length_swa", 2),
    ("attention.sliding_window_pattern", 2),
  ].map { ("gemma4." + $0.0, .int($0.1)) }
}
