// The engine of an encoder: one thread that owns the model and encodes what waits, step by step.

import Checkpoint
import Compute
import Models
import Platform

/// What the engine and its client share.
struct EncoderInbox {
  var queue = EncoderQueue()
  var statistics = EmbeddingStatistics()
  var isDraining = false
  var isStopped = false
}

/// Not Sendable: created and used on its thread alone.
final class EmbeddingEngine {
  private let model: SentenceEncoder
  private let turns: SharedCompute
  private let inbox: Monitor<EncoderInbox>
  private let cache: VectorCache
  private let weights: WeightReservation
  private let ledger: MemoryLedger
  private let patience: Double
  private let stepDelay: UInt32
  /// Tokens for which there are buffers, those of steps that take pauses apart.
  private var roomyTokens = (plain: 0, pausing: 0)
  /// Seconds that a token takes, as measured; decides how long steps are.
  private var secondsPerToken = 0.0
  /// When a step ended last that somebody waited for, and how many such there were since the background's last.
  private var lastInteractive: Instant?
  private var stepsBeforeBackground = 0
  /// Seconds that the background's step has paused.
  private var pausedSeconds = 0.0

  init(
    _ model: SentenceEncoder, weights: WeightReservation, turns: SharedCompute, cache: VectorCache,
    inbox: Monitor<EncoderInbox>, _ configuration: EngineConfiguration
  ) {
    (self.model, self.weights, self.turns) = (model, weights, turns)
    (self.cache, self.inbox) = (cache, inbox)
    ledger = configuration.ledger
    patience = configuration.memoryPatience
    stepDelay = configuration.stepDelayMilliseconds
  }

  /// How long a step may take, seconds: whoever comes next waits for its end.
  private func stepSeconds(_ priority: EmbeddingPriority) -> Double {
    switch priority {
    case .interactive: 0.05
    case .background: turns.isWanted(at: Instant.now, within: 1) ? 0.006 : 0.02
    }
  }

  /// A search asks twice, for its vector and for its reasons, which are a few steps: in between the background does not begin one.
  private static let (pause, mostSteps) = (0.01, 12)
  /// How long a step of the background pauses in all, seconds: other models wait for its end.
  private static let mostPaused = 0.02
  /// How often it is asked whether the background may go on, seconds.
  private static let poll = 0.002

  /// Whether the background may have the next step, as far as others go.
  private var allowsBackground: Bool {
    let now = Instant.now
    guard turns.allowsBackground(at: now) else { return false }
    guard let lastInteractive, stepsBeforeBackground < Self.mostSteps else { return true }
    return now.seconds(since: lastInteractive) >= Self.pause
  }

  /// Tokens of a step. Weights are worth reading for some rows; the activations of many leave the second-level cache, which
  /// costs more than it saves (a MiniLM's 192 rows take 1.2 MB; on a Zen 4 with 1 MB of that cache 192 tokens a step are 3 to 9 %
  /// faster than 427), unless there are many threads to be kept at work.
  private var stepTokens: ClosedRange<Int> { 64...min(1024, max(192, 96 * model.threads)) }

  private func tokens(_ priority: EmbeddingPriority) -> Int {
    guard secondsPerToken > 0 else { return min(256, stepTokens.upperBound) }
    let fitting = stepSeconds(priority) / secondsPerToken
    return min(max(Int(min(fitting, 1e6)), stepTokens.lowerBound), stepTokens.upperBound)
  }

  /// Works until the inbox says stop.
  func run() {
    while true {
      let holds = !allowsBackground
      let end = holds ? Instant.now.adding(seconds: Self.poll) : nil
      let items: [EncoderQueue.Item]? = inbox.wait(until: end) { inbox in
        if inbox.isStopped { return [] }
        let items = inbox.queue.take(tokens: tokens, holdsBackground: holds)
        return items.isEmpty ? nil : items
      }
      guard let items else { continue }
      guard let first = items.first else { break }
      if first.work.request.priority == .background {
        pausedSeconds = 0
        step(items, isBackground: true) { texts throws(ModelError) in
          try turns.withTurn(isBackground: true) { _ throws(ModelError) in
            try model.encode(texts, pause: letPass)
          }
        }
        stepsBeforeBackground = 0
      } else {
        step(items, isBackground: false) { texts throws(ModelError) in
          try turns.withTurn { _ throws(ModelError) in try model.encode(texts) }
        }
        noteInteractive()
      }
    }
    for work in inbox.withLock({ $0.queue.removeAll() }) { fail(work, .draining) }
  }

  /// Between two layers of the background: whoever waits need not wait for the end of its step. After that it rests as long as
  /// between steps: a search works on with the cores that the background would take.
  private func letPass() {
    guard pausedSeconds < Self.mostPaused, var items = inbox.withLock({ takeInteractive(&$0) }) else {
      return
    }
    while !items.isEmpty {
      let begin = Instant.now
      step(items, isBackground: false) { texts throws(ModelError) in
        try turns.inPause { () throws(ModelError) in try model.encode(texts) }
      }
      noteInteractive()
      items = nextInPause()
      pausedSeconds += Instant.now.seconds(since: begin)
    }
  }

