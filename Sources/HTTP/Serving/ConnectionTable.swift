// All open connections, who has them, and the phase of the server's life they belong to.
//
// Strangers can open connections faster than the time to send a request runs out. So a full table is no refusal: the
// connection that waits longest for its client makes room, first among those that have never asked anything, then among
// those without a key, then among the others. Where all of them are at work, a few places are left in which only urgent
// requests are served. At the end of the server's life these places are for whoever asks how it is.

import Platform

final class ConnectionTable: Sendable {
  private struct Entry {
    let socket: Socket
    /// Who the connection comes from, as far as its address tells; nil for a Unix socket.
    let origin: String?
    /// Whether it came when the table was full of work, or the server was ending.
    let isReserve: Bool
    /// Whether it had asked nothing when the server began to end, which does not wait for it.
    var isLate: Bool
    /// Since when it waits for a request, or for the client to close: it may be ended at any time. Nil while it works.
    var waitsSince: Instant?
    /// Whether what it waits for is the rest of a request: the end of the server lets it come.
    var isInside = false
    /// Whether the head of a request has come.
    var hasAsked = false
    /// The key that it uses; nil for none.
    var key: UInt64?
    /// Its thread has been told to go.
    var isEnding = false
  }

  private struct State {
    var entries: [Int: Entry] = [:]
    var nextID = 0
    /// No connection before this one is still without a request.
    var firstSilent = 0
    /// Entries that are ending, and those in the reserve that are not.
    var ending = 0
    var reserved = 0
    /// Connections that are not ending, by their origin.
    var byOrigin: [String: Int] = [:]
    /// The same by their key.
    var byKey: [UInt64: Int] = [:]
    var phase = ConnectionContext.Phase.running
    /// The most connections since `remove` last told of the end of a crowd.
    var peak = 0
  }

  /// What becomes of a new connection.
  enum Admission: Equatable {
    /// It is in, under this number.
    case taken(Int)
    /// It is in, for an urgent request only.
    case reserve(Int)
    /// There are this many already, and none of them makes room.
    case full(limit: Int)
  }

  private let state = Monitor(State())
  private let limits: Limits
  private static let crowd = 64
  /// Most connections that are ending while new ones take their places.
  private static let mostEnding = 64

  init(limits: Limits) { self.limits = limits }

  var phase: ConnectionContext.Phase { state.withLock { $0.phase } }

  var count: Int { state.withLock { $0.entries.count } }

  // MARK: In and out

  /// Takes a connection in.
  ///
  /// - Parameter isCrowded: whether the process has no descriptor for another one, whatever the table says.
  func add(_ socket: Socket, from peer: Endpoint, isCrowded: Bool = false) -> Admission {
    let origin = peer.path == nil ? peer.network : nil
    return state.update { state in
      if let origin, let most = limits.connectionsPerAddress(of: peer),
        state.byOrigin[origin, default: 0] >= most,
        !Self.makeRoom(in: &state, where: { $0.origin == origin })
      {
        return .full(limit: most)
      }
      let isLate = state.phase != .running
      var isReserve = isLate || isCrowded
      if !isReserve, state.entries.count - state.ending - state.reserved >= limits.connections {
        isReserve = !Self.makeRoom(in: &state, where: { !$0.isReserve })
      }
      if isReserve {
        guard state.reserved < limits.reservedConnections || Self.makeRoom(in: &state, where: \.isReserve)
        else {
          return .full(limit: limits.connections)
        }
        state.reserved += 1
      }
      let id = state.nextID
      state.nextID += 1
      state.entries[id] = Entry(socket: socket, origin: origin, isReserve: isReserve, isLate: isLate)
      if let origin { state.byOrigin[origin, default: 0] += 1 }
      state.peak = max(state.peak, state.entries.count)
      return isReserve ? .reserve(id) : .taken(id)
    }
  }

  /// Must come before the descriptor is closed: the table uses it from other threads.
  ///
  /// - Returns: whether half of a crowd has gone, whose threads have left memory that the heap keeps.
  @discardableResult
  func remove(_ id: Int) -> Bool {
    state.update { state in
      if let entry = state.entries.removeValue(forKey: id) {
        if entry.isEnding { state.ending -= 1 } else { Self.uncount(entry, in: &state) }
      }
      guard state.peak >= Self.crowd, state.entries.count <= state.peak / 2 else { return false }
      state.peak = state.entries.count
      return true
    }
  }

  /// Says which key a connection uses from now on. False when this key has too many connections, none of which makes
  /// room.
  func assign(_ id: Int, to key: UInt64) -> Bool {
    state.withLock { state in
      guard let entry = state.entries[id], !entry.isEnding, entry.key != key else { return true }
      if let most = limits.connectionsPerKey, state.byKey[key, default: 0] >= most,
        !Self.makeRoom(in: &state, where: { $0.key == key })
      {
        return false
      }
      if let old = entry.key { Self.lower(&state.byKey, old) }
      state.entries[id]?.key = key
      state.byKey[key, default: 0] += 1
      return true
    }
  }

  /// Cuts all connections that were let in by these keys, whatever they do.
  func cut(keys: Set<UInt64>) {
    state.withLock { state in
      for (id, entry) in state.entries where entry.key.map(keys.contains) ?? false {
        entry.socket.endBoth()
        Self.end(id, in: &state)
      }
    }
  }

  // MARK: Room

