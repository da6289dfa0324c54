// `mlxserve serve`: load the models, listen, say so on one line, and leave politely.

import HTTP
import JSON
import Platform
import Server

enum ServeCommand {
  /// Time that running answers get to finish after the first signal, seconds.
  private static let drainSeconds = 30.0
  /// What responses in the background get beyond that.
  private static let backgroundSeconds = 5.0

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let isJSON = flags.isSet("json-log")
    Log.configure(level: flags.text("log-level").flatMap(Log.Level.init(name:)) ?? .info, json: isJSON)
    let begin = Instant.now
    let host = flags.text("host") ?? "127.0.0.1"
    try checkTestHooks(flags, host: host)
    let models = try FleetFlags(flags)
    let fleet = try models.start()
    let id = models.first.first ?? models.catalog.sources.first?.id ?? ""
    var settings = App.Settings()
    settings.started = Int(Instant.wallSeconds)
    settings.reasoningField = flags.text("reasoning-field") ?? settings.reasoningField
    settings.version = CommandLineTool.version
    settings.strictParameters = flags.isSet("strict-params")
    settings.responsesReasoningEvents =
      flags.text("responses-reasoning-events") ?? settings.responsesReasoningEvents
    settings.dropsUnknownTools = flags.isSet("drop-unknown-tools")
    settings.store = try makeStore(flags)
    if flags.isSet("test-hooks") {
      settings.engineStatistics = { fleet.statistics(of: id) }
      Log.warning("test hooks are on", ["route": "/debug/state"])
    }
    let app = App(fleet, settings: settings)
    var limits = Limits()
    limits.connections = flags.integer("max-connections") ?? 1024
    let listener = try Listener(
      app.listenerConfiguration(host: host, port: flags.integer("port") ?? 8080, limits: limits)
    ) { request, context in app.respond(to: request, context) }
    let endpoints = try listener.start()
    try leaveOnSignals(listener, fleet)

    let port = endpoints.first?.port ?? 0
    Log.info(
      "ready",
      [
        "model": id, "seconds": fixed(Instant.now.seconds(since: begin), 3),
        "models": "\(models.catalog.sources.count)", "memory": MemoryLimit.words(fleet.settings.ledger.limit),
      ])
    announce(host: host, port: port, modelID: id, asJSON: isJSON)
    if flags.isSet("examples") { Terminal.printError(examples(host: host, port: port, modelID: id)) }
    listener.waitUntilStopped()
    app.finish(seconds: backgroundSeconds)
    fleet.stop()
    Log.info("stopped")
    return 0
  }

  /// What the hooks tell is nobody's business but this machine's.
  private static func checkTestHooks(_ flags: ParsedFlags, host: String) throws(UsageError) {
    guard flags.isSet("test-hooks") else {
      if flags.isSet("step-delay-ms") {
        throw .unusable(flag: "step-delay-ms", reason: "needs --test-hooks")
      }
      return
    }
    guard ["127.0.0.1", "::1", "localhost"].contains(host) else {
      throw .unusable(flag: "test-hooks", reason: "needs a loopback address, and --host is \(host)")
    }
  }

  private static func makeStore(_ flags: ParsedFlags) throws -> ResponseStore {
    var settings = ResponseStore.Settings()
    settings.folder = flags.text("state-dir")
    settings.count = flags.integer("store-responses") ?? settings.count
    return try ResponseStore(settings)
  }

  /// The first signal lets running answers finish, the second ends the process.
  private static func leaveOnSignals(_ listener: Listener, _ fleet: ModelFleet) throws {
    Signals.ignore([SIGUSR1, SIGUSR2])
    try Signals.onTermination { count, signal in
      guard count == 1 else { exit(128 + signal) }
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

  /// The one line on standard output that scripts wait for.
  private static func announce(host: String, port: Int, modelID: String, asJSON: Bool) {
    let base = baseURL(host: host, port: port)
    guard asJSON else {
      Terminal.print("mlxserve listening on \(base) (\(modelID))")
      return
    }
    let line: JSONValue = [
      "event": "listening", "host": .string(host), "port": .int(port), "base_url": .string(base),
      "model_id": .string(modelID),
    ]
    Terminal.print(line.text)
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
