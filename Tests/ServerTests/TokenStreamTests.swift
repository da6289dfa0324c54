// From tokens to pieces: held-back text, stop strings, counts, log probabilities.

import Chat
import Decoding
import Inference
import JSON
import Testing
import Tokenizers
import Wire

@testable import Pipeline
@testable import Server

/// The pieces of a whole text, neighbours of one kind joined.
private func pieces(
  _ text: String, end: FinishReason = .stop, _ configure: (inout TokenStream.Settings) -> Void = { _ in }
)
  -> (joined: [TokenStream.Piece], single: [[TokenStream.Piece]], stream: TokenStream)
{
  var settings = TokenStream.Settings()
  configure(&settings)
  var stream = TokenStream(settings, detokenizer: tinyTokenizer.makeDetokenizer(skipSpecialTokens: false))
  var single: [[TokenStream.Piece]] = []
  for id in tinyTokenizer.encode(text, addSpecialTokens: false) {
    single.append(stream.consume(FakeService.sampled(id, top: 0)))
  }
  single.append(stream.end(end))
  var joined: [TokenStream.Piece] = []
  for piece in single.flatMap({ $0 }) {
    switch (joined.last, piece) {
    case (.content(let a, let s)?, .content(let b, let t)):
      joined[joined.count - 1] = .content(a + b, tokens: s + t)
    case (.reasoning(let a)?, .reasoning(let b)): joined[joined.count - 1] = .reasoning(a + b)
    case (.toolCallArguments(let a)?, .toolCallArguments(let b)):
      joined[joined.count - 1] = .toolCallArguments(a + b)
    default: joined.append(piece)
    }
  }
  return (joined, single, stream)
}

private func parser(tools: [String]? = nil, prompt: String = "<|im_start|>assistant\n") -> OutputParser {
  tinyTemplate.format.makeParser(
    promptTail: prompt, tools: tools?.map { ["type": "function", "function": ["name": .string($0)]] })
}

private func ids(_ tokens: [SampledToken]) -> [UInt8] { tokens.map { UInt8(truncatingIfNeeded: $0.id) } }

