// Requests that give way: computed while no other request is, with the same tokens as ever.

import Platform
import Testing

@testable import Inference

@Suite struct GivingWayTests: EngineHarness {
  private func patient(_ prompt: [Int32], _ count: Int) -> GenerationRequest {
    var request = request(prompt, count)
    request.givesWay = true
    return request
  }

  /// Waits until so many steps have begun.
  private func awaitSteps(_ steps: Int, of watch: Monitor<HashModel.Watch>) {
    while watch.withLock({ $0.steps }) < steps { usleep(1_000) }
  }

  @Test func `a request takes the only place from one that gives way, which then goes on as if nothing was`()
    throws
  {
    let watch = Monitor(HashModel.Watch(permits: 3))
    let client = try client(watch: watch) { $0.maxSequences = 1 }
    let batch = try client.submit(patient([7, 8], 12))
    awaitSteps(3, of: watch)
    let other = try client.submit(request([1, 2], 6))
    #expect(wait(client) { $0.waiting == 1 })
    watch.update { $0.permits = .max }
    let served = collect(other)
    #expect(served.tokens == HashModel.greedy(after: [1, 2], count: 6))
    #expect(collect(batch).tokens == HashModel.greedy(after: [7, 8], count: 12))
    #expect(client.statistics.preemptions == 1)
    client.stop()
  }

  @Test func `it stands still beside others, though there is a place for it`() throws {
    let watch = Monitor(HashModel.Watch(permits: 2))
    let client = try client(watch: watch) { $0.maxSequences = 4 }
    let batch = try client.submit(patient([7, 8], 40))
    awaitSteps(2, of: watch)
    let other = try client.submit(request([1, 2], 5))
    #expect(wait(client) { $0.waiting == 1 })
    watch.update { $0.permits = .max }
    #expect(collect(other).tokens == HashModel.greedy(after: [1, 2], count: 5))
    #expect(collect(batch).tokens == HashModel.greedy(after: [7, 8], count: 40))
    #expect(client.statistics.preemptions == 0)
    client.stop()
  }

  @Test func `it starts after all that wait, however late they came`() throws {
    let watch = Monitor(HashModel.Watch(permits: 0))
    let client = try client(watch: watch) { $0.maxSequences = 1 }
    let first = try client.submit(request([0], 2))
    let batch = try client.submit(patient([9], 2))
    let others = try (1..<4).map { try client.submit(request([Int32($0)], 2)) }
    // Nobody who waits is told to wait for it.
    #expect(wait(client) { $0.running + $0.waiting == 4 })
    watch.update { $0.permits = .max }
    for generation in [first] + others + [batch] { #expect(collect(generation).reason == .length) }
    #expect(watch.withLock { $0.begun } == [0, 1, 2, 3, 9])
    client.stop()
  }

  @Test func `nobody waits for a prompt that one that gives way would compute too`() throws {
    let prompt = (0..<200).map { Int32($0 % 40) }
    let watch = Monitor(HashModel.Watch(permits: 1))
    let client = try client(watch: watch) {
      $0.maxSequences = 4
      $0.rowsPerStep = 16
    }
    let batch = try client.submit(patient(prompt, 3))
    awaitSteps(1, of: watch)
    let other = try client.submit(request(prompt, 3))
    watch.update { $0.permits = .max }
    #expect(collect(other).tokens == HashModel.greedy(after: prompt, count: 3))
    #expect(collect(batch).tokens == HashModel.greedy(after: prompt, count: 3))
    client.stop()
  }

  @Test func `a queue tells them apart, and an engine that ends gives both back`() throws {
    var inbox = Inbox(room: 1)
    func job(_ request: GenerationRequest) -> Job {
      Job(request: request, mailbox: Mailbox(capacity: 8), seed: 0, arrived: .now)
    }
    _ = try inbox.add(job(patient([1], 1)), limit: 4)
    _ = try inbox.add(job(request([2], 1)), limit: 4)
    #expect(inbox.statistics.waiting == 1)
    let taken = inbox.take(room: 2, laterRoom: 2, freeTokens: { 100 }, mayWait: false)
    #expect(taken?.jobs.map(\.request.promptTokens) == [[2]])
    let none = inbox.take(room: 1, laterRoom: 0, freeTokens: { 100 }, mayWait: false)
    #expect(none?.jobs.isEmpty == true)
    _ = try inbox.add(job(request([3], 1)), limit: 4)
    #expect(inbox.takeAll().map(\.request.promptTokens) == [[3], [1]])
  }

  @Test func `where not all find room those come first whose prefix is there`() throws {
    var inbox = Inbox(room: 1)
    for first in 1...4 {
      let request = request([Int32(first)], 1)
      _ = try inbox.add(
        Job(request: request, mailbox: Mailbox(capacity: 8), seed: 0, arrived: .now), limit: 4)
    }
    func take(_ room: Int) -> [Int32]? {
      inbox.take(
        room: room, freeTokens: { 100 }, cached: { $0.promptTokens[0] == 3 ? 96 : 0 }, mayWait: false)?
        .jobs.map { $0.request.promptTokens[0] }
    }
    #expect(take(1) == [3])
    #expect(take(3) == [1, 2, 4])
  }
}
