// A bounded queue between threads: the engine's side never blocks, the reader waits with a deadline.

/// Elements in the order in which they were sent, at most `capacity` at a time; any thread may use either side.
package final class Mailbox<Element: Sendable>: Sendable {
  private struct State {
    var queue: [Element] = []
    var head = 0
    var isClosed = false

    var count: Int { queue.count - head }

    mutating func takeFirst() -> Element {
      let element = queue[head]
      head += 1
      // Shift only when at least half is used up: amortised constant time, and never more than twice the
      // elements waiting, even when the reader is always a little behind.
      if head * 2 >= queue.count {
        queue.removeFirst(head)
        head = 0
      }
      return element
    }
  }

  /// What a reader found.
  package enum Reading: Sendable {
    case element(Element)
    /// Closed, and everything sent before has been read.
    case closed
    case timedOut
  }

  private let state = Monitor(State())
  package let capacity: Int

  package init(capacity: Int) { self.capacity = capacity }

  /// Appends without waiting. False when the mailbox is full or closed: the element was not taken.
  package func trySend(_ element: Element) -> Bool {
    state.update { state in
      guard !state.isClosed, state.count < capacity else { return false }
      state.queue.append(element)
      return true
    }
  }

  /// Appends, and waits for room where there is none.
  ///
  /// - Parameter isUnwanted: asked while it waits; true gives up.
  /// - Returns: false when the mailbox is closed or it was given up: the element was not taken.
  package func send(_ element: Element, isUnwanted: () -> Bool = { false }) -> Bool {
    while !trySend(element) {
      if isClosed || isUnwanted() { return false }
      usleep(500)
    }
    return true
  }

  /// Whether `trySend` would refuse now.
  package var isFull: Bool { state.withLock { $0.isClosed || $0.count >= capacity } }

  /// No more elements follow; the reader still gets those already sent.
  package func close() { state.update { $0.isClosed = true } }

  package var isClosed: Bool { state.withLock { $0.isClosed } }

  /// Takes the oldest element, waiting for one until `deadline` (nil: without limit).
  package func receive(until deadline: Instant? = nil) -> Reading {
    let reading: Reading? = state.wait(until: deadline) { state in
      if state.count > 0 { return .element(state.takeFirst()) }
      return state.isClosed ? .closed : nil
    }
    return reading ?? .timedOut
  }
}
