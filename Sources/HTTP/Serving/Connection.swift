// One connection on one thread: requests are read, answered and read again, in order.
//
// Deadlines: the head from accept or from its first byte, the body by its rate, a response by the client's
// progress. After the last response the sending side is closed first and what the client still sends is read
// and dropped for a moment: closing at once would reset the connection and could destroy the response on
// its way (RFC 9112 section 9.6).

import Platform

/// Lives on its thread only; `run` is called once.
final class Connection {
  /// A body of at most this size is read and dropped so that the connection survives an early answer.
  private static let discardBytes = 64 << 10
  private static let readBytes = 8 << 10

  private let core: ServerCore
  private let socket: Socket
  private let id: Int
  private let peer: Endpoint
  /// Whether it has one of the places for urgent requests, or for questions to a server that is ending.
  private let isReserve: Bool
  private let acceptedAt = Instant.now
  private let watch: ClientWatch

  private var parser: RequestParser
  private var served = 0
  private var reservedBytes = 0

  private var limits: Limits { core.configuration.limits }

  init(core: ServerCore, socket: Socket, id: Int, peer: Endpoint, isReserve: Bool) {
    (self.isReserve, self.core, self.socket) = (isReserve, core, socket)
    (self.id, self.peer) = (id, peer)
    watch = ClientWatch(socket)
    parser = RequestParser(limits: core.configuration.limits)
  }

  /// Serves the connection to its end and closes it.
  func run() {
    do throws(SocketError) {
      while try serveOne() {}
    } catch {
      // The client has left: there is nobody to tell.
    }
    releaseBody()
    let endsCrowd = core.table.remove(id)
    socket.shut()
    if endsCrowd { Machine.trimHeap() }
  }

  /// Reads and answers one request; false when the connection is to be closed.
  private func serveOne() throws(SocketError) -> Bool {
    defer { releaseBody() }
    do throws(ReadFailure) {
      guard let (request, expectsContinue) = try readHead() else { return false }
      return try serve(request, expectsContinue: expectsContinue)
    } catch {
      switch error {
      case .socket(let error): throw error
      case .request(let error):
        try refuse(error)
        return false
      }
    }
  }

  private func serve(_ head: Request, expectsContinue: Bool) throws(ReadFailure) -> Bool {
    let start = Instant.now
    served += 1
    core.table.noteRequest(id)
    watch.begin(head)
    let context = ConnectionContext(
      peer: peer, requestID: ConnectionContext.requestID(for: head.headers),
      isClientGone: { [watch] in watch.isClientGone() }, phase: { [core] in core.table.phase })
    context.bodyLimit = limits.bodyBytes
    context.memory = core.configuration.ledger.map {
      MemoryLoan($0, for: .answers, patience: BodyBudget.patience)
    }
    let exchange = Exchange(request: head, context: context, start: start)

    if let screen = core.configuration.screen, let early = screen(head, context) {
      return try answerEarly(early, exchange, expectsContinue: expectsContinue)
    }
    if let error = refusal(of: head, context) {
      let response = core.configuration.errors.response(error, to: head, context)
      return try answerEarly(response, exchange, expectsContinue: expectsContinue)
    }
    if expectsContinue && !parser.hasInput {
      do { try socket.send(ResponseWriter.continueHead, stallSeconds: limits.writeStallSeconds) } catch {
        throw .socket(error)
      }
    }
    var request = head
    do throws(ReadFailure) {
      request.body = try readBody(exchange)
    } catch {
      guard case .request(let failure) = error else { throw error }
      // Before the answer: a client may take its time with that.
      parser.fail(failure)
      releaseBody()
      return try send(
        core.configuration.errors.response(failure, to: request, context), exchange, mayKeepAlive: false)
    }
    return try send(core.handler(request, context), exchange, mayKeepAlive: true)
  }

  /// Why there is no connection left for a request that is fine in itself.
  private func refusal(of head: Request, _ context: ConnectionContext) -> HTTPError? {
    if context.client.key != 0, !core.table.assign(id, to: context.client.key) {
      return .tooManyOfKey(limit: limits.connectionsPerKey ?? limits.connections)
    }
    // Health, counters and what is stored can be asked for to the end; nothing new is begun.
    if core.table.phase != .running, isReserve || core.table.isLate(id) {
      let asks = ["GET", "HEAD"].contains(head.method) && !head.headers.contains("upgrade")
      return asks ? nil : .shuttingDown
    }
    guard isReserve else { return nil }
    return core.configuration.isUrgent?(head, context) == true
      ? nil : .tooManyConnections(limit: limits.connections)
  }

