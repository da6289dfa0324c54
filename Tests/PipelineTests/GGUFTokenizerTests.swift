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
}
