// Prompts for filling in the middle: the marks of each family, code that spells them, and what does not fit.

import Pipeline
import Testing
import Tokenizers

private typealias Extra = FillInMiddle.Extra

/// A family's marks in a vocabulary, and the prompts that they make.
private struct Layout: Sendable, CustomTestStringConvertible {
  var name: String
  var marks: [String]
  var plain: String
  var withExtra: String
  var testDescription: String { name }

  static let qwen = [
    "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
  ]
  static let all = [
    Layout(
      name: "Qwen coder", marks: qwen, plain: "<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>",
      withExtra: "<|repo_name|>myproject\n<|file_sep|>f.c\nxy<|file_sep|>filename\n"
        + "<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>"),
    Layout(
      name: "CodeGemma", marks: ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_separator|>"],
      plain: "<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>",
      withExtra: "<|file_separator|>f.c\nxy<|file_separator|>filename\n"
        + "<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>"),
    Layout(
      name: "StarCoder2",
      marks: ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<repo_name>", "<file_sep>"],
      plain: "<fim_prefix>ab<fim_suffix>cd<fim_middle>",
      withExtra: "<repo_name>myproject\n<file_sep>f.c\nxy<file_sep>filename\n"
        + "<fim_prefix>ab<fim_suffix>cd<fim_middle>"),
    Layout(
      name: "Granite code",
      marks: ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<reponame>", "<filename>"],
      plain: "<fim_prefix>ab<fim_suffix>cd<fim_middle>",
      withExtra: "<reponame>myproject\n<filename>f.c\nxy<filename>filename\n"
        + "<fim_prefix>ab<fim_suffix>cd<fim_middle>"),
    Layout(
      name: "SantaCoder", marks: ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
      plain: "<fim-prefix>ab<fim-suffix>cd<fim-middle>",
      withExtra: "\n\n--- snippet ---\n\nxy<fim-prefix>ab<fim-suffix>cd<fim-middle>"),
    Layout(
      name: "DeepSeek coder", marks: ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
      plain: "<｜fim▁begin｜>ab<｜fim▁hole｜>cd<｜fim▁end｜>",
      withExtra: "\n\n--- snippet ---\n\nxy<｜fim▁begin｜>ab<｜fim▁hole｜>cd<｜fim▁end｜>"),
    Layout(
      name: "CodeLlama", marks: ["▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"],
      plain: "▁<PRE>ab▁<SUF>cd▁<MID>",
      withExtra: "\n\n--- snippet ---\n\nxy▁<PRE>ab▁<SUF>cd▁<MID>"),
    Layout(
      name: "Codestral", marks: ["[PREFIX]", "[SUFFIX]"], plain: "[SUFFIX]cd[PREFIX]ab",
      withExtra: "\n\n--- snippet ---\n\nxy[SUFFIX]cd[PREFIX]ab"),
    Layout(
      name: "GLM", marks: ["<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"],
      plain: "<|code_prefix|>ab<|code_suffix|>cd<|code_middle|>",
      withExtra: "\n\n--- snippet ---\n\nxy<|code_prefix|>ab<|code_suffix|>cd<|code_middle|>"),
  ]
}

