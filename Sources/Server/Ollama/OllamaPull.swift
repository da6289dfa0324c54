// POST /api/pull and DELETE /api/delete: models come and go by request, where the operator allows it.

import HTTP
import Hub
import JSON
import Platform
import Wire

struct OllamaPull {
  let server: ServerContext

  /// How long a deletion waits for running work, seconds.
  private static let unloadSeconds = 2.0

  private func name(of body: JSONValue) throws(APIError) -> String {
    let name = try OllamaRequest.model(of: body)
    return name.hasSuffix(":latest") ? String(name.dropLast(7)) : name
  }

  // MARK: Pull

  func pull(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.ollamaBody(context.memory)
    let name = try name(of: body)
    var fields = try Fields(body)
    for known in ["model", "name", "insecure", "username", "password"] { _ = fields.value(known) }
    let streams = try fields.bool("stream") ?? true
    try server.ignore(fields.unread, for: context)
    let work = try server.download(name, memory: context.memory)
    return streams
      ? stream(work, of: name) : try whole(work, of: name, isUnwanted: context.isClientGone)
  }

  private func whole(
    _ work: ModelDownload, of name: String, isUnwanted: () -> Bool
  ) throws(APIError) -> Response {
    do throws(HubError) {
      _ = try work.run(isUnwanted: isUnwanted, report: { server.models.note($0, of: name) })
    } catch {
      throw APIError(status: error.status, code: "pull_failed", message: String(describing: error))
    }
    return Response(json: ["status": "success"])
  }

  private func stream(_ work: ModelDownload, of name: String) -> Response {
    let silence = server.settings.keepAliveSeconds
    return .events(.lines()) { stream in
      var lines = OllamaPullLines(interval: silence / 2)
      var isGone = false
      do throws(HubError) {
        _ = try work.run(
          isUnwanted: {
            isGone = isGone || stream.isClientGone()
            return isGone
          },
          report: { event in
            server.models.note(event, of: name)
            for line in lines.lines(of: event, at: .now) where (try? stream.send(line.bytes)) == nil {
              isGone = true
            }
          })
        stream.finish(#"{"status":"success"}"#)
      } catch {
        let line: JSONValue = ["error": .string(String(describing: error))]
        stream.finishWithError(line.text)
      }
    }
  }

  // MARK: Delete

  func delete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.ollamaBody(context.memory)
    let name = try name(of: body)
    guard let settings = server.settings.hub else { throw .pullNotAllowed("deletes", "mlxserve rm \(name)") }
    let source = try server.models.ollamaModel(name)
    let removal: CacheRemoval
    do throws(HubError) {
      removal = try CacheRemoval(
        try ModelReference(source.id, host: settings.host), in: HubCache(root: settings.cache))
    } catch {
      throw APIError(
        status: 404, code: "model_not_found", param: "model",
        message: "model '\(APIError.shortened(name))' is not in the cache of models: \(error)")
    }
    if try !server.models.beginUnloading(source.id, seconds: Self.unloadSeconds) { throw Self.inUse(name) }
    do throws(HubError) {
      try removal.run()
    } catch {
      if case .inUse = error { throw Self.inUse(name) }
      throw APIError(
        status: 500, type: "server_error", code: "delete_failed", message: String(describing: error))
    }
    return Response(contentType: "application/json", bytes: [])
  }

  private static func inUse(_ name: String) -> APIError {
    APIError(
      status: 409, code: "model_in_use", param: "model",
      message: "model '\(APIError.shortened(name))' is in use; try again when its answers have ended")
  }
}

/// What a download tells, as the lines that Ollama's clients draw bars from.
struct OllamaPullLines {
  /// Least time between two lines of progress, seconds.
  private let interval: Double
  private var plan: DownloadPlan?
  /// The most that was told of each file: bars do not go back.
  private var told: [String: Int] = [:]
  private var next = Instant(nanoseconds: 0)

  init(interval: Double) { self.interval = interval }

  /// The lines that an event makes.
  mutating func lines(of event: DownloadEvent, at now: Instant) -> [JSONValue] {
    switch event {
    case .plan(let plan):
      self.plan = plan
      return [["status": "pulling manifest"]]
        + plan.files.filter(\.isHere).map { line($0.path, done: $0.bytes, total: $0.bytes) }
    case .progress(let progress):
      guard now >= next else { return [] }
      next = now.adding(seconds: interval)
      return progress.parts.filter { $0.phase != .waiting }.map { part in
        line(part.path, done: part.done, total: part.total)
      }
    case .file(let path, let bytes): return [line(path, done: bytes, total: bytes)]
    // What is installed has been verified file by file.
    case .done: return [["status": "verifying sha256 digest"], ["status": "writing manifest"]]
    case .note: return []
    }
  }

  private mutating func line(_ path: String, done: Int, total: Int) -> JSONValue {
    let most = min(total, max(done, told[path] ?? 0))
    told[path] = most
    let digest = plan?.digests[path] ?? ""
    let name = digest.isEmpty ? path : String(digest.prefix(12))
    return [
      "status": .string("pulling \(name)"), "digest": .string("sha256:" + digest), "total": .int(total),
      "completed": .int(most),
    ]
  }
}

extension HubError {
  /// HTTP's, of a request that failed for this reason.
  fileprivate var status: Int {
    switch self {
    case .badName, .unsuitable: 400
    case .notFound, .noRevision, .noFile: 404
    case .gated, .badToken, .forbidden, .disabled: 403
    case .noRoom: 507
    default: 500
    }
  }
}
