// Prompts that change in front of what was sent before.

import Testing

@testable import Server

private func note(
  _ watch: PromptWatch, _ tokens: [Int32], agent: String? = "agent/1.0", key: UInt64 = 0, model: String = "m"
) -> MovingPrompt? {
  watch.note(tokens, agent: agent, key: key, model: model) {
    $0.map(String.init).joined(separator: " ")
  }?.moving
}

/// A prompt with two tokens that move after the first 20.
private func prompt(_ number: Int32, count: Int32 = 300) -> [Int32] {
  Array(0..<20) + [1_000 + number, 2_000 + number] + Array(20..<count)
}

struct PromptWatchTests {
  @Test func `a change in front is found with its place and the words around it`() throws {
    let watch = PromptWatch()
    #expect(note(watch, prompt(1)) == nil)
    let found = try #require(note(watch, prompt(2)))
    #expect(
      found
        == MovingPrompt(
          client: "agent", model: "m", position: 20, promptTokens: 302, repeated: 280,
          before: "4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19", was: "1001 2001", now: "1002 2002",
          after: "20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35"))
    // Later ones are counted.
    #expect(note(watch, prompt(3))?.count == 2)
    #expect(watch.found.map(\.count) == [2])
  }

  @Test func `what has only been left out or added is a change too`() {
    for (first, second) in [(prompt(1), Array(0..<300)), (Array(0..<300), prompt(1))] as [([Int32], [Int32])]
    {
      let watch = PromptWatch()
      #expect(note(watch, first) == nil)
      #expect(note(watch, second)?.position == 20)
    }
  }

  @Test func `a conversation that goes on moves nothing, nor does another one`() {
    let watch = PromptWatch()
    #expect(note(watch, Array(0..<300)) == nil)
    #expect(note(watch, Array(0..<900)) == nil)
    // An answer that was tokenized in another way.
    #expect(note(watch, Array(0..<880) + Array(5_000..<5_400)) == nil)
    // The same instructions, another question.
    #expect(note(watch, Array(0..<100) + Array(7_000..<7_900)) == nil)
    // Too little behind the change.
    #expect(note(watch, Array(0..<780) + [9_000] + Array(781..<900)) == nil)
    #expect(watch.found.isEmpty)
  }

  @Test func `clients, keys and models are not compared with others`() {
    let watch = PromptWatch()
    #expect(note(watch, prompt(1)) == nil)
    #expect(note(watch, prompt(2), agent: "other/1.0") == nil)
    #expect(note(watch, prompt(2), key: 1) == nil)
    #expect(note(watch, prompt(2), model: "n") == nil)
    #expect(note(watch, prompt(2), agent: nil) == nil)
    #expect(note(watch, prompt(3), agent: nil)?.client == "unknown")
  }

  @Test func `only the latest prompts are kept`() {
    let watch = PromptWatch()
    #expect(note(watch, prompt(1)) == nil)
    for other in 1...16 { #expect(note(watch, Array(repeating: Int32(other), count: 200)) == nil) }
    #expect(note(watch, prompt(2)) == nil)
  }
}
