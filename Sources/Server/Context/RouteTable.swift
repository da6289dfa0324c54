// The routes of one part of the server, as a table: the one way to register a route.

import HTTP
import OpenAI

/// A method, a pattern and the function that answers.
struct Route: Sendable {
  /// Makes the response on the connection's thread; an error is told in the words of the table's wire.
  typealias Handler = @Sendable (Request, ConnectionContext) throws(APIError) -> Response

  let method: String
  /// As `Router` reads it: `/v1/models/:id`.
  let pattern: String
  let handler: Handler

  init(_ method: String, _ pattern: String, _ handler: @escaping Handler) {
    self.method = method
    self.pattern = pattern
    self.handler = handler
  }
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
          return try route.handler(request, context)
        } catch {
          return table.wire.response(error, requestID: context.requestID)
        }
      }
    }
  }
}