struct TokenStreamTests {
  @Test func `plain text passes through token by token`() {
    let run = pieces("Hi")
    #expect(
      run.single == [[.content("H", tokens: [])], [.content("i", tokens: [])], [.finish(.stop)]])
    #expect(run.stream.completionTokens == 2)
  }

  @Test func `a character split among tokens comes whole`() {
    let run = pieces("a😀b")
    #expect(
      run.single == [
        [.content("a", tokens: [])], [], [], [], [.content("😀", tokens: [])], [.content("b", tokens: [])],
        [.finish(.stop)],
      ])
  }

  @Test func `an answer cut inside a character ends with a replacement character`() {
    var stream = TokenStream(
      TokenStream.Settings(), detokenizer: tinyTokenizer.makeDetokenizer(skipSpecialTokens: false))
    #expect(stream.consume(FakeService.sampled(0xF0, top: 0)) == [])
    #expect(stream.end(.length) == [.content("\u{FFFD}", tokens: []), .finish(.length)])
  }

  @Test func `a stop string that spans tokens is cut off and ends the answer`() {
    let run = pieces("one END two") { $0.stops = ["END"] }
    #expect(run.joined == [.content("one ", tokens: []), .finish(.stop)])
    // Up to and including the D.
    #expect(run.stream.completionTokens == 7)
  }

  @Test func `text that only began like a stop string is released`() {
    let run = pieces("EN route") { $0.stops = ["END"] }
    #expect(run.single[0] == [])
    #expect(run.single[1] == [])
    #expect(run.single[2] == [.content("EN ", tokens: [])])
    let cut = pieces("x EN", end: .length) { $0.stops = ["END"] }
    #expect(cut.joined == [.content("x EN", tokens: []), .finish(.length)])
  }

  @Test func `of two stop strings under way the one that is complete at the end counts`() {
    let run = pieces("a END of", end: .length) { $0.stops = ["END of text", "ND"] }
    #expect(run.joined == [.content("a E", tokens: []), .finish(.stop)])
  }

  @Test func `the length limit is told from a stop`() {
    #expect(pieces("x", end: .length).joined.last == .finish(.length))
    #expect(pieces("", end: .stop).joined == [.finish(.stop)])
  }

  @Test func `reasoning is split off and its tokens are counted with the markers`() {
    let run = pieces("<think>\nhm, END\n</think>\n\nYes") {
      $0.parser = parser()
      $0.stops = ["END"]
    }
    #expect(run.joined == [.reasoning("hm, END"), .content("Yes", tokens: []), .finish(.stop)])
    // <think> \n h m , _ E N D \n </think>, and the two line ends after it.
    #expect(run.stream.reasoningTokens == 13)
    #expect(run.stream.completionTokens == 16)
  }

  @Test func `no reasoning counts as none`() {
    #expect(pieces("<think>\n\n</think>\n\nYes") { $0.parser = parser() }.stream.reasoningTokens == 0)
    #expect(pieces("Yes") { $0.parser = parser() }.stream.reasoningTokens == 0)
  }

  @Test func `a limit inside the reasoning leaves the content empty`() {
    let run = pieces("<think>\nhm", end: .length) { $0.parser = parser() }
    #expect(run.joined == [.reasoning("hm"), .finish(.length)])
    #expect(run.stream.reasoningTokens == run.stream.completionTokens)
  }

  @Test func `tool calls decide the finish reason`() {
    let text = #"Let me see.<tool_call>\#n{"name": "f", "arguments": {"a": 1}}\#n</tool_call>"#
    let run = pieces(text) { $0.parser = parser(tools: ["f"]) }
    #expect(
      run.joined == [
        .content("Let me see.", tokens: []), .toolCallBegan(name: "f"),
        .toolCallArguments(#"{"a": 1}"#), .toolCallEnded, .finish(.toolCalls),
      ])
  }

  @Test func `arguments come token by token`() {
    let run = pieces(#"<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>"#) {
      $0.parser = parser(tools: ["f"])
    }
    let first = run.single.first { !$0.isEmpty }
    #expect(first == [.toolCallBegan(name: "f"), .toolCallArguments("{")])
    #expect(run.single.filter { $0.count == 1 && $0 == [.toolCallArguments("\"")] }.count == 2)
  }

  @Test(arguments: [FinishReason.stop, .length])
  func `a call that breaks off is text, and no tool call`(reason: FinishReason) {
    let text = #"<tool_call>{"name": "f", "arguments": {"a": "#
    let run = pieces("So. " + text, end: reason) {
      $0.parser = parser(tools: ["f"])
      $0.reportsLogprobs = true
    }
    #expect(run.joined.count == 6)
    #expect(run.joined[1] == .toolCallBegan(name: "f"))
    #expect(run.joined[3] == .toolCallsFailed(1))
    guard case .content(let content, let tokens) = run.joined[4] else {
      Issue.record("there is no content")
      return
    }
    #expect(content == " " + text)
    #expect(tokens.map(\.id) == tinyTokenizer.encode(" " + text, addSpecialTokens: false))
    #expect(run.joined[5] == .finish(reason == .length ? .length : .stop))
    #expect(run.stream.malformedCalls == 1)
  }

  @Test func `a call that the limit cuts can stay as far as it came`() {
    let text = #"<tool_call>{"name": "f", "arguments": {"a": "#
    func kept(_ end: FinishReason, _ text: String) -> [TokenStream.Piece] {
      pieces(text, end: end) {
        $0.parser = parser(tools: ["f"])
        $0.keepsCutCalls = true
      }.joined
    }
    #expect(
      kept(.length, "So. " + text) == [
        .content("So.", tokens: []), .toolCallBegan(name: "f"), .toolCallArguments(#"{"a": "#),
        .finish(.length),
      ])
    // What the model has ended is malformed, and so is what began no call.
    #expect(kept(.stop, text).contains(.toolCallsFailed(1)))
    #expect(kept(.length, "<tool_call>{") == [.content("<tool_call>{", tokens: []), .finish(.length)])
    let whole = #"<tool_call>{"name": "f", "arguments": {}}"#
    #expect(
      kept(.length, whole) == [
        .toolCallBegan(name: "f"), .toolCallArguments("{}"), .toolCallEnded, .finish(.length),
      ])
  }

  @Test func `a call that is not JSON stays likewise`() {
    let text = "<tool_call>\n<function=f>\n<parameter=a>\nPar"
    for keeps in [true, false] {
      let run = pieces("So. " + text, end: .length) {
        $0.parser = OutputFormat(templateSource: "<tool_call><function=").makeParser(
          promptTail: "", tools: [["type": "function", "function": ["name": "f"]]])
        $0.keepsCutCalls = keeps
      }
      #expect(
        run.joined
          == (keeps
            ? [.content("So.", tokens: []), .toolCallBegan(name: "f"), .toolCallArguments(#"{"a":"Par"#)]
            : [.content("So. " + text, tokens: [])]) + [.finish(.length)])
    }
  }

  @Test func `a good call beside a broken one still counts when nothing of the broken one was seen`() {
    let good = #"<tool_call>{"name": "f", "arguments": {}}</tool_call>"#
    let run = pieces(good + "<tool_call>oops</tool_call>") { $0.parser = parser(tools: ["f"]) }
    #expect(run.joined.last == .finish(.toolCalls))
    #expect(run.stream.malformedCalls == 1)
    let broken = pieces(good + #"<tool_call>{"name": "f", "arguments": {}"#) {
      $0.parser = parser(tools: ["f"])
    }
    #expect(broken.joined.last == .finish(.stop))
  }

  @Test func `one call only ends the answer after the first`() {
    let call = #"<tool_call>{"name": "f", "arguments": {}}</tool_call>"#
    let both = pieces(call + call) { $0.parser = parser(tools: ["f"]) }
    #expect(both.joined.count == 7)
    let one = pieces(call + call) {
      $0.parser = parser(tools: ["f"])
      $0.allowsOneCallOnly = true
    }
    #expect(
      one.joined == [
        .toolCallBegan(name: "f"), .toolCallArguments("{}"), .toolCallEnded, .finish(.toolCalls),
      ])
    #expect(one.stream.completionTokens == tinyTokenizer.encode(call, addSpecialTokens: false).count)
  }

  @Test func `hidden tokens are counted and have no text`() {
    let run = pieces("a<|im_end|>b") { $0.hiddenTokens = [Marker.end] }
    #expect(run.joined == [.content("ab", tokens: []), .finish(.stop)])
    #expect(run.stream.completionTokens == 3)
  }

  @Test func `pieces carry the tokens whose text they hold`() {
    let run = pieces("<think>\nhm\n</think>\n\nJa 😀, END") {
      $0.parser = parser()
      $0.stops = [" END"]
      $0.reportsLogprobs = true
    }
    #expect(run.joined.count == 3)
    guard case .content(let text, let tokens) = run.joined[1] else {
      Issue.record("there is no content")
      return
    }
    #expect(text == "Ja 😀,")
    #expect(ids(tokens) == Array("Ja 😀,".utf8))
  }

  @Test func `an empty answer ends before its first token`() {
    let run = pieces("abc") { $0.isEmpty = true }
    #expect(run.joined == [.finish(.length)])
    #expect(run.stream.completionTokens == 0)
  }
}

