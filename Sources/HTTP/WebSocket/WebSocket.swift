// A WebSocket after its handshake: whole text messages both ways, pings and closing handled within (RFC 6455).

import Platform

/// Used on the connection's thread only, and only until the closure it was given to returns.
package final class WebSocket {
  /// Bounds of one WebSocket.
  package struct Settings: Sendable {
    /// Bytes of one message; beyond: closed with 1009.
    package var messageBytes = 8 << 20
    /// Silence of the client after which it is pinged; after as much again it counts as gone. Seconds.
    package var pingSeconds = 30.0
    /// Without a message for this long the connection is closed, seconds.
    package var idleSeconds = 3600.0

    package init() {}
  }

  /// Messages that may wait while one is worked on; more are left in the kernel's buffers.
  private static let waitingLimit = 8
  private static let readBytes = 16 << 10

  private let connection: UpgradedConnection
  private let settings: Settings

  private var reader: WebSocketFrameReader
  private var waiting: [String] = []
  private var reservedBytes = 0
  private var lastHeard = Instant.now
  private var isOver = false

  /// A WebSocket on a connection whose handshake has been answered.
  init(_ connection: UpgradedConnection, settings: Settings) {
    (self.connection, self.settings) = (connection, settings)
    reader = WebSocketFrameReader(messageLimit: settings.messageBytes)
    reader.feed(connection.early)
  }

  deinit { connection.budget.release(reservedBytes) }

  // MARK: Receiving

  /// The next text message; nil when the connection is over, whoever ended it.
  package func receive() -> String? {
    let idleEnd = Instant.now.adding(seconds: settings.idleSeconds)
    var window: Window?
    while !isOver {
      // One at a time: what is wrong after a message does not take its answer away.
      readMessages(upTo: 1)
      if !waiting.isEmpty { return take() }
      guard !isOver else { break }
      if reader.isInsideMessage {
        window = window ?? Window(connection.limits)
        receiveRest(&window)
      } else {
        window = nil
        waitForMessage(until: idleEnd)
      }
    }
    return nil
  }

  /// Whether the client has left or closed, found out without waiting. Pings are answered and further messages
  /// kept meanwhile.
  package func isPeerGone() -> Bool {
    readMessages(upTo: Self.waitingLimit)
    while !isOver && waiting.count < Self.waitingLimit {
      guard receiveOnce(until: Instant(nanoseconds: 0)) else { break }
      readMessages(upTo: Self.waitingLimit)
    }
    if !isOver, connection.socket.peer() == .gone { isOver = true }
    return isOver
  }

  private func take() -> String {
    let message = waiting.removeFirst()
    adjustReservation()
    return message
  }

  /// How fast a message that has begun must come.
  private struct Window {
    let least: Double
    let seconds: Double
    var end: Instant
    var bytes = 0

    init(_ limits: Limits) {
      seconds = limits.bodyWindowSeconds
      least = seconds * Double(limits.bodyBytesPerSecond)
      end = Instant.now.adding(seconds: seconds)
    }
  }

  private func receiveRest(_ window: inout Window?) {
    guard var current = window else { return }
    let before = reader.bufferedBytes
    _ = receiveOnce(until: current.end)
    current.bytes += max(1, reader.bufferedBytes - before)
    if Instant.now >= current.end {
      guard Double(current.bytes) >= current.least else { return close(1008, "a message came too slowly") }
      current.end = Instant.now.adding(seconds: current.seconds)
      current.bytes = 0
    }
    window = current
  }

  /// Waits for the first byte of a message. A server that ends, or begins to end, says so to the client.
  private func waitForMessage(until idleEnd: Instant) {
    guard connection.enterIdle() else { return close(1001, "the server is shutting down") }
    let hasBytes = receiveOnce(until: min(idleEnd, lastHeard.adding(seconds: settings.pingSeconds)))
    connection.leaveIdle()
    if hasBytes || isOver { return }
    let now = Instant.now
    if now >= idleEnd { return close(1000, "no message for a long time") }
    if now.seconds(since: lastHeard) >= settings.pingSeconds { askForLife() }
  }

  private func askForLife() {
    write(WebSocketFrameWriter.ping())
    guard !isOver, connection.enterIdle() else { return }
    let hasBytes = receiveOnce(until: Instant.now.adding(seconds: settings.pingSeconds))
    connection.leaveIdle()
    if !hasBytes && !isOver { isOver = true }
  }

  /// Takes what has arrived; false when nothing came in time or the connection ended.
  private func receiveOnce(until deadline: Instant) -> Bool {
    do throws(SocketError) {
      switch try connection.socket.receive(most: Self.readBytes, until: deadline) {
      case .timedOut: return false
      case .bytes(let bytes):
        lastHeard = .now
        reader.feed(bytes)
        if !adjustReservation() { close(1013, "the server holds too many messages") }
        return !isOver
      case .end:
        // The server itself ends idle connections this way when it drains.
        if connection.enterIdle() {
          connection.leaveIdle()
        } else if !reader.isInsideMessage {
          close(1001, "the server is shutting down")
        }
        isOver = true
      }
    } catch {
      isOver = true
    }
    return false
  }

  /// Reads the messages in the bytes so far, until `limit` of them wait.
  private func readMessages(upTo limit: Int) {
    do throws(WebSocketFrameReader.Failure) {
      while !isOver && waiting.count < limit {
        switch try reader.next() {
        case .needMore: return
        case .text(let text): waiting.append(text)
        case .binary: close(1003, "messages are text")
        case .ping(let payload): write(WebSocketFrameWriter.pong(payload))
        case .pong: break
        case .close(let code): close(code ?? 1000, "")
        }
      }
    } catch {
      close(error.code, error.reason)
    }
  }

  /// Counts what is held against the memory that all connections share; false when there is none left.
  @discardableResult
  private func adjustReservation() -> Bool {
    let held = reader.bufferedBytes + waiting.reduce(0) { $0 + $1.utf8.count }
    if held > reservedBytes {
      guard connection.budget.reserve(held - reservedBytes) else { return false }
    } else {
      connection.budget.release(reservedBytes - held)
    }
    reservedBytes = held
    return true
  }

  // MARK: Sending

  /// Sends one text message in one write.
  ///
  /// - Parameter utf8: valid UTF-8.
  /// - Throws: `SocketError` when the client has left, closed, or does not read.
  package func send(_ utf8: [UInt8]) throws(SocketError) {
    guard !isOver else { throw .clientGone }
    do throws(SocketError) {
      try connection.socket.send(
        WebSocketFrameWriter.text(utf8), stallSeconds: connection.limits.writeStallSeconds)
      connection.countSent(utf8.count)
    } catch {
      isOver = true
      throw error
    }
  }

  /// Says the end, with a status of RFC 6455 section 7.4.1. Nothing is received or sent afterwards.
  package func close(_ code: UInt16, _ reason: String) {
    guard !isOver else { return }
    write(WebSocketFrameWriter.close(code, reason))
    isOver = true
  }

  private func write(_ bytes: [UInt8]) {
    do throws(SocketError) {
      try connection.socket.send(bytes, stallSeconds: connection.limits.writeStallSeconds)
    } catch {
      isOver = true
    }
  }
}
