// The bounded queue between threads.

import Testing

@testable import Platform

@Suite struct MailboxTests {
  private func value(_ reading: Mailbox<Int>.Reading) -> Int? {
    if case .element(let element) = reading { element } else { nil }
  }

  private func isClosed(_ reading: Mailbox<Int>.Reading) -> Bool {
    if case .closed = reading { true } else { false }
  }

  private func isTimedOut(_ reading: Mailbox<Int>.Reading) -> Bool {
    if case .timedOut = reading { true } else { false }
  }

  @Test func `elements come out in the order they went in`() {
    let mailbox = Mailbox<Int>(capacity: 3)
    for element in [1, 2, 3] { #expect(mailbox.trySend(element)) }
    #expect([mailbox.receive(), mailbox.receive(), mailbox.receive()].map(value) == [1, 2, 3])
  }

  @Test func `a full mailbox takes nothing and waits for nobody`() {
    let mailbox = Mailbox<Int>(capacity: 1)
    #expect(mailbox.trySend(1))
    #expect(!mailbox.trySend(2))
    #expect(value(mailbox.receive()) == 1)
    #expect(mailbox.trySend(3))
    #expect(value(mailbox.receive()) == 3)
  }

  @Test func `what was sent before the close is still read`() {
    let mailbox = Mailbox<Int>(capacity: 4)
    #expect(mailbox.trySend(1))
    mailbox.close()
    #expect(!mailbox.trySend(2))
    #expect(mailbox.isClosed)
    #expect(value(mailbox.receive()) == 1)
    #expect(isClosed(mailbox.receive()))
    #expect(isClosed(mailbox.receive()))
  }

  @Test func `an empty mailbox times out at the deadline`() {
    let mailbox = Mailbox<Int>(capacity: 1)
    let start = Instant.now
    #expect(isTimedOut(mailbox.receive(until: start.adding(seconds: 0.05))))
    #expect(Instant.now.seconds(since: start) >= 0.05)
    #expect(isTimedOut(mailbox.receive(until: start)))
  }

  @Test func `an element is taken even when the deadline has passed`() {
    let mailbox = Mailbox<Int>(capacity: 1)
    #expect(mailbox.trySend(1))
    #expect(value(mailbox.receive(until: Instant(nanoseconds: 0))) == 1)
  }

  @Test(.timeLimit(.minutes(1))) func `a waiting reader wakes for an element and for the close`() throws {
    let mailbox = Mailbox<Int>(capacity: 1)
    let sender = try Thread(name: "sender") {
      usleep(20_000)
      _ = mailbox.trySend(7)
      usleep(20_000)
      mailbox.close()
    }
    #expect(value(mailbox.receive()) == 7)
    #expect(isClosed(mailbox.receive()))
    sender.join()
  }

  @Test(.timeLimit(.minutes(1))) func `nothing is lost between many senders and one reader`() throws {
    let mailbox = Mailbox<Int>(capacity: 8)
    let senders = try (0..<4).map { sender in
      try Thread(name: "sender") {
        for element in 0..<500 {
          while !mailbox.trySend(sender * 1000 + element) { usleep(50) }
        }
      }
    }
    var next = [0, 0, 0, 0]
    for _ in 0..<2000 {
      let element = try #require(value(mailbox.receive(until: .now.adding(seconds: 20))))
      #expect(element % 1000 == next[element / 1000])
      next[element / 1000] += 1
    }
    for sender in senders { sender.join() }
    #expect(next == [500, 500, 500, 500])
  }

  @Test func `a reader that never catches up holds no used elements back`() {
    final class Counted: Sendable {
      let live: Monitor<Int>
      init(_ live: Monitor<Int>) {
        self.live = live
        live.withLock { $0 += 1 }
      }
      deinit { live.withLock { $0 -= 1 } }
    }
    let live = Monitor(0)
    let mailbox = Mailbox<Counted>(capacity: 4)
    for _ in 0..<2 { _ = mailbox.trySend(Counted(live)) }
    var most = 0
    for _ in 0..<1000 {
      _ = mailbox.trySend(Counted(live))
      _ = mailbox.receive()
      most = max(most, live.withLock { $0 })
    }
    #expect(most <= 8)
  }
}
