// Requests that are served, wait, are refused or have left: the engine's queue, with steps that tests let through.

import Decoding
import Platform
import Support
import Testing

@testable import Inference

@Suite struct EngineQueueTests: EngineHarness {
  /// What the submission of a request led to.
  private func isRefused(_ client: EngineClient, _ request: GenerationRequest) -> InferenceError? {
    do throws(InferenceError) {
      _ = try client.submit(request)
      return nil
    } catch {
      return error
    }
  }

  @Test func `exactly the places and the queue are taken, the rest is refused with numbers`() throws {
    for _ in 0..<20 {
      let gate = Monitor(false)
      let client = try client(gate: gate) {
        $0.maxSequences = 4
        $0.queueLimit = 6
      }
      let generations = try (0..<10).map { try client.submit(request([Int32($0)], 3)) }
      #expect(wait(client) { $0.running > 0 && $0.running + $0.waiting == 10 })
      for _ in 0..<20 {
        guard
          case .queueFull(let limit, let running, let waiting, let retryAfter)? = isRefused(
            client, request([1], 3))
        else {
          Issue.record("a request too many was taken")
          return
        }
        #expect(limit == 6 && running == 4 && waiting == 6)
        #expect((1...60).contains(retryAfter))
      }
      #expect(client.statistics.refused == 20)
      gate.update { $0 = true }
      for (index, generation) in generations.enumerated() {
        #expect(collect(generation).tokens == HashModel.greedy(after: [Int32(index)], count: 3))
      }
      client.stop()
    }
  }

