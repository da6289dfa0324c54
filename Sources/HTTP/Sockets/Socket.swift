// A connected stream socket, never blocking by itself: waiting is done with a deadline.
//
// This file and ListeningSocket.swift are the only ones with socket calls. Every call that a signal can
// interrupt is repeated; no write raises SIGPIPE.

import Platform

/// A descriptor with its owner's duty to call `shut` exactly once.
struct Socket: Sendable {
  enum Reading {
    case bytes([UInt8])
    case end, timedOut
  }

  /// What the other side has done, as far as this side can know.
  enum Peer { case open, halfClosed, gone }

  let descriptor: Int32

  /// Prepares an accepted connection: no delay for small writes, no signals, bounded kernel buffer.
  init(accepted descriptor: Int32, sendBufferBytes: Int) {
    self.descriptor = descriptor
    Self.prepare(descriptor)
    set(Self.tcp, TCP_NODELAY, 1)
    set(SOL_SOCKET, SO_KEEPALIVE, 1)
    if sendBufferBytes > 0 { set(SOL_SOCKET, SO_SNDBUF, Int32(clamping: sendBufferBytes)) }
    #if canImport(Darwin)
      set(SOL_SOCKET, SO_NOSIGPIPE, 1)
    #endif
  }

  /// Reads what is there, at most `most` bytes, waiting for the first one until `deadline`.
  ///
  /// What has arrived is read even when the deadline has passed: a process that was stopped for a while does
  /// not blame its clients. Memory is taken only once there is something to read: a thousand connections that
  /// wait hold no buffers.
  func receive(most: Int, until deadline: Instant) throws(SocketError) -> Reading {
    var deadline = deadline
    while true {
      let start = Instant.now
      if Self.wait(descriptor, for: POLLIN, until: deadline) {
        let (bytes, code) = receiveOnce(most)
        if !bytes.isEmpty { return .bytes(bytes) }
        switch code {
        case 0: return .end
        case EINTR, EAGAIN, EWOULDBLOCK: continue
        default: throw .clientGone
        }
      }
      let now = Instant.now
      // Woken much too late: the process was stopped. Its clients get a moment to catch up.
      guard start < deadline, now.seconds(since: deadline) > 1 else { return .timedOut }
      deadline = now.adding(seconds: 1)
    }
  }

  /// What has arrived; with none of it the error, 0 for the end of the stream.
  private func receiveOnce(_ most: Int) -> (bytes: [UInt8], code: Int32) {
    var code: Int32 = 0
    let bytes = [UInt8](unsafeUninitializedCapacity: most) { buffer, filled in
      let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
      if count < 0 { code = errno }
      filled = max(0, count)
    }
    return (bytes, code)
  }

  /// Writes all of `bytes`; gives up when nothing can be written for `stallSeconds`.
  func send(_ bytes: [UInt8], stallSeconds: Double) throws(SocketError) {
    var sent = 0
    while sent < bytes.count {
      let count = sendOnce(bytes, from: sent)
      if count > 0 {
        sent += count
        continue
      }
      switch errno {
      case EINTR: continue
      case EAGAIN, EWOULDBLOCK:
        guard Self.wait(descriptor, for: POLLOUT, until: .now.adding(seconds: stallSeconds)) else {
          throw .clientTooSlow
        }
      default: throw .clientGone
      }
    }
  }

  /// Writes what the kernel takes at once and forgets the rest.
  func sendWithoutWaiting(_ bytes: [UInt8]) { _ = sendOnce(bytes, from: 0) }

