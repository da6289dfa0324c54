// All open connections, and the phase of the server's life they belong to.

import Platform

final class ConnectionTable: Sendable {
  private struct Entry {
    let socket: Socket
    /// Waiting for a request, or for the client to close: may be ended at any time.
    var isIdle: Bool
  }

  private struct State {
    var entries: [Int: Entry] = [:]
    var nextID = 0
    var phase = ConnectionContext.Phase.running
    /// The most connections since `remove` last told of the end of a crowd.
    var peak = 0
  }

  private let state = Monitor(State())
  private let limit: Int
  private static let crowd = 64

  init(limit: Int) { self.limit = limit }

  var phase: ConnectionContext.Phase { state.withLock { $0.phase } }

  var count: Int { state.withLock { $0.entries.count } }

  /// Takes a connection in; nil when there are too many.
  func add(_ socket: Socket) -> Int? {
    state.update { state in
      guard state.entries.count < limit else { return nil }
      let id = state.nextID
      state.nextID += 1
      state.entries[id] = Entry(socket: socket, isIdle: false)
      state.peak = max(state.peak, state.entries.count)
      return id
    }
  }

  /// Must come before the descriptor is closed: the table uses it from other threads.
  ///
  /// - Returns: whether half of a crowd has gone, whose threads have left memory that the heap keeps.
  @discardableResult
  func remove(_ id: Int) -> Bool {
    state.update { state in
      state.entries[id] = nil
      guard state.peak >= Self.crowd, state.entries.count <= state.peak / 2 else { return false }
      state.peak = state.entries.count
      return true
    }
  }

  /// Marks a connection that is about to wait for its client; false when it should end instead.
  func enterIdle(_ id: Int) -> Bool {
    state.withLock { state in
      guard state.phase == .running else { return false }
      state.entries[id]?.isIdle = true
      return true
    }
  }

  func leaveIdle(_ id: Int) { state.withLock { $0.entries[id]?.isIdle = false } }

  /// From now on connections end after their current response; idle ones end now.
  func beginDraining() {
    state.update { state in
      guard state.phase == .running else { return }
      state.phase = .draining
      for entry in state.entries.values where entry.isIdle { entry.socket.endReceiving() }
    }
  }

  /// Tells handlers that the time to finish is over.
  func expire() { state.update { $0.phase = .expired } }

  /// Cuts every connection that is left.
  func endAll() {
    state.withLock { state in
      for entry in state.entries.values { entry.socket.endBoth() }
    }
  }

  /// Waits until no connection is left; false when the deadline passed first.
  func waitUntilEmpty(until deadline: Instant) -> Bool {
    state.wait(until: deadline) { $0.entries.isEmpty ? true : nil } ?? false
  }
}
