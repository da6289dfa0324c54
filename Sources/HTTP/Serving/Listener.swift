// The server: bound sockets, an accept thread, and one thread per connection.

package import Platform

/// What the handler of a server must not know: shared by the accept thread and all connections.
final class ServerCore: Sendable {
  let configuration: Listener.Configuration
  let handler: Listener.Handler
  let table: ConnectionTable
  let budget: BodyBudget

  init(_ configuration: Listener.Configuration, _ handler: @escaping Listener.Handler) {
    (self.configuration, self.handler) = (configuration, handler)
    table = ConnectionTable(limits: configuration.limits)
    budget = BodyBudget(bytes: configuration.limits.bufferedBodyBytes, ledger: configuration.ledger)
  }
}

/// A server: it listens from `start` to `stop`, and calls a handler for each request.
package final class Listener: Sendable {
  /// Called on the connection's thread, where it may block. The body has been read.
  package typealias Handler = @Sendable (Request, ConnectionContext) -> Response

  /// Where a server listens and what it calls.
  package struct Configuration: Sendable {
    /// A name or a numeric address. All addresses of a name are bound.
    package var host = "127.0.0.1"
    /// Whether `host` and `port` are bound at all: a Unix socket may be enough.
    package var listensOnTCP = true
    /// A Unix socket to listen on.
    package var unix: UnixPlace?
    /// 0 takes a free port.
    package var port = 0
    package var limits = Limits()
    /// For what is refused before a handler has seen it.
    package var errors = ErrorFormat()
    /// Where bodies are accounted for, beside their own bound.
    package var ledger: MemoryLedger?
    /// Called with the head of a request, its body not yet read and no `100 Continue` sent: a response here
    /// answers without reading the body. For what needs no body: routes, keys, hosts.
    package var screen: (@Sendable (Request, ConnectionContext) -> Response?)?
    /// Whether a request that `screen` has let through is served though all connections are taken. By default none is.
    package var isUrgent: (@Sendable (Request, ConnectionContext) -> Bool)?
    /// Called with every response to a request whose head could be read, before it is sent: the last touch.
    package var finish: (@Sendable (Response, Request, ConnectionContext) -> Response)?
    /// Called after each response, on the connection's thread.
    package var log: (@Sendable (AccessRecord) -> Void)?

    package init() {}
  }

  private struct State {
    var sockets: [ListeningSocket] = []
    var acceptor: Thread?
    var isStopped = false
  }

  private let core: ServerCore
  private let state = Monitor(State())
  private let wake: WakePipe

  /// - Throws: `PlatformError` when the process has no descriptor left.
  package init(_ configuration: Configuration, handler: @escaping Handler) throws(PlatformError) {
    core = ServerCore(configuration, handler)
    wake = try WakePipe()
  }

  /// Binds, listens and accepts on a thread of its own. Called once. Signals are the program's business: no write to
  /// a socket raises SIGPIPE.
  ///
  /// - Returns: where the server listens, ports resolved.
  /// - Throws: `SocketError.cannotListen`.
  package func start() throws(SocketError) -> [Endpoint] {
    let sockets = try bind()
    do {
      let acceptor = Acceptor(core: core, sockets: sockets, wake: wake)
      let thread = try Thread(name: "http-accept", stackBytes: 512 << 10) { acceptor.run() }
      state.update { $0 = State(sockets: sockets, acceptor: thread) }
    } catch {
      for socket in sockets { socket.shut() }
      throw .cannotListen(
        host: core.configuration.host, port: core.configuration.port, reason: "\(error)")
    }
    return sockets.map(\.endpoint)
  }

  private func bind() throws(SocketError) -> [ListeningSocket] {
    let configuration = core.configuration
    let backlog = 1024
    var sockets: [ListeningSocket] = []
    if configuration.listensOnTCP {
      sockets = try ListeningSocket.bind(
        host: configuration.host, port: configuration.port, backlog: backlog)
    }
    guard let place = configuration.unix else { return sockets }
    do throws(SocketError) {
      return sockets + [try ListeningSocket.bind(unix: place, backlog: backlog)]
    } catch {
      for socket in sockets { socket.shut() }
      throw error
    }
  }

  /// Open connections now.
  package var connectionCount: Int { core.table.count }

  /// Cuts the connections that were let in by keys which hold no longer.
  package func cut(keys: Set<UInt64>) { core.table.cut(keys: keys) }

  /// How far the server is from its end.
  package var phase: ConnectionContext.Phase { core.table.phase }

  /// Stops gracefully: idle connections end, and requests under way may finish for `drainSeconds`. As long as some do,
  /// new connections are taken for what only asks (GET and HEAD); anything else is 503. Then the sockets close,
  /// handlers see `.expired` and have `graceSeconds` to say a last word, and connections are cut.
  /// Blocks until that is done. Further calls wait for the first one.
  ///
  /// - Returns: whether every request ended in the time to drain.
  @discardableResult
  package func stop(drainSeconds: Double = 30, graceSeconds: Double = 1) -> Bool {
    let thread = state.withLock { state in
      defer { state.acceptor = nil }
      return state.acceptor
    }
    guard let thread else {
      waitUntilStopped()
      return core.table.count == 0
    }
    core.table.beginDraining()
    let isClean = core.table.waitUntilServed(until: .now.adding(seconds: drainSeconds))
    wake.wake()
    thread.join()
    if core.table.count > 0 {
      core.table.expire()
      if !core.table.waitUntilEmpty(until: .now.adding(seconds: graceSeconds)) {
        core.table.endAll()
        _ = core.table.waitUntilEmpty(until: .now.adding(seconds: graceSeconds))
      }
    }
    state.update { $0.isStopped = true }
    return isClean
  }

  /// Waits until `stop` has been called, by another thread, and is done.
  package func waitUntilStopped() {
    _ = state.wait { $0.isStopped ? true : nil }
  }
}