  /// Answers without the body, which is skipped when it is short enough to keep the connection.
  private func answerEarly(
    _ response: Response, _ exchange: Exchange, expectsContinue: Bool
  ) throws(ReadFailure) -> Bool {
    let canSkipBody = !expectsContinue && (parser.declaredBodyBytes ?? .max) <= Self.discardBytes
    parser.discardsBody = true
    guard try send(response, exchange, mayKeepAlive: canSkipBody) else { return false }
    // Nobody works for this client now: it is one that waits.
    guard core.table.enterIdle(id) else { return false }
    defer { core.table.leaveIdle(id) }
    _ = try readBody(exchange)
    return true
  }

  // MARK: Reading

  /// The next head; nil when the connection is over and nothing needs to be said.
  private func readHead() throws(ReadFailure) -> (Request, expectsContinue: Bool)? {
    let isFirst = served == 0
    var deadline =
      isFirst
      ? acceptedAt.adding(seconds: isReserve ? limits.reserveSeconds : limits.headSeconds)
      : Instant.now.adding(seconds: limits.idleSeconds)
    var hasBegun = false
    var isIdle = false
    defer { if isIdle { core.table.leaveIdle(id) } }
    while true {
      switch try nextEvent() {
      case .head(let request, let expectsContinue): return (request, expectsContinue)
      case .body, .needMore: break
      }
      if !hasBegun && parser.isInsideRequest {
        hasBegun = true
        if !isFirst { deadline = Instant.now.adding(seconds: limits.headSeconds) }
      }
      if !isIdle {
        guard core.table.enterIdle(id) else {
          if hasBegun { throw .request(.shuttingDown) }
          return nil
        }
        isIdle = true
      }
      switch try receive(until: deadline) {
      case .bytes(let bytes): parser.feed(bytes)
      case .end:
        if hasBegun && core.table.phase != .running { throw .request(.shuttingDown) }
        return nil
      case .timedOut:
        if hasBegun { throw .request(.timeout("head", seconds: limits.headSeconds)) }
        return nil
      }
    }
  }

  private func readBody(_ exchange: Exchange) throws(ReadFailure) -> [UInt8] {
    let window = limits.bodyWindowSeconds
    let least = window * Double(limits.bodyBytesPerSecond)
    var windowEnd = Instant.now.adding(seconds: window)
    var windowBytes = 0
    while true {
      do throws(ReadFailure) {
        if case .body(let body) = try nextEvent() { return body }
        let more = parser.bufferedBodyBytes - reservedBytes
        if more > 0 {
          guard core.budget.reserve(more) else { throw .request(.tooManyBodies) }
          reservedBytes += more
        }
        if !exchange.isAnswered { core.table.enterIdle(id, isInside: true) }
        let reading = try receive(until: windowEnd)
        if !exchange.isAnswered { core.table.leaveIdle(id) }
        switch reading {
        case .bytes(let bytes):
          parser.feed(bytes)
          windowBytes += bytes.count
        case .end: throw .socket(.clientGone)
        case .timedOut:
          guard Double(windowBytes) >= least else { throw .request(slowBody) }
        }
      } catch {
        throw exchange.isAnswered ? .socket(.clientGone) : error
      }
      let now = Instant.now
      if now >= windowEnd {
        guard Double(windowBytes) >= least else {
          throw exchange.isAnswered ? .socket(.clientGone) : .request(slowBody)
        }
        windowEnd = now.adding(seconds: window)
        windowBytes = 0
      }
    }
  }

  private var slowBody: HTTPError {
    .bodyTooSlow(bytesPerSecond: limits.bodyBytesPerSecond, seconds: limits.bodyWindowSeconds)
  }

  private func nextEvent() throws(ReadFailure) -> RequestParser.Event {
    do { return try parser.next() } catch { throw .request(error) }
  }

  private func receive(until deadline: Instant) throws(ReadFailure) -> Socket.Reading {
    do { return try socket.receive(most: Self.readBytes, until: deadline) } catch { throw .socket(error) }
  }

