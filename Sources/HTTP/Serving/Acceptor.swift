// The accept thread: hands connections to threads, turns away clients beyond the limit, survives a lack of descriptors.

import Platform

/// Lives on the accept thread.
struct Acceptor: Sendable {
  /// A client that has been told to go, until it goes.
  private struct Refused {
    let socket: Socket
    let deadline: Instant
  }

  /// Refused clients that are waited for at once; older ones are cut.
  private static let refusedLimit = 64
  private static let connectionStackBytes = 512 << 10
  /// Connections accepted before the others get a look again.
  private static let burst = 64

  let core: ServerCore
  let sockets: [ListeningSocket]
  let wake: WakePipe

  /// Accepts until `wake` is used, then closes the listening sockets.
  func run() {
    var refused: [Refused] = []
    var spare = Self.openSpare()
    var lastWarning: Instant?
    while true {
      let ready = Socket.waitForAny(
        [wake.readEnd] + sockets.map(\.descriptor) + refused.map(\.socket.descriptor),
        until: refused.map(\.deadline).min())
      if ready[0] { break }
      for (index, socket) in sockets.enumerated() where ready[1 + index] {
        if accept(from: socket, refused: &refused) { continue }
        if lastWarning.map({ Instant.now.seconds(since: $0) >= 5 }) ?? true {
          lastWarning = .now
          Log.warning("out of descriptors", ["connections": String(core.table.count)])
        }
        squeeze(from: socket, spare: &spare, refused: &refused)
      }
      let states = zip(
        refused, ready.dropFirst(1 + sockets.count) + Array(repeating: false, count: refused.count))
      refused = Self.tend(Array(states))
    }
    for socket in sockets { socket.shut() }
    for entry in refused { entry.socket.shut() }
    if spare >= 0 { close(spare) }
  }

  /// Accepts the clients that wait; false when descriptors have run out.
  private func accept(from listening: ListeningSocket, refused: inout [Refused]) -> Bool {
    for _ in 0..<Self.burst {
      switch listening.accept() {
      case .nothing: return true
      case .noDescriptor: return false
      case .connection(let descriptor, let peer):
        let socket = Socket(accepted: descriptor, sendBufferBytes: core.configuration.limits.sendBufferBytes)
        if let limit = begin(socket, peer) { refuse(socket, limit, &refused) }
      }
    }
    return true
  }

  /// Serves a client on a thread of its own; the limit that it exceeds, if it does.
  private func begin(_ socket: Socket, _ peer: Endpoint, isCrowded: Bool = false) -> Int? {
    let (id, isReserve): (Int, Bool)
    switch core.table.add(socket, from: peer, isCrowded: isCrowded) {
    case .taken(let number): (id, isReserve) = (number, false)
    case .reserve(let number): (id, isReserve) = (number, true)
    case .full(let limit): return limit
    }
    let core = core
    for _ in 0..<2 {
      let thread = try? Thread(name: "http", stackBytes: Self.connectionStackBytes) {
        Connection(core: core, socket: socket, id: id, peer: peer, isReserve: isReserve).run()
      }
      if let thread {
        thread.detach()
        return nil
      }
      // There is no thread left but that of a connection that waits.
      guard core.table.makeRoom() else { break }
      usleep(10_000)
    }
    core.table.remove(id)
    return core.configuration.limits.connections
  }

  /// Tells a client that there are too many, without waiting for it.
  private func refuse(_ socket: Socket, _ limit: Int, _ refused: inout [Refused]) {
    socket.sendWithoutWaiting(refusal(limit))
    socket.endSending()
    if refused.count >= Self.refusedLimit { refused.removeFirst().socket.shut() }
    refused.append(
      Refused(socket: socket, deadline: .now.adding(seconds: core.configuration.limits.lingerSeconds)))
  }

  private func refusal(_ limit: Int) -> [UInt8] {
    let response = core.configuration.errors.response(.tooManyConnections(limit: limit))
    var body: [UInt8] = []
    if case .bytes(let bytes) = response.body { body = bytes }
    return ResponseWriter.head(
      response, framing: .length(body.count), connection: "close",
      requestID: ConnectionContext.freshRequestID()) + body
  }

  /// Reads on from refused clients and closes those that have left or had their time.
  private static func tend(_ entries: [(Refused, Bool)]) -> [Refused] {
    var scratch = [UInt8](repeating: 0, count: entries.isEmpty ? 0 : 4096)
    let now = Instant.now
    return entries.compactMap { entry, isReady in
      if now < entry.deadline && (!isReady || entry.socket.discardArrived(&scratch)) { return entry }
      entry.socket.shut()
      return nil
    }
  }

  /// With no descriptor left, waiting clients would keep the listening socket ready and this thread spinning: the
  /// connection that waits longest makes room, and the spare descriptor takes one of them meanwhile. Where all
  /// connections work, it gets an answer only if it is urgent.
  private func squeeze(from listening: ListeningSocket, spare: inout Int32, refused: inout [Refused]) {
    let hasRoom = core.table.makeRoom()
    if spare >= 0 {
      close(spare)
      spare = -1
      if case .connection(let descriptor, let peer) = listening.accept() {
        let socket = Socket(accepted: descriptor, sendBufferBytes: core.configuration.limits.sendBufferBytes)
        if let limit = begin(socket, peer, isCrowded: !hasRoom) { refuse(socket, limit, &refused) }
      }
    }
    usleep(10_000)
    spare = Self.openSpare()
  }

  private static func openSpare() -> Int32 { open("/dev/null", O_RDONLY | O_CLOEXEC) }
}
