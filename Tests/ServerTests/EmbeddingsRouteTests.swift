// POST /v1/embeddings: every form of input, what is refused and how, and how vectors are written.

import HTTP
import Inference
import JSON
import Platform
import Testing
import Wire

@testable import Pipeline
@testable import Server

/// An encoder of three dimensions: a text's first token, how many it has, and 1. The first token 7 has no finite vector.
final class FakeEncoder: EmbeddingService {
  var limits: EmbeddingLimits {
    EmbeddingLimits(maxTokens: 16, vocabularySize: 256, dimensions: 3, hidden: 3)
  }
  var embeddingStatistics: EmbeddingStatistics { EmbeddingStatistics() }
  let failure: InferenceError?

  init(failure: InferenceError? = nil) { self.failure = failure }

  func submit(_ request: EmbeddingRequest) throws(InferenceError) -> EmbeddingJob {
    if let failure { throw failure }
    let mailbox = Mailbox<EmbeddingEvent>(capacity: request.texts.count + 1)
    for (index, text) in request.texts.enumerated() {
      _ = mailbox.trySend(
        .result(index: index, values: [Float(text.tokens[0]), Float(text.tokens.count), 1]))
    }
    _ = mailbox.trySend(end(of: request))
    return EmbeddingJob(mailbox: mailbox)
  }

  private func end(of request: EmbeddingRequest) -> EmbeddingEvent {
    request.texts.contains { $0.tokens[0] == 7 } ? .failed(.unusableLogits(tokens: 1)) : .finished
  }
}

func makeEmbeddingApp(_ service: FakeEncoder = FakeEncoder()) -> App {
  let embedder = Embedder(
    service: service, tokenizer: tinyTokenizer,
    prompts: ["query": "query: "])
  return App(LoadedModel(id: "e", created: 5, embedder: embedder))
}

@Suite struct EmbeddingsRouteTests {
  private func embed(_ members: String, _ app: App = makeEmbeddingApp()) throws -> Answer {
    try app.send("POST", "/v1/embeddings", body: "{\(members)}")
  }

  private func vectors(_ answer: Answer) -> [[Double]] {
    (answer.json["data"]?.arrayValue ?? []).map { entry in
      (entry["embedding"]?.arrayValue ?? []).compactMap(\.doubleValue)
    }
  }

