// The routes of one part of the server, as a table: the one way to register a route.

import HTTP
import JSON
import Wire

/// A method, a pattern and the function that answers.
struct Route: Sendable {
  /// Makes the response on the connection's thread; an error is told in the words of the table's wire.
  typealias Handler = @Sendable (Request, ConnectionContext) throws(APIError) -> Response

  /// Who may call it.
  enum Audience: Sendable {
    case clients
    /// Who runs the server.
    case admins
    /// Who watches it, wherever it listens.
    case everyone
  }

  let operation: Operation
  let audience: Audience
  let handler: Handler

  private init(
    _ operation: Operation, _ audience: Audience, _ handler: @escaping Handler,
    _ change: (inout Operation) -> Void
  ) {
    var operation = operation
    change(&operation)
    (self.operation, self.audience, self.handler) = (operation, audience, handler)
  }

  /// - Parameters:
  ///   - pattern: as `Router` reads it: `/v1/models/:id`.
  ///   - id: the operation's name in /openapi.json, unique; nil where the document does not have the route.
  ///   - summary: what it does, in one sentence.
  ///   - answer: the name of the schema of what it answers.
  ///   - change: sets what few operations have.
  static func get(
    _ pattern: String, _ id: String?, _ summary: String = "", for audience: Audience = .clients,
    gives answer: String = "Any", _ handler: @escaping Handler, change: (inout Operation) -> Void = { _ in }
  ) -> Route {
    Route(Operation("GET", pattern, id, summary, [], answer), audience, handler, change)
  }

  /// The same with a body.
  static func post(
    _ pattern: String, _ id: String, _ summary: String, for audience: Audience = .clients,
    reads body: DescribedBody? = nil, gives answer: String = "Any", _ handler: @escaping Handler,
    change: (inout Operation) -> Void = { _ in }
  ) -> Route {
    Route(Operation("POST", pattern, id, summary, body.map { [$0] } ?? [], answer), audience, handler, change)
  }

  /// The same for what is removed.
  static func delete(
    _ pattern: String, _ id: String, _ summary: String, for audience: Audience = .clients,
    reads body: DescribedBody? = nil, gives answer: String = "Any", _ handler: @escaping Handler
  ) -> Route {
    Route(
      Operation("DELETE", pattern, id, summary, body.map { [$0] } ?? [], answer), audience, handler, { _ in })
  }

  /// - Throws: 403 for who may not call it, or not here.
  func admit(_ context: ConnectionContext) throws(APIError) {
    switch (audience, context.entrance) {
    case (.everyone, _), (.clients, .only), (.clients, .clients): return
    case (.clients, .administration):
      throw .forbidden("wrong_entrance", "This address is for administration. Use the one for clients.")
    case (.admins, .clients):
      throw .forbidden("wrong_entrance", "This is for administration, which has an address of its own.")
    case (.admins, .only), (.admins, .administration):
      guard context.client.isAdmin else {
        throw .forbidden("admin_required", "The role of this API key does not allow this: it needs 'admin'.")
      }
    }
  }
}

/// One method of one path, as /openapi.json describes it.
struct Operation: Sendable {
  let method: String
  let pattern: String
  let id: String?
  let summary: String
  /// What it reads; one of several.
  var bodies: [DescribedBody]
  /// The name of the schema of a body of multipart/form-data; nil where none is taken.
  var form: String?
  /// Whether a request without a body is taken.
  var bodyIsOptional = false
  /// The name of the answer's schema, of an event's, and of an error's: that of the wire, unless it is said here.
  let response: String
  var event: String?
  var error: String?
  /// Names of parameters of the query.
  var query: [String] = []
  /// Most things of one page.
  var longestPage = 100
  /// 101 for an upgrade, which has no body.
  var status = "200"
  var contentType = "application/json"
  /// Further types of the answer, whose schema is the same.
  var otherTypes: [String] = []
  /// Statuses of errors that stand for more than this server's usual ones.
  var failures: [String] = []
  /// Whether 202 is possible too, with the same body.
  var isAccepted = false

  init(
    _ method: String, _ pattern: String, _ id: String?, _ summary: String, _ bodies: [DescribedBody],
    _ response: String
  ) {
    (self.method, self.pattern, self.id, self.summary) = (method, pattern, id, summary)
    (self.bodies, self.response) = (bodies, response)
  }

  /// `/v1/models/{id}` for `/v1/models/:id`.
  var template: String {
    pattern.split(separator: "/", omittingEmptySubsequences: false).map { segment in
      segment.hasPrefix(":") ? "{\(segment.dropFirst())}" : String(segment)
    }.joined(separator: "/")
  }

  /// Lines of JSON, or one object.
  mutating func answersInLines() {
    (contentType, otherTypes) = ("application/x-ndjson", ["application/json"])
  }
}

/// A body of a request, as /openapi.json describes it: what its reader notes.
struct DescribedBody: Sendable {
  let name: String
  /// Instead of the smallest body that the reader takes.
  let example: JSONValue?
  let read: @Sendable (inout Fields) throws(APIError) -> Void

  init(
    _ name: String, like example: JSONValue? = nil,
    _ read: @escaping @Sendable (inout Fields) throws(APIError) -> Void
  ) {
    (self.name, self.example, self.read) = (name, example, read)
  }

  /// - Parameters:
  ///   - name: of its schema; nil for that of its type.
  ///   - example: instead of the smallest body.
  static func of<Body: RequestBody>(
    _: Body.Type, _ name: String? = nil, like example: JSONValue? = nil
  ) -> DescribedBody {
    DescribedBody(name ?? "\(Body.self)", like: example) { (fields) throws(APIError) in _ = try Body(&fields)
    }
  }
}

extension ConnectionContext {
  /// Whether its client may do what concerns all clients, and here.
  var mayAdminister: Bool { client.isAdmin && entrance != .clients }
}

/// Routes that write their errors in one shape.
struct RouteTable: Sendable {
  let wire: Wire
  let routes: [Route]

  init(_ wire: Wire, _ routes: [Route]) {
    self.wire = wire
    self.routes = routes
  }

  /// What /openapi.json says of them.
  var operations: [Operation] {
    routes.map(\.operation).filter { $0.id != nil }.map { operation in
      var operation = operation
      operation.error = operation.error ?? wire.schema
      operation.failures += wire.failures
      return operation
    }
  }
}

extension Router {
  /// Registers every route of a table.
  mutating func add(_ table: RouteTable) {
    for route in table.routes {
      on(route.operation.method, route.operation.pattern) { request, context in
        do throws(APIError) {
          try route.admit(context)
          var response = try route.handler(request, context)
          response.nameIgnored(context.ignored)
          return response
        } catch {
          return table.wire.asked(by: request).response(error, requestID: context.requestID)
        }
      }
    }
  }
}

extension APIError {
  static func forbidden(_ code: String, _ message: String) -> APIError {
    APIError(status: 403, type: "permission_error", code: code, message: message)
  }
}
