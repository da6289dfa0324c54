// GET /models/sse: what happens to the models, as events of a stream, for clients of llama.cpp's router.

import HTTP
import JSON
import Platform
import Wire

struct ModelEventsRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = ModelEventsRoute(server: server)
    return RouteTable(
      .openAI,
      [
        .get(
          "/models/sse", "modelEvents", "What happens to the models, as llama.cpp's router tells it",
          route.follow
        ) { $0.contentType = "text/event-stream" }
      ])
  }

  /// Changes from now on, until the client leaves or the server ends.
  private func follow(_ http: Request, _: ConnectionContext) -> Response {
    let models = server.models
    let silence = server.settings.keepAliveSeconds
    // From the request on, not from when the stream is first written.
    let begin = models.changeCount
    return .events { stream in
      // The head, before anything happens.
      try stream.keepAlive()
      var seen = begin
      while !stream.isClientGone(), let (changes, count) = models.changes(since: seen, seconds: silence) {
        for change in changes { try stream.send(change.json.text) }
        if changes.isEmpty { try stream.keepAlive() }
        seen = count
      }
      stream.writer.finish()
    }
  }
}

extension ModelChange {
  var json: JSONValue {
    switch kind {
    case .status(let status, let failed):
      var data: [(String, JSONValue)] = [("status", .string(status))]
      // As of a process that has ended badly: clients look at nothing else.
      if failed { data.append(("exit_code", 1)) }
      return ["model": .string(model), "event": "model_status", "data": .object(JSONObject(data))]
    case .download(let files):
      let members = files.map { file -> (String, JSONValue) in
        (file.path, ["done": .int(file.done), "total": .int(file.total)])
      }
      return ["model": .string(model), "event": "download_progress", "data": .object(JSONObject(members))]
    }
  }
}
