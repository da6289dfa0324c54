// What the answers of /tokenize hold while they are made.

import HTTP
import JSON
import Platform
import Testing

@testable import Server

@Suite struct TokenizeMemoryTests {
  @Test func `a long text's tokens are written in parts, with the text of a short one's`() throws {
    let text = String(repeating: "a\\n", count: 2500)
    let answer = try makeApp(FakeService("x")).send(
      "POST", "/tokenize", body: #"{"content":"\#(text)","with_pieces":true,"return_token_strs":true}"#)
    let pieces = Array(repeating: [#"{"id":97,"piece":"a"}"#, #"{"id":10,"piece":"\n"}"#], count: 2500)
    let strings = Array(repeating: [#""a""#, #""Ċ""#], count: 2500)
    #expect(answer.status == 200)
    #expect(
      answer.text == #"{"count":5000,"max_model_len":400,"tokens":["# + pieces.joined().joined(separator: ",")
        + #"],"token_strs":["# + strings.joined().joined(separator: ",") + "]}")
    let bare = try makeApp(FakeService("x")).send("POST", "/tokenize", body: #"{"content":"\#(text)"}"#)
    #expect(bare.json["tokens"]?.arrayValue?.count == 5000 && bare.json["token_strs"]?.isNull == true)
  }

  @Test func `no part of a long answer is larger than some hundred kilobytes`() throws {
    let ledger = MemoryLedger()
    let list = TokenList(
      tokens: [Int32](repeating: 195, count: 100_000), tokenizer: tinyTokenizer, maxContext: 1,
      wantsPieces: true, wantsStrings: true,
      loan: MemoryLoan(ledger, for: .answers, patience: 0))
    guard case .stream(let send) = list.response.body else {
      Issue.record("the answer is in one piece")
      return
    }
    var largest = 0
    var count = 0
    try send(
      BodyWriter { bytes, _ in
        largest = max(largest, bytes.count)
        count += 1
      })
    #expect(largest > 1000 && largest < 200_000)
    #expect(count > 90)
  }

  @Test func `while an answer is read only its tokens are held`() throws {
    let garage = Garage(limit: 1 << 20)
    let fleet = try garage.fleet(["m"])
    defer { fleet.stop() }
    var request = try Request("POST", "/tokenize")
    request.body = Array(#"{"with_pieces":true,"content":"\#(String(repeating: "a", count: 5000))"}"#.utf8)
    var response: Response? = App(fleet).answer(request, ConnectionContext())
    #expect(response?.status == 200)
    #expect(garage.ledger.bytes(of: .answers) == 20_000)
    #expect(garage.ledger.snapshot().lines.contains { $0.kind == .answers && $0.peak == 240_000 })
    response = nil
    #expect(garage.ledger.bytes(of: .answers) == 0)
  }

  @Test func `a text is claimed by what it takes as JSON`() throws {
    let tokens = Array(repeating: "1", count: 1000).joined(separator: ",")
    var request = try Request("POST", "/detokenize")
    request.body = Array(#"{"tokens":[\#(tokens)]}"#.utf8)
    let ledger = MemoryLedger()
    let context = ConnectionContext()
    context.memory = MemoryLoan(ledger, for: .answers, patience: 0)
    let answer = makeApp(FakeService("x")).answer(request, context)
    let bytes = try answer.collectedBody()
    // A control character has six.
    #expect(bytes.count == 12_026)
    #expect(ledger.bytes(of: .answers) >= 4 * 1000 + 2 * 12_000)
  }

  @Test func `text that would need more than is left is refused, and what was claimed is given back`() throws
  {
    let garage = Garage(limit: 20_000)
    let fleet = try garage.fleet(["m"])
    defer { fleet.stop() }
    let app = App(fleet)
    func send(_ count: Int) throws -> Answer {
      try app.send("POST", "/tokenize", body: #"{"content":"\#(String(repeating: "a", count: count))"}"#)
    }
    #expect(try send(1000).refusal == "503 insufficient_memory null")
    #expect(try send(100).status == 200)
    #expect(garage.ledger.bytes(of: .answers) == 0)
  }
}
