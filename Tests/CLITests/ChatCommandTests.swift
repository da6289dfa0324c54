// `mlxserve chat`: what the conversation remembers.

import Inference
import JSON
import Platform
import Server
import Support
import Testing

@testable import CLI

@Suite struct ChatCommandTests {
  private static let demo = TestData.fixtures + "/models/demo"

  private func flags(_ arguments: String...) throws -> ParsedFlags {
    let command = try #require(Command.all.first { $0.name == "chat" })
    return try ParsedFlags(["--model", Self.demo] + arguments, flags: command.flags)
  }

  @Test func `a message that is too long is forgotten, and the next one is answered`() throws {
    let flags = try flags("--max-context", "128", "--max-tokens", "2", "--system", "Be short.")
    let (model, engine) = try Loading.model(flags)
    defer { engine.stop() }
    var dialogue = Dialogue(model: model, template: try #require(model.template), flags: flags)
    let current = Monitor<Generation?>(nil)
    for _ in 0..<2 {
      #expect(throws: InferenceError.self) {
        try dialogue.answer(String(repeating: "word ", count: 400), current: current)
      }
      #expect(dialogue.messages.count == 1)
    }
    try dialogue.answer("Hello!", current: current)
    #expect(
      dialogue.messages.map { $0["role"]?.stringValue } == ["system", "user", "assistant"])
    #expect(dialogue.messages[1]["content"]?.stringValue == "Hello!")
  }
}
