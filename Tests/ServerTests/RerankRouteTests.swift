// /v1/rerank, /v1/score and TEI's routes: shapes, order, what is refused, and how.

import HTTP
import Inference
import JSON
import Platform
import Testing
import Wire

@testable import Pipeline
@testable import Server

/// A classifier: the logit of label i is the text's first byte beyond the letter a, less i. A text with a `!` has no number.
private final class FakeScorer: EmbeddingService {
  let limits: EmbeddingLimits

  init(labels: Int) {
    var limits = EmbeddingLimits(maxTokens: 16, vocabularySize: 256, dimensions: 3, hidden: 3)
    limits.labels = labels
    self.limits = limits
  }

  var embeddingStatistics: EmbeddingStatistics { EmbeddingStatistics() }

  func submit(_ request: EmbeddingRequest) throws(InferenceError) -> EmbeddingJob {
    let mailbox = Mailbox<EmbeddingEvent>(capacity: request.texts.count + 1)
    for (index, text) in request.texts.enumerated() {
      let last = Float(text.tokens.last ?? 0) - 97
      _ = mailbox.trySend(
        .result(index: index, values: (0..<limits.labels).map { last - Float($0) }))
    }
    let isBad = request.texts.contains { $0.tokens.contains(33) }
    _ = mailbox.trySend(isBad ? .failed(.unusableLogits(tokens: 1)) : .finished)
    return EmbeddingJob(mailbox: mailbox)
  }
}

func makeRerankApp(labels: Int = 1) -> App {
  let embedder = Embedder(
    service: FakeScorer(labels: labels), tokenizer: tinyTokenizer,
    labels: (0..<labels).map { "L\($0)" })
  return App(LoadedModel(id: "r", created: 5, embedder: embedder))
}

@Suite struct RerankRouteTests {
  private func rank(_ members: String, path: String = "/v1/rerank") throws -> Answer {
    try makeRerankApp().send("POST", path, body: "{\(members)}")
  }

  private func places(_ answer: Answer) -> [Int] {
    (answer.json["results"]?.arrayValue ?? []).compactMap { $0["index"]?.intValue }
  }

