// The engine of a model that hears: one thread that owns it and takes a window of each recording in turn.

package import Checkpoint
package import Compute
import Media
import Models
import Platform
package import Tokenizers

/// What the engine and its client share.
private struct SpeechInbox {
  struct Work {
    let request: SpeechRequest
    let peak: Float
    let mailbox: Mailbox<SpeechEvent>
  }

  var queue: [Work] = []
  var running = 0
  var isDraining = false
  var isStopped = false
}

/// Not Sendable: created and used on its thread alone.
private final class SpeechEngine {
  private let writer: SpeechWriter
  private let turns: SharedCompute
  private let inbox: Monitor<SpeechInbox>
  private let spectrum: SpeechSpectrum
  private let memory: WeightReservation
  private let stepDelay: UInt32

  /// A recording, and where its segments go.
  private struct Run {
    let transcription: Transcription
    let mailbox: Mailbox<SpeechEvent>
    var hasLanguage = false
  }

  init(
    _ writer: SpeechWriter, memory: WeightReservation, turns: SharedCompute, inbox: Monitor<SpeechInbox>,
    _ configuration: EngineConfiguration
  ) {
    (self.writer, self.memory, self.turns) = (writer, memory, turns)
    self.inbox = inbox
    spectrum = SpeechSpectrum(bands: writer.model.sizes.bands)
    stepDelay = configuration.stepDelayMilliseconds
  }

  /// Works until the inbox says stop.
  func run() {
    var runs: [Run] = []
    while true {
      let isIdle = runs.allSatisfy { $0.mailbox.isFull && !$0.mailbox.isClosed }
      // Readers that are slow keep their own recording waiting, and nobody else's.
      let deadline = isIdle && !runs.isEmpty ? Instant.now.adding(seconds: 0.01) : nil
      let works: [SpeechInbox.Work]? =
        isIdle
        ? inbox.wait(until: deadline) { take(&$0, whether: !$0.queue.isEmpty || $0.isStopped) }
        : inbox.withLock { take(&$0, whether: true) }
      if inbox.withLock({ $0.isStopped }) { break }
      runs += (works ?? []).map { work in
        Run(
          transcription: Transcription(work.request, peak: work.peak, spectrum: spectrum, writer),
          mailbox: work.mailbox)
      }
      runs = runs.compactMap(step)
      let count = runs.count
      inbox.withLock { $0.running = count }
    }
    let waiting = inbox.withLock { $0.queue.map(\.mailbox) }
    for mailbox in runs.map(\.mailbox) + waiting { fail(mailbox, .draining) }
  }

  private func take(_ inbox: inout SpeechInbox, whether wanted: Bool) -> [SpeechInbox.Work]? {
    guard wanted else { return nil }
    defer { inbox.queue = [] }
    inbox.running += inbox.queue.count
    return inbox.queue
  }

  /// Takes a window of a recording.
  ///
  /// - Returns: nil when nothing of it is left to do.
  private func step(_ run: Run) -> Run? {
    var run = run
    if run.mailbox.isClosed { return nil }
    if run.mailbox.isFull { return run }
    do throws(SpeechStop) {
      let transcription = run.transcription
      if !transcription.isFinished {
        let mailbox = run.mailbox
        let work = SpeechTurns(
          isUnwanted: { [inbox] in mailbox.isClosed || inbox.withLock { $0.isStopped } },
          turn: { [turns, stepDelay] body in
            if stepDelay > 0 { usleep(stepDelay * 1000) }
            turns.withTurn { _ in body() }
          })
        let segments = try transcription.advance(work)
        if !run.hasLanguage, let language = transcription.language {
          run.hasLanguage = true
          _ = run.mailbox.trySend(.language(language))
        }
        _ = run.mailbox.trySend(.segments(segments, upTo: transcription.seconds))
      }
      guard transcription.isFinished else { return run }
      _ = run.mailbox.trySend(.finished)
      run.mailbox.close()
    } catch {
      if case .failed(let error) = error { fail(run.mailbox, error) }
      if case .unwanted = error, !run.mailbox.isClosed { return run }
    }
    return nil
  }

  private func fail(_ mailbox: Mailbox<SpeechEvent>, _ error: InferenceError) {
    _ = mailbox.trySend(.failed(error))
    mailbox.close()
  }
}

