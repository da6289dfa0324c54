// How long an answer is that sets no limit.

import JSON
import Testing

@testable import Server

struct AnswerLimitTests {
  private func app(_ most: Int = 5) -> App { makeApp(FakeService("abcdefghij")) { $0.maxAnswer = most } }

  @Test func `a fresh server bounds what nobody bounds`() { #expect(ServerSettings().maxAnswer == 32_768) }

  @Test(arguments: [
    ("", "abcde", "length"), (#""max_tokens":8"#, "abcdefgh", "length"),
    (#""max_tokens":3"#, "abc", "length"),
    (#""n_predict":-1"#, "abcde", "length"), (#""min_tokens":7"#, "abcdefg", "length"),
    (#""max_completion_tokens":20"#, "abcdefghij", "stop"),
  ])
  func `a limit of the request counts, whatever its size`(members: String, text: String, finish: String)
    throws
  {
    let choice = try app().chat(members).json["choices"]?[0]
    #expect(choice?["message"]?["content"] == .string(text))
    #expect(choice?["finish_reason"] == .string(finish))
  }

  @Test func `every wire says that the limit ended the answer`() throws {
    let response = try app().send("POST", "/v1/responses", body: #"{"model":"m","input":"x"}"#).json
    #expect(response["status"] == "incomplete")
    #expect(response["incomplete_details"]?["reason"] == "max_output_tokens")
    #expect(response["usage"]?["output_tokens"] == 5)
    func ollama(_ options: String) throws -> JSONValue {
      try app().send(
        "POST", "/api/generate", body: #"{"model":"m","prompt":"x","stream":false,"options":{\#(options)}}"#
      ).json
    }
    for raw in ["", #","raw":true"#] {
      let answer = try app().send(
        "POST", "/api/generate", body: #"{"model":"m","prompt":"x","stream":false\#(raw)}"#
      ).json
      #expect(answer["response"] == "abcde" && answer["done_reason"] == "length")
    }
    #expect(try ollama(#""num_predict":-1"#)["response"] == "abcde")
    #expect(try ollama(#""num_predict":8"#)["response"] == "abcdefgh")
    let llama = try app().send("POST", "/completion", body: #"{"prompt":"x","n_predict":-1}"#).json
    #expect(llama["content"] == "abcde" && llama["stop_type"] == "limit")
  }

  @Test func `an operator may take the bound away`() throws {
    #expect(try app(.max).chat().json["choices"]?[0]?["finish_reason"] == "stop")
    func told(_ most: Int) throws -> JSONValue? {
      try app(most).send("GET", "/v1/capabilities").json["data"]?[0]?["limits"]?["answer_tokens"]
    }
    #expect(try told(5) == 5)
    #expect(try told(.max) == 400)
  }
}
