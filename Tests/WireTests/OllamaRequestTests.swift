// The bodies of Ollama's wire: durations, options, and results that find their calls.

import JSON
import Sampling
import Testing

@testable import Wire

@Suite struct OllamaRequestTests {
  private func request(_ members: String) throws -> OllamaRequest {
    try OllamaRequest(chat: JSONValue(parsing: #"{"model":"m",\#(members)}"#), limits: RequestLimits())
  }

  @Test(arguments: [
    ("5", KeepAlive.seconds(5)), ("0", .seconds(0)), ("-1", .forever), ("1.5", .seconds(1.5)),
    (#""300ms""#, .seconds(0.3)),
    (#""1h30m""#, .seconds(5400)), (#""-1s""#, .forever), (#""0""#, .seconds(0)), (#""2s""#, .seconds(2)),
  ])
  func `a duration is seconds or as Go writes it`(text: String, expected: KeepAlive) throws {
    #expect(try request("\"keep_alive\":\(text)").keepAlive == expected)
  }

  @Test(arguments: [#""5""#, "{}", "true", #""soon""#, #""1x""#, #""h""#, #""""#])
  func `what is no duration is refused`(text: String) {
    let error = #expect(throws: APIError.self) { try request("\"keep_alive\":\(text)") }
    #expect(error?.param == "keep_alive")
  }

  @Test func `options are read, clamped, or told as ignored`() throws {
    let read = try request(
      #""options":{"temperature":9,"top_k":40.0,"seed":-1,"num_predict":-1,"num_ctx":64,"stop":"x","num_gpu":3,"mirostat":1,"typical_p":1,"tfs_z":0.5,"hue":2}"#
    )
    #expect(read.chat.options.sampling == [.temperature: 2, .topK: 40, .mirostat: 1, .typicalP: 1])
    #expect(read.chat.options.seed == nil)
    #expect(read.chat.options.maxTokens == nil)
    #expect(read.contextLimit == 64)
    #expect(read.chat.options.stops == ["x"])
    #expect(read.ignored == ["options.tfs_z", "options.hue"])
    #expect(read.chat.options.streams)
    let error = #expect(throws: APIError.self) { try request(#""options":{"top_k":"x"}"#) }
    #expect(error?.message == #"option "top_k" must be of type integer"#)
  }

  @Test func `the penalty on repetitions looks back as far as there`() throws {
    let usual = try request(#""options":{"repeat_penalty":1.2,"mirostat_tau":4,"mirostat_eta":0.2}"#)
    #expect(
      usual.chat.options.sampling == [
        .repetitionPenalty: 1.2, .repeatLastN: 64, .mirostatTau: 4, .mirostatEta: 0.2,
      ])
    let own = try request(#""options":{"repeat_penalty":1.2,"repeat_last_n":-1}"#)
    #expect(own.chat.options.sampling[.repeatLastN] == -1)
    #expect(try request(#""options":{"repeat_last_n":0}"#).chat.options.sampling == [.repeatLastN: 0])
  }

  @Test func `calls and their results keep what they say of each other`() throws {
    let read = try request(
      #""messages":[{"role":"User","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"a","arguments":{"n":1}}},{"id":"call_b","function":{"name":"b","arguments":{}}}]},{"role":"tool","tool_name":"b","content":"2"},{"role":"tool","content":"1"}]"#
    )
    #expect(read.chat.messages[1]["tool_calls"]?[0]?["function"]?["arguments"] == #"{"n":1}"#)
    #expect(read.chat.messages[1]["tool_calls"]?.arrayValue?.map { $0["id"] } == [.null, "call_b"])
    #expect(read.chat.messages[2] == ["role": "tool", "content": "2", "name": "b"])
    #expect(read.chat.messages[3] == ["role": "tool", "content": "1"])
    #expect(
      try request(#""messages":[{"role":"tool","content":"x","name":"a","tool_call_id":"call_x"}]"#).chat
        .messages
        == [["role": "tool", "content": "x", "name": "a", "tool_call_id": "call_x"]])
  }
}
