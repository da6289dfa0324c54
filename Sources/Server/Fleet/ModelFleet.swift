// The models of one process: which of them are loaded, who uses them, and which go when memory is short.
//
// One thread, the keeper, loads and unloads; requests ask for a model and wait. So a model is loaded once however many
// ask for it, and nothing is loaded and unloaded at a time.

import Grammar
import HTTP
package import Inference
import JSON
package import Pipeline
package import Platform
import Wire

/// A model of the fleet that is in memory, and how to get rid of it.
package struct ResidentModel: Sendable {
  package var loaded: LoadedModel
  /// Bytes of its weights.
  package var weightBytes = 0
  /// Bytes of its keys and values that are in memory.
  package var touchedBytes: @Sendable () -> Int = { 0 }
  /// Gives back cached keys and values; returns how many bytes.
  package var reclaim: @Sendable (_ bytes: Int) -> Int = { _ in 0 }
  /// What its engine has done.
  package var statistics: @Sendable () -> EngineStatistics = { EngineStatistics() }
  /// Takes no new requests.
  package var drain: @Sendable () -> Void = {}
  /// Cancels what runs and frees everything. Called once.
  package var stop: @Sendable () -> Void = {}

  package init(_ loaded: LoadedModel) { self.loaded = loaded }
}

/// The models of one process. Shared by all connections; `stop` ends its thread.
package final class ModelFleet: Sendable {
  /// How long models stay, and how long requests wait for them.
  package struct Settings: Sendable {
    /// A model without requests for this long is unloaded, seconds; 0 keeps it.
    package var idleSeconds = 0.0
    /// How long a request waits for its model, seconds.
    package var loadSeconds = 120.0
    /// How long a model waits for memory that others are using, seconds.
    package var roomSeconds = 30.0
    /// Ids of models that are only unloaded by request.
    package var pinned: [String] = []
    /// Where memory is accounted for.
    package var ledger = MemoryLedger()
    /// Bytes of the buffers of all engines.
    package var scratchBytes: @Sendable () -> Int = { 0 }
    /// Bytes of weights that are in memory of the process instead of a file's; models reserve them as weights.
    package var copiedWeightBytes: @Sendable () -> Int = { 0 }
    /// Whether what nobody accounts for is measured and counted too.
    package var measuresProcess = true
    /// How often memory and idle models are looked at, seconds.
    package var tick = 1.0

    package init() {}

    /// Tells the ledger what models hold that is not reserved beforehand.
    ///
    /// - Parameter others: what else is counted, bytes by kind.
    package func observe(_ models: [ResidentModel], besides others: [(kind: MemoryKind, bytes: Int)] = []) {
      // Of what is reserved for bodies only these themselves are surely there.
      let reserved = ledger.bytes(of: .requestBodies) / BodyBudget.copies + ledger.bytes(of: .media)
      var known = models.reduce(reserved + copiedWeightBytes()) { $0 + $1.touchedBytes() }
      let measured: [(kind: MemoryKind, bytes: Int)] =
        [
          (.scratch, scratchBytes()),
          (.grammars, models.reduce(0) { $0 + $1.loaded.grammars.byteCount }),
        ] + others
      for (kind, bytes) in measured {
        ledger.set(kind, to: bytes)
        known += bytes
      }
      if measuresProcess, let held = ProcessUsage.privateBytes { ledger.set(.other, to: held - known) }
    }
  }

  /// Loads a model, and tells how far it is. Runs on the keeper's thread.
  package typealias Load = @Sendable (ModelSource, Progress) throws -> ResidentModel

  let catalog: ModelCatalog
  package let settings: Settings
  private let load: Load
  private let isFixed: Bool
  private let state: Monitor<FleetState>
  private let keeper = Monitor<Thread?>(nil)
  /// Bytes that the server itself holds, by kind.
  private let gauges = Monitor<[(kind: MemoryKind, bytes: @Sendable () -> Int)]>([])

  /// - Throws: when the keeper's thread cannot be started.
  package init(_ catalog: ModelCatalog, settings: Settings = Settings(), load: @escaping Load)
    throws(PlatformError)
  {
    (self.catalog, self.settings, self.load) = (catalog, settings, load)
    isFixed = false
    state = Monitor(FleetState())
    let state = state
    settings.ledger.onShortage { bytes in state.update { $0.shortage = max($0.shortage, bytes) } }
    settings.ledger.onMeasurement { [weak self] in self?.observe() }
    let thread = try Thread(name: "models", stackBytes: 4 << 20) { self.keep() }
    keeper.withLock { $0 = thread }
  }

  /// One model that is always there: the program that has loaded it keeps it, and requests can neither load nor unload.
  package init(_ model: ResidentModel, settings: Settings = Settings()) {
    let source = ModelSource(id: model.loaded.id, path: "")
    catalog = ModelCatalog(only: source)
    self.settings = settings
    isFixed = true
    load = { _, _ in model }
    var fixed = FleetState()
    fixed.update(source) { $0.arrive(model, at: .now) }
    state = Monitor(fixed)
  }

  var ledger: MemoryLedger { settings.ledger }

  /// Something of the server's own that takes memory.
  func addGauge(_ kind: MemoryKind, _ bytes: @escaping @Sendable () -> Int) {
    gauges.withLock { $0.append((kind, bytes)) }
  }

  // MARK: For requests

  /// The model of that name, for as long as the lease is held. An empty name is the model that has every other name, else
  /// the first of the list: what requests mean that may leave the name out and do.
  ///
  /// - Parameter loads: whether it is loaded where it is not; otherwise that is 503, and asking keeps no model.
  func lease(_ name: String, loads: Bool = true) throws(APIError) -> ModelLease {
    let isNamed = !name.utf8.isEmpty
    if isNamed, let (source, adapter) = adapted(name) {
      let base = try lease(source, loads: loads)
      guard let lease = base.adapted(by: adapter) else { throw notFound(name) }
      return lease
    }
    guard let source = isNamed ? try find(name) : catalog.resolve("") ?? catalog.sources.first else {
      throw notFound("")
    }
    return try lease(source, loads: loads)
  }

  private func lease(_ source: ModelSource, loads: Bool) throws(APIError) -> ModelLease {
    guard !loads else { return try lease(source) }
    if let lease = state.withLock({ take(source.id, &$0, countsAsUse: false) }) { return lease }
    throw .modelNotLoaded(source.id)
  }

  /// The model and the adapter that a name means; nil for a model's own name.
  func adapted(_ name: String) -> (source: ModelSource, adapter: String)? {
    if let found = catalog.adapted(name) { return found }
    // The only model of a program, whose folder is not looked at here.
    guard isFixed, let colon = name.lastIndex(of: ":"), let source = catalog.resolve(String(name[..<colon])),
      adapterNames(of: source).contains(String(name[name.index(after: colon)...]))
    else { return nil }
    return (source, String(name[name.index(after: colon)...]))
  }

  /// Names of a model's adapters: of one that is loaded those that it has loaded, of another those that it would.
  func adapterNames(of source: ModelSource) -> [String] {
    if let model = state.withLock({ $0.entry(source.id)?.available }) {
      return model.loaded.adapted.compactMap(\.adapter?.name)
    }
    return catalog.adapters(of: source).map(\.name)
  }

  /// The names of all models, and of all with their adapters.
  var allNames: [String] {
    catalog.sources.flatMap { source in [source.id] + adapterNames(of: source).map { source.id + ":" + $0 } }
  }

  /// Loads a model and waits for it, at the start.
  ///
  /// - Throws: in the loader's words.
  package func preload(_ name: String) throws {
    state.update { $0.isStarting = true }
    defer { state.update { $0.isStarting = false } }
    if case .failure(let failure) = obtain(try find(name)) { throw PreloadError(failure: failure) }
  }

  private func find(_ name: String) throws(APIError) -> ModelSource {
    if let source = catalog.resolve(name) { return source }
    // Loaded, though its folder has gone: it is served as long as it stays.
    let held = state.withLock { state in
      state.entry(name).flatMap { $0.available == nil ? nil : $0.source }
    }
    guard let held else { throw notFound(name) }
    return held
  }

  private func notFound(_ name: String) -> APIError {
    .modelNotFound(name, known: allNames + catalog.aliasNames)
  }

  private func lease(_ source: ModelSource) throws(APIError) -> ModelLease {
    switch obtain(source) {
    case .success(let lease): return lease
    case .failure(let failure): throw APIError(failure)
    }
  }

  private func obtain(_ source: ModelSource) -> Result<ModelLease, ModelFailure> {
    if let lease = state.withLock({ take(source.id, &$0) }) { return .success(lease) }
    let attempts = state.update { state in
      state.update(source) { entry in
        entry.source = source
        entry.want(at: .now, patience: settings.roomSeconds)
        return entry.attempts
      }
    }
    let deadline = Instant.now.adding(seconds: settings.loadSeconds)
    let result: Result<ModelLease, ModelFailure>? = state.wait(until: deadline) { state in
      if let lease = take(source.id, &state) { return .success(lease) }
      if state.isDraining || state.isStopped { return .failure(.shuttingDown) }
      guard let entry = state.entry(source.id) else { return nil }
      if entry.attempts > attempts, let failure = entry.failure { return .failure(failure) }
      // Where it was loaded and has gone again meanwhile.
      state.update(source) { $0.want(at: .now, patience: settings.roomSeconds) }
      return nil
    }
    return result ?? .failure(.tooSlow(source, seconds: settings.loadSeconds))
  }

  /// - Parameter countsAsUse: whether it keeps the model from being idle.
  private func take(_ id: String, _ state: inout FleetState, countsAsUse: Bool = true) -> ModelLease? {
    guard let model = state.entry(id)?.available else { return nil }
    state.update(id) { $0.uses += 1 }
    return ModelLease(model.loaded) { [monitor = self.state] in
      let isLast =
        monitor.withLock { state in
          state.update(id) { entry in
            entry.uses -= 1
            if countsAsUse { entry.lastUse = .now }
            return entry.uses == 0
          }
        } ?? false
      // Others wait for nothing else.
      if isLast { monitor.update { _ in } }
    }
  }

  /// Leases of all models that are loaded now, in the order of the list, to look at them: asking what there is keeps no
  /// model from being idle.
  func leaseLoaded() -> [ModelLease] {
    let ids = catalog.sources.map(\.id)
    return state.withLock { state in ids.compactMap { take($0, &state, countsAsUse: false) } }
  }

  // MARK: For operators

  /// What is known of a model.
  struct Status {
    let source: ModelSource
    /// The adapter that is meant with it.
    var adapter: String?
    let aliases: [String]
    /// `unloaded`, `loading` or `loaded`.
    let value: String
    /// The part of its weights that is there, from 0 to 1; nil unless it is being loaded.
    let progress: Double?
    /// What the last attempt to load it ended with.
    let failure: String?
    let isPinned: Bool
    /// Nil unless it is loaded.
    let model: ResidentModel?
  }

  func status(of name: String) throws(APIError) -> Status {
    guard let (source, adapter) = adapted(name) else { return status(try find(name)) }
    guard let found = adaptedStatuses(status(source)).first(where: { $0.adapter == adapter }) else {
      throw notFound(name)
    }
    return found
  }

  var statuses: [Status] { catalog.sources.map(status) }

  /// A model with each of its adapters.
  func adaptedStatuses(_ status: Status) -> [Status] {
    adapterNames(of: status.source).map { name in
      Status(
        source: status.source, adapter: name, aliases: catalog.aliases(of: status.source.id + ":" + name),
        value: status.value, progress: status.progress, failure: status.failure, isPinned: status.isPinned,
        model: status.model)
    }
  }

  private func status(_ source: ModelSource) -> Status {
    let entry = state.withLock { $0.entry(source.id) }
    let value = entry?.status ?? "unloaded"
    var progress: Double?
    if case .loading(let told) = entry?.phase { progress = told.part }
    return Status(
      source: source, aliases: catalog.aliases(of: source.id), value: value, progress: progress,
      failure: value == "unloaded" ? entry?.failure?.reason : nil, isPinned: isPinned(source.id),
      model: entry?.available)
  }

  private func isPinned(_ id: String) -> Bool {
    settings.pinned.contains { $0.utf8.elementsEqual(id.utf8) }
  }

  /// Begins to load a model, without waiting.
  ///
  /// - Returns: whether it is loaded already.
  func beginLoading(_ name: String) throws(APIError) -> Bool {
    let source = try find(name)
    let isReady = state.update { state -> Bool? in
      guard !state.isDraining else { return nil }
      return state.update(source) { entry in
        entry.source = source
        entry.stay()
        entry.want(at: .now, patience: settings.roomSeconds)
        return entry.available != nil
      }
    }
    guard let isReady else { throw .shuttingDown }
    return isReady
  }

  /// Unloads a model as soon as nobody uses it; waits a moment for that.
  ///
  /// - Returns: whether it is unloaded now.
  func beginUnloading(_ name: String, seconds: Double) throws(APIError) -> Bool {
    let source = try find(name)
    guard !isFixed else { throw .modelHeld(source.id) }
    state.update { state in state.update(source.id) { $0.leave() } }
    let isGone: Bool? = state.wait(until: Instant.now.adding(seconds: seconds)) { state in
      switch state.entry(source.id)?.phase {
      case .unloaded, nil: true
      case .loading, .loaded, .leaving: nil
      }
    }
    return isGone ?? false
  }

  /// Says how long a model stays when nobody uses it, until it is unloaded. One that was loaded to stay does.
  func keep(_ id: String, _ time: KeepAlive) {
    guard !isFixed, !isPinned(id) else { return }
    state.update { state in
      state.update(id) { entry in
        switch time {
        case .forever: entry.idleSeconds = .infinity
        case .seconds(0): entry.leave()
        case .seconds(let seconds): entry.idleSeconds = seconds
        }
      }
    }
  }

  /// How long a model stays if nobody uses it from now on; nil for one that stays.
  func secondsLeft(of id: String) -> Double? {
    guard !isFixed, !isPinned(id), let entry = state.withLock({ $0.entry(id) }) else { return nil }
    let idle = entry.idleSeconds ?? settings.idleSeconds
    guard idle > 0, idle.isFinite else { return nil }
    return entry.uses > 0 ? idle : max(0, idle - Instant.now.seconds(since: entry.lastUse))
  }

  /// What the engine of a model has done; nothing where the model is not loaded.
  package func statistics(of name: String) -> EngineStatistics {
    let model = catalog.resolve(name).flatMap { source in state.withLock { $0.entry(source.id)?.available } }
    return model?.statistics() ?? EngineStatistics()
  }

  // MARK: For those who follow

  /// How many changes there have been.
  var changeCount: Int { state.withLock { $0.changes.count } }

  /// Changes from a number on, as soon as there are some, and the number after them; none when some time has passed, nil
  /// when the server ends.
  func changes(since number: Int, seconds: Double) -> (changes: [ModelChange], count: Int)? {
    let found: (changes: [ModelChange], count: Int, isEnding: Bool)? = state.wait(
      until: Instant.now.adding(seconds: seconds)
    ) { state in
      let isEnding = state.isDraining || state.isStopped
      guard isEnding || state.changes.count > number else { return nil }
      return (state.changes.since(number), state.changes.count, isEnding)
    }
    guard let found else { return ([], number) }
    return found.isEnding ? nil : (found.changes, found.count)
  }

  /// Tells those who follow how much of a model is here.
  func noteDownload(of model: String, _ files: [ModelChange.File]) {
    state.update { $0.changes.append(ModelChange(model: model, kind: .download(files))) }
  }

  // MARK: The end

  /// Loads nothing more; engines take no new requests.
  package func drain() {
    let models = state.update { state in
      state.isDraining = true
      return state.loadedModels.map(\.model)
    }
    for model in models { model.drain() }
  }

  /// Ends the keeper and all engines. Call once.
  package func stop() {
    ledger.onShortage(nil)
    ledger.onMeasurement(nil)
    state.update { $0.isStopped = true }
    let thread = keeper.withLock { $0 }
    thread?.join()
    let models = state.withLock { $0.loadedModels.map(\.model) }
    for model in models { model.stop() }
  }

  // MARK: The keeper

  private func keep() {
    var trimmed = Instant.now
    while true {
      // What requests have left in the heap, in many small pieces, is given back when the last has gone.
      if let rest = state.withLock({ $0.restSince }), rest > trimmed,
        Instant.now.seconds(since: rest) >= settings.tick
      {
        Machine.trimHeap()
        trimmed = .now
      }
      observe()
      relieve()
      let next = Instant.now.adding(seconds: settings.tick)
      let task: FleetState.Chore? = state.wait(until: next) { state in
        state.next(at: .now, idleSeconds: settings.idleSeconds, isPinned: isPinned)
      }
      switch task {
      case .stop: return
      case .load(let source): attempt(source)
      case .unload(let id): unload(id)
      case .makeRoom(let bytes): _ = makeRoom(bytes)
      case nil: break
      }
    }
  }

  /// Loads a model that is wanted: with what memory is left, and again whenever room has been made.
  private func attempt(_ source: ModelSource) {
    let begun = state.update { state -> (bytes: Int, progress: Progress)? in
      state.update(source) { entry in entry.beginLoading().map { (bytes: entry.neededBytes, progress: $0) } }
    }
    guard let begun else { return }
    var needed = begun.bytes
    let begin = Instant.now
    var failure = ModelFailure.noRoom(source, words: "needs memory that other models took meanwhile")
    for _ in 0..<4 {
      if !makeRoom(needed) {
        if waitForRoom(source, needed) { return }
        break
      }
      do {
        let model = try load(source, begun.progress)
        state.update { state in state.update(source) { $0.arrive(model, at: .now) } }
        Log.info(
          "model loaded", ["model": source.id, "ms": "\(Int(Instant.now.seconds(since: begin) * 1e3))"])
        return
      } catch let error as InferenceError {
        failure = ModelFailure(error, source)
        guard let bytes = error.neededBytes, bytes <= ledger.limit else { break }
        needed = bytes
      } catch {
        failure = .broken(source, words: "\(error)")
        break
      }
    }
    // At the start the reason ends the server, which says it.
    if !state.withLock({ $0.isStarting }) {
      Log.warning("model not loaded", ["model": source.id, "error": failure.words])
    }
    let final = failure
    state.update { state in state.update(source) { $0.fail(final) } }
  }

  /// Puts the model back among those that are wanted, until somebody's work ends; false when its time is over.
  private func waitForRoom(_ source: ModelSource, _ needed: Int) -> Bool {
    state.update { state in
      // Nobody works whose end could be waited for.
      guard !state.isDraining, state.loadedModels.contains(where: { $0.uses > 0 }) else { return false }
      return state.update(source) { $0.wait(for: needed, from: .now) }
    }
  }

  /// Sees to it that `bytes` are left: cached keys and values go first, then models that nobody uses, those used
  /// longest ago before the others.
  private func makeRoom(_ bytes: Int) -> Bool {
    while ledger.left < bytes {
      let models = state.withLock { state in state.loadedModels.sorted { $0.lastUse < $1.lastUse } }
      for entry in models where ledger.left < bytes { _ = entry.model.reclaim(bytes - ledger.left) }
      if ledger.left >= bytes { return true }
      guard let victim = models.first(where: { $0.uses == 0 && !isPinned($0.id) }), unload(victim.id) else {
        return false
      }
      observe()
    }
    return true
  }

  /// Has caches give back what was taken beyond the limit by what is only measured.
  private func relieve() {
    let excess = ledger.snapshot().excess
    guard excess > 0 else { return }
    for entry in state.withLock({ $0.loadedModels }) where entry.model.reclaim(excess) >= excess { return }
  }

  /// False when somebody uses the model after all.
  @discardableResult
  private func unload(_ id: String) -> Bool {
    guard stopModel(id) else { return false }
    // What the model held is free now, but for what the heap keeps.
    Machine.trimHeap()
    state.update { state in state.update(id) { $0.endLeaving() } }
    Log.info("model unloaded", ["model": id])
    return true
  }

  /// Nothing refers to the model when this returns.
  private func stopModel(_ id: String) -> Bool {
    let found = state.update { state in state.update(id) { $0.depart() } }
    guard let model = found ?? nil else { return false }
    model.stop()
    return true
  }

  /// Measures what is not reserved beforehand, so that `ledger.snapshot()` tells what is now.
  package func observe() {
    let models = state.withLock { $0.loadedModels.map(\.model) }
    settings.observe(models, besides: gauges.withLock { $0 }.map { ($0.kind, $0.bytes()) })
  }
}

/// The right to use a model: while it is held, the model is not unloaded.
package final class ModelLease: Sendable {
  package let model: LoadedModel
  private let end: @Sendable () -> Void

  init(_ model: LoadedModel, end: @escaping @Sendable () -> Void) {
    (self.model, self.end) = (model, end)
  }

  /// The same right, with one of the model's adapters; nil where it has none of that name.
  func adapted(by name: String) -> ModelLease? {
    guard var adapted = model.adapted.first(where: { $0.adapter?.name == name }) else { return nil }
    adapted.id = model.id + ":" + name
    return ModelLease(adapted) { withExtendedLifetime(self) {} }
  }

  deinit { end() }
}
