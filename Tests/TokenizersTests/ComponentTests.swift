// Added tokens, normalizers, pre-tokenizers, post-processors and decoders, one behaviour at a time.

import JSON
import Support
import Testing

@testable import Tokenizers

private func cut(_ text: String, _ description: JSONValue) throws -> [String] {
  var pieces = Pieces(
    bytes: Array(text.utf8), ranges: text.isEmpty ? [] : [0..<text.utf8.count], startInput: true)
  for step in try PreTokenizer.list(description, path: "p") { step.apply(to: &pieces) }
  return pieces.ranges.map { String(decoding: pieces.bytes[$0], as: UTF8.self) }
}

private func normalize(_ text: String, _ description: JSONValue) throws -> String {
  var bytes = Array(text.utf8)
  for step in try Normalizer.list(description, path: "n") {
    bytes = step.apply(bytes, 0..<bytes.count) ?? bytes
  }
  return String(decoding: bytes, as: UTF8.self)
}

private func parts(_ text: String, _ tokens: [AddedToken]) -> [String] {
  let bytes = Array(text.utf8)
  var out: [String] = []
  AddedTokenSearch(tokens.map { ($0, $0.content) }).split(bytes, 0..<bytes.count) { part in
    switch part {
    case .text(let range): out.append(String(decoding: bytes[range], as: UTF8.self))
    case .token(let id): out.append("#\(id)")
    }
  }
  return out
}

private func token(_ id: Int32, _ content: String, _ change: (inout AddedToken) -> Void = { _ in })
  -> AddedToken
{
  var token = AddedToken(id: id, content: Array(content.utf8))
  change(&token)
  return token
}

@Test func `the leftmost and then the longest added token wins`() {
  let tokens = [token(1, "<a"), token(2, "<a>"), token(3, "a>b"), token(4, "\n"), token(5, "\n\n")]
  #expect(parts("x<a>b\n\n\n<ab", tokens) == ["x", "#2", "b", "#5", "#4", "#1", "b"])
  #expect(parts("", tokens).isEmpty)
  #expect(parts("<", tokens) == ["<"])
}

@Test func `stripping tokens take the white space around them`() {
  let tokens = [token(1, "<l>") { $0.stripsLeft = true }, token(2, "<r>") { $0.stripsRight = true }]
  #expect(parts("a \u{3000}<l> b<r>\n\n c", tokens) == ["a", "#1", " b", "#2", "c"])
  #expect(parts("<r>  <l>", tokens) == ["#2", "#1"])
}

@Test func `single words do not match inside words`() {
  let tokens = [token(1, "ab") { $0.isSingleWord = true }]
  #expect(parts("ab xab ab_ éab -ab-", tokens) == ["#1", " xab ab_ éab -", "#1", "-"])
}

@Test func `a megabyte of white space between stripping tokens is read once`() {
  let tokens = [
    token(1, "\n") {
      $0.stripsRight = true
      $0.stripsLeft = true
    }
  ]
  var count = 0
  let seconds = threadSeconds { count = parts(String(repeating: "\n", count: 1 << 19), tokens).count }
  #expect(count == 1 << 19 && seconds < 3)
}

@Test func `split behaviours`() throws {
  func split(_ behavior: String, _ invert: Bool = false) throws -> [String] {
    try cut(
      "--a-b",
      ["type": "Split", "pattern": ["String": "-"], "behavior": .string(behavior), "invert": .bool(invert)])
  }
  #expect(try split("Removed") == ["a", "b"])
  #expect(try split("Removed", true) == ["-", "-", "-"])
  #expect(try split("Isolated") == ["-", "-", "a", "-", "b"])
  #expect(try split("MergedWithPrevious") == ["-", "-", "a-", "b"])
  #expect(try split("MergedWithNext") == ["-", "-a", "-b"])
  #expect(try split("Contiguous") == ["--", "a", "-", "b"])
}

