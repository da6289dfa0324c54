// How far a prompt is read, in the words of each wire: told when it is asked for, and only in streams.

import HTTP
import Inference
import JSON
import Platform
import Testing

@testable import Server

private let progress = PromptProgress(total: 90, cached: 10, processed: 40, seconds: 1.5, secondsLeft: 2.25)
private let told =
  #""prompt_progress":{"total":90,"cache":10,"processed":40,"time_ms":1500,"remaining_ms":2250}"#

struct ProgressTests {
  private func service(_ reading: [PromptProgress] = [progress], delay: Double = 0) -> FakeService {
    FakeService { _, _ in Script(text: "Hi", cachedTokens: 10, reading: reading, delay: delay) }
  }

  private static let bodies = [
    ("/v1/chat/completions", #""messages":[{"role":"user","content":"hi"}]"#),
    ("/v1/completions", #""prompt":"hi""#),
    ("/v1/responses", #""input":"hi""#),
    ("/v1/messages", #""max_tokens":9,"messages":[{"role":"user","content":"hi"}]"#),
    ("/api/chat", #""messages":[{"role":"user","content":"hi"}]"#),
    ("/api/generate", #""prompt":"hi""#),
    ("/completion", #""prompt":"hi""#),
  ]

  private func send(_ path: String, _ members: String, to app: App) throws -> String {
    try app.send("POST", path, body: #"{"model":"m",\#(members)}"#).text
  }

  @Test(arguments: bodies)
  func `a stream tells it when it is asked, before anything of the answer`(path: String, body: String) throws
  {
    let app = makeApp(service())
    let text = try send(path, #"\#(body),"stream":true,"return_progress":true"#, to: app)
    let parts = text.split(separator: told, omittingEmptySubsequences: false)
    #expect(parts.count == 2, "\(text)")
    #expect(!parts[0].contains("Hi") && parts.last?.contains("H") == true)
    for members in [
      #"\#(body),"stream":true"#, #"\#(body),"stream":false,"return_progress":true"#,
      #"\#(body),"stream":true,"return_progress":false"#,
    ] { #expect(try !send(path, members, to: app).contains("prompt_progress"), "\(members)") }
    #expect(try send(path, #"\#(body),"return_progress":1"#, to: app).contains("return_progress"))
  }

  @Test func `a chunk of chat has a choice without a word, after the role`() throws {
    let events = try makeApp(service()).chat(#""stream":true,"return_progress":true"#).events
    #expect(events[0].contains(#""delta":{"role":"assistant","content":"","refusal":null}"#))
    #expect(
      events[1].hasSuffix(
        #""choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null}],\#(told)}"#))
    #expect(events[2].contains(#""delta":{"content":"H"}"#))
    // Choices of one prompt read it once.
    let two = try makeApp(service()).chat(#""stream":true,"return_progress":true,"n":2"#).text
    #expect(two.split(separator: told, omittingEmptySubsequences: false).count == 2)
  }

  @Test func `messages have a ping, which their clients pass over`() throws {
    let text = try send(
      "/v1/messages", #"\#(Self.bodies[3].1),"stream":true,"return_progress":true"#,
      to: makeApp(service()))
    let events = text.components(separatedBy: "\n\n")
    #expect(events[0].hasPrefix("event: message_start\n"))
    #expect(events[1] == "event: ping\ndata: {\"type\":\"ping\",\(told)}")
    #expect(events[2].hasPrefix("event: content_block_start\n"))
  }

  @Test func `a response has an event of its own, which has no number and is not told again`() throws {
    let app = makeApp(service(delay: 0.2))
    let text = try send(
      "/v1/responses", #""input":"hi","stream":true,"background":true,"return_progress":true"#, to: app)
    let events = text.components(separatedBy: "\n\n")
    let own = "event: mlxserve:prompt_progress\ndata: {\"type\":\"mlxserve:prompt_progress\",\(told)}"
    #expect(events[2].hasPrefix("event: response.in_progress\n"))
    #expect(events.filter { $0 == own }.count <= 1)
    #expect(text.contains(#""type":"response.output_text.delta","sequence_number":5"#))
    let again = try app.send("GET", "/v1/responses/resp_ID?stream=true").text
    #expect(again.components(separatedBy: "\n\n") == events.filter { $0 != own })
  }

  @Test func `what is not known yet is null, and times of no sense are in bounds`() {
    let unknown = PromptProgress(total: 1, cached: 0, processed: 0, seconds: .infinity, secondsLeft: nil)
    #expect(
      unknown.json.text
        == #"{"total":1,"cache":0,"processed":0,"time_ms":1000000000000,"remaining_ms":null}"#)
  }
}

extension String {
  fileprivate func components(separatedBy separator: String) -> [String] {
    split(separator: separator, omittingEmptySubsequences: true).map(String.init)
  }
}