  /// Ends the connection that waits longest for its client, for whoever has no descriptor; false when all of them work.
  func makeRoom() -> Bool { state.update { Self.makeRoom(in: &$0, where: { _ in true }) } }

  /// Ends the connection of this kind that makes room first; false when all of them work, or too many are ending. A client
  /// whose request has come, but is not read yet, would be cut off without an answer: it works.
  private static func makeRoom(in state: inout State, where isMeant: (Entry) -> Bool) -> Bool {
    guard state.ending < mostEnding, let id = silent(in: &state, isMeant) ?? idle(in: state, isMeant) else {
      return false
    }
    end(id, in: &state)
    return true
  }

  /// The oldest connection that has asked nothing: numbers are given in order, so the search goes on where it ended.
  private static func silent(in state: inout State, _ isMeant: (Entry) -> Bool) -> Int? {
    func isSilent(_ id: Int) -> Bool {
      state.entries[id].map { !$0.hasAsked && !$0.isEnding } ?? false
    }
    while state.firstSilent < state.nextID, !isSilent(state.firstSilent) { state.firstSilent += 1 }
    func canEnd(_ entry: Entry) -> Bool {
      !entry.hasAsked && !entry.isEnding && entry.waitsSince != nil && isMeant(entry)
        && !entry.socket.hasArrived
    }
    if let first = state.entries[state.firstSilent], canEnd(first) { return state.firstSilent }
    return state.entries.filter { canEnd($0.value) }.keys.min()
  }

  /// The connection that waits longest for its next request, those without a key first.
  private static func idle(in state: State, _ isMeant: (Entry) -> Bool) -> Int? {
    var best: (id: Int, hasKey: Bool, since: Instant)?
    for (id, entry) in state.entries where !entry.isEnding && isMeant(entry) {
      guard let since = entry.waitsSince else { continue }
      let hasKey = entry.key != nil
      if let best, (best.hasKey ? 1 : 0, best.since) <= (hasKey ? 1 : 0, since) { continue }
      if !entry.socket.hasArrived { best = (id, hasKey, since) }
    }
    return best?.id
  }

  private static func end(_ id: Int, in state: inout State) {
    guard let entry = state.entries[id], !entry.isEnding else { return }
    state.entries[id]?.isEnding = true
    state.ending += 1
    uncount(entry, in: &state)
    if entry.waitsSince != nil { entry.socket.endReceiving() }
  }

  private static func uncount(_ entry: Entry, in state: inout State) {
    if entry.isReserve { state.reserved -= 1 }
    if let origin = entry.origin { lower(&state.byOrigin, origin) }
    if let key = entry.key { lower(&state.byKey, key) }
  }

  private static func lower<Key: Hashable>(_ counts: inout [Key: Int], _ key: Key) {
    guard let count = counts[key], count > 1 else {
      counts[key] = nil
      return
    }
    counts[key] = count - 1
  }

  // MARK: Waiting

  /// Marks a connection that is about to wait for its client; false when it should end instead.
  ///
  /// - Parameter isInside: whether it waits for the rest of a request.
  @discardableResult
  func enterIdle(_ id: Int, isInside: Bool = false) -> Bool {
    state.withLock { state in
      guard let entry = state.entries[id], !entry.isEnding,
        state.phase == .running || (entry.isLate && state.phase == .draining)
      else { return false }
      state.entries[id]?.waitsSince = entry.waitsSince ?? .now
      state.entries[id]?.isInside = isInside
      return true
    }
  }

  func leaveIdle(_ id: Int) { state.withLock { $0.entries[id]?.waitsSince = nil } }

  /// Notes that the head of a request has come.
  func noteRequest(_ id: Int) { state.withLock { $0.entries[id]?.hasAsked = true } }

  /// Whether a connection is to end after its current response.
  func isEnding(_ id: Int) -> Bool {
    state.withLock { $0.phase != .running || $0.entries[id]?.isEnding ?? true }
  }

  // MARK: The end

  /// From now on connections end after their current response, and idle ones end now. Those that have asked nothing yet
  /// may only ask, as new ones: their first request may be on its way, and an end without a word would lose it.
  func beginDraining() {
    state.update { state in
      guard state.phase == .running else { return }
      state.phase = .draining
      for (id, entry) in state.entries {
        if !entry.hasAsked {
          state.entries[id]?.isLate = true
        } else if entry.waitsSince != nil && !entry.isInside {
          entry.socket.endReceiving()
        }
      }
    }
  }

  /// Whether the server does not wait for this connection's answers.
  func isLate(_ id: Int) -> Bool { state.withLock { $0.entries[id]?.isLate ?? true } }

  /// Tells handlers that the time to finish is over, and ends connections that wait.
  func expire() {
    state.update { state in
      state.phase = .expired
      for entry in state.entries.values where entry.isLate && entry.waitsSince != nil {
        entry.socket.endReceiving()
      }
    }
  }

  /// Cuts every connection that is left.
  func endAll() {
    state.withLock { state in
      for entry in state.entries.values { entry.socket.endBoth() }
    }
  }

  /// Waits until every connection of before the end has gone; false when the deadline passed first.
  func waitUntilServed(until deadline: Instant) -> Bool {
    state.wait(until: deadline) { $0.entries.values.allSatisfy(\.isLate) ? true : nil } ?? false
  }

  /// Waits until no connection is left; false when the deadline passed first.
  func waitUntilEmpty(until deadline: Instant) -> Bool {
    state.wait(until: deadline) { $0.entries.isEmpty ? true : nil } ?? false
  }
}