  @Test func `documents come in order, with scores from 0 to 1, in one shape for all clients`() throws {
    for path in ["/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking", "/reranking"] {
      let answer = try rank(#""model":"r","query":"q","documents":["a","c","b"]"#, path: path)
      #expect(answer.status == 200 && places(answer) == [1, 2, 0], "\(path)")
      let scores = (answer.json["results"]?.arrayValue ?? []).compactMap {
        $0["relevance_score"]?.doubleValue
      }
      #expect(scores == [2, 1, 0].map { Double(Embedder.sigmoid($0)) })
      #expect(answer.json["id"]?.stringValue?.hasPrefix("rerank-") == true)
      #expect(answer.json["meta"]?["api_version"]?["version"] == "2" && answer.json["object"] == "list")
      #expect(answer.json["usage"]?["total_tokens"] == 6 && answer.json["model"] == "r")
    }
    let raw = try rank(#""query":"q","documents":["b","c"],"raw_scores":true"#)
    #expect(raw.json["results"]?[0]?["relevance_score"] == 2.0)
  }

  @Test func `equal documents keep the order of the request, and one has its own score`() throws {
    #expect(places(try rank(#""query":"q","documents":["b","b","c","b"]"#)) == [2, 0, 1, 3])
    let one = try rank(#""query":"q","documents":["b"]"#).json["results"]?[0]?["relevance_score"]?.doubleValue
    #expect(one == Double(Embedder.sigmoid(1)))
  }

  @Test func `the number of results is a whole number of at least 1`() throws {
    func top(_ value: String, _ name: String = "top_n") throws -> Answer {
      try rank("\"query\":\"q\",\"documents\":[\"a\",\"b\"],\"\(name)\":\(value)")
    }
    #expect(places(try top("1")) == [1])
    #expect(places(try top("99")) == [1, 0])
    #expect(places(try top("1", "top_k")) == [1])
    #expect(try top("0").refusal == "400 integer_below_min_value top_n")
    #expect(try top("-1").refusal == "400 integer_below_min_value top_n")
    #expect(try top(#""2""#).refusal == "400 invalid_type top_n")
  }

  @Test func `documents are texts, or objects with one`() throws {
    for (documents, expected) in [
      (#"[{"text":"a"},"b"]"#, [1, 0]), (#"[{"title":"b"}],"rank_fields":["title"]"#, [0]),
    ] { #expect(places(try rank("\"query\":\"q\",\"documents\":\(documents)")) == expected) }
    let shown = try rank(#""query":"q","documents":["a",{"text":"b"}],"return_documents":true"#)
    #expect(shown.json["results"]?[0]?["document"]?["text"] == "b")
    let many = [String](repeating: "\"a\"", count: 1_001).joined(separator: ",")
    for (documents, refusal) in [
      ("[]", "400 invalid_value documents"), ("[5]", "400 invalid_type documents[0]"),
      (#"["a",{"image":"x"}]"#, "400 invalid_value documents[1]"), ("\"a\"", "400 invalid_type documents"),
      (#"[{"text":5}]"#, "400 invalid_type documents[0].text"),
      ("null", "400 missing_required_parameter documents"),
      ("[\(many)]", "400 array_above_max_length documents"),
    ] {
      #expect(
        try rank("\"query\":\"q\",\"documents\":\(documents)").refusal == refusal, "\(documents.prefix(40))")
    }
  }

  @Test func `a query is one text, which may be empty`() throws {
    for (query, refusal) in [
      ("", "400 missing_required_parameter query"),
      (#""query":null,"#, "400 missing_required_parameter query"),
      (#""query":["a"],"#, "400 invalid_type query"),
    ] { #expect(try rank(query + #""documents":["a"]"#).refusal == refusal) }
    #expect(try rank(#""query":"","documents":["a"]"#).status == 200)
  }

  @Test func `a pair that is too long is refused by its name, and cut only on request`() throws {
    let long = String(repeating: "b", count: 20)
    let refused = try rank("\"query\":\"q\",\"documents\":[\"a\",\"\(long)\"]")
    #expect(refused.refusal == "400 context_length_exceeded documents[1]")
    #expect(refused.text.contains("16 tokens") && refused.text.contains("has 21"))
    #expect(
      try rank("\"query\":\"\(long)\",\"documents\":[\"a\"]").refusal == "400 context_length_exceeded query")
    let cut = try rank("\"query\":\"q\",\"documents\":[\"a\",\"\(long)\"],\"truncate\":true")
    #expect(cut.json["truncated"] == [1] && cut.json["usage"]?["total_tokens"] == 18)
    let short = try rank("\"query\":\"q\",\"documents\":[\"\(long)\"],\"max_tokens_per_doc\":4")
    #expect(short.json["usage"]?["total_tokens"] == 5 && short.json["truncated"] == [0])
    #expect(
      try rank(#""query":"q","documents":["a"],"instruction":"x""#).refusal
        == "400 unsupported_parameter instruction")
  }

  @Test func `logits that are no numbers are a 500, and the server lives`() throws {
    #expect(try rank(#""query":"q","documents":["!"]"#).status == 500)
    #expect(try rank(#""query":"q","documents":["a"]"#).status == 200)
  }

  @Test func `pairs are scored in the order of the request`() throws {
    func score(_ members: String, _ path: String = "/v1/score") throws -> Answer {
      try makeRerankApp().send("POST", path, body: "{\"model\":\"r\",\(members)}")
    }
    func scores(_ answer: Answer) -> [Double] {
      (answer.json["data"]?.arrayValue ?? []).compactMap { $0["score"]?.doubleValue }
    }
    let both = try score(#""text_1":"q","text_2":["b","a"]"#)
    #expect(scores(both) == [1, 0].map { Double(Embedder.sigmoid($0)) })
    #expect(both.json["data"]?[1]?["index"] == 1 && both.json["data"]?[0]?["object"] == "score")
    #expect(scores(try score(#""queries":["q","r"],"documents":["a","b"]"#, "/score")).count == 2)
    #expect(scores(try score(#""data_1":"q","data_2":"b","raw_scores":true"#)) == [1])
    #expect(try score(#""text_1":["q","r"],"text_2":["a","b","c"]"#).refusal == "400 invalid_value text_2")
    #expect(try score(#""text_1":"q""#).refusal == "400 missing_required_parameter text_2")
  }

  @Test func `models are used for what they are`() throws {
    let body = #"{"model":"MODEL","query":"q","documents":["a"]}"#
    func send(_ app: App, _ path: String, _ id: String, _ body: String) throws -> Answer {
      try app.send("POST", path, body: body.replacing("MODEL", with: id))
    }
    for (app, id) in [
      (makeEmbeddingApp(), "e"), (makeApp(FakeService("x")), "m"), (makeRerankApp(labels: 3), "r"),
    ] {
      let answer = try send(app, "/v1/rerank", id, body)
      #expect(
        answer.refusal == "400 unsupported_operation model" && answer.text.contains("is not a reranker"))
    }
    let embed = try send(makeRerankApp(), "/v1/embeddings", "r", #"{"model":"MODEL","input":"a"}"#)
    #expect(embed.refusal == "400 unsupported_operation model")
    let chat = try send(
      makeRerankApp(), "/v1/chat/completions", "r",
      #"{"model":"MODEL","messages":[{"role":"user","content":"x"}]}"#)
    #expect(chat.refusal == "400 unsupported_operation model")
    #expect(try makeRerankApp().send("GET", "/v1/models").json["data"]?[0]?["task"] == "rerank")
  }

  // MARK: TEI

  private func tei(_ path: String, _ body: String, _ app: App = makeEmbeddingApp()) throws -> Answer {
    try app.send("POST", path, body: body)
  }

  @Test func `TEI's rerank is known by its texts`() throws {
    let answer = try tei("/rerank", #"{"query":"q","texts":["a","c"],"return_text":true}"#, makeRerankApp())
    #expect(answer.json[0]?["index"] == 1 && answer.json[0]?["text"] == "c" && answer.json[1]?["text"] == "a")
    #expect(answer.headers["x-compute-type"] == "cpu" && answer.headers["x-compute-tokens"] == "4")
    let empty = try tei("/rerank", #"{"query":"q","texts":[]}"#, makeRerankApp())
    #expect(empty.status == 400 && empty.json["error_type"] == "Empty")
    let wrong = try tei("/rerank", #"{"query":5,"texts":["a"]}"#, makeRerankApp())
    #expect(wrong.status == 422 && wrong.json["error_type"] == "Validation")
    #expect(try tei("/rerank", #"{"query":"q","texts":["a"]}"#).status == 424)
  }

  @Test func `TEI's embed takes all forms of inputs and answers lists`() throws {
    #expect(try tei("/embed", #"{"inputs":"ab","normalize":false}"#).text == "[[97.0,2.0,1.0]]")
    #expect(try tei("/embed", #"{"inputs":["a","b"]}"#).json.arrayValue?.count == 2)
    #expect(try tei("/embed", #"{"inputs":[97,98],"normalize":false}"#).text == "[[97.0,2.0,1.0]]")
    #expect(try tei("/embed", #"{"inputs":[[97],[98]]}"#).json.arrayValue?.count == 2)
    let empty = try tei("/embed", #"{"inputs":[]}"#)
    #expect(empty.status == 400 && empty.json["error_type"] == "Empty")
    let long = String(repeating: "x", count: 20)
    let refused = try tei("/embed", #"{"inputs":"LONG"}"#.replacing("LONG", with: long))
    #expect(refused.status == 422 && refused.json["error_type"] == "Validation")
    #expect(
      try tei("/embed", #"{"inputs":"LONG","truncate":true}"#.replacing("LONG", with: long)).status == 200)
    let left = #"{"inputs":"LONGab","truncate":true,"truncation_direction":"Left","normalize":false}"#
    #expect(try tei("/embed", left.replacing("LONG", with: long)).text == "[[120.0,16.0,1.0]]")
    #expect(
      try tei("/embed", #"{"inputs":"a","prompt_name":"query","normalize":false}"#).text
        == "[[113.0,8.0,1.0]]")
    #expect(try tei("/embed", #"{"inputs":"a","prompt_name":"x"}"#).status == 422)
    #expect(try tei("/embed_all", #"{"inputs":"ab"}"#).json[0]?[0]?.arrayValue?.count == 3)
    let sparse = try tei("/embed_sparse", #"{"inputs":"a"}"#)
    #expect(sparse.status == 424 && sparse.json["error_type"] == "Backend")
    #expect(try tei("/embed", "{").status == 422)
  }

  @Test func `TEI's similarity keeps the order of the sentences`() throws {
    let answer = try tei("/similarity", #"{"inputs":{"source_sentence":"a","sentences":["b","a"]}}"#)
    #expect(answer.json.arrayValue?.count == 2 && answer.json[1] == 1.0)
    #expect(try tei("/similarity", #"{"inputs":{"source_sentence":"a","sentences":[]}}"#).status == 400)
    let long = String(repeating: "a", count: 1000)
    let late = try tei("/similarity", #"{"inputs":{"source_sentence":"a","sentences":["b","\#(long)"]}}"#)
    #expect(late.status == 422 && late.text.contains("inputs.sentences[1]"))
    let first = try tei("/similarity", #"{"inputs":{"source_sentence":"\#(long)","sentences":["b"]}}"#)
    #expect(first.status == 422 && first.text.contains("inputs.source_sentence"))
  }

  @Test func `TEI's predict takes a text, a pair, and a list of both`() throws {
    let three = makeRerankApp(labels: 3)
    let alone = try tei("/predict", #"{"inputs":"b"}"#, three).json
    #expect(alone[0]?["label"] == "L0" && alone[2]?["label"] == "L2")
    let sum = (alone.arrayValue ?? []).reduce(0) { $0 + ($1["score"]?.doubleValue ?? 0) }
    #expect(abs(sum - 1) < 1e-6)
    #expect(try tei("/predict", #"{"inputs":["x","b"],"raw_scores":true}"#, three).json[0]?["score"] == 1.0)
    let batch = try tei("/predict", #"{"inputs":[["b"],["x","c"]],"raw_scores":true}"#, three).json
    #expect(batch[0]?[0]?["score"] == 1.0 && batch[1]?[0]?["score"] == 2.0)
    #expect(try tei("/predict", #"{"inputs":[]}"#, three).status == 400)
    #expect(try tei("/predict", #"{"inputs":["a","b","c"]}"#, three).status == 422)
    #expect(try tei("/predict", #"{"inputs":"a"}"#).status == 424)
  }

  @Test func `TEI's tokens and facts`() throws {
    let tokens = try tei("/tokenize", #"{"inputs":["ab","c"]}"#).json
    #expect(
      tokens[0]?[1]?["id"] == 98 && tokens[0]?[1]?["special"] == false && tokens[1]?.arrayValue?.count == 1)
    #expect(try tei("/decode", #"{"ids":[97,98]}"#).text == #"["ab"]"#)
    #expect(try tei("/decode", #"{"ids":[[97],[98]]}"#).text == #"["a","b"]"#)
    let info = try makeRerankApp().send("GET", "/info").json
    #expect(info["model_type"]?["reranker"]?["id2label"]?["0"] == "L0" && info["auto_truncate"] == false)
    #expect(
      try makeEmbeddingApp().send("GET", "/info").json["model_type"]?["embedding"]?["pooling"] == "mean")
  }
}
