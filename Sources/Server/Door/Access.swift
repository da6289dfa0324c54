// Access: the host, the origin and the key of a request, looked at before its body is read.

import HTTP
import Platform
import Wire

/// Decides who may come in. Shared by all connections; the keys may change while it runs.
package final class Access: Sendable {
  /// What the operator allows.
  package struct Settings: Sendable {
    /// Keys of the command line and the environment.
    package var keys = KeyRing()
    /// A file with more of them.
    package var keyFile: String?
    package var hosts = HostRules()
    package var origins = OriginRules()

    package init() {}
  }

  /// Paths that tell whether the server is there, for those who watch it: open to all.
  static let openPaths = ["/health", "/ready", "/readyz", "/livez"]
  /// What pages may read of an answer beside the few fields that browsers always show.
  private static let exposed = "x-request-id, request-id, retry-after, x-mlxserve-ignored"
  private static let methods = "GET, HEAD, POST, DELETE, OPTIONS"
  /// How long a browser may remember a preflight, seconds.
  private static let preflightSeconds = 600

  private let settings: Settings
  private let ring: Monitor<KeyRing>
  private let wrongKeys = Monitor(WrongKeys())
  /// Without keys everybody may come in.
  package let needsKey: Bool

  /// - Throws: `KeyError` or `PlatformError` for the key file.
  package init(_ settings: Settings = Settings()) throws {
    self.settings = settings
    let ring = try Self.load(settings)
    self.ring = Monitor(ring)
    needsKey = !ring.isEmpty
  }

  /// Those of some keys that hold no longer; none where no key is needed.
  func gone(of keys: Set<UInt64>) -> Set<UInt64> {
    needsKey ? keys.subtracting(ring.withLock { $0.numbers }) : []
  }

  /// Reads the key file again; when that fails, the keys stay as they are.
  ///
  /// - Returns: how many keys there are now, and the numbers of those that hold no longer, or not for the same client and
  ///   role.
  package func reload() throws -> (count: Int, gone: Set<UInt64>) {
    let ring = try Self.load(settings)
    let old = self.ring.withLock { current in
      defer { current = ring }
      return current
    }
    return (ring.count, old.numbers(endedBy: ring))
  }

  private static func load(_ settings: Settings) throws -> KeyRing {
    var ring = settings.keys
    if let path = settings.keyFile {
      ring.add(try KeyRing(file: path))
      if File.isOpenToOthers(path) {
        Log.warning("key file is open to others", ["path": path, "advice": "chmod 600"])
      }
    }
    return ring
  }

  // MARK: Requests

  /// Finds out who sends the request; the answer, if it goes no further.
  ///
  /// - Parameters:
  ///   - wire: of the request's path.
  ///   - isOpen: whether it needs no key, beside those that watch the server.
  func screen(_ request: Request, _ context: ConnectionContext, _ wire: Wire, isOpen: Bool = false)
    -> Response?
  {
    let isOpen = isOpen || Self.isOpen(request)
    // A watcher of the server sends many requests, and nothing that is answered there is anybody's.
    if !isOpen {
      context.client = ClientIdentity(number: ClientIdentity.number(of: "peer " + context.peer.address))
    }
    do throws(APIError) {
      try checkHost(request, context)
      if let preflight = try checkOrigin(request) { return preflight }
      if !isOpen { try checkKey(request, context) }
      return nil
    } catch {
      var response = wire.response(error, requestID: context.requestID)
      if error.status == 401 { response.headers.add("www-authenticate", "Bearer") }
      if error.status == 403 { response.closesConnection = true }
      return response
    }
  }

  private static func isOpen(_ request: Request) -> Bool {
    (request.method == "GET" || request.method == "HEAD")
      && openPaths.contains { $0.utf8.elementsEqual(request.path.utf8) }
  }

  private func checkHost(_ request: Request, _ context: ConnectionContext) throws(APIError) {
    // No page can reach a Unix socket.
    guard context.peer.path == nil, !settings.hosts.allows(request.host?.name) else { return }
    throw APIError(
      status: 403, type: "permission_error", code: "host_not_allowed",
      message: "This server does not answer to the host '\(APIError.shortened(request.host?.name ?? ""))'. "
        + "Start it with --allow-host to add a name.")
  }

  /// The answer to a preflight.
  private func checkOrigin(_ request: Request) throws(APIError) -> Response? {
    guard let origin = request.headers["origin"] else {
      // A browser names no origin where a page of any site has it fetch an image or a script, or follow a link.
      guard !settings.origins.takesAll, request.headers.hasToken("cross-site", in: "sec-fetch-site"),
        !Self.opensPage(request)
      else { return nil }
      throw .originNotAllowed("another site")
    }
    guard settings.origins.answer(to: origin, host: request.host?.name) != nil else {
      throw .originNotAllowed("'\(APIError.shortened(origin))'")
    }
    guard request.method == "OPTIONS", request.headers.contains("access-control-request-method") else {
      return nil
    }
    var response = Response(status: 204)
    response.headers.add("access-control-allow-methods", Self.methods)
    if let names = request.headers["access-control-request-headers"] {
      response.headers.add("access-control-allow-headers", names)
    }
    response.headers.add("access-control-max-age", "\(Self.preflightSeconds)")
    return response
  }

  /// Whether a person follows a link to the chat page; in a frame it is none.
  private static func opensPage(_ request: Request) -> Bool {
    request.path.utf8.elementsEqual("/".utf8) && request.headers.hasToken("navigate", in: "sec-fetch-mode")
      && request.headers.hasToken("document", in: "sec-fetch-dest")
  }

  private func checkKey(_ request: Request, _ context: ConnectionContext) throws(APIError) {
    guard needsKey else { return }
    let presented = Self.presentedKeys(request.headers)
    guard !presented.isEmpty else {
      throw .invalidKey("You did not provide an API key. Send it as 'Authorization: Bearer KEY'.")
    }
    let ring = ring.withLock { $0 }
    let client = presented.lazy.compactMap { ring.client(presenting: $0) }.first
    let (address, now) = (context.peer.network, Instant.now)
    guard let client else {
      if let seconds = wrongKeys.withLock({ $0.note(from: address, at: now) }) {
        throw .tooManyWrongKeys(retryAfter: seconds)
      }
      throw .invalidKey("The API key provided is not valid.")
    }
    guard wrongKeys.withLock({ $0.admits(client.number, from: address, at: now) }) else {
      throw .tooManyWrongKeys(retryAfter: 1)
    }
    context.client = client
  }

  /// Whether a request that was let through is served though all connections are taken: those of who watches the server,
  /// and those with a key.
  func isUrgent(_ request: Request, _ context: ConnectionContext) -> Bool {
    Self.isOpen(request) || context.client.name != nil
  }

  /// The keys of `Authorization: Bearer` and of `x-api-key`, which Anthropic's clients send; some send both.
  private static func presentedKeys(_ headers: Headers) -> [ArraySlice<UInt8>] {
    var keys: [ArraySlice<UInt8>] = []
    if let field = headers.first("authorization") {
      let parts = field.value.split(separator: 0x20, maxSplits: 1, omittingEmptySubsequences: false)
      if parts.count == 2, parts[0].map({ $0 | 0x20 }).elementsEqual("bearer".utf8) {
        keys.append(parts[1].drop { $0 == 0x20 })
      }
    }
    if let field = headers.first("x-api-key") { keys.append(field.value[...]) }
    return keys.filter { !$0.isEmpty }
  }

  // MARK: Responses

  /// Lets the page that asked read the answer, if it may; to no other is it a script, a style or a picture.
  func dress(_ response: Response, to request: Request) -> Response {
    var response = response
    response.headers.set("x-content-type-options", "nosniff")
    response.headers.set("cross-origin-resource-policy", "same-origin")
    guard let origin = request.headers["origin"] else { return response }
    response.headers.add("vary", "Origin")
    guard let allowed = settings.origins.answer(to: origin, host: request.host?.name) else { return response }
    response.headers.set("cross-origin-resource-policy", "cross-origin")
    // Never with `access-control-allow-credentials`: a key is not a cookie, the page has to know it.
    response.headers.add("access-control-allow-origin", allowed)
    response.headers.add("access-control-expose-headers", Self.exposed)
    return response
  }
}

extension APIError {
  fileprivate static func tooManyWrongKeys(retryAfter: Int) -> APIError {
    APIError(
      status: 429, type: "rate_limit_error", code: "too_many_wrong_keys",
      message: "Too many wrong API keys came from this address. Try again later.", retryAfter: retryAfter)
  }

  /// - Parameter whose: `'https://a.example'`, or words.
  fileprivate static func originNotAllowed(_ whose: String) -> APIError {
    APIError(
      status: 403, type: "permission_error", code: "origin_not_allowed",
      message: "Pages of \(whose) may not use this server. "
        + "Start it with --allow-origin to let them, or with --allow-desktop-apps for a program's own pages.")
  }

  fileprivate static func invalidKey(_ message: String) -> APIError {
    APIError(status: 401, type: "authentication_error", code: "invalid_api_key", message: message)
  }
}
