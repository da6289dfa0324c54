// What the fleet knows of each model; pure, but for the clock's readings that it is given.

import JSON
import Platform

/// Lives in a `Monitor`.
struct FleetState {
  enum Phase {
    case unloaded
    case loading(Progress)
    case loaded(ResidentModel)
    case leaving
  }

  enum Chore {
    case load(ModelSource)
    case unload(String)
    case makeRoom(Int)
    case stop
  }

  struct Entry {
    var source: ModelSource
    private(set) var phase = Phase.unloaded
    /// Leases that are held.
    var uses = 0
    /// How long it stays without requests, seconds; nil for what holds for all.
    var idleSeconds: Double?
    /// When it was wanted, loaded or used last.
    var lastUse = Instant(nanoseconds: 0)
    /// Since when somebody waits for it.
    private(set) var wantedSince: Instant?
    /// Until when it may wait for memory, how much, and when it looks again.
    private var patience = Instant(nanoseconds: 0)
    private(set) var neededBytes = 0
    private var retry: Instant?
    /// To be unloaded by request: nobody gets it any more, and it goes with the last who has it.
    private(set) var isLeaving = false
    /// Attempts to load it that have ended, and how the last one did unless it succeeded.
    private(set) var attempts = 0
    private(set) var failure: ModelFailure?

    init(_ source: ModelSource) { self.source = source }

    var isWanted: Bool { wantedSince != nil }

    /// `unloaded`, `loading` or `loaded`.
    var status: String {
      switch phase {
      case .loaded, .leaving: "loaded"
      case .loading: "loading"
      case .unloaded: isWanted ? "loading" : "unloaded"
      }
    }

    /// The model, if it can be had.
    var available: ResidentModel? {
      if case .loaded(let model) = phase, !isLeaving { model } else { nil }
    }

    /// - Parameter seconds: how long it may wait for memory.
    mutating func want(at now: Instant, patience seconds: Double) {
      guard wantedSince == nil, available == nil else { return }
      wantedSince = now
      lastUse = now
      patience = now.adding(seconds: seconds)
      retry = nil
    }

    /// - Returns: what the loader tells how far it is; nil where the model is not to be loaded now.
    mutating func beginLoading() -> Progress? {
      guard isWanted, case .unloaded = phase else { return nil }
      let progress = Progress()
      phase = .loading(progress)
      return progress
    }

    mutating func arrive(_ model: ResidentModel, at now: Instant) {
      phase = .loaded(model)
      lastUse = now
      end(nil)
    }

    mutating func fail(_ failure: ModelFailure) {
      phase = .unloaded
      isLeaving = false
      end(failure)
    }

    private mutating func end(_ failure: ModelFailure?) {
      wantedSince = nil
      neededBytes = 0
      attempts += 1
      self.failure = failure
    }

    /// Looks for memory again a little later; false when there is no time left for that.
    mutating func wait(for bytes: Int, from now: Instant) -> Bool {
      guard now < patience else { return false }
      phase = .unloaded
      neededBytes = bytes
      retry = now.adding(seconds: 0.2)
      return true
    }

    func isDue(at now: Instant) -> Bool {
      guard isWanted, case .unloaded = phase else { return false }
      return retry.map { $0 <= now } ?? true
    }

    mutating func leave() {
      switch phase {
      case .loaded, .loading: isLeaving = true
      case .unloaded, .leaving: break
      }
    }

    /// Takes a wish to unload it back.
    mutating func stay() {
      isLeaving = false
      if available != nil { wantedSince = nil }
    }

    /// Takes the model out, to be stopped; nil when somebody uses it.
    mutating func depart() -> ResidentModel? {
      guard uses == 0, case .loaded(let model) = phase else { return nil }
      isLeaving = false
      phase = .leaving
      return model
    }

    mutating func endLeaving() {
      phase = .unloaded
      idleSeconds = nil
    }
  }

  private var entries: [ByteKey: Entry] = [:]
  /// What those see who follow the fleet.
  var changes = ModelChanges()
  /// Bytes that a running engine asks for.
  var shortage = 0
  /// Models are loaded before anybody can ask for them.
  var isStarting = false
  var isDraining = false
  var isStopped = false

  func entry(_ id: String) -> Entry? { entries[ByteKey(id)] }

  /// Changes the entry of a model, which is made if it must be.
  @discardableResult
  mutating func update<Result>(_ source: ModelSource, _ change: (inout Entry) -> Result) -> Result {
    let key = ByteKey(source.id)
    let before = entries[key]?.status ?? "unloaded"
    defer { noteStatus(of: key, before) }
    return change(&entries[key, default: Entry(source)])
  }

  /// Changes the entry of a model if there is one.
  @discardableResult
  mutating func update<Result>(_ id: String, _ change: (inout Entry) -> Result) -> Result? {
    let key = ByteKey(id)
    guard var entry = entries.removeValue(forKey: key) else { return nil }
    let before = entry.status
    defer {
      entries[key] = entry
      noteStatus(of: key, before)
    }
    return change(&entry)
  }

  private mutating func noteStatus(of key: ByteKey, _ before: String) {
    guard let entry = entries[key], entry.status != before else { return }
    let failed = entry.status == "unloaded" && entry.failure != nil
    changes.append(ModelChange(model: entry.source.id, kind: .status(entry.status, failed: failed)))
  }

  /// The loaded models, and who uses them.
  var loadedModels: [(id: String, model: ResidentModel, uses: Int, lastUse: Instant)] {
    entries.values.compactMap { entry in
      guard case .loaded(let model) = entry.phase else { return nil }
      return (entry.source.id, model, entry.uses, entry.lastUse)
    }
  }

  /// Since when no model has been in use; nil while one is.
  var restSince: Instant? {
    guard entries.values.allSatisfy({ $0.uses == 0 }) else { return nil }
    return entries.values.map(\.lastUse).max()
  }

  /// What the keeper does next; nil when there is nothing to do.
  mutating func next(at now: Instant, idleSeconds: Double, isPinned: (String) -> Bool) -> Chore? {
    if isStopped { return .stop }
    if shortage > 0 {
      defer { shortage = 0 }
      return .makeRoom(shortage)
    }
    for entry in entries.values where entry.uses == 0 {
      guard case .loaded = entry.phase else { continue }
      if entry.isLeaving { return .unload(entry.source.id) }
      let idleSeconds = entry.idleSeconds ?? idleSeconds
      if idleSeconds > 0, !isPinned(entry.source.id), now.seconds(since: entry.lastUse) >= idleSeconds {
        return .unload(entry.source.id)
      }
    }
    guard !isDraining else { return nil }
    let due = entries.values.filter { $0.isDue(at: now) }
    // The one that has waited longest comes first.
    let first = due.min { ($0.wantedSince ?? now) < ($1.wantedSince ?? now) }
    return first.map { .load($0.source) }
  }
}