  private func releaseBody() {
    core.budget.release(reservedBytes)
    reservedBytes = 0
  }

  // MARK: Writing

  /// Sends a response; false when the connection is to be closed, which has been begun then.
  private func send(
    _ response: Response, _ exchange: Exchange, mayKeepAlive: Bool
  ) throws(ReadFailure) -> Bool {
    let keepsAlive =
      mayKeepAlive && !response.closesConnection && exchange.request.keepsAlive && !isReserve
      && served < limits.requestsPerConnection && !core.table.isEnding(id)
    exchange.isAnswered = true
    let response = core.configuration.finish?(response, exchange.request, exchange.context) ?? response
    exchange.errorCode = response.errorCode
    if case .upgrade(let serve) = response.body { return try upgrade(response, serve, exchange) }
    do throws(SocketError) {
      let sender = ResponseSender(
        socket: socket, stallSeconds: limits.writeStallSeconds, keepsAlive: keepsAlive, watch: watch)
      let outcome = try sender.send(response, exchange, errors: core.configuration.errors)
      core.configuration.log?(exchange.record(outcome))
      if outcome.isCut {
        socket.endBoth()
        return false
      }
      // A stream may have outlived the time when the server took new requests.
      if outcome.keepsAlive && !core.table.isEnding(id) { return true }
      linger()
      return false
    } catch {
      let outcome = ResponseSender.Outcome(
        status: response.status, bytes: 0, keepsAlive: false, isCut: true)
      core.configuration.log?(exchange.record(outcome))
      throw .socket(error)
    }
  }

  /// Hands the connection to another protocol and serves it to its end; no request can follow.
  private func upgrade(
    _ response: Response, _ serve: (UpgradedConnection) -> Void, _ exchange: Exchange
  ) throws(ReadFailure) -> Bool {
    let head = ResponseWriter.head(
      response, framing: .none, connection: "Upgrade", requestID: exchange.context.requestID)
    do { try socket.send(head, stallSeconds: limits.writeStallSeconds) } catch { throw .socket(error) }
    watch.endInterim()
    var bytesSent = 0
    serve(
      UpgradedConnection(
        socket: socket, limits: limits, budget: core.budget, early: parser.takeInput(),
        enterIdle: { [core, id] in core.table.enterIdle(id) },
        leaveIdle: { [core, id] in core.table.leaveIdle(id) }, countSent: { bytesSent += $0 }))
    core.configuration.log?(
      exchange.record(
        ResponseSender.Outcome(
          status: response.status, bytes: bytesSent, keepsAlive: false, isCut: false)))
    linger()
    return false
  }

  /// Answers a request that could not be read, and begins to close.
  private func refuse(_ error: HTTPError) throws(SocketError) {
    let response = core.configuration.errors.response(error)
    let requestID = ConnectionContext.freshRequestID()
    var bytes: [UInt8] = []
    if case .bytes(let body) = response.body { bytes = body }
    let head = ResponseWriter.head(
      response, framing: .length(bytes.count), connection: "close", requestID: requestID)
    try socket.send(head + bytes, stallSeconds: limits.writeStallSeconds)
    core.configuration.log?(
      AccessRecord(
        method: "-", path: "-", status: error.status, bytes: bytes.count, seconds: 0, requestID: requestID,
        peer: peer, isComplete: true, route: nil, errorCode: error.code, client: ClientIdentity(), facts: []))
    linger()
  }

  /// Says the end and reads on until the client says it too, for a limited time.
  private func linger() {
    // Before the client can see the end: its next connection may need this one's place.
    let mayWait = core.table.enterIdle(id)
    socket.endSending()
    // Draining servers do not wait long for clients that do not close.
    let seconds = mayWait ? limits.lingerSeconds : min(0.25, limits.lingerSeconds)
    let end = Instant.now.adding(seconds: 5 * seconds)
    while true {
      let deadline = min(end, Instant.now.adding(seconds: seconds))
      guard let reading = try? socket.receive(most: Self.readBytes, until: deadline), case .bytes = reading,
        Instant.now < end
      else { return }
    }
  }
}

/// Why a request could not be read: the client left, or is to be told.
private enum ReadFailure: Error {
  case socket(SocketError)
  case request(HTTPError)
}
