// GET /debug/state, with --test-hooks only: what the server holds now, for tests that look for leaks.

import HTTP
import Inference
import JSON
import Platform

enum DebugRoute {
  /// Empty without test hooks.
  static func table(_ server: ServerContext) -> RouteTable {
    guard let statistics = server.settings.engineStatistics else {
      return RouteTable(
        .openAI, [])
    }
    return RouteTable(
      .openAI, [.get("/debug/state", nil, for: .admins, { _, _ in respond(statistics()) })])
  }

  private static func respond(_ engine: EngineStatistics) -> Response {
    let usage = ProcessUsage.now
    return Response(json: [
      "slots_busy": .int(engine.running), "slots_total": .int(engine.maxSequences),
      "queue_len": .int(engine.waiting), "kv_pages_total": .int(engine.kvBlocksTotal),
      "kv_pages_used": .int(engine.kvBlocksUsed), "kv_pages_cached": .int(engine.kvBlocksCached),
      "decode_steps_total": .int(engine.steps), "started_total": .int(engine.admitted),
      "fds": .int(usage.descriptors), "threads": .int(usage.threads), "rss": .int(usage.privateBytes),
    ])
  }
}
