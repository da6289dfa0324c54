// What stands between the listener and the application: access, the time before the model is loaded, log and counters.

package import HTTP
import OpenAI
import Platform

/// Lets requests through to the application once there is one. Shared by all connections.
package final class FrontDoor: Sendable {
  private let access: Access
  private let metrics: Metrics
  private let app = Monitor<App?>(nil)

  package init(access: Access, metrics: Metrics) {
    self.access = access
    self.metrics = metrics
  }

  /// From now on requests get to the application; until then they are told that the model is loading.
  package func open(_ app: App) { self.app.withLock { $0 = app } }

  /// What a listener needs.
  package func listenerConfiguration(limits: Limits = Limits()) -> Listener.Configuration {
    var configuration = Listener.Configuration()
    configuration.limits = limits
    configuration.errors = App.errors
    configuration.screen = { [self] request, context in screen(request, context) }
    configuration.finish = { [self] response, request, context in
      let wire = App.wire(of: request.path)
      return access.dress(wire.finished(response, requestID: context.requestID), to: request)
    }
    configuration.log = { [metrics] record in
      record.log()
      metrics.count(record)
    }
    return configuration
  }

  /// The answer to a request whose body has been read.
  package func respond(to request: Request, _ context: ConnectionContext) -> Response {
    guard let app = app.withLock({ $0 }) else { return loading(request, context) }
    return app.answer(request, context)
  }

  private func screen(_ request: Request, _ context: ConnectionContext) -> Response? {
    if let answer = access.screen(request, context, App.wire(of: request.path)) { return answer }
    if let app = app.withLock({ $0 }) { return app.screen(request, context) }
    let isLiveness =
      request.path.utf8.elementsEqual("/livez".utf8) && ["GET", "HEAD"].contains(request.method)
    return isLiveness ? HealthRoute.alive : loading(request, context)
  }

  private func loading(_ request: Request, _ context: ConnectionContext) -> Response {
    App.wire(of: request.path).response(.loading, requestID: context.requestID)
  }
}
