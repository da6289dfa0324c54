// POST /models/pull: fetches a model from the hub, and tells how far it is as events of a stream.

import HTTP
import Hub
import JSON
import Platform
import Wire

/// A stranger must not fill the disk: the route works where the operator allows it.
struct PullRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = PullRoute(server: server)
    return RouteTable(
      .openAI,
      [
        .post(
          "/models/pull", "pullModel", "Fetches a model from the hub; progress as events", for: .admins,
          reads: .of(ModelRequest.self), route.pull
        ) { $0.contentType = "text/event-stream" }
      ])
  }

  private func pull(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let request = try server.read(ModelRequest.self, http, context)
    let work = try server.download(request.model, memory: context.memory)
    let silence = server.settings.keepAliveSeconds
    return .events { [server] stream in
      try Self.send(work, to: stream, silence: silence) { server.models.note($0, of: request.model) }
    }
  }

  /// The events of `mlxserve pull --json`. A client that leaves ends the download; what has come stays for the next.
  ///
  /// - Parameter note: gets the events that are sent, but the last.
  private static func send(
    _ work: ModelDownload, to stream: EventStream, silence: Double, note: (DownloadEvent) -> Void
  ) throws {
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
          note(event)
          if (try? stream.send(event.json.text)) == nil { isGone = true }
        })
      if let last { stream.finish(last.json.text) }
    } catch {
      let event: JSONValue = ["event": "error", "message": .string(String(describing: error))]
      stream.finishWithError(event.text)
    }
  }
}

extension ModelFleet {
  /// Tells those who follow the models how far a download is.
  func note(_ event: DownloadEvent, of model: String) {
    guard case .progress(let progress) = event else { return }
    noteDownload(
      of: model,
      progress.parts.map { ModelChange.File(path: $0.path, done: $0.done, total: $0.total) })
  }
}

extension ServerContext {
  /// The download of a model that a request names.
  ///
  /// - Throws: 403 where requests may not have models fetched, 400 for what is no name, 503 for want of memory.
  func download(_ name: String, memory: MemoryLoan?) throws(APIError) -> ModelDownload {
    guard var settings = settings.hub else {
      throw .pullNotAllowed("downloads", "mlxserve pull \(APIError.shortened(name))")
    }
    var download: DownloadRequest
    do throws(HubError) {
      download = DownloadRequest(try ModelReference(name, host: settings.host))
    } catch {
      throw .invalidValue("model", String(describing: error))
    }
    download.judge = self.settings.judge
    download.memoryLimit = models.ledger.limit
    settings.ledger = models.ledger
    // The hub's list of files, as it comes and as values.
    try claim(64 << 20, of: memory)
    return ModelDownload(download, settings: settings)
  }
}

extension APIError {
  /// - Parameter command: what to type instead, on the server's machine.
  static func pullNotAllowed(_ verb: String, _ command: String) -> APIError {
    APIError(
      status: 403, type: "invalid_request_error", code: "pull_not_allowed",
      message:
        "This server \(verb) no models; it was started without --allow-pull. Run '\(command)' on its machine."
    )
  }
}
