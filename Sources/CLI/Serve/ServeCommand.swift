// `mlxserve serve`: load the models, listen, say so on one line, and leave politely.

import Fetch
import HTTP
import JSON
import MCP
import Media
import Platform
import Server

enum ServeCommand {
  /// What responses in the background get to end, beyond the `--drain-seconds` of those that a client waits for.
  private static let backgroundSeconds = 5.0
  /// What connections get when there is nothing to wait for.
  private static let stopSeconds = 0.1

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let isJSON = flags[.jsonLog]
    Log.configure(level: flags[.logLevel].flatMap(Log.Level.init(name:)) ?? .info, json: isJSON)
    let begin = Instant.now
    // What is wrong with the flags is told before anybody can connect.
    try checkTestHooks(flags)
    _ = try ServeSetup.mediaRoot(flags)
    _ = try ServeSetup.mediaURLs(flags)
    PassingFolder.removeAbandoned()
    let descriptors = DescriptorLimit.raise().soft
    let ledger = try FleetFlags.ledger(flags)
    let tools = try flags.toolServers(ledger)
    let missing = try ServeDownload.missing(flags)
    let present = missing.isEmpty ? try FleetFlags(flags, ledger: ledger) : nil
    let access = try ServeSetup.access(flags)
    let metrics = Metrics()
    let server = Host(access: access, metrics: metrics, page: flags[.noUi] ? nil : Page())
    var place = try ServeSetup.place(flags)
    place.ledger = ledger
    let connections = place.limits.connections
    if connections < ServeSetup.wantedConnections(flags) {
      Log.warning(
        "fewer connections than --max-connections",
        [
          "connections": "\(connections)", "descriptors": "\(descriptors)",
          "advice": "raise the hard limit of open files (ulimit -Hn, LimitNOFILE), or ask for fewer",
        ])
    }
    let administration = try ServeSetup.administration(flags)
    // From here on clients are told that the models are coming, or loading.
    let endpoints = try server.listen(place, as: administration == nil ? .only : .clients)
    let adminEndpoints = try administration.map { try server.listen($0, as: .administration) } ?? []
    let running = Monitor<ModelFleet?>(nil)
    try leaveOnSignals(server, running, flags)
    let (models, app, fleet) = try load(
      { try present ?? ServeDownload.run(missing, flags, ledger: ledger, server) }, flags, tools, metrics,
      server)
    let id = Self.id(models)
    running.withLock { $0 = fleet }
    server.open(app)

