// What stands between the listener and the application: access, the time before the model is loaded, log and counters.

package import HTTP
package import Platform
import Wire

/// Lets requests through to the application once there is one. Shared by all connections.
package final class FrontDoor: Sendable {
  private let access: Access
  private let metrics: Metrics
  private let page: Page?
  private let app = Monitor<App?>(nil)
  private let leaving = Monitor(false)
  /// What goes on before there is an application: a download in words, or the model that is being loaded.
  private let wait = Monitor<(words: String?, progress: Progress?)>((nil, nil))

  /// - Parameter page: the chat page; nil serves none.
  package init(access: Access, metrics: Metrics, page: Page? = nil) {
    (self.access, self.metrics, self.page) = (access, metrics, page)
  }

  /// From now on requests get to the application; until then they are told that the model is loading. What an earlier process
  /// has left undone for keys that hold no longer is ended.
  package func open(_ app: App) {
    self.app.withLock { $0 = app }
    app.cut(keys: access.gone(of: app.keysAtWork))
  }

  /// From now on every entrance says that the server ends.
  package func leave() { leaving.withLock { $0 = true } }

  /// Ends what runs by keys that hold no longer, but for connections: responses in the background.
  package func cut(keys: Set<UInt64>) { app.withLock { $0 }?.cut(keys: keys) }

  /// Until then, what clients are told, such as how much of a model has been downloaded; nil for the usual words.
  package func tell(_ words: String?) { wait.withLock { $0.words = words } }

  /// Until then, what says how much of a model is loaded.
  package func follow(_ progress: Progress) { wait.withLock { $0.progress = progress } }

  /// What a listener needs.
  package func listenerConfiguration(
    limits: Limits = Limits(), entrance: Entrance = .only
  ) -> Listener.Configuration {
    var configuration = Listener.Configuration()
    configuration.limits = limits
    configuration.errors = App.errors
    configuration.screen = { [self] request, context in
      context.entrance = entrance
      context.isLeaving = leaving.withLock { $0 }
      return screen(request, context)
    }
    configuration.isUrgent = { [access] request, context in access.isUrgent(request, context) }
    configuration.finish = { [self] response, request, context in
      let wire = App.wire(of: request)
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
    // The page speaks with the API for clients, which an entrance for administration does not have.
    let file = context.entrance == .administration ? nil : page?.answer(request)
    if let answer = access.screen(request, context, App.wire(of: request), isOpen: file != nil) {
      return answer
    }
    if let file { return file }
    if let app = app.withLock({ $0 }) { return app.screen(request, context) }
    let isLiveness =
      request.path.utf8.elementsEqual("/livez".utf8) && ["GET", "HEAD"].contains(request.method)
    return isLiveness ? HealthRoute.alive : loading(request, context)
  }

  private func loading(_ request: Request, _ context: ConnectionContext) -> Response {
    let (words, progress) = wait.withLock { $0 }
    var error = APIError.loading(progress?.part)
    if let words {
      error.code = "downloading"
      error.message = words
    }
    return App.wire(of: request).response(error, requestID: context.requestID)
  }
}