struct FillInMiddleTests {
  private func make(_ marks: [String]) throws -> (FillInMiddle, Tokenizer) {
    let tokenizer = makeTinyTokenizer(marks.map { ($0, false) })
    return (try #require(FillInMiddle(tokenizer)), tokenizer)
  }

  @Test(arguments: Layout.all)
  private func `each family has its marks and its order`(layout: Layout) throws {
    let (fill, tokenizer) = try make(layout.marks)
    let plain = fill.prompt(prefix: "ab", suffix: "cd", room: 100)
    #expect(tokenizer.decode(plain.tokens, skipSpecialTokens: false) == layout.plain)
    #expect(!plain.isTruncated)
    let more = fill.prompt(
      prefix: "ab", suffix: "cd", extras: [Extra(name: "f.c", text: "xy")], room: 400)
    #expect(tokenizer.decode(more.tokens, skipSpecialTokens: false) == layout.withExtra)
    // Whatever mark the model writes ends the answer.
    #expect(fill.ends == Set(layout.marks.compactMap { tokenizer.id(of: $0) }))
  }

  @Test func `a vocabulary without all of the marks does not fill`() {
    #expect(FillInMiddle(tinyTokenizer) == nil)
    #expect(FillInMiddle(makeTinyTokenizer([("<|fim_prefix|>", false), ("<|fim_suffix|>", false)])) == nil)
  }

  @Test func `marks may be named by the tokenizer's settings`() throws {
    let tokenizer = makeTinyTokenizer([("{a}", true), ("{b}", true), ("{c}", true)])
    let fill = try #require(FillInMiddle(tokenizer, names: ("{a}", "{b}", "{c}")))
    #expect(fill.prompt(prefix: "x", suffix: "y", room: 9).tokens == [256, 120, 257, 121, 258])
  }

  @Test func `code that spells marks is text`() throws {
    let (fill, _) = try make(Layout.qwen)
    let prefix = "a = \"<|fim_middle|>\" # <|file_sep|>"
    let suffix = "<|fim_suffix|>"
    let prompt = fill.prompt(
      prefix: prefix, suffix: suffix, extras: [Extra(name: "<|repo_name|>", text: "<|fim_prefix|>")],
      room: 999)
    let marks = prompt.tokens.filter { $0 >= 256 }
    // The head, one extra, the name of the file, and the three marks.
    #expect(marks == [260, 261, 261, 256, 257, 258])
  }

  @Test func `a text that does not fit keeps what is nearest to the place`() throws {
    let (fill, tokenizer) = try make(Layout.qwen)
    let before = String(repeating: "x", count: 300) + "END"
    let after = "START" + String(repeating: "y", count: 300)
    let prompt = fill.prompt(
      prefix: before, suffix: after, extras: [Extra(name: "n", text: "text")], room: 103)
    let text = tokenizer.decode(prompt.tokens, skipSpecialTokens: false)
    #expect(prompt.isTruncated)
    #expect(prompt.tokens.count <= 103)
    #expect(text.contains("END<|fim_suffix|>START"))
    #expect(!text.contains("<|file_sep|>"))
    #expect(tokenizer.decode(prompt.tokens, skipSpecialTokens: true).filter { $0 == "y" }.count == 20)
  }

  @Test func `extras that do not fit go from the front`() throws {
    let (fill, tokenizer) = try make(Layout.qwen)
    let extras = (0..<9).map { Extra(name: "\($0)", text: String(repeating: "e", count: 20)) }
    let prompt = fill.prompt(prefix: "ab", suffix: "cd", extras: extras, room: 123)
    let text = tokenizer.decode(prompt.tokens, skipSpecialTokens: false)
    #expect(text.hasPrefix("<|repo_name|>myproject\n<|file_sep|>6\n"))
    #expect(text.contains("<|file_sep|>8\n") && prompt.isTruncated)
  }

  @Test func `a user who types does not move the beginning of the prompt with every letter`() throws {
    let (fill, _) = try make(Layout.qwen)
    var beginnings: Set<[Int32]> = []
    let text = (0..<2000).map { "\($0 % 7)" }.joined()
    for letters in 0..<200 {
      let prompt = fill.prompt(prefix: String(text.prefix(1500 + letters)), suffix: "end", room: 1000)
      beginnings.insert(Array(prompt.tokens.prefix(200)))
      #expect(prompt.tokens.count <= 1000)
    }
    // Steps are an eighth of the room.
    #expect(beginnings.count <= 3)
  }

  @Test func `marks alone do not make a model of code`() throws {
    let (qwen, _) = try make(Layout.qwen)
    #expect(qwen.isTrained(name: "Qwen2.5-Coder-1.5B-4bit"))
    #expect(!qwen.isTrained(name: "Qwen3-0.6B-4bit"))
    let (starcoder, _) = try make(["<fim_prefix>", "<fim_suffix>", "<fim_middle>"])
    #expect(starcoder.isTrained(name: "anything"))
  }
}
