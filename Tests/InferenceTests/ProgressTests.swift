// How far a prompt is read, as the engine tells it, and how long it says that the rest takes.

import Platform
import Support
import Testing

@testable import Inference

@Suite struct ProgressTests: EngineHarness {
  private func progress(_ generation: Generation) -> [PromptProgress] {
    var found: [PromptProgress] = []
    while case .element(let event) = generation.next(until: Instant.now.adding(seconds: 30)) {
      if case .progress(let progress) = event { found.append(progress) }
      if case .finished = event { break }
    }
    return found
  }

  @Test func `a reader that wants it hears of the beginning and the end of a prompt, and of the cached part`()
    throws
  {
    let client = try client()
    defer { client.stop() }
    let start = prompt(seed: 1, count: 70)
    var first = request(start, 2)
    #expect(progress(try client.submit(first)).isEmpty, "it was not asked for")
    first.reportsProgress = true
    first.promptTokens = start + prompt(seed: 2, count: 30)
    let told = progress(try client.submit(first))
    let cached = try #require(told.first).cached
    #expect(cached > 0 && told.allSatisfy { $0.total == 100 && $0.cached == cached })
    #expect(told.first?.processed == cached && told.first?.secondsLeft != nil)
    #expect(told.last?.processed == 100 && told.last?.secondsLeft == 0)
    #expect(told.map(\.processed) == told.map(\.processed).sorted())
  }

  @Test func `a slow prompt is told of a few times a second, and not after its first token`() throws {
    let client = try client {
      $0.rowsPerStep = 8
      $0.stepDelayMilliseconds = 20
    }
    defer { client.stop() }
    var request = request(prompt(seed: 3, count: 400), 30)
    request.reportsProgress = true
    let told = progress(try client.submit(request))
    // 50 steps of at least 20 ms; the first and the last are told in any case.
    #expect(told.count >= 4)
    #expect(told.first?.processed == 0 && told.last?.processed == 400)
    for (one, next) in zip(told, told.dropFirst().dropLast()) { #expect(next.seconds - one.seconds >= 0.25) }
  }

  @Test func `others see the prompts that are being read`() throws {
    let gate = Monitor(HashModel.Watch(permits: 2))
    let client = try client(watch: gate) { $0.rowsPerStep = 16 }
    defer { client.stop() }
    let generation = try client.submit(request(prompt(seed: 4, count: 100), 1))
    #expect(wait(client) { $0.reading.first?.processed == 0 || $0.reading.first?.processed == 16 })
    gate.update { $0.permits = .max }
    #expect(collect(generation).tokens.count == 1)
    #expect(wait(client) { $0.reading.isEmpty && $0.running == 0 })
  }

  @Test func `the time that is left counts passes, rows, depth, and the rows of others`() {
    let cost = StepCost(fixed: 0.1, perRow: 0.01, perPair: 0.0001)
    // Four steps of 25 rows at most, after 100 positions: 100 · 100 + 5050 pairs.
    let alone = cost.seconds(of: 100, after: 100, by: 25, beside: StepLoad())
    #expect(abs(alone - (4 * 0.1 + 100 * 0.01 + 15_050 * 0.0001)) < 1e-12)
    // A stream at 999 tokens goes along with each of them.
    let beside = cost.seconds(of: 100, after: 100, by: 25, beside: StepLoad(rows: 1, after: 999))
    #expect(abs(beside - alone - 4 * (0.01 + 1000 * 0.0001)) < 1e-12)
    #expect(cost.seconds(of: 1, after: 0, by: 25, beside: StepLoad()) == 0.1 + 0.01 + 0.0001)
  }
}