struct TokenLedgerTests {
  private func token(_ id: Int32) -> SampledToken { makeSampled(id, 0, []) }

  @Test func `content takes its tokens and drops what stood before`() {
    var ledger = TokenLedger()
    ledger.append(token(1), text: "\n\n")
    ledger.append(token(2), text: "He")
    ledger.append(token(3), text: "llo")
    #expect(ledger.take("Hel").map(\.id) == [2, 3])
    #expect(ledger.take("lo").map(\.id) == [])
  }

  @Test func `tokens of one character are taken together`() {
    var ledger = TokenLedger()
    ledger.append(token(1), text: "")
    ledger.append(token(2), text: "é")
    #expect(ledger.take("é").map(\.id) == [1, 2])
  }

  @Test func `skipped text takes its tokens along`() {
    var ledger = TokenLedger()
    ledger.append(token(1), text: "thought")
    ledger.append(token(2), text: "</think>")
    ledger.append(token(3), text: "x")
    ledger.skip(through: "thought")
    #expect(ledger.take("x").map(\.id) == [3])
  }

  @Test func `rewritten text takes everything`() {
    var ledger = TokenLedger()
    ledger.append(token(1), text: "a")
    ledger.append(token(2), text: "b")
    #expect(ledger.take("other").map(\.id) == [1, 2])
    #expect(ledger.take("b").map(\.id) == [])
  }
}
