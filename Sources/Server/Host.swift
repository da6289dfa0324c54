// A server from its first connection to its last: who may come in, where it listens, log and counters, and the application
// once there is one.

package import HTTP
package import Platform
import Wire

/// One server. Shared by all connections.
package final class Host: Sendable {
  private let access: Access
  private let metrics: Metrics
  private let page: Page?
  private let app = Monitor<App?>(nil)
  /// By their entrances, in the order in which they were opened.
  private let listeners = Monitor<[Listener]>([])
  private let leaving = Monitor(false)
  /// What goes on before there is an application: a download in words, or the model that is being loaded.
  private let wait = Monitor<(words: String?, progress: Progress?)>((nil, nil))

  /// - Parameter page: the chat page; nil serves none.
  package init(access: Access, metrics: Metrics, page: Page? = nil) {
    (self.access, self.metrics, self.page) = (access, metrics, page)
  }

  // MARK: From the first connection to the last

  /// Listens at a place from now on; requests are answered by the application once there is one.
  ///
  /// - Parameter place: with what the listener itself needs; the host adds the rest.
  /// - Returns: where that is, ports resolved.
  /// - Throws: `PlatformError` or `SocketError` where it cannot listen.
  package func listen(_ place: Listener.Configuration, as entrance: Entrance = .only) throws -> [Endpoint] {
    let listener = try Listener(configured(place, as: entrance)) { [self] in respond(to: $0, $1) }
    let endpoints = try listener.start()
    listeners.withLock { $0.append(listener) }
    return endpoints
  }

  /// From now on requests get to the application; until then they are told that the model is loading. What an earlier process
  /// has left undone for keys that hold no longer is ended.
  package func open(_ app: App) {
    self.app.withLock { $0 = app }
    app.cut(keys: access.gone(of: app.keysAtWork))
  }

  /// Reads the key file again; a file that cannot be used changes nothing. What runs by keys that hold no longer ends.
  ///
  /// - Returns: how many keys there are now, and how many hold no longer.
  package func reloadKeys() throws -> (count: Int, gone: Int) {
    let (count, gone) = try access.reload()
    guard !gone.isEmpty else { return (count, 0) }
    for listener in listeners.withLock({ $0 }) { listener.cut(keys: gone) }
    app.withLock { $0 }?.cut(keys: gone)
    return (count, gone.count)
  }

  /// From now on every entrance says that the server ends.
  package func leave() { leaving.withLock { $0 = true } }

  /// Ends the connections of clients, as `Listener.stop` does. Others may go on asking how far that is.
  package func stop(drainSeconds: Double, graceSeconds: Double = 1) {
    listeners.withLock { $0.first }?.stop(drainSeconds: drainSeconds, graceSeconds: graceSeconds)
  }

  /// Waits until `stop` has been called, by another thread, and is done.
  package func waitUntilStopped() { listeners.withLock { $0.first }?.waitUntilStopped() }

  /// Ends what is left: what is made in the background gets some time, other entrances next to none. Call it when clients
  /// have none.
  package func finish(seconds: Double) {
    app.withLock { $0 }?.finish(seconds: seconds)
    // They hold this host.
    let all = listeners.withLock { listeners in
      defer { listeners = [] }
      return listeners
    }
    for listener in all { listener.stop(drainSeconds: 0.1, graceSeconds: 0.1) }
  }

  // MARK: Before there is an application

  /// What clients are told, such as how much of a model has been downloaded; nil for the usual words.
  package func tell(_ words: String?) { wait.withLock { $0.words = words } }

  /// What says how much of a model is loaded.
  package func follow(_ progress: Progress) { wait.withLock { $0.progress = progress } }

  // MARK: Requests

  /// What a listener at a place needs to ask this host.
  package func configured(
    _ place: Listener.Configuration = Listener.Configuration(), as entrance: Entrance = .only
  ) -> Listener.Configuration {
    var configuration = place
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
