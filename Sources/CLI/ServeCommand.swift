// `mlxserve serve`: load the models, listen, say so on one line, and leave politely.

import Fetch
import HTTP
import JSON
import Media
import Platform
import Server

enum ServeCommand {
  /// What responses in the background get to end, beyond the `--drain-seconds` of those that a client waits for.
  private static let backgroundSeconds = 5.0
  /// What connections get when there is nothing to wait for.
  private static let stopSeconds = 0.1

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let isJSON = flags.isSet("json-log")
    Log.configure(level: flags.text("log-level").flatMap(Log.Level.init(name:)) ?? .info, json: isJSON)
    let begin = Instant.now
    // What is wrong with the flags is told before anybody can connect.
    try checkTestHooks(flags)
    _ = try Loading.mediaOptions(flags)
    _ = try ServeSetup.mediaRoot(flags)
    _ = try ServeSetup.mediaURLs(flags)
    let models = try FleetFlags(flags)
    let id = models.first.first ?? models.catalog.sources.first?.id ?? ""
    let access = try ServeSetup.access(flags)
    let metrics = Metrics()
    let door = FrontDoor(access: access, metrics: metrics)
    var configuration = try ServeSetup.listener(flags, door)
    configuration.ledger = models.ledger
    let listener = try Listener(configuration) { request, context in door.respond(to: request, context) }
    // From here on clients are told that the models are loading.
    let endpoints = try listener.start()
    let running = Monitor<ModelFleet?>(nil)
    try leaveOnSignals(listener, running, access, flags)
    let (app, fleet) = try load(models, id, flags, metrics, elseStop: listener)
    running.withLock { $0 = fleet }
    door.open(app)

    Log.info(
      "ready",
      [
        "model": id, "seconds": fixed(Instant.now.seconds(since: begin), 3),
        "models": "\(models.catalog.sources.count)", "memory": MemoryLimit.words(fleet.settings.ledger.limit),
      ])
    let host = ServeSetup.host(flags)
    announce(endpoints, host: host, modelID: id, asJSON: isJSON)
    if flags.isSet("examples"), let port = endpoints.first(where: { $0.path == nil })?.port {
      Terminal.printError(examples(host: host, port: port, modelID: id))
    }
    listener.waitUntilStopped()
    app.finish(seconds: backgroundSeconds)
    fleet.stop()
    Log.info("stopped")
    return 0
  }

  private static func load(
    _ models: FleetFlags, _ id: String, _ flags: ParsedFlags, _ metrics: Metrics, elseStop listener: Listener
  ) throws -> (App, ModelFleet) {
    do {
      let fleet = try models.start()
      var settings = try ServeSetup.settings(flags)
      settings.metrics = metrics
      settings.started = Int(Instant.wallSeconds)
      settings.version = CommandLineTool.version
      settings.store = try makeStore(flags)
      if let rules = settings.mediaURLs, rules.program == nil {
        Log.warning("URLs of images cannot be fetched", ["missing": "the program curl"])
      }
      if flags.isSet("test-hooks") {
        settings.engineStatistics = { fleet.statistics(of: id) }
        Log.warning("test hooks are on", ["route": "/debug/state"])
      }
      return (App(fleet, settings: settings), fleet)
    } catch {
      listener.stop(drainSeconds: stopSeconds, graceSeconds: stopSeconds)
      throw error
    }
  }

  /// What the hooks tell is nobody's business but this machine's.
  private static func checkTestHooks(_ flags: ParsedFlags) throws(UsageError) {
    guard flags.isSet("test-hooks") else {
      if flags.isSet("step-delay-ms") {
        throw .unusable(flag: "step-delay-ms", reason: "needs --test-hooks")
      }
      return
    }
    let host = ServeSetup.host(flags)
    guard HostRules.isLoopback(host) else {
      throw .unusable(flag: "test-hooks", reason: "needs a loopback address, and --host is \(host)")
    }
  }

  private static func makeStore(_ flags: ParsedFlags) throws -> ResponseStore {
    var settings = ResponseStore.Settings()
    settings.folder = flags.text("state-dir")
    settings.count = flags.integer("store-responses") ?? settings.count
    return try ResponseStore(settings)
  }

  /// The first signal lets running answers finish, the second ends the process, and so does the first while there is
  /// no model yet. With a key file, SIGHUP reads it again.
  private static func leaveOnSignals(
    _ listener: Listener, _ running: Monitor<ModelFleet?>, _ access: Access, _ flags: ParsedFlags
  ) throws {
    let drainSeconds = flags.decimal("drain-seconds") ?? 30
    Signals.ignore([SIGUSR1, SIGUSR2])
    let keyFile = flags.text("api-key-file")
    let reload: @Sendable () -> Void = { if let keyFile { ServeSetup.reload(access, file: keyFile) } }
    try Signals.onTermination(hangUp: keyFile == nil ? nil : reload) { count, signal in
      guard count == 1 else { exit(128 + signal) }
      guard let fleet = running.withLock({ $0 }) else {
        listener.stop(drainSeconds: stopSeconds, graceSeconds: stopSeconds)
        exit(128 + signal)
      }
      Log.info("draining", ["seconds": fixed(drainSeconds, 0)])
      fleet.drain()
      // Not on this thread: it must hear the second signal.
      let stopper = try? Thread(name: "drain", stackBytes: 256 << 10) {
        _ = listener.stop(drainSeconds: drainSeconds)
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

  static func baseURL(host: String, port: Int) -> String {
    // An IPv6 literal stands in brackets (RFC 3986 section 3.2.2).
    "http://\(host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host):\(port)/v1"
  }

  private static func examples(host: String, port: Int, modelID: String) -> String {
    let reachable = host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host
    let base = baseURL(host: reachable, port: port)
    let id = JSONValue.string(modelID).text
    return """

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
