// Method and path to handler.

/// A table of routes. Paths are compared segment by segment, after percent-decoding.
package struct Router: Sendable {
  /// Makes the response; called on the connection's thread.
  package typealias Handler = Listener.Handler

  /// A method, a pattern and the handler that answers.
  package struct Route: Sendable {
    package let method: String
    /// As registered: `/v1/models/:id`.
    package let pattern: String
    let segments: [Segment]
    let handler: Handler

    /// How many segments are words: of two routes that match, the one with more of them is meant.
    var words: Int { segments.filter(\.isWord).count }
  }

  enum Segment: Sendable {
    case word(String)
    case parameter(String)

    var isWord: Bool { if case .word = self { true } else { false } }
  }

  /// In the order of their registration.
  package private(set) var routes: [Route] = []
  /// The same by the number of their segments: only these can match.
  private var byLength: [Int: [Route]] = [:]
  /// The first segment of most paths. Where there is one a client may leave it out, and may end a path with a slash.
  package var root: String?
  /// Makes the bodies of 404 and 405.
  package var errors = ErrorFormat()
  /// Answers OPTIONS for a path that has routes; gets their methods. By default 204 with `allow`.
  package var options: @Sendable (Request, _ allowed: [String]) -> Response = { _, allowed in
    Response(status: 204, headers: ["allow": allowed.joined(separator: ", ")])
  }

  package init() {}

  /// Registers a route. A segment of `pattern` that begins with `:` matches any one non-empty segment. HEAD
  /// is answered by the GET route, OPTIONS by `options`.
  package mutating func on(_ method: String, _ pattern: String, _ handler: @escaping Handler) {
    let segments = pattern.utf8.dropFirst().split(
      separator: UInt8(ascii: "/"), omittingEmptySubsequences: false
    ).map { part -> Segment in
      part.first == UInt8(ascii: ":")
        ? .parameter(String(decoding: part.dropFirst(), as: UTF8.self))
        : .word(String(decoding: part, as: UTF8.self))
    }
    let route = Route(method: method, pattern: pattern, segments: segments, handler: handler)
    routes.append(route)
    byLength[segments.count, default: []].append(route)
  }

  /// The response of the matching route's handler, or 404, 405 or the answer to OPTIONS.
  package func respond(to request: Request, _ context: ConnectionContext) -> Response {
    switch resolve(request, context) {
    case .success(let match):
      var request = request
      request.parameters = match.parameters
      context.route = match.pattern
      return match.handler(request, context)
    case .failure(let response): return response
    }
  }

  /// The response that needs no body to be known: 404, 405, OPTIONS; nil when a route matches. Fits
  /// `Listener.Configuration.screen`.
  package func screen(_ request: Request, _ context: ConnectionContext) -> Response? {
    if case .failure(let response) = resolve(request, context) { return response }
    return nil
  }

  private struct Match {
    let pattern: String
    let handler: Handler
    let parameters: [(name: String, value: String)]
  }

  private enum Resolution {
    case success(Match)
    case failure(Response)
  }

  private func resolve(_ request: Request, _ context: ConnectionContext) -> Resolution {
    let matching = matches(request.target.segments)
    if request.method == "OPTIONS" && (request.path == "*" || !matching.isEmpty) {
      let methods = request.path == "*" ? routes.map(\.method) : matching.map(\.0.method)
      return .failure(options(request, Self.allowed(methods)))
    }
    guard !matching.isEmpty else {
      return .failure(errors.response(.notFound(path: request.path), to: request, context))
    }
    let method = request.method == "HEAD" ? "GET" : request.method
    let best = matching.filter { $0.0.method == method }.max { $0.0.words < $1.0.words }
    guard let (route, parameters) = best else {
      let allowed = Self.allowed(matching.map(\.0.method))
      let error = HTTPError.methodNotAllowed(method: request.method, allowed: allowed)
      return .failure(errors.response(error, to: request, context))
    }
    return .success(Match(pattern: route.pattern, handler: route.handler, parameters: parameters))
  }

  /// The routes of a path; if there are none, of the path without a slash at its end or below the root.
  private func matches(_ segments: [String]) -> [(Route, [(name: String, value: String)])] {
    var segments = segments
    var found = routes(of: segments)
    guard found.isEmpty, let root else { return found }
    if segments.count > 1, segments.last == "" {
      segments.removeLast()
      found = routes(of: segments)
    }
    guard found.isEmpty, segments.first != root else { return found }
    return routes(of: [root] + segments)
  }

  private func routes(of segments: [String]) -> [(Route, [(name: String, value: String)])] {
    byLength[segments.count, default: []].compactMap { route in
      Self.match(route, segments).map { (route, $0) }
    }
  }

  /// The parameters of the route if its pattern, of as many segments, matches; else nil.
  private static func match(_ route: Route, _ segments: [String]) -> [(name: String, value: String)]? {
    var parameters: [(name: String, value: String)] = []
    for (expected, found) in zip(route.segments, segments) {
      switch expected {
      // Bytes, because String equality would also take what only looks the same.
      case .word(let word): guard word.utf8.elementsEqual(found.utf8) else { return nil }
      case .parameter(let name):
        guard !found.isEmpty else { return nil }
        parameters.append((name, found))
      }
    }
    return parameters
  }

  /// Each method once, in a fixed order, with those that come for free.
  private static func allowed(_ methods: [String]) -> [String] {
    let order = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return order.filter { $0 == "OPTIONS" || methods.contains($0 == "HEAD" ? "GET" : $0) }
  }
}