@Test func `pre-tokenizers of one class`() throws {
  #expect(
    try cut("a12 ٣b", ["type": "Digits", "individual_digits": true]) == ["a", "1", "2", " ", "٣", "b"])
  #expect(try cut("a12 ٣b", ["type": "Digits"]) == ["a", "12", " ", "٣", "b"])
  #expect(try cut(" a\u{3000}b\n", ["type": "WhitespaceSplit"]) == ["a", "b"])
  #expect(try cut("don't —x_1!", ["type": "Whitespace"]) == ["don", "'", "t", "—", "x_1", "!"])
  #expect(try cut("a,b—$c", ["type": "BertPreTokenizer"]) == ["a", ",", "b", "—", "$", "c"])
  #expect(try cut("a!!b", ["type": "Punctuation", "behavior": "Contiguous"]) == ["a", "!!", "b"])
  #expect(try cut("a|b||c", ["type": "CharDelimiterSplit", "delimiter": "|"]) == ["a", "b", "c"])
}

@Test func `Metaspace marks spaces and puts one in front`() throws {
  func meta(_ text: String, _ scheme: String, _ split: Bool) throws -> [String] {
    try cut(text, ["type": "Metaspace", "prepend_scheme": .string(scheme), "split": .bool(split)])
  }
  #expect(try meta("a  b", "always", true) == ["▁a", "▁", "▁b"])
  #expect(try meta(" a b", "always", false) == ["▁a▁b"])
  #expect(try meta("a b", "never", true) == ["a", "▁b"])
  #expect(try cut("a b", ["type": "Metaspace", "add_prefix_space": true]) == ["▁a", "▁b"])
  let afterSplit: JSONValue = [
    "type": "Sequence",
    "pretokenizers": [["type": "WhitespaceSplit"], ["type": "Metaspace", "prepend_scheme": "first"]],
  ]
  #expect(try cut("a b", afterSplit) == ["▁a", "b"])
}

@Test func `byte-level pieces are spelled in the alphabet, with a space in front if asked`() throws {
  #expect(try cut("é b", ["type": "ByteLevel", "add_prefix_space": true]) == ["ĠÃ©", "Ġb"])
  #expect(try cut("é b", ["type": "ByteLevel", "add_prefix_space": false, "use_regex": false]) == ["Ã©Ġb"])
}

@Test func `normalizers`() throws {
  #expect(try normalize("a b", ["type": "Replace", "pattern": ["String": " "], "content": "▁"]) == "a▁b")
  #expect(
    try normalize("a   b c", ["type": "Replace", "pattern": ["Regex": " {2,}"], "content": "-"]) == "a-b c")
  #expect(
    try normalize("a\t \nb", ["type": "Replace", "pattern": ["Regex": "\\s+"], "content": " "]) == "a b")
  #expect(try normalize("x", ["type": "Prepend", "prepend": "▁"]) == "▁x")
  #expect(try normalize("", ["type": "Prepend", "prepend": "▁"]) == "")
  #expect(try normalize("ÀΣİ", ["type": "Lowercase"]) == "àσi\u{307}")
  #expect(try normalize(" \u{3000}a \n", ["type": "Strip", "strip_left": true, "strip_right": true]) == "a")
  let accents: JSONValue = ["type": "Sequence", "normalizers": [["type": "NFD"], ["type": "StripAccents"]]]
  #expect(try normalize("éÅñ", accents) == "eAn")
  #expect(try normalize("É漢\u{200B}\tx\u{0}", ["type": "BertNormalizer"]) == "e 漢  x")
  #expect(try normalize("a\u{200B}b\u{1}", ["type": "Nmt"]) == "a b")
  #expect(try normalize("é", ["type": "ByteLevel"]) == "Ã©")
}

/// A tokenizer with a model of three tokens.
private func tokenizer(_ part: String, _ description: JSONValue) throws -> Tokenizer {
  let model: JSONValue = ["type": "WordLevel", "vocab": ["u": 0, "a": 1, "aa": 2], "unk_token": "u"]
  return try Tokenizer(
    tokenizerJSON: JSONValue.object(JSONObject([("model", model), (part, description)])).bytes)
}