    Log.info(
      "ready",
      [
        "model": id, "seconds": fixed(Instant.now.seconds(since: begin), 3),
        "models": "\(models.catalog.sources.count)", "memory": MemoryLimit.words(fleet.settings.ledger.limit),
        "connections": "\(connections)", "descriptors": "\(descriptors)",
      ])
    let host = ServeSetup.host(flags)
    let port = endpoints.first { $0.path == nil }?.port
    let page = flags[.noUi] ? nil : port.map { pageAddress(host: host, port: $0) }
    if let page { Log.info("chat page", ["address": page]) }
    announce(endpoints, host: host, modelID: id, asJSON: isJSON)
    let documents = flags[.prefixCacheDir].flatMap { folder in
      port.flatMap { DocumentServer.announce(pageAddress(host: host, port: $0), folder: folder) }
    }
    defer { withExtendedLifetime(documents) {} }
    announceAdministration(adminEndpoints, asJSON: isJSON)
    if flags[.examples], let port {
      Terminal.printError(examples(host: host, port: port, modelID: id, page: page))
    }
    server.waitUntilStopped()
    server.finish(seconds: backgroundSeconds)
    fleet.stop()
    Log.info("stopped")
    return 0
  }

  /// The model that is told at the start; empty when there is none yet.
  private static func id(_ models: FleetFlags) -> String {
    models.first.first ?? models.catalog.sources.first?.id ?? ""
  }

  private static func load(
    _ find: () throws -> FleetFlags, _ flags: ParsedFlags, _ tools: ToolServers?, _ metrics: Metrics,
    _ server: Host
  ) throws -> (FleetFlags, App, ModelFleet) {
    do {
      let models = try find()
      let id = Self.id(models)
      let fleet = try models.start(server)
      var settings = try ServeSetup.settings(flags)
      settings.metrics = metrics
      settings.started = Int(Instant.wallSeconds)
      settings.version = Version.text
      settings.store = try makeStore(flags, memory: models.ledger.limit)
      if flags[.allowPull] { settings.hub = try flags.hubSettings() }
      settings.archive = try makeArchive(flags, memory: models.ledger.limit)
      settings.toolServers = tools
      if let rules = settings.mediaURLs, rules.program == nil {
        Log.warning("URLs of images cannot be fetched", ["missing": "the program curl"])
      }
      if flags[.testHooks] {
        settings.engineStatistics = { fleet.statistics(of: id) }
        Log.warning("test hooks are on", ["route": "/debug/state"])
      }
      return (models, App(fleet, settings: settings), fleet)
    } catch {
      server.stop(drainSeconds: stopSeconds, graceSeconds: stopSeconds)
      throw error
    }
  }

  /// What the hooks tell is nobody's business but this machine's.
  private static func checkTestHooks(_ flags: ParsedFlags) throws(UsageError) {
    guard flags[.testHooks] else {
      if flags.isSet(.stepDelayMs) {
        throw .unusable(flag: "step-delay-ms", reason: "needs --test-hooks")
      }
      return
    }
    let host = ServeSetup.host(flags)
    guard HostRules.isLoopback(host) else {
      throw .unusable(flag: "test-hooks", reason: "needs a loopback address, and --host is \(host)")
    }
  }

  /// Where responses and conversations are. They are in memory too, each kind in a sixteenth of it at most.
  private static func makeStore(_ flags: ParsedFlags, memory: Int) throws -> ResponseStore {
    var settings = ResponseStore.Settings()
    settings.bytes = min(settings.bytes, max(1 << 20, memory / 16))
    settings.folder = flags[.stateDir]
    settings.count = flags[.storeResponses] ?? settings.count
    return try ResponseStore(settings)
  }

  /// Where files and vector stores are: in the state directory, or in a folder that goes with the process.
  private static func makeArchive(_ flags: ParsedFlags, memory: Int) throws -> Archive {
    var settings = Archive.Settings()
    settings.memory = memory
    settings.folder = flags[.stateDir].map { $0 + "/library" }
    settings.embeddingModel = flags[.embeddingModel]
    if let megabytes = flags[.maxFileBytes] { settings.fileBytes = megabytes << 20 }
    if let megabytes = flags[.storage] { settings.bytes = megabytes << 20 }
    if let megabytes = flags[.storagePerKey] { settings.clientBytes = megabytes << 20 }
    settings.searches = flags[.searchSlots] ?? settings.searches
    settings.searchSeconds = flags[.searchTimeout] ?? settings.searchSeconds
    return try Archive(settings)
  }

  /// The first signal lets running answers finish, the second ends the process, and so does the first while there is
  /// no model yet. With a key file, SIGHUP reads it again.
  private static func leaveOnSignals(
    _ server: Host, _ running: Monitor<ModelFleet?>, _ flags: ParsedFlags
  ) throws {
    let drainSeconds = flags[.drainSeconds] ?? 30
    Signals.ignore([SIGUSR1, SIGUSR2])
    let keyFile = flags[.apiKeyFile]
    let hangUp: @Sendable () -> Void = { if let keyFile { ServeSetup.reload(server, file: keyFile) } }
    try Signals.onTermination(hangUp: keyFile == nil ? nil : hangUp) { count, signal in
      guard count == 1 else { exit(128 + signal) }
      guard let fleet = running.withLock({ $0 }) else {
        server.stop(drainSeconds: stopSeconds, graceSeconds: stopSeconds)
        exit(128 + signal)
      }
      Log.info("draining", ["seconds": fixed(drainSeconds, 0)])
      fleet.drain()
      server.leave()
      // Not on this thread: it must hear the second signal.
      let stopper = try? Thread(name: "drain", stackBytes: 256 << 10) {
        server.stop(drainSeconds: drainSeconds)
      }
      guard let stopper else { exit(1) }
      stopper.detach()
    }
  }

  /// The line on standard output that scripts wait for; a second one when there is a Unix socket beside TCP.
  private static func announce(_ endpoints: [Endpoint], host: String, modelID: String, asJSON: Bool) {
    var places: [(text: String, members: [(String, JSONValue)])] = []
    if let port = endpoints.first(where: { $0.path == nil })?.port {
      let base = baseURL(host: host, port: port)
      places.append((base, [("host", .string(host)), ("port", .int(port)), ("base_url", .string(base))]))
    }
    for path in endpoints.compactMap(\.path) {
      places.append(("unix:" + path, [("unix", .string(path))]))
    }
    for place in places {
      let members = [("event", "listening")] + place.members + [("model_id", .string(modelID))]
      Terminal.print(
        asJSON
          ? JSONValue.object(JSONObject(members)).text
          : "mlxserve listening on \(place.text) (\(modelID.isEmpty ? "no model yet" : modelID))")
    }
  }

  /// A line for each place of administration, after those for clients.
  private static func announceAdministration(_ endpoints: [Endpoint], asJSON: Bool) {
    for endpoint in endpoints {
      let place = endpoint.path.map { "unix:" + $0 } ?? "http://\(endpoint)"
      Terminal.print(
        asJSON
          ? JSONValue.object(JSONObject([("event", "administration"), ("place", .string(place))])).text
          : "mlxserve administration on \(place)")
    }
  }

  static func baseURL(host: String, port: Int) -> String {
    "http://\(Endpoint(address: host, port: port))/v1"
  }

  private static func pageAddress(host: String, port: Int) -> String {
    String(baseURL(host: ServeSetup.reachable(host), port: port).dropLast(2))
  }

  private static func examples(host: String, port: Int, modelID: String, page: String?) -> String {
    let base = baseURL(host: ServeSetup.reachable(host), port: port)
    let id = JSONValue.string(modelID).text
    return (page.map { "\n  Chat in a browser: \($0)\n" } ?? "") + """

      Try it:
        curl \(base)/chat/completions -H 'Content-Type: application/json' \\
          -d '{"model": \(id), "messages": [{"role": "user", "content": "Is the capital of France Paris? Answer Yes or No."}]}'

      or with the OpenAI SDK (pip install openai):
        from openai import OpenAI
        client = OpenAI(base_url="\(base)", api_key="none")
        print(client.chat.completions.create(model=\(id), messages=[{"role": "user", "content": "Hello!"}]).choices[0].message.content)

      Ctrl-C ends the server.

      """
  }
}
