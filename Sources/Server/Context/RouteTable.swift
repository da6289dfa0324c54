// The routes of one part of the server, as a table: the one way to register a route.

import HTTP
import OpenAI

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

  let method: String
  /// As `Router` reads it: `/v1/models/:id`.
  let pattern: String
  let audience: Audience
  let handler: Handler

  init(_ method: String, _ pattern: String, for audience: Audience = .clients, _ handler: @escaping Handler) {
    self.method = method
    self.pattern = pattern
    self.audience = audience
    self.handler = handler
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
}

extension Router {
  /// Registers every route of a table.
  mutating func add(_ table: RouteTable) {
    for route in table.routes {
      on(route.method, route.pattern) { request, context in
        do throws(APIError) {
          try route.admit(context)
          return try route.handler(request, context)
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
