// POST /models/pull: fetches a model from the hub, and tells how far it is as events of a stream.

import HTTP
import Hub
import JSON
import OpenAI
import Platform

/// A stranger must not fill the disk: the route works where the operator allows it.
struct PullRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = PullRoute(server: server)
    return RouteTable(.openAI, [Route("POST", "/models/pull", for: .admins, route.pull)])
  }

  private func pull(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let request = try ModelRequest(http.jsonBody(context.memory))
    try server.checkUnknown(request.ignored)
    guard let settings = server.settings.hub else {
      throw APIError(
        status: 403, type: "invalid_request_error", code: "pull_not_allowed",
        message: "This server downloads no models; it was started without --allow-pull.")
    }
    var download: DownloadRequest
    do throws(HubError) {
      download = DownloadRequest(try ModelReference(request.model, host: settings.host))
    } catch {
      throw .invalidValue("model", String(describing: error))
    }
    download.judge = server.settings.judge
    download.memoryLimit = server.models.settings.ledger.limit
    // The hub's list of files, as it comes and as values.
    try claim(64 << 20, of: context.memory)
    let work = ModelDownload(download, settings: settings)
    let silence = server.settings.keepAliveSeconds
    var response = Response.events { stream in try Self.send(work, to: stream, silence: silence) }
    response.nameIgnored(request.ignored)
    return response
  }

  /// The events of `mlxserve pull --json`. A client that leaves ends the download; what has come stays for the next.
  private static func send(_ work: ModelDownload, to stream: EventStream, silence: Double) throws {
    var isGone = false
    var last: DownloadEvent?
    var next = Instant.now
    do throws(HubError) {
      _ = try work.run(
        isUnwanted: {
          isGone = isGone || stream.isClientGone()
          return isGone
        },
        report: { event in
          if case .done = event {
            last = event
            return
          }
          // Progress comes ten times a second; a client needs less.
          if case .progress = event {
            guard Instant.now >= next else { return }
            next = Instant.now.adding(seconds: silence / 2)
          }
          if (try? stream.send(event.json.text)) == nil { isGone = true }
        })
      if let last { stream.finish(last.json.text) }
    } catch {
      let event: JSONValue = ["event": "error", "message": .string(String(describing: error))]
      stream.finishWithError(event.text)
    }
  }
}