/// The only Sendable handle of the engine: starts its thread, submits recordings, ends it. Usable from any thread.
package final class SpeechClient: SpeechService, CachelessEngine {
  package let vocabulary: SpeechVocabulary
  package let computeName: String
  package let computeMode: ComputeMode
  package let weightBytes: Int
  package let contextTokens: Int
  private let bands: Int
  private let inbox: Monitor<SpeechInbox>
  private let thread: Thread
  private let queueLimit: Int

  private static let stackBytes = 4 << 20
  /// Events that a reader may be behind: three come of a window.
  private static let events = 64

  private struct Facts: Sendable {
    var vocabulary: SpeechVocabulary
    var computeName: String
    var computeMode: ComputeMode
    var weightBytes, contextTokens, bands: Int
  }

  private init(_ facts: Facts, _ inbox: Monitor<SpeechInbox>, _ thread: Thread, queueLimit: Int) {
    vocabulary = facts.vocabulary
    (computeName, computeMode) = (facts.computeName, facts.computeMode)
    (weightBytes, contextTokens, bands) = (facts.weightBytes, facts.contextTokens, facts.bands)
    (self.inbox, self.thread, self.queueLimit) = (inbox, thread, queueLimit)
  }

  /// Loads the model on a new thread and returns when it is ready.
  ///
  /// - Throws: `InferenceError.modelLoading` with the loader's words, or `modelTooLarge`.
  package static func start(
    _ configuration: EngineConfiguration, _ tokenizer: Tokenizer
  ) throws -> SpeechClient {
    let inbox = Monitor(SpeechInbox())
    let (facts, thread) = try EngineThread.start("speech", stackBytes: stackBytes) {
      () throws(InferenceError) in
      let (engine, facts) = try load(configuration, tokenizer, inbox)
      return (facts, { engine.run() })
    }
    return SpeechClient(facts, inbox, thread, queueLimit: configuration.queueLimit)
  }

  /// On the engine's thread, where the model stays.
  private static func load(
    _ configuration: EngineConfiguration, _ tokenizer: Tokenizer, _ inbox: Monitor<SpeechInbox>
  ) throws(InferenceError) -> (SpeechEngine, Facts) {
    do {
      let folder = try ModelFolder(path: configuration.modelPath, progress: configuration.progress)
      let turns = try configuration.compute ?? EngineClient.makeCompute(configuration)
      let (model, name, mode, overhead) = try turns.withTurn { compute in
        compute.preparedFolder = configuration.preparedFolder
        let format = configuration.kvFormat(beside: compute.mode)
        return (
          try Whisper(folder, compute: compute, format: format), compute.name, compute.mode,
          compute.overhead(ofCopying: folder.weightBytes)
        )
      }
      let vocabulary = try SpeechVocabulary(
        tokenizer, size: model.sizes.vocabulary, context: model.sizes.textPositions,
        isMultilingual: model.isMultilingual)
      let needed = folder.weights.usedBytes - model.tableBytes + overhead + model.workBytes
      guard let memory = WeightReservation(configuration.ledger, bytes: needed) else {
        throw InferenceError.modelTooLarge(
          weightBytes: needed - model.workBytes, cacheBytes: model.workBytes,
          context: model.sizes.textPositions, leftBytes: configuration.ledger.left,
          limitBytes: configuration.ledger.limit)
      }
      let facts = Facts(
        vocabulary: vocabulary, computeName: name, computeMode: mode, weightBytes: folder.weightBytes,
        contextTokens: model.sizes.textPositions, bands: model.sizes.bands)
      let writer = SpeechWriter(model, vocabulary)
      return (
        SpeechEngine(writer, memory: memory, turns: turns, inbox: inbox, configuration), facts
      )
    } catch let error as InferenceError {
      throw error
    } catch {
      throw .modelLoading(String(describing: error))
    }
  }

  /// Binds the weights of a folder to its config.json, without running it.
  ///
  /// - Throws: `modelLoading` with the words of what refused the checkpoint.
  package static func check(
    _ folder: ModelFolder, _ configuration: EngineConfiguration
  ) throws(InferenceError) {
    do {
      var single = configuration
      single.threads = 1
      _ = try Whisper(folder, compute: try single.makeContext())
    } catch {
      throw .modelLoading(String(describing: error))
    }
  }

  // MARK: Requests

  package func submit(_ request: SpeechRequest) throws(InferenceError) -> SpeechJob {
    let job = SpeechJob(mailbox: Mailbox(capacity: Self.events))
    // What is refused need not be looked through.
    try inbox.withLock { (inbox) throws(InferenceError) in try checkRoom(inbox) }
    let peak = SpeechSpectrum(bands: bands).peak(of: request.samples)
    try inbox.update { (inbox) throws(InferenceError) in
      try checkRoom(inbox)
      inbox.queue.append(SpeechInbox.Work(request: request, peak: peak, mailbox: job.mailbox))
    }
    return job
  }

  private func checkRoom(_ inbox: SpeechInbox) throws(InferenceError) {
    guard !inbox.isDraining, !inbox.isStopped else { throw .draining }
    guard inbox.queue.count + inbox.running < queueLimit else {
      throw .queueFull(limit: queueLimit, running: inbox.running, waiting: inbox.queue.count, retryAfter: 5)
    }
  }

  // MARK: The engine's life

  package func drain() { inbox.update { $0.isDraining = true } }

  /// Cancels everything and waits for the engine's thread to end. Call once.
  package func stop() {
    inbox.update { $0.isStopped = true }
    thread.join()
  }
}
