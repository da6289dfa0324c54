// A conversation with the demo model: what it remembers, and what may end, bind or interrupt an answer.

import Inference
import JSON
import Support
import Testing

@testable import Pipeline

@Suite struct ChatSessionTests {
  private func withModel(context: Int = 512, _ body: (LoadedModel) throws -> Void) throws {
    var configuration = EngineConfiguration(modelPath: TestData.fixtures + "/models/demo", threads: 2)
    configuration.maxContext = context
    let (model, engine) = try LoadedModel.load(configuration)
    defer { engine.stop() }
    try body(model)
  }

  private func settings(_ change: (inout ChatSession.Settings) -> Void) -> ChatSession.Settings {
    var settings = ChatSession.Settings()
    settings.switchesThinkingOff = true
    settings.maxTokens = 64
    change(&settings)
    return settings
  }

  private func content(_ session: inout ChatSession, _ text: String) throws -> String {
    var content = ""
    _ = try session.send(text) { piece in if case .content(let text, _) = piece { content += text } }
    return content
  }

  @Test func `a message that is too long is forgotten, and the next one is answered`() throws {
    try withModel(context: 128) { model in
      var session = try ChatSession(
        model,
        settings {
          $0.system = "Be short."
          $0.maxTokens = 2
        })
      for _ in 0..<2 {
        #expect(throws: PipelineError.self) {
          try session.send(String(repeating: "word ", count: 400), deliver: { _ in })
        }
        #expect(session.messages.count == 1)
      }
      _ = try session.send("Hello!", deliver: { _ in })
      #expect(session.messages.map { $0["role"]?.stringValue } == ["system", "user", "assistant"])
      #expect(session.messages[1]["content"]?.stringValue == "Hello!")
    }
  }

  @Test func `an answer without a limit of its own has the model's`() throws {
    try withModel { model in
      var bounded = model
      bounded.maxAnswer = 3
      for (model, limit, tokens) in [(bounded, nil, 3), (bounded, 2, 2), (bounded, 4, 4)] as [(_, Int?, _)] {
        var session = try ChatSession(model, settings { $0.maxTokens = limit })
        let turn = try session.send("Count from one to twenty.", deliver: { _ in })
        #expect(turn?.generatedTokens == tokens)
      }
      #expect(model.maxAnswer == 32_768)
    }
  }

  @Test func `a stop string ends the answer and is no part of it`() throws {
    try withModel { model in
      var free = try ChatSession(model, settings { _ in })
      let whole = try content(&free, "What is the capital of France?")
      let stop = String(whole.dropFirst(whole.count / 2).prefix(3))
      try #require(stop.count == 3)
      var stopped = try ChatSession(model, settings { $0.stops = [stop] })
      let part = try content(&stopped, "What is the capital of France?")
      let range = try #require(whole.firstRange(of: stop))
      #expect(part == String(whole[..<range.lowerBound]))
      #expect(stopped.messages.last?["content"]?.stringValue == part)
    }
  }

  @Test func `a schema binds every answer`() throws {
    try withModel { model in
      let schema: JSONValue = [
        "type": "object", "properties": ["answer": ["enum": ["yes", "no"]]], "required": ["answer"],
        "additionalProperties": false,
      ]
      var session = try ChatSession(model, settings { $0.schema = schema })
      for question in ["Is the capital of France Paris?", "Hello!"] {
        let answer = try JSONValue(parsing: try content(&session, question))
        #expect(["yes", "no"].contains(answer["answer"]?.stringValue))
      }
      var broken = try ChatSession(model, settings { $0.schema = ["type": "nonsense"] })
      #expect(throws: PipelineError.self) { try broken.send("Hello!", deliver: { _ in }) }
      #expect(broken.messages.isEmpty)
    }
  }

  @Test func `entries that are no tools are refused`() throws {
    try withModel { model in
      #expect(throws: PipelineError.self) { try ChatSession(model, settings { $0.tools = [["name": "f"]] }) }
    }
  }

  @Test func `the result of a call is the next message, and only then comes an answer`() throws {
    try withModel { model in
      let tool: JSONValue = [
        "type": "function",
        "function": [
          "name": "get_weather", "description": "The weather of a city.",
          "parameters": [
            "type": "object", "properties": ["city": ["type": "string"]], "required": ["city"],
          ],
        ],
      ]
      var session = try ChatSession(
        model,
        settings {
          $0.tools = [tool]
          $0.maxTokens = 128
        })
      var pieces: [TokenStream.Piece] = []
      _ = try session.send("What is the weather in Paris?") { pieces.append($0) }
      #expect(pieces.contains(.toolCallBegan(name: "get_weather")))
      let calls = session.openCalls
      #expect(calls.map(\.name) == ["get_weather"])
      let arguments = try JSONValue(parsing: try #require(calls.first?.arguments))
      #expect(arguments["city"]?.stringValue != nil)
      _ = try session.send("sunny", deliver: { _ in })
      #expect(
        session.messages.map { $0["role"]?.stringValue }.prefix(4) == [
          "user", "assistant", "tool", "assistant",
        ])
      #expect(
        session.messages[1]["tool_calls"]?.arrayValue?.first?["id"] == session.messages[2]["tool_call_id"])
    }
  }
}