  /// Those who come while the background rests; none when it has rested enough, or another model waits for its turn.
  private func nextInPause() -> [EncoderQueue.Item] {
    let end = Instant.now.adding(seconds: min(Self.pause, Self.mostPaused - pausedSeconds))
    while Instant.now < end, !turns.hasWaiting {
      let soon = min(end, Instant.now.adding(seconds: Self.poll))
      if let items = inbox.wait(until: soon, { takeInteractive(&$0) }) { return items }
    }
    return []
  }

  /// Nil where nobody waits; no items when the engine stops.
  private func takeInteractive(_ inbox: inout EncoderInbox) -> [EncoderQueue.Item]? {
    guard !inbox.isStopped else { return [] }
    let items = inbox.queue.take(tokens: tokens, holdsBackground: true)
    return items.isEmpty ? nil : items
  }

  private func noteInteractive() {
    stepsBeforeBackground += 1
    lastInteractive = Instant.now
  }

  private func step(
    _ items: [EncoderQueue.Item], isBackground: Bool,
    _ encode: ([EncoderText]) throws(ModelError) -> [[Float]]
  ) {
    let count = items.reduce(0) { $0 + $1.text.tokens.count }
    let room: ReferenceWritableKeyPath<EmbeddingEngine, Int> =
      isBackground && model.takesPauses ? \.roomyTokens.pausing : \.roomyTokens.plain
    guard makeRoom(tokens: count, room) else {
      let error = InferenceError.outOfMemory(
        tokens: self[keyPath: room], bytesPerToken: model.workBytesPerToken, leftBytes: ledger.left,
        limitBytes: ledger.limit)
      for item in items { fail(item.work, error) }
      return
    }
    let begin = Instant.now
    if stepDelay > 0 { usleep(stepDelay * 1000) }
    do throws(ModelError) {
      let results = try encode(items.map { EncoderText($0.text) })
      let paused = isBackground ? pausedSeconds : 0
      note(items, count, seconds: Instant.now.seconds(since: begin) - paused)
      for (item, values) in zip(items, results) { deliver(values, to: item) }
    } catch {
      for item in items { fail(item.work, .modelLoading("\(error)")) }
    }
  }

  /// Buffers grow to the largest step and stay: what they grow by is taken from the ledger first.
  private func makeRoom(tokens: Int, _ room: ReferenceWritableKeyPath<EmbeddingEngine, Int>) -> Bool {
    let had = self[keyPath: room]
    guard tokens > had else { return true }
    let (bytes, overflow) = (tokens - had).multipliedReportingOverflow(by: model.workBytesPerToken)
    guard !overflow, ledger.reserve(bytes, for: .scratch, waiting: patience) else { return false }
    self[keyPath: room] = tokens
    return true
  }

  private func note(_ items: [EncoderQueue.Item], _ tokens: Int, seconds: Double) {
    let measured = seconds / Double(max(1, tokens))
    // Weights that are read for the first time come from the disk: later steps say more.
    secondsPerToken = secondsPerToken == 0 ? measured : 0.7 * secondsPerToken + 0.3 * measured
    inbox.withLock { inbox in
      inbox.statistics.steps += 1
      inbox.statistics.texts += items.count
      inbox.statistics.pairs += items.count { $0.text.output == .labels }
      inbox.statistics.reusedTokens = model.reusedTokens
      inbox.statistics.tokens += tokens
      inbox.statistics.seconds += seconds
    }
  }

  private func deliver(_ values: [Float], to item: EncoderQueue.Item) {
    guard values.allSatisfy(\.isFinite) else {
      fail(item.work, .unusableLogits(tokens: item.text.tokens.count))
      return
    }
    if let key = item.key { cache.keep(values, for: key) }
    _ = item.work.mailbox.trySend(.result(index: item.index, values: values))
    guard item.work.noteResult() else { return }
    _ = item.work.mailbox.trySend(.finished)
    item.work.mailbox.close()
  }

  private func fail(_ work: EncoderQueue.Work, _ error: InferenceError) {
    _ = work.mailbox.trySend(.failed(error))
    work.mailbox.close()
  }
}

/// Weights in the ledger, as long as this lives.
final class WeightReservation {
  private let ledger: MemoryLedger
  private let bytes: Int

  /// Nil when they are not left.
  init?(_ ledger: MemoryLedger, bytes: Int) {
    guard ledger.reserve(bytes, for: .weights) else { return nil }
    (self.ledger, self.bytes) = (ledger, bytes)
  }

  deinit { ledger.release(bytes, from: .weights) }
}

extension EncoderText {
  fileprivate init(_ text: EmbeddingText) {
    let output: Output =
      switch text.output {
      case .vector: .vector
      case .states: .states
      case .labels: .labels
      case .sparse: .sparse
      }
    self.init(tokens: text.tokens, second: text.second, unpooled: text.unpooled, output: output)
  }
}
