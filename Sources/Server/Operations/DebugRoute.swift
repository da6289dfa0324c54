// GET /debug/prompts: which clients' prompts move. GET /debug/state, with --test-hooks only: what the server holds now, for
// tests that look for leaks.

import HTTP
import Inference
import JSON
import Platform

enum DebugRoute {
  static func table(_ server: ServerContext) -> RouteTable {
    let metrics = server.settings.metrics
    let prompts = Route.get(
      "/debug/prompts", "movingPrompts", "Where prompts of clients change in front of what was sent before",
      for: .admins, { _, _ in respond(metrics.prompts.found) })
    let state = server.settings.engineStatistics.map { statistics in
      Route.get("/debug/state", nil, for: .admins, { _, _ in respond(statistics()) })
    }
    return RouteTable(.openAI, [prompts] + [state].compactMap(\.self))
  }

  private static func respond(_ found: [MovingPrompt]) -> Response {
    Response(json: [
      "prompts": .array(
        found.map { prompt in
          [
            "client": .string(prompt.client), "model": .string(prompt.model), "token": .int(prompt.position),
            "prompt_tokens": .int(prompt.promptTokens), "read_again": .int(prompt.repeated),
            "count": .int(prompt.count), "before": .string(prompt.before), "was": .string(prompt.was),
            "now": .string(prompt.now), "after": .string(prompt.after),
          ]
        })
    ])
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