  @Test func `a text has a vector of length 1, its tokens are counted`() throws {
    let answer = try embed(#""model":"e","input":"ab""#)
    let length = (97.0 * 97 + 5).squareRoot()
    let numbers = [97.0, 2, 1].map { "\(Float($0 / length))" }.joined(separator: ",")
    #expect(
      answer.text == #"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[\#(numbers)]}],"#
        + #""model":"e","usage":{"prompt_tokens":2,"total_tokens":2}}"#)
    #expect(answer.status == 200 && answer.headers["content-type"] == "application/json")
  }

  @Test func `all four forms of input are read, and the short path answers too`() throws {
    #expect(vectors(try embed(#""input":["a","b"]"#)).count == 2)
    let ids = vectors(try embed(#""input":[97,98]"#))
    #expect(try ids == vectors(embed(#""input":"ab""#)))
    #expect(try vectors(embed(#""input":[[97,98],[99]]"#)) == vectors(embed(#""input":["ab","c"]"#)))
    #expect(try makeEmbeddingApp().send("POST", "/embeddings", body: #"{"input":"a"}"#).status == 200)
  }

  @Test func `base64 holds the bits of the numbers`() throws {
    let numbers = vectors(try embed(#""input":"ab""#))[0].map { Float($0) }
    let text = try embed(#""input":"ab","encoding_format":"base64""#).json["data"]?[0]?["embedding"]?
      .stringValue
    let bytes = try #require(text.flatMap(Base64.decode))
    let bits = stride(from: 0, to: bytes.count, by: 4).map { at in
      (0..<4).reduce(UInt32(0)) { $0 | UInt32(bytes[at + $1]) << UInt32(8 * $1) }
    }
    #expect(bits == numbers.map(\.bitPattern))
  }

  @Test func `what is no input is refused with its path`() throws {
    for (input, refusal) in [
      ("[]", "400 invalid_value input"), ("[[]]", "400 invalid_value input[0]"),
      ("{}", "400 invalid_type input"), ("null", "400 missing_required_parameter input"),
      ("5", "400 invalid_type input"), (#"["a",1]"#, "400 invalid_type input[1]"),
      (#"[[1,"a"]]"#, "400 invalid_type input[0][1]"), (#"[1,"a"]"#, "400 invalid_type input[1]"),
      ("[256]", "400 integer_above_max_value input[0]"), ("[-1]", "400 integer_below_min_value input[0]"),
      ("[1099511627776]", "400 integer_above_max_value input[0]"), (#""""#, "400 invalid_value input"),
      (#"["a",""]"#, "400 invalid_value input[1]"),
    ] { #expect(try embed("\"input\":\(input)").refusal == refusal, "\(input)") }
    #expect(try embed("").refusal == "400 missing_required_parameter input")
  }

  @Test func `requests have their limits`() throws {
    let many = [String](repeating: "\"a\"", count: 2_049)
    #expect(try embed("\"input\":[\(many.joined(separator: ","))]").refusal == "400 invalid_value input")
    let most = try embed("\"input\":[\(many.dropLast().joined(separator: ","))]")
    #expect(most.status == 200 && vectors(most).count == 2_048)
  }

  @Test func `dimensions are whole numbers up to the model's`() throws {
    for (value, refusal) in [
      ("0", "400 invalid_value dimensions"), ("-1", "400 invalid_value dimensions"),
      ("1.5", "400 invalid_value dimensions"), ("4", "400 invalid_value dimensions"),
      (#""2""#, "400 invalid_type dimensions"),
    ] { #expect(try embed("\"input\":\"a\",\"dimensions\":\(value)").refusal == refusal, "\(value)") }
    #expect(vectors(try embed(#""input":"a","dimensions":2"#))[0].count == 2)
  }

  @Test func `a long text is refused with both numbers, and cut only on request`() throws {
    let text = String(repeating: "x", count: 20)
    let refused = try embed("\"input\":[\"a\",\"\(text)\"]")
    #expect(refused.refusal == "400 context_length_exceeded input[1]")
    #expect(refused.text.contains("16 tokens") && refused.text.contains("has 20"))
    let cut = try embed("\"input\":[\"a\",\"\(text)\"],\"truncate\":true")
    #expect(cut.json["truncated"] == [1] && cut.json["usage"]?["prompt_tokens"] == 17)
    #expect(
      try embed("\"input\":\"\(text)\",\"truncate_prompt_tokens\":5").json["usage"]?["prompt_tokens"] == 5)
    #expect(
      try embed("\"input\":\"\(text)\",\"truncate_prompt_tokens\":-1").json["usage"]?["prompt_tokens"] == 16)
    #expect(try embed("\"input\":\"a\",\"truncate\":\"middle\"").refusal == "400 invalid_value truncate")
    #expect(try embed("\"input\":\"a\",\"truncate\":1").refusal == "400 invalid_type truncate")
    #expect(
      try embed("\"input\":\"a\",\"truncate_prompt_tokens\":0").refusal
        == "400 invalid_value truncate_prompt_tokens")
  }

  @Test func `prompts are named, written out, or follow from the use`() throws {
    let plain = vectors(try embed(#""input":"query: a""#))
    #expect(try vectors(embed(#""input":"a","prompt_name":"query""#)) == plain)
    #expect(try vectors(embed(#""input":"a","prompt":"query: ""#)) == plain)
    #expect(try vectors(embed(#""input":"a","input_type":"search_query""#)) == plain)
    #expect(try vectors(embed(#""input":"a","input_type":"document""#)) == vectors(embed(#""input":"a""#)))
    let unknown = try embed(#""input":"a","prompt_name":"nope""#)
    #expect(unknown.refusal == "400 invalid_value prompt_name" && unknown.text.contains("'query'"))
    #expect(
      try embed(#""input":"a","prompt":"x","prompt_name":"query""#).refusal == "400 invalid_value prompt_name"
    )
  }

  @Test func `vectors stay as they are where that is asked`() throws {
    #expect(vectors(try embed(#""input":"ab","normalize":false"#)) == [[97, 2, 1]])
  }

  @Test func `models are used for what they are`() throws {
    let chat = makeApp(FakeService("x"))
    let refused = try chat.send("POST", "/v1/embeddings", body: #"{"model":"m","input":"a"}"#)
    #expect(refused.refusal == "400 unsupported_operation model" && refused.text.contains("'m'"))
    for (path, body) in [
      ("/v1/chat/completions", #"{"model":"e","messages":[{"role":"user","content":"hi"}]}"#),
      ("/v1/completions", #"{"model":"e","prompt":"x"}"#), ("/v1/responses", #"{"model":"e","input":"x"}"#),
    ] {
      let answer = try makeEmbeddingApp().send("POST", path, body: body)
      #expect(answer.refusal == "400 unsupported_operation model" && answer.text.contains("'e'"), "\(path)")
    }
    #expect(
      try makeEmbeddingApp().send(
        "POST", "/v1/messages",
        body: #"{"model":"e","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}"#
      ).status == 400)
    #expect(try embed(#""model":"nope","input":"a""#).status == 404)
    #expect(try makeEmbeddingApp().send("POST", "/tokenize", body: #"{"content":"ab"}"#).json["count"] == 2)
  }

  @Test func `failures of the engine have their status`() throws {
    #expect(
      try embed(#""input":"a""#, makeEmbeddingApp(FakeEncoder(failure: .queueFull(limit: 1)))).status == 429)
    #expect(try embed(#""input":"a""#, makeEmbeddingApp(FakeEncoder(failure: .draining))).status == 503)
    #expect(try embed(#""input":[7]"#).status == 500)
  }

  @Test func `what is shown of models says what they are for`() throws {
    let model = try makeEmbeddingApp().send("GET", "/v1/models").json["data"]?[0]
    #expect(model?["task"] == "embed" && model?["context_length"] == 16)
    #expect(model?["embedding"]?["dimensions"] == 3 && model?["embedding"]?["pooling"] == ["mean"])
    #expect(try makeApp(FakeService("x")).send("GET", "/v1/models").json["data"]?[0]?["task"] == "chat")
    #expect(try makeEmbeddingApp().send("GET", "/v1/capabilities").json["data"]?[0]?["chat"] == false)
  }

  @Test func `what the server can do without one model in particular is told beside them`() throws {
    let plain = try makeEmbeddingApp().send("GET", "/v1/capabilities").json["server"]
    let mcp: JSONValue = ["servers": [], "urls": false]
    #expect(plain == ["pull": false, "vector_stores": false, "known": [], "mcp": mcp])
  }
}
