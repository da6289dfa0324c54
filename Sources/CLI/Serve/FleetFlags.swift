// From the flags of `serve` to the models that it may load.

import Checkpoint
import Compute
import Hub
import Inference
import Pipeline
import Platform
import Server

struct FleetFlags {
  /// Of the machine's memory, or of its control group's, that is used unless told otherwise: others need some too.
  private static let usualShare = 90
  /// How long a running engine may take to give memory back, seconds.
  private static let reclaimSeconds = 2.0

  let catalog: ModelCatalog
  /// Ids of models that are loaded at the start.
  let first: [String]
  private let flags: ParsedFlags
  let ledger: MemoryLedger

  /// The account that all memory is on.
  static func ledger(_ flags: ParsedFlags) throws(UsageError) -> MemoryLedger {
    let whole = MemoryLimit.bytes
    let size = flags[.memory] ?? "\(usualShare)%"
    guard let limit = MemoryLimit.parse(size, of: whole) else {
      throw .badValue(
        flag: "memory", value: size, expected: "a size such as 6G or 800M, or a share such as 70%")
    }
    return MemoryLedger(limit: limit, slack: MemoryLedger.slack(of: limit))
  }

  init(_ flags: ParsedFlags, ledger: MemoryLedger? = nil) throws {
    self.flags = flags
    self.ledger = try ledger ?? Self.ledger(flags)
    let named = try Self.sources(flags)
    let aliases = try flags.texts(.alias).map { text in
      let parts = Self.pair(text)
      guard let name = parts.name else {
        throw UsageError.badValue(flag: "alias", value: text, expected: "NAME=MODEL")
      }
      return ModelCatalog.Alias(name: name, model: parts.value)
    }
    let adapters = try flags.texts(.adapter).map { try Self.adapter($0) }
    // Without a name all that the cache holds is served, each model when it is asked for.
    let servesCache = flags[.allowPull] || (named.isEmpty && !flags.isSet(.modelsDir))
    catalog = try ModelCatalog(
      named: named, folder: flags[.modelsDir], aliases: aliases, adapters: adapters,
      hub: servesCache ? try flags.hubSettings() : nil)
    var first = named.prefix(1).map(\.id)
    for name in flags.texts(.preload) {
      guard let source = catalog.resolve(name) else {
        throw UsageError.badValue(
          flag: "preload", value: name,
          expected: "one of " + catalog.sources.map(\.id).joined(separator: ", "))
      }
      if !first.contains(where: { $0.utf8.elementsEqual(source.id.utf8) }) { first.append(source.id) }
    }
    self.first = first
    // A wrong path is told before anybody can connect.
    for id in first { if let source = catalog.resolve(id) { _ = try ModelFolder.check(source.path) } }
  }

  /// Starts the fleet and loads what is to be there from the start.
  ///
  /// - Parameter server: says how far that is.
  func start(_ server: Host) throws -> ModelFleet {
    var settings = ModelFleet.Settings()
    settings.ledger = ledger
    settings.idleSeconds = Double(flags[.idleUnload] ?? 0)
    settings.pinned = flags.texts(.preload).compactMap { catalog.resolve($0)?.id }
    settings.scratchBytes = { EngineClient.scratchBytes }
    settings.copiedWeightBytes = { EngineClient.copiedWeightBytes }
    var common = try Loading.engineConfiguration(flags, path: "")
    common.ledger = ledger
    common.compute = try EngineClient.makeCompute(common)
    let fleet = try ModelFleet(catalog, settings: settings) { [common, catalog] source, progress in
      var configuration = common
      configuration.adapters = catalog.adapters(of: source)
      configuration.modelPath = source.path
      configuration.progress = progress
      server.follow(progress)
      let (loaded, engine) = try LoadedModel.open(configuration, id: source.id)
      var model = ResidentModel(loaded)
      model.weightBytes = engine.weightBytes
      model.touchedBytes = { engine.touchedBytes }
      model.reclaim = { engine.reclaim($0, seconds: Self.reclaimSeconds) }
      model.statistics = { engine.statistics }
      model.drain = { engine.drain() }
      // As long as it is loaded, nobody removes it from the cache.
      let lock = HubCache.hold(source.path)
      model.stop = {
        engine.stop()
        withExtendedLifetime(lock) {}
      }
      Log.info(
        "compute",
        [
          "model": source.id, "compute": engine.computeName, "max_context": "\(engine.contextTokens)",
        ])
      return model
    }
    for id in first {
      do {
        try Terminal.showingProgress("loading \(id)") { try fleet.preload(id) }
      } catch {
        fleet.stop()
        throw error
      }
    }
    return fleet
  }

  // MARK: Names

  private static func sources(_ flags: ParsedFlags) throws -> [ModelSource] {
    let given = flags.texts(.model)
    if given.isEmpty, !flags.isSet(.modelsDir), !flags[.allowPull],
      ModelLocator.here(try flags.hubSettings()).isEmpty
    {
      throw UsageError.noModel(here: [])
    }
    return try given.enumerated().map { index, text in
      let given = source(text)
      let path = try ModelLocator.folder(given.path, flags)
      let name = given.name ?? (index == 0 ? flags[.modelId] : nil)
      return ModelSource(
        id: name ?? ModelFolder.modelName((try? ModelFolder.check(path)) ?? path), path: path)
    }
  }

  /// What a value of `--adapter` says: `DIR`, `NAME=DIR` or `MODEL:NAME=DIR`.
  static func adapter(_ text: String) throws -> ModelCatalog.Adapter {
    let isPath = File.exists(text)
    let parts: (name: String?, value: String) = isPath ? (nil, text) : pair(text)
    guard AdapterFolder.isAdapter(parts.value) else {
      throw UsageError.badValue(
        flag: "adapter", value: text,
        expected: "a folder with an \(AdapterFolder.configName), perhaps after NAME=")
    }
    let name = parts.name ?? ModelFolder.modelName(parts.value)
    guard let colon = name.lastIndex(of: ":") else {
      return .init(model: nil, source: AdapterSource(name: name, path: parts.value))
    }
    return .init(
      model: String(name[..<colon]),
      source: AdapterSource(name: String(name[name.index(after: colon)...]), path: parts.value))
  }

  /// What a value of `--model` says. A path may hold an equals sign.
  static func source(_ text: String) -> (name: String?, path: String) {
    if File.exists(text) { return (nil, text) }
    let parts = pair(text)
    return (parts.name, parts.value)
  }

  /// `a=b`; without an equals sign all of it is the value.
  private static func pair(_ text: String) -> (name: String?, value: String) {
    let parts = text.utf8.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      .map { String(decoding: $0, as: UTF8.self) }
    return parts.count == 2 ? (parts[0], parts[1]) : (nil, text)
  }
}
