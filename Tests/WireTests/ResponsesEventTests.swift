// The events of a Responses stream: golden sequences, and replays that equal them.

import JSON
import Testing

@testable import Wire

struct ResponsesEventTests {
  private let body = JSONObject([("id", "resp_1"), ("background", false), ("status", "in_progress")])

  /// Two items and a call, with an end.
  private func events(_ reasoning: ReasoningEvents = .openai, asSummary: Bool = false, logprobs: Bool = false)
    -> ([ResponseEvent], ResponseEventWriter, JSONObject)
  {
    var writer = ResponseEventWriter(reasoning: reasoning)
    let begun = ResponseObject.begun(body, status: "in_progress")
    var events = [
      writer.lifecycle("response.created", begun), writer.lifecycle("response.in_progress", begun),
    ]
    events += writer.begin(.init(.reasoning(asSummary: asSummary), id: "rs_1"))
    events += writer.add("thin") + writer.add("king")
    events += writer.close(isComplete: true)
    events += writer.begin(.init(.message, id: "msg_1"))
    events += writer.add("é", logprobs: logprobs ? [["token": "é"], ["token": ""]] : [])
    events += writer.add("llo", logprobs: logprobs ? [["token": "llo"]] : [])
    events += writer.close(isComplete: true)
    events += writer.begin(.init(.call(isCustom: false), id: "fc_1", callID: "call_1", name: "f"))
    events += writer.add("{\"a\":")
    events += writer.close(isComplete: false)
    let ended = ResponseObject.ended(
      body, .incomplete, output: writer.output, usage: Usage(promptTokens: 3, completionTokens: 2), at: 9)
    events.append(writer.lifecycle(ResponseObject.terminalType(ended), ended))
    return (events, writer, ended)
  }

  @Test func `items open, grow and close in their order`() {
    let expected = [
      "created", "in_progress", "output_item.added", "content_part.added", "reasoning_text.delta",
      "reasoning_text.delta", "reasoning_text.done", "content_part.done", "output_item.done",
      "output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.done",
      "content_part.done", "output_item.done", "output_item.added", "function_call_arguments.delta",
      "function_call_arguments.done", "output_item.done", "incomplete",
    ]
    let events = events().0
    #expect(events.map(\.type) == expected.map { "response." + $0 })
    #expect(events.map(\.sequence) == Array(0..<expected.count))
    #expect(events.allSatisfy { $0.json["type"]?.stringValue == $0.type })
    #expect(events.allSatisfy { $0.json["sequence_number"]?.intValue == $0.sequence })
  }

  @Test func `the events of a message, word for word`() {
    let events = events().0
    let texts = events[9...15].map(\.json.text)
    let part = #""item_id":"msg_1","output_index":1,"content_index":0"#
    #expect(
      texts == [
        #"{"type":"response.output_item.added","sequence_number":9,"output_index":1,"item":{"id":"msg_1","#
          + #""type":"message","role":"assistant","status":"in_progress","content":[]}}"#,
        #"{"type":"response.content_part.added","sequence_number":10,\#(part),"part":{"type":"output_text","#
          + #""text":"","annotations":[],"logprobs":[]}}"#,
        #"{"type":"response.output_text.delta","sequence_number":11,\#(part),"delta":"é","logprobs":[]}"#,
        #"{"type":"response.output_text.delta","sequence_number":12,\#(part),"delta":"llo","logprobs":[]}"#,
        #"{"type":"response.output_text.done","sequence_number":13,\#(part),"text":"éllo","logprobs":[]}"#,
        #"{"type":"response.content_part.done","sequence_number":14,\#(part),"part":{"type":"output_text","#
          + #""text":"éllo","annotations":[],"logprobs":[]}}"#,
        #"{"type":"response.output_item.done","sequence_number":15,"output_index":1,"item":{"id":"msg_1","#
          + #""type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","#
          + #""text":"éllo","annotations":[],"logprobs":[]}]}}"#,
      ])
  }

  @Test func `the events of a call, word for word`() {
    let events = events().0
    #expect(
      events[16...19].map(\.json.text) == [
        #"{"type":"response.output_item.added","sequence_number":16,"output_index":2,"item":{"id":"fc_1","#
          + #""type":"function_call","status":"in_progress","call_id":"call_1","name":"f","arguments":""}}"#,
        #"{"type":"response.function_call_arguments.delta","sequence_number":17,"item_id":"fc_1","#
          + #""output_index":2,"delta":"{\"a\":"}"#,
        #"{"type":"response.function_call_arguments.done","sequence_number":18,"item_id":"fc_1","#
          + #""output_index":2,"name":"f","arguments":"{\"a\":"}"#,
        #"{"type":"response.output_item.done","sequence_number":19,"output_index":2,"item":{"id":"fc_1","#
          + #""type":"function_call","status":"incomplete","call_id":"call_1","name":"f","arguments":"{\"a\":"}}"#,
      ])
  }

  @Test(arguments: [
    (ReasoningEvents.openai, false, "reasoning_text.delta", "content_part.added"),
    (.openresponses, false, "reasoning.delta", "content_part.added"),
    (.openai, true, "reasoning_summary_text.delta", "reasoning_summary_part.added"),
    (.openresponses, true, "reasoning_summary_text.delta", "reasoning_summary_part.added"),
  ])
  func `reasoning has the names that were asked for`(
    mode: ReasoningEvents, asSummary: Bool, delta: String, part: String
  ) {
    let types = events(mode, asSummary: asSummary).0.map(\.type)
    #expect(types[3] == "response." + part)
    #expect(types[4] == "response." + delta)
  }

  @Test func `without reasoning events the item comes whole`() {
    let all = events(.none).0
    #expect(all[2].type == "response.output_item.added")
    #expect(all[3].type == "response.output_item.done")
    #expect(all[3].json["item"]?["content"] == [["type": "reasoning_text", "text": "thinking"]])
  }

  @Test(arguments: ReasoningEvents.allCases, [false, true])
  func `a replay is what was sent`(mode: ReasoningEvents, flag: Bool) {
    let (sent, writer, ended) = events(mode, asSummary: flag, logprobs: flag)
    #expect(ResponseReplay.events(of: ended, cuts: writer.cuts, reasoning: mode) == sent)
  }

  @Test func `a replay without cuts has one delta for each text`() {
    let (sent, _, ended) = events()
    let replay = ResponseReplay.events(of: ended, cuts: [], reasoning: .openai)
    #expect(replay.count == sent.count - 2)
    #expect(replay.last?.json["response"] == sent.last?.json["response"])
  }

  @Test func `endings have their members`() {
    func ended(_ ending: ResponseEnding) -> JSONObject {
      ResponseObject.ended(body, ending, output: [], usage: nil, at: 9)
    }
    #expect(ended(.completed)["completed_at"] == 9)
    #expect(ended(.incomplete)["incomplete_details"] == ["reason": "max_output_tokens"])
    #expect(ended(.failed(message: "no"))["error"] == ["code": "server_error", "message": "no"])
    #expect(ended(.cancelled)["status"] == "cancelled")
    #expect(ResponseObject.terminalType(ended(.failed(message: ""))) == "response.failed")
    #expect(ResponseObject.terminalType(ended(.cancelled)) == "response.incomplete")
    #expect(ResponseObject.begun(ended(.failed(message: "no")), status: "queued")["error"] == .null)
  }
}