@Test func `steps that multiply a text are bounded together`() throws {
  func chain(_ name: String, _ step: JSONValue, _ count: Int) -> JSONValue {
    .object(JSONObject([("type", "Sequence"), (name, .array(Array(repeating: step, count: count)))]))
  }
  let double: JSONValue = ["type": "Replace", "pattern": ["String": "a"], "content": "aa"]
  let pattern: JSONValue = ["type": "Replace", "pattern": ["Regex": "[a]"], "content": "aa"]
  let same: JSONValue = ["type": "Replace", "pattern": ["String": "a"], "content": "b"]
  let spell: JSONValue = ["type": "ByteLevel", "add_prefix_space": false, "use_regex": false]
  let long: JSONValue = ["type": "Prepend", "prepend": .string(String(repeating: "x", count: 300))]
  let spaces: JSONValue = ["type": "Metaspace", "replacement": "  "]
  for (part, name, step, most) in [
    ("normalizer", "normalizers", double, 8), ("normalizer", "normalizers", pattern, 8),
    ("normalizer", "normalizers", ["type": "ByteLevel"], 8), ("normalizer", "normalizers", same, 100),
    ("normalizer", "normalizers", long, 0), ("pre_tokenizer", "pretokenizers", spell, 8),
    ("pre_tokenizer", "pretokenizers", spaces, 5), ("decoder", "decoders", double, 8),
    ("decoder", "decoders", same, 100), ("decoder", "decoders", ["type": "WordPiece"], 8),
  ] as [(String, String, JSONValue, Int)] {
    _ = try tokenizer(part, chain(name, step, most)).encode("a", addSpecialTokens: false)
    #expect(throws: TokenizerError.self, "\(most + 1) of \(step)") {
      try tokenizer(part, chain(name, step, most + 1))
    }
  }
  // What all of them together may do is what counts.
  #expect(throws: TokenizerError.self) {
    try tokenizer(
      "normalizer",
      ["type": "Replace", "pattern": ["String": "a"], "content": .string(String(repeating: "a", count: 257))])
  }
  let bytes = try Decoder(chain("decoders", double, 8), path: "d").apply([0x61], isFirst: true, isLast: true)
  #expect(bytes.count == 256)
}

@Test func `post-processors frame the text`() throws {
  func frame(_ description: JSONValue) throws -> [[Int32]] {
    let processor = try PostProcessor(description, path: "p")
    return [processor.before, processor.after]
  }
  #expect(try frame(["type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]]) == [[1], [2]])
  let template: JSONValue = [
    "type": "TemplateProcessing",
    "single": [["SpecialToken": ["id": "<s>", "type_id": 0]], ["Sequence": ["id": "A", "type_id": 0]]],
    "special_tokens": ["<s>": ["id": "<s>", "ids": [7, 8], "tokens": ["<s>", "x"]]],
  ]
  #expect(try frame(template) == [[7, 8], []])
  #expect(
    try frame(["type": "Sequence", "processors": [["type": "ByteLevel"], template]]) == [[7, 8], []])
  #expect(try frame(nil) == [[], []])
}

@Test func `decoder steps per token`() throws {
  func decode(_ tokens: [String], _ description: JSONValue) throws -> String {
    let decoder = try Decoder(description, path: "d")
    return tokens.indices.map { index in
      let bytes = decoder.apply(
        Array(tokens[index].utf8), isFirst: index == 0, isLast: index == tokens.count - 1)
      return String(decoding: bytes, as: UTF8.self)
    }.joined()
  }
  #expect(
    try decode(["don", "'", "t", "##x", "."], ["type": "WordPiece", "prefix": "##", "cleanup": true])
      == "don ' tx.")
  #expect(try decode(["a", "##b", "."], ["type": "WordPiece", "prefix": "##", "cleanup": false]) == "ab .")
  #expect(try decode(["▁a", "▁b"], ["type": "Metaspace", "replacement": "▁"]) == "a b")
  #expect(
    try decode(["▁a", "▁b"], ["type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"]) == " a b")
  #expect(try decode(["a", "b</w>", "c</w>"], ["type": "BPEDecoder", "suffix": "</w>"]) == "ab c")
  #expect(try decode(["a", "b"], nil) == "a b")
}
