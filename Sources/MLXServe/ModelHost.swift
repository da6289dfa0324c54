// The models of a program that has this package as a library: under one limit of memory, on one set of kernels, and each
// folder in memory once however often it is loaded.

import Checkpoint
import Inference
import JSON
import Media
import Pipeline
import Platform
import Server

/// The process's models. There is one, because memory and cores are the process's.
package final class ModelHost: Sendable {
  /// What holds for all models.
  package struct Settings: Sendable {
    /// Most bytes that models and their work may take; nil for most of what the system gives this process.
    package var memoryLimit: Int?
    /// Threads that compute; nil for all cores.
    package var threads: Int?

    package init() {}
  }

  /// Models of one folder with the same options share an engine.
  struct Key: Hashable {
    let path: ByteKey
    let isLazy: Bool
    let maxSequences: Int
    let maxContext: Int?
    let prepared: ByteKey?
  }

  /// A loaded folder.
  struct Loaded: Sendable {
    let key: Key
    let resident: ResidentModel
    let engine: any ModelEngine
    /// How the ledger and the process are looked after.
    let fleet: ModelFleet.Settings
  }

  private enum Entry {
    /// Being loaded or unloaded.
    case changing
    case loaded(Loaded, users: Int)
  }

  private struct State {
    var settings = Settings()
    var means: HostMeans?
    /// Loads and models that need the means.
    var users = 0
    var entries: [Key: Entry] = [:]
  }

  package static let shared = ModelHost()
  /// How long a running engine may take to give memory back, seconds.
  private static let reclaimSeconds = 2.0

  private let state = Monitor(State())

  /// Changes what holds for all models.
  ///
  /// - Throws: when a model is loaded: limits and threads are given to the first one.
  package func configure(_ change: (inout Settings) -> Void) throws(MLXServeError) {
    try state.withLock { state throws(MLXServeError) in
      guard state.users == 0 else {
        throw MLXServeError(.invalidArgument, "the process is configured before its first model is loaded")
      }
      change(&state.settings)
    }
  }

  private static func residents(of state: Monitor<State>) -> [ResidentModel] {
    state.withLock { state in
      state.entries.values.compactMap { if case .loaded(let loaded, _) = $0 { loaded.resident } else { nil } }
    }
  }

  // MARK: Loading

  /// The engine of a folder: the running one, or a new one. Blocks while it is loaded; `release` gives it back.
  func obtain(_ path: String, _ options: ModelOptions) throws(MLXServeError) -> Loaded {
    do {
      let key = Key(
        path: ByteKey(try ModelFolder.check(path)), isLazy: options.lazyEncoders,
        maxSequences: options.maxSequences, maxContext: options.maxContext,
        prepared: options.preparedFolder.map { ByteKey(ModelFolder.fromHome($0)) })
      let means = try begin()
      do {
        if let loaded = join(key) { return loaded }
        let loaded = try load(key, means)
        state.update { $0.entries[key] = .loaded(loaded, users: 1) }
        return loaded
      } catch {
        state.update { if case .changing? = $0.entries[key] { $0.entries[key] = nil } }
        end()
        throw error
      }
    } catch {
      throw MLXServeError(loading: error)
    }
  }

  /// The engine that others have loaded, once nobody is changing it; nil when the caller is to load it.
  private func join(_ key: Key) -> Loaded? {
    let found: Loaded?? = state.wait { state in
      switch state.entries[key] {
      case .changing: return nil
      case .loaded(let loaded, let users):
        state.entries[key] = .loaded(loaded, users: users + 1)
        return .some(loaded)
      case nil:
        state.entries[key] = .changing
        return .some(nil)
      }
    }
    return found ?? nil
  }

  private func load(_ key: Key, _ means: HostMeans) throws -> Loaded {
    try MLXServeError.checkFamily(of: ModelFolder(path: key.path.string))
    var configuration = EngineConfiguration(modelPath: key.path.string, threads: means.threads)
    configuration.media.isLazy = key.isLazy
    configuration.maxSequences = key.maxSequences
    configuration.maxContext = key.maxContext
    configuration.preparedFolder = key.prepared?.string
    configuration.ledger = means.fleet.ledger
    configuration.compute = means.compute
    configuration.version = Version.text
    let (model, engine) = try start(configuration)
    var resident = ResidentModel(model)
    resident.weightBytes = engine.weightBytes
    resident.touchedBytes = { engine.touchedBytes }
    resident.reclaim = { engine.reclaim($0, seconds: Self.reclaimSeconds) }
    resident.statistics = { engine.statistics }
    return Loaded(key: key, resident: resident, engine: engine, fleet: means.fleet)
  }

  /// Where there is too little memory, other models give back what they only cache.
  private func start(_ configuration: EngineConfiguration) throws -> (
    model: LoadedModel, engine: any ModelEngine
  ) {
    do {
      return try LoadedModel.open(configuration)
    } catch InferenceError.modelTooLarge {
      _ = HostMeans.reclaim(.max, from: Self.residents(of: state))
      return try LoadedModel.open(configuration)
    }
  }

  /// Gives an engine back. When its last user does, nothing of it is left when this returns.
  func release(_ key: Key) {
    let last = state.update { state -> Loaded? in
      guard case .loaded(let loaded, let users) = state.entries[key] else { return nil }
      state.entries[key] = users > 1 ? .loaded(loaded, users: users - 1) : .changing
      return users > 1 ? nil : loaded
    }
    if let last {
      last.engine.stop()
      state.update { $0.entries[key] = nil }
      Machine.trimHeap()
    }
    end()
  }

  // MARK: What models share

  /// The means, which stay until a call of `end` for each of `begin`.
  private func begin() throws -> HostMeans {
    let residents: @Sendable () -> [ResidentModel] = { [state] in Self.residents(of: state) }
    return try state.withLock { state in
      let means = try state.means ?? HostMeans(state.settings, models: residents)
      state.means = means
      state.users += 1
      return means
    }
  }

  private func end() {
    let last = state.withLock { state -> HostMeans? in
      state.users -= 1
      guard state.users == 0 else { return nil }
      defer { state.means = nil }
      return state.means
    }
    last?.stop()
  }
}