  /// Throws away what has arrived; false at the end of the stream.
  func discardArrived(_ scratch: inout [UInt8]) -> Bool {
    // Bounded, so that a fast sender cannot hold the caller.
    for _ in 0..<16 {
      let count = scratch.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress, $0.count, 0) }
      if count == 0 { return false }
      if count < 0 { return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK }
    }
    return true
  }

  /// Looks at the other side without waiting and without taking bytes.
  ///
  /// A client that closed and one that only ended its sending look the same (`halfClosed`) until something
  /// is sent: the closed one answers with a reset, which a later call reports as `gone`.
  func peer() -> Peer {
    var poll = pollfd(fd: descriptor, events: Int16(POLLIN | Self.halfClose), revents: 0)
    _ = Platform.poll(&poll, 1, 0)
    if Int32(poll.revents) & POLLERR != 0 { return .gone }
    #if !canImport(Darwin)
      // Both directions are down. Darwin reports a mere half-close so too.
      if Int32(poll.revents) & POLLHUP != 0 { return .gone }
    #endif
    var byte: UInt8 = 0
    let count = recv(descriptor, &byte, 1, Int32(Self.peekFlag))
    // Bytes that nobody has read may come before the end.
    if count > 0, Int32(poll.revents) & Self.halfClose == 0 { return .open }
    if count < 0 { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? .open : .gone }
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
    return code == 0 ? .halfClosed : .gone
  }

  /// Whether bytes have come that nobody has read yet.
  var hasArrived: Bool {
    var byte: UInt8 = 0
    return recv(descriptor, &byte, 1, Int32(Self.peekFlag) | Int32(MSG_DONTWAIT)) > 0
  }

  /// Ends the sending direction; the client reads what was sent, then the end.
  func endSending() { shutdown(descriptor, Self.writeSide) }

  /// Wakes a thread that waits to read: it finds the end of the stream. Callable from any thread.
  func endReceiving() { shutdown(descriptor, Self.readSide) }

  /// Ends both directions. Callable from any thread.
  func endBoth() { shutdown(descriptor, Self.bothSides) }

  /// Gives the descriptor back. Nothing may use this socket afterwards.
  func shut() { close(descriptor) }

  /// Waits until the descriptor is ready; false when the deadline passed first. Errors count as ready: the
  /// next call reports them.
  static func wait(_ descriptor: Int32, for events: Int32, until deadline: Instant) -> Bool {
    var poll = pollfd(fd: descriptor, events: Int16(events), revents: 0)
    while true {
      let milliseconds = (deadline.nanoseconds - Instant.now.nanoseconds + 999_999) / 1_000_000
      let count = Platform.poll(&poll, 1, Int32(clamping: max(0, milliseconds)))
      if count > 0 { return true }
      if count == 0 && Instant.now >= deadline { return false }
      if count < 0 && errno != EINTR { return true }
    }
  }

  /// Waits until one of the descriptors is readable or `deadline` has passed; says which ones are.
  static func waitForAny(_ descriptors: [Int32], until deadline: Instant?) -> [Bool] {
    var set = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    let left = deadline.map { max(0, ($0.nanoseconds - Instant.now.nanoseconds + 999_999) / 1_000_000) } ?? -1
    let count = poll(&set, nfds_t(set.count), Int32(clamping: left))
    return set.map { count > 0 && $0.revents != 0 }
  }

  /// Non-blocking, and closed in programs this one might start.
  static func prepare(_ descriptor: Int32) {
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
  }

  private func sendOnce(_ bytes: [UInt8], from start: Int) -> Int {
    bytes.withUnsafeBytes { buffer in
      let rest = UnsafeRawBufferPointer(rebasing: buffer[start...])
      return Platform.send(descriptor, rest.baseAddress, rest.count, Self.sendFlags)
    }
  }

  private func set(_ level: Int32, _ option: Int32, _ value: Int32) {
    var value = value
    setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
  }

  #if canImport(Darwin)
    private static let sendFlags: Int32 = 0
    private static let peekFlag = MSG_PEEK
    private static let halfClose: Int32 = 0
    private static let tcp = IPPROTO_TCP
    private static let readSide = SHUT_RD
    private static let writeSide = SHUT_WR
    private static let bothSides = SHUT_RDWR
  #else
    private static let sendFlags = Int32(MSG_NOSIGNAL)
    private static let peekFlag = MSG_PEEK
    /// POLLRDHUP, which the system's headers hide.
    private static let halfClose: Int32 = 0x2000
    private static let tcp = Int32(IPPROTO_TCP)
    private static let readSide = Int32(SHUT_RD)
    private static let writeSide = Int32(SHUT_WR)
    private static let bothSides = Int32(SHUT_RDWR)
  #endif
}
