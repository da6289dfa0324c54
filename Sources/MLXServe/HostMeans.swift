// What the models of a program share while there are any: kernels, an account of memory, and the thread that keeps it.

import Compute
import Inference
import Platform
import Server

/// Made before the first model is loaded and stopped after the last one is gone.
final class HostMeans: Sendable {
  /// Of what the system gives the process, that models may take; the program around them needs some too.
  private static let usualShare = 90
  /// How often memory is measured, seconds.
  private static let tick = 1.0

  private struct Work {
    /// Bytes that an engine asks for.
    var shortage = 0
    var isStopped = false
  }

  let fleet: ModelFleet.Settings
  let compute: SharedCompute
  let threads: Int
  private let work = Monitor(Work())
  private let keeper: Thread

  /// - Parameter models: those that are loaded now.
  init(_ settings: ModelHost.Settings, models: @escaping @Sendable () -> [ResidentModel]) throws {
    let limit = settings.memoryLimit ?? MemoryLimit.bytes / 100 * Self.usualShare
    var fleet = ModelFleet.Settings()
    let slack = MemoryLedger.slack(of: limit)
    fleet.ledger = MemoryLedger(limit: limit, slack: slack, trimmedLoan: max(1 << 20, slack / 2))
    fleet.scratchBytes = { EngineClient.scratchBytes }
    fleet.copiedWeightBytes = { EngineClient.copiedWeightBytes }
    // A limit that the program gives is for what it has from here. Its own memory counts where the limit is the system's.
    fleet.measuresProcess = settings.memoryLimit == nil
    threads = settings.threads ?? Machine.cores
    compute = try EngineClient.makeCompute(EngineConfiguration(modelPath: "", threads: threads))
    let (work, measures) = (work, fleet)
    keeper = try Thread(name: "models", stackBytes: 512 << 10) {
      Self.keep(work, measures, models)
    }
    fleet.ledger.onShortage { bytes in work.update { $0.shortage = max($0.shortage, bytes) } }
    fleet.ledger.onMeasurement { measures.observe(models()) }
    self.fleet = fleet
  }

  /// Ends the keeper. Call once.
  func stop() {
    fleet.ledger.onShortage(nil)
    fleet.ledger.onMeasurement(nil)
    work.update { $0.isStopped = true }
    keeper.join()
  }

  private static func keep(
    _ work: Monitor<Work>, _ settings: ModelFleet.Settings, _ models: @Sendable () -> [ResidentModel]
  ) {
    while true {
      settings.observe(models())
      let asked: Int? = work.wait(until: Instant.now.adding(seconds: tick)) { work in
        guard work.shortage > 0 || work.isStopped else { return nil }
        defer { work.shortage = 0 }
        return work.isStopped ? -1 : work.shortage
      }
      guard asked != -1 else { return }
      reclaim(max(asked ?? 0, settings.ledger.snapshot().excess), from: models())
    }
  }

  /// Has engines give back cached keys and values.
  ///
  /// - Returns: how many bytes they gave.
  @discardableResult
  static func reclaim(_ bytes: Int, from models: [ResidentModel]) -> Int {
    var given = 0
    for model in models where given < bytes { given += model.reclaim(bytes - given) }
    return given
  }
}
