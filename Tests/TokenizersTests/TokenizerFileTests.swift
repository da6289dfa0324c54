// Loading: what the format allows, what is refused and how, and hostile files.

import JSON
import Support
import Testing

@testable import Tokenizers

/// A small byte-level file; `change` edits its members.
private func file(_ change: (inout JSONObject) -> Void = { _ in }) -> [UInt8] {
  let source: JSONValue = [
    "added_tokens": [["id": 5, "content": "<e>", "special": true]],
    "model": [
      "type": "BPE", "vocab": ["a": 0, "b": 1, "ab": 2, "c": 3, "abc": 4], "merges": ["a b", "ab c"],
    ],
  ]
  guard var members = source.objectValue else { return [] }
  change(&members)
  return JSONValue.object(members).bytes
}

private func model(_ change: (inout JSONObject) -> Void) -> [UInt8] {
  file { members in
    guard var model = members["model"]?.objectValue else { return }
    change(&model)
    members["model"] = .object(model)
  }
}

private func load(_ bytes: [UInt8]) throws -> Tokenizer { try Tokenizer(tokenizerJSON: bytes) }

/// The message of the error that loading throws; nil when it succeeds.
private func refusal(_ bytes: [UInt8]) -> String? {
  do throws(TokenizerError) {
    _ = try Tokenizer(tokenizerJSON: bytes)
    return nil
  } catch {
    return error.description
  }
}

@Test func `merges come as strings or as pairs`() throws {
  let ids: [Int32] = [4, 5, 2, 1]
  #expect(try load(file()).encode("abc<e>abb", addSpecialTokens: false) == ids)
  let pairs = model { $0["merges"] = [["a", "b"], ["ab", "c"]] }
  #expect(try load(pairs).encode("abc<e>abb", addSpecialTokens: false) == ids)
}

@Test func `characters without a token are dropped, or unknown, or bytes`() throws {
  #expect(try load(file()).encode("aXYb", addSpecialTokens: false) == [2])
  let unknown = model { $0["unk_token"] = "c" }
  #expect(try load(unknown).encode("aXYb", addSpecialTokens: false) == [0, 3, 3, 1])
  let fused = model {
    $0["unk_token"] = "c"
    $0["fuse_unk"] = true
  }
  #expect(try load(fused).encode("aXYb", addSpecialTokens: false) == [0, 3, 1])
}

@Test func `affixes of subwords are part of the spelling`() throws {
  let affixed = model {
    $0["vocab"] = ["a": 0, "##b": 1, "ab": 2, "##b</w>": 3, "ab</w>": 4]
    $0["merges"] = [["a", "##b"], ["a", "##b</w>"]]
    $0["continuing_subword_prefix"] = "##"
    $0["end_of_word_suffix"] = "</w>"
  }
  #expect(try load(affixed).encode("ab", addSpecialTokens: false) == [4])
  #expect(try load(affixed).encode("abb", addSpecialTokens: false) == [2, 3])
}

@Test func `keys compare by bytes, not as equivalent text`() throws {
  let both = model { model in
    guard var vocabulary = model["vocab"]?.objectValue else { return }
    vocabulary["\u{E9}"] = 6
    vocabulary["e"] = 7
    vocabulary["e\u{301}"] = 8
    vocabulary["\u{301}"] = 9
    model["vocab"] = .object(vocabulary)
    model["merges"] = ["a b", "ab c", "e \u{301}"]
  }
  let tokenizer = try load(both)
  #expect(tokenizer.encode("\u{E9}", addSpecialTokens: false) == [6])
  #expect(tokenizer.encode("e\u{301}", addSpecialTokens: false) == [8])
  #expect(tokenizer.vocabularySize == 10)
}

