// Scheduler and step clock together on a virtual machine with a virtual clock: gaps, waiting times, no idle time.

import Support
import Testing

@testable import Inference

/// A machine whose steps take a known time, and the requests on it.
private struct VirtualMachine {
  struct Request {
    let arrival: Double
    let prompt: Int
    let answer: Int
    var computed = 0
    var generated = 0
    var firstToken: Double?
    var end: Double?

    var pending: Int { generated == 0 ? prompt - computed : 1 }
  }

  var cost = StepCost(fixed: 0.02, perRow: 0.002, perPair: 2e-8)
  /// Largest relative error of a step's time.
  var noise = 0.05
  var random = SeededGenerator(seed: 1)
  var clock = StepClock(limit: 0.2)
  var scheduler = Scheduler(rowBudget: 256)
  var requests: [Request] = []
  var now = 0.0
  /// Times of the steps that streams waited for.
  var stalls: [Double] = []
  /// Steps in which nothing was computed although something was to do.
  var idleSteps = 0

  /// Indices of requests that are there and have not ended, in order of arrival.
  private var running: [Int] {
    requests.indices.filter { requests[$0].arrival <= now && requests[$0].end == nil }
  }

  /// Runs one step, or waits for the next arrival. False when all is done.
  mutating func step() -> Bool {
    let running = running
    guard !running.isEmpty else {
      guard let next = requests.filter({ $0.end == nil }).map(\.arrival).min() else { return false }
      now = next
      return true
    }
    let candidates = running.map {
      Scheduler.Candidate(
        pending: requests[$0].pending, computed: requests[$0].computed, isStream: requests[$0].generated > 0)
    }
    let plan = scheduler.plan(candidates, clock.allowance)
    if plan.isEmpty { idleSteps += 1 }
    let load = plan.reduce(StepLoad()) { $0 + StepLoad(rows: $1.rows, after: candidates[$1.index].computed) }
    let seconds = cost.seconds(load) * Double.random(in: 1 - noise...1 + noise, using: &random)
    now += seconds
    let isAwaited = candidates.contains(where: \.isStream)
    clock.learn(load, seconds: seconds, besideStreams: isAwaited)
    if isAwaited { stalls.append(seconds) }
    for share in plan { advance(running[share.index], rows: share.rows) }
    return !plan.isEmpty
  }

  private mutating func advance(_ index: Int, rows: Int) {
    requests[index].computed += rows
    guard requests[index].computed >= requests[index].prompt else { return }
    requests[index].generated += 1
    if requests[index].generated == 1 { requests[index].firstToken = now }
    if requests[index].generated == requests[index].answer { requests[index].end = now }
  }

  mutating func run(until end: Double = .infinity) {
    while now < end, step() {}
  }

  /// Seconds until a request's first token.
  func wait(_ index: Int) -> Double { (requests[index].firstToken ?? .infinity) - requests[index].arrival }

  /// Seconds for a prompt alone, in steps of 256 rows.
  func alone(_ prompt: Int) -> Double {
    Double((prompt + 255) / 256) * cost.fixed + cost.seconds(StepLoad(rows: prompt, after: 0)) - cost.fixed
  }
}

@Suite struct SchedulingSimulationTests {
  @Test func `random workloads: no gap beyond the limit, no idle step, everyone is served`() {
    for seed in 1...20 as ClosedRange<UInt64> {
      var random = SeededGenerator(seed: seed)
      var machine = VirtualMachine(random: SeededGenerator(seed: seed + 100))
      machine.cost.fixed = Double.random(in: 0.001...0.08, using: &random)
      machine.cost.perRow = Double.random(in: 0.00005...0.003, using: &random)
      machine.cost.perPair = Double.random(in: 0...5e-8, using: &random)
      var arrival = 0.0
      for _ in 0..<40 {
        arrival += Double.random(in: 0...3, using: &random)
        let prompt = Bool.random(using: &random) ? 2...60 : 500...6000
        machine.requests.append(
          .init(
            arrival: arrival, prompt: Int.random(in: prompt, using: &random),
            answer: Int.random(in: 1...200, using: &random)))
      }
      machine.run()
      #expect(machine.idleSteps == 0)
      #expect(machine.requests.allSatisfy { $0.end != nil })
      // Decoding alone may take longer than the limit; then a prompt adds a quarter of it. Up to 40 streams decode.
      let decoding = machine.cost.seconds(StepLoad(rows: 40, after: 0))
      let bound = max(0.2, 1.25 * decoding) * 1.05
      #expect(machine.stalls.allSatisfy { $0 <= bound * 1.2 }, "seed \(seed): \(machine.stalls.max() ?? 0)")
      #expect(machine.stalls.count { $0 > bound } * 100 <= machine.stalls.count, "seed \(seed)")
    }
  }