  @Test func `requests of one tenant start in the order of arrival`() throws {
    let watch = Monitor(HashModel.Watch(permits: 0))
    let client = try client(watch: watch) { $0.maxSequences = 1 }
    let generations = try (0..<30).map { try client.submit(request([Int32($0)], 2)) }
    watch.update { $0.permits = .max }
    for generation in generations { #expect(collect(generation).reason == .length) }
    #expect(watch.withLock { $0.begun } == Array(0..<30))
    client.stop()
  }

  @Test func `two tenants take turns although one has asked for more before`() throws {
    let watch = Monitor(HashModel.Watch(permits: 0))
    let client = try client(watch: watch) {
      $0.maxSequences = 1
      $0.queueLimit = 20
    }
    let first = try client.submit(request([40], 2))
    #expect(wait(client) { $0.running == 1 })
    let requests: [(token: Int32, tenant: UInt64)] = (0..<6).map { ($0, 7) } + (10..<13).map { ($0, 8) }
    let generations = try requests.map { token, tenant in
      var request = request([token], 2)
      request.tenant = tenant
      return try client.submit(request)
    }
    watch.update { $0.permits = .max }
    for generation in [first] + generations { #expect(collect(generation).reason == .length) }
    #expect(watch.withLock { $0.begun } == [40, 0, 10, 1, 11, 2, 12, 3, 4, 5])
    client.stop()
  }

  @Test func `in a full queue a tenant with less than its share takes the newest place of one with more`()
    throws
  {
    let gate = Monitor(false)
    let client = try client(gate: gate) {
      $0.maxSequences = 1
      $0.queueLimit = 4
    }
    func submit(_ token: Int32, _ tenant: UInt64) throws(InferenceError) -> Generation {
      var request = request([token], 2)
      request.tenant = tenant
      return try client.submit(request)
    }
    let running = try submit(40, 1)
    #expect(wait(client) { $0.running == 1 })
    let greedy = try (0..<4).map { try submit($0, 1) }
    let modest = try (10..<12).map { try submit($0, 2) }
    #expect(throws: InferenceError.self) { try submit(12, 2) }
    #expect(throws: InferenceError.self) { try submit(4, 1) }
    gate.update { $0 = true }
    for generation in [running, greedy[0], greedy[1]] + modest {
      #expect(collect(generation).reason == .length)
    }
    for generation in greedy[2...] {
      guard case .element(.failed(.queueFull(limit: 4, running: 1, waiting: 4, _))) = generation.next() else {
        Issue.record("the newest requests of the greedy tenant were not told")
        return
      }
    }
    client.stop()
  }

  // MARK: Cancellation

  @Test func `who leaves the queue is no longer counted, and never starts`() throws {
    let watch = Monitor(HashModel.Watch(permits: 0))
    let client = try client(watch: watch) { $0.maxSequences = 1 }
    let running = try client.submit(request([1], 2))
    #expect(wait(client) { $0.running == 1 })
    let waiting = try (2..<5).map { try client.submit(request([$0], 2)) }
    #expect(client.statistics.waiting == 3)
    waiting[0].cancel()
    waiting[2].cancel()
    // At once, although no step has ended.
    #expect(client.statistics.waiting == 1)
    watch.update { $0.permits = .max }
    #expect(collect(running).reason == .length)
    #expect(collect(waiting[1]).reason == .length)
    client.stop()
    #expect(watch.withLock { $0.begun } == [1, 3])
  }

  @Test func `a prompt that nobody waits for stops within one chunk`() throws {
    let watch = Monitor(HashModel.Watch(permits: 3))
    let client = try client(watch: watch) { $0.rowsPerStep = 10 }
    let generation = try client.submit(request(prompt(seed: 1, count: 1000), 5))
    #expect(wait(client) { $0.steps == 3 })
    generation.cancel()
    watch.update { $0.permits = .max }
    #expect(wait(client) { $0.running == 0 })
    // One step was under way.
    #expect(watch.withLock { $0.steps } <= 4)
    #expect(client.statistics.cancelled == 1)
    client.stop()
  }

  @Test func `an answer that nobody waits for stops within one step`() throws {
    let watch = Monitor(HashModel.Watch(permits: 5))
    let client = try client(watch: watch)
    let generation = try client.submit(request([1], 1000))
    #expect(wait(client) { $0.steps == 5 })
    generation.cancel()
    watch.update { $0.permits = .max }
    #expect(wait(client) { $0.running == 0 })
    #expect(watch.withLock { $0.steps } <= 6)
    client.stop()
  }

  @Test func `of two with one prompt either may leave while the other waits for its prefill`() throws {
    let prompt = prompt(seed: 4, count: 400)
    for leaver in 0..<2 {
      let watch = Monitor(HashModel.Watch(permits: 0))
      let client = try client(watch: watch) { $0.rowsPerStep = 16 }
      let generations = try (0..<2).map { _ in try client.submit(request(prompt, 6)) }
      watch.update { $0.permits = 4 }
      #expect(wait(client) { $0.steps == 4 && $0.running == 2 })
      generations[leaver].cancel()
      watch.update { $0.permits = .max }
      #expect(collect(generations[1 - leaver]).tokens == HashModel.greedy(after: prompt, count: 6))
      #expect(wait(client) { $0.running == 0 && $0.cancelled == 1 && $0.finished == 1 })
      client.stop()
    }
  }

  // MARK: Broken numbers

  @Test func `logits that are not numbers end their request, and no other`() throws {
    let client = try client(isPoisonous: true)
    let good = prompt(seed: 6, count: 30).map { $0 % 49 }
    let expected = HashModel.greedy(after: good, count: 20)
    guard !expected.contains(HashModel.poison) else {
      Issue.record("the test needs another prompt")
      return
    }
    let healthy = try client.submit(request(good, 20))
    let broken = try client.submit(request([1, HashModel.poison, 2], 20))
    var failure: InferenceError?
    while case .element(let event) = broken.next(until: Instant.now.adding(seconds: 30)) {
      if case .failed(let error) = event { failure = error }
    }
    #expect(failure == .unusableLogits(tokens: 3))
    #expect(collect(healthy).tokens == expected)
    #expect(collect(try client.submit(request(good, 20))).tokens == expected)
    #expect(client.statistics.failed == 1)
    client.stop()
  }

  // MARK: Counts

  @Test func `the counts say what was done`() throws {
    let client = try client { $0.speculates = false }
    let prompt = prompt(seed: 3, count: 70)
    for _ in 0..<2 { _ = collect(try client.submit(request(prompt, 10))) }
    #expect(wait(client) { $0.running == 0 && $0.finished == 2 })
    let counts = client.statistics
    #expect(counts.prefixQueryTokens == 140)
    // Two full blocks, and five tokens of the third.
    #expect(counts.prefixHitTokens == 69)
    #expect(counts.prefillTokens == 71)
    #expect(counts.decodeTokens == 18)
    #expect(counts.kvBlocksTotal > 0 && counts.kvBlocksUsed == 3)
    #expect(counts.waiting == 0 && counts.refused == 0 && counts.preemptions == 0)
    #expect(counts.steps >= 20 && counts.longestStall > 0)
    client.stop()
  }
}

@Suite struct CompletionPaceTests {
  private func at(_ seconds: Double) -> Instant { Instant(nanoseconds: Int64(seconds * 1e9)) }

  @Test func `the wait is the time until a place becomes free, a later one for each that was refused`() {
    var pace = CompletionPace()
    pace.note(ended: 0, isIdle: false, at: at(10))
    pace.note(ended: 2, isIdle: false, at: at(14))
    #expect(abs((pace.interval ?? 0) - 2) < 1e-6)
    #expect((0..<3).map { _ in pace.retryAfter(at: at(14)) } == [2, 4, 6])
    pace.noteAdmission()
    #expect(pace.retryAfter(at: at(14)) == 2)
    // Nothing has ended for long.
    pace.noteAdmission()
    #expect(pace.retryAfter(at: at(40)) == 26)
    #expect((0..<50).map { _ in pace.retryAfter(at: at(40)) }.max() == 60)
  }

  @Test func `without knowledge the wait is a second, and idle time counts for nothing`() {
    var pace = CompletionPace()
    #expect(pace.retryAfter(at: at(5)) == 1)
    pace.note(ended: 0, isIdle: true, at: at(6))
    pace.note(ended: 0, isIdle: false, at: at(1000))
    pace.note(ended: 1, isIdle: true, at: at(1001))
    #expect(abs((pace.interval ?? 0) - 1) < 1e-6)
  }
}