@Test func `a file is refused with the field that is wrong`() {
  #expect(refusal(model { $0["vocab"] = ["a": -1] })?.contains("expected an integer") == false)
  #expect(refusal(model { $0["vocab"] = ["a": -1] })?.contains("out of range") == true)
  #expect(refusal(model { $0["vocab"] = ["a": 0.5] })?.contains("expected an integer") == true)
  #expect(refusal(model { $0["vocab"] = ["a": 1_099_511_627_776] })?.contains("out of range") == true)
  #expect(refusal(model { $0["vocab"] = ["a": 0, "b": 16_000_000] })?.contains("only 2 tokens") == true)
  #expect(refusal(model { $0["vocab"] = ["a": 0, "b": 0] })?.contains("the id 0 occurs twice") == true)
  #expect(refusal(model { $0["vocab"] = [:] })?.contains("no tokens") == true)
  #expect(refusal(model { $0["vocab"] = nil })?.contains("model.vocab: is missing") == true)
  #expect(
    refusal(
      model {
        $0["merges"] = nil
        $0["vocab"] = ["a": 0]
      })?.contains("merges") == true)
  #expect(refusal(model { $0["merges"] = ["a x"] })?.contains("not in the vocabulary") == true)
  #expect(refusal(model { $0["merges"] = ["b a"] })?.contains("not in the vocabulary") == true)
  #expect(refusal(model { $0["merges"] = ["a  b"] })?.contains("single space") == true)
  #expect(refusal(model { $0["merges"] = ["ab"] })?.contains("space") == true)
  #expect(refusal(model { $0["merges"] = [["a", "b", "c"]] })?.contains("two tokens") == true)
  #expect(refusal(model { $0["dropout"] = 0.1 })?.contains("model.dropout") == true)
  #expect(refusal(model { $0["fuse_unk"] = 1 })?.contains("model.fuse_unk: is an integer") == true)
  #expect(refusal(model { $0["type"] = "Neural" })?.contains("the model Neural") == true)
  #expect(refusal(file { $0["model"] = nil }) != nil)
  #expect(refusal(Array("[]".utf8))?.contains("expected an object") == true)
  #expect(refusal(file() + [0x7B])?.contains("after the end") == true)
  #expect(refusal([0xFF] + file())?.contains("UTF-8") == true)
}

@Test func `components that are not known are named`() {
  func refused(_ key: String, _ value: JSONValue) -> String { refusal(file { $0[key] = value }) ?? "" }
  #expect(refused("normalizer", ["type": "Cyrillic"]).contains("normalizer: the normalizer Cyrillic"))
  #expect(
    refused("pre_tokenizer", ["type": "Sequence", "pretokenizers": [["type": "UnicodeScripts"]]])
      .contains("pre_tokenizer.pretokenizers[0]: the pre-tokenizer UnicodeScripts"))
  let regex: JSONValue = ["type": "Split", "pattern": ["Regex": "(a)\\1"], "behavior": "Isolated"]
  #expect(refused("pre_tokenizer", regex).contains("the regular expression '(a)\\1' (a backreference"))
  #expect(refused("decoder", ["type": "CTC"]).contains("the decoder CTC"))
  #expect(refused("post_processor", ["type": "X"]).contains("the post-processor X"))
  #expect(
    refused("post_processor", ["type": "TemplateProcessing", "single": []]).contains(
      "does not contain the text"))
  #expect(refused("added_tokens", [["content": "x"]]).contains("added_tokens[0].id"))
  #expect(refused("added_tokens", [["id": 1_073_741_824, "content": "x"]]).contains("added_tokens[0].id"))
  let long = JSONValue.string(String(repeating: "x", count: 1 << 20))
  #expect(refused("added_tokens", [["id": 9, "content": long]]).contains("1048576 bytes"))
}

@Test func `deep nesting is an error, not a crash`() {
  let deep = String(repeating: "[", count: 100_000) + String(repeating: "]", count: 100_000)
  #expect(refusal(Array("{\"normalizer\":\(deep)}".utf8))?.contains("levels") == true)
  let sequences = String(repeating: "{\"type\":\"Sequence\",\"normalizers\":[", count: 200)
  #expect(refusal(Array("{\"normalizer\":\(sequences)".utf8)) != nil)
}

@Test func `ten thousand broken files are refused or work`() throws {
  var random = SeededGenerator(seed: 2026)
  let sources = try ["qwen3", "phi35", "unigram", "bert"].map {
    try TestData.bytes(TestData.fixtures + "/tokenizers/\($0).json")
  }
  var loaded = 0
  for round in 0..<10_000 {
    // Most rounds break the small file, whose every byte matters.
    let source = round % 20 == 0 ? sources[round / 20 % sources.count] : file()
    guard let tokenizer = try? Tokenizer(tokenizerJSON: mutated(source, using: &random)) else { continue }
    loaded += 1
    let ids = tokenizer.encode("abc <e> é\u{301}👍 ab\n\n  12", addSpecialTokens: true)
    _ = tokenizer.decode(ids, skipSpecialTokens: false)
    #expect(ids.allSatisfy { $0 >= 0 && Int($0) <= Vocabulary.largestID })
  }
  #expect(loaded > 200 && loaded < 9_800)
}