  @Test func `eight streams never wait longer than the limit for a prompt of 100,000 tokens`() {
    var machine = VirtualMachine()
    machine.requests = (0..<8).map { _ in .init(arrival: 0, prompt: 20, answer: 100_000) }
    machine.requests.append(.init(arrival: 2, prompt: 100_000, answer: 2))
    while machine.requests[8].firstToken == nil, machine.step() {}
    #expect(machine.stalls.dropFirst(10).allSatisfy { $0 <= 0.2 })
    // Half of the machine's time at least goes to the prompt.
    #expect(machine.wait(8) < 2 * machine.alone(100_000))
  }

  @Test func `a short prompt does not wait for a long one before it`() {
    var machine = VirtualMachine()
    machine.requests = [
      .init(arrival: 0, prompt: 100_000, answer: 10), .init(arrival: 5, prompt: 400, answer: 10),
    ]
    machine.run()
    #expect(machine.wait(1) < 3.5 * machine.alone(400))
    #expect(machine.wait(0) < 1.1 * machine.alone(100_400))
  }

  @Test func `short prompts without end do not starve a long one`() {
    var machine = VirtualMachine()
    machine.requests = [.init(arrival: 0, prompt: 20_000, answer: 1)]
    machine.requests += (0..<2000).map { .init(arrival: Double($0) * 0.2, prompt: 200, answer: 1) }
    while machine.requests[0].firstToken == nil, machine.step() {}
    #expect(machine.wait(0) < 2.2 * machine.alone(20_000))
  }

  @Test func `a machine that becomes three times slower is noticed within a few steps`() {
    var machine = VirtualMachine(noise: 0)
    machine.requests = [
      .init(arrival: 0, prompt: 10, answer: 100_000), .init(arrival: 1, prompt: 60_000, answer: 2),
    ]
    machine.run(until: 20)
    machine.stalls = []
    machine.cost = StepCost(fixed: 0.06, perRow: 0.006, perPair: 6e-8)
    machine.run(until: 60)
    #expect(machine.stalls.count { $0 > 0.2 } <= 8)
    #expect(machine.stalls.dropFirst(20).allSatisfy { $0 <= 0.2 })
  }

  @Test func `one step that took a hundred times as long changes little`() {
    var clock = StepClock(limit: 0.2)
    let cost = StepCost(fixed: 0.02, perRow: 0.002, perPair: 0)
    for step in 0..<200 {
      let load = StepLoad(rows: step % 2 == 0 ? 1 : 80, after: 100)
      clock.learn(load, seconds: cost.seconds(load), besideStreams: true)
    }
    let load = StepLoad(rows: 80, after: 100)
    let before = clock.cost.seconds(load)
    #expect(abs(before - cost.seconds(load)) < 0.01 * before)
    clock.learn(load, seconds: 18, besideStreams: true)
    #expect(clock.cost.seconds(load) < 1.4 * before)
    #expect(clock.ease == 0.5)
  }

  @Test func `what a prompt's row costs is not forgotten while streams decode`() {
    var clock = StepClock(limit: 0.2)
    let cost = StepCost(fixed: 0.02, perRow: 0.002, perPair: 0)
    for rows in [32, 64, 128, 200, 128, 64] {
      let load = StepLoad(rows: rows, after: 0)
      clock.learn(load, seconds: cost.seconds(load), besideStreams: false)
    }
    for step in 0..<5000 {
      let load = StepLoad(rows: 1, after: step)
      clock.learn(load, seconds: cost.seconds(load), besideStreams: true)
    }
    let expected = clock.cost.seconds(StepLoad(rows: 80, after: 0))
    #expect(abs(expected - 0.18) < 0.04, "\(expected)")
  }

  @Test func `times that make no sense are ignored`() {
    var clock = StepClock(limit: 0.2)
    for seconds in [0, -1, .infinity, .nan] {
      clock.learn(StepLoad(rows: 4, after: 0), seconds: seconds, besideStreams: true)
    }
    clock.learn(StepLoad(), seconds: 1, besideStreams: true)
    #expect(clock.cost == StepCost())
    #expect(clock.allowance.rowsBesideStreams == 16)
    #expect(clock.allowance.rowsAlone == 64)
  }
}
