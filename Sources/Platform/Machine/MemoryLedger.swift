// One account of the memory that the process holds, by kind, under one limit.
//
// Large things are reserved before they are taken, so that a limit is met by a refusal instead of by the kernel; small
// ones are only counted, and leave less to reserve. What nobody accounts for (heap, stacks) is measured and counted
// as `other`. It is measured whenever caches or requests have taken some more, not only now and then: a fast machine
// fills all that is left within a second, in which connections take some megabytes of heap and stacks.

/// What memory is held for.
package enum MemoryKind: String, Sendable, CaseIterable {
  /// Bytes of tensors, whether mapped from files or not.
  case weights
  /// What adapters add to weights.
  case adapters
  /// Keys and values of running sequences, and what is kept ready for the next ones.
  case kvCache = "kv_cache"
  /// Keys and values of ended sequences.
  case prefixCache = "prefix_cache"
  /// Buffers of the forward pass.
  case scratch
  /// Compiled constraints.
  case grammars
  /// Bodies of requests that are being read or answered.
  case requestBodies = "request_bodies"
  /// What requests become beside their bodies, and answers in the making.
  case answers
  /// Images while they are decoded, and images and audio that are ready for the model.
  case media
  case storedResponses = "stored_responses"
  /// Documents of indexes that are in no file yet.
  case searchIndexes = "search_indexes"
  /// What other programs may take that run for this one.
  case programs
  /// Everything else: heap, stacks, the program's own data.
  case other
}

/// Bytes held, by kind, and the limit of their sum. Every call is one step, from any thread.
package final class MemoryLedger: Sendable {
  /// One kind in a snapshot.
  package struct Line: Sendable, Equatable {
    package let kind: MemoryKind
    /// Held when the snapshot was taken.
    package let bytes: Int
    /// Most that was held since the start, bytes.
    package let peak: Int
  }

  /// The account at one moment: all numbers belong together.
  package struct Snapshot: Sendable, Equatable {
    /// One of each kind.
    package let lines: [Line]
    /// The ledger's limit, bytes.
    package let limit: Int
    /// Sum of the lines, bytes; above the limit where more was counted than could be reserved.
    package let total: Int
    /// Bytes that can still be reserved; never negative.
    package var left: Int { max(0, limit - total) }
    /// Bytes counted beyond the limit.
    package var excess: Int { max(0, total - limit) }
  }

  private struct State {
    var bytes = [Int](repeating: 0, count: MemoryKind.allCases.count)
    var peaks = [Int](repeating: 0, count: MemoryKind.allCases.count)
    var total = 0
    /// Bytes reserved since the last measurement; it stops counting where the next measurement is due.
    var unmeasured = 0
    var onShortage: (@Sendable (Int) -> Void)?
    var onMeasurement: (@Sendable () -> Void)?

    mutating func change(_ kind: MemoryKind, by delta: Int) {
      let index = MemoryLedger.index(of: kind)
      let before = bytes[index]
      bytes[index] = max(0, before &+ delta)
      total += bytes[index] - before
      peaks[index] = max(peaks[index], bytes[index])
    }
  }

  /// Most bytes of all kinds together.
  package let limit: Int
  /// Bytes that caches leave free for what is only measured, such as the stacks of new connections. Requests leave half of
  /// it.
  package let slack: Int
  /// Loans of that many bytes have the heap give back what it has kept of them before they end. For libraries: a program of
  /// its own sets its heap up once (`Machine.returnFreedMemory`).
  package let trimmedLoan: Int
  private let state = Monitor(State())

  /// Bytes that may be reserved before the rest is measured again. A measurement reads one file of the kernel's.
  private static let measuredGrowth = 1 << 20

  package init(limit: Int = .max, slack: Int = 0, trimmedLoan: Int = .max) {
    self.limit = max(0, limit)
    self.slack = max(0, slack)
    self.trimmedLoan = max(0, trimmedLoan)
  }

  /// The slack for a limit in bytes: a thirty-second, at least 4 MiB and at most 64 MiB, but no more than a sixteenth.
  package static func slack(of limit: Int) -> Int {
    let limit = max(0, limit)
    return min(limit / 16, max(4 << 20, min(limit / 32, 64 << 20)))
  }

  private static func index(of kind: MemoryKind) -> Int {
    MemoryKind.allCases.firstIndex(of: kind) ?? MemoryKind.allCases.count - 1
  }

  /// Takes `bytes` if they are left; false, and nothing taken, otherwise.
  package func reserve(_ bytes: Int, for kind: MemoryKind) -> Bool { reserve([(kind, bytes)]) }

  /// Takes all of the parts if they are left; false, and nothing taken, otherwise.
  package func reserve(_ parts: [(kind: MemoryKind, bytes: Int)]) -> Bool { reserve(parts, below: limit) }

  /// Takes `bytes` for a cache, which can do with less, if the slack stays free.
  ///
  /// Measures first what is held besides, where much was reserved since the last measurement.
  package func reserveGrowth(_ bytes: Int, for kind: MemoryKind) -> Bool {
    reserve(bytes, for: kind, leaving: slack)
  }

  /// Takes `bytes` if as many as `free` are left besides, after a measurement where much was reserved since the last.
  private func reserve(_ bytes: Int, for kind: MemoryKind, leaving free: Int) -> Bool {
    let measure = state.withLock { state in
      let (sum, overflow) = state.unmeasured.addingReportingOverflow(max(0, bytes))
      guard overflow || sum >= Self.measuredGrowth else { return nil as (@Sendable () -> Void)? }
      state.unmeasured = 0
      return state.onMeasurement
    }
    measure?()
    return reserve([(kind, bytes)], below: limit - min(limit, free))
  }

  private func reserve(_ parts: [(kind: MemoryKind, bytes: Int)], below limit: Int) -> Bool {
    state.withLock { state in
      var after = state.total
      for part in parts {
        let (sum, overflow) = after.addingReportingOverflow(max(0, part.bytes))
        guard !overflow, sum <= limit else { return false }
        after = sum
      }
      state.unmeasured = min(
        Self.measuredGrowth, state.unmeasured + min(Self.measuredGrowth, after - state.total))
      for part in parts { state.change(part.kind, by: max(0, part.bytes)) }
      return true
    }
  }

  /// Takes `bytes` for a request, which can be refused: half of the slack stays free. Where they are not left it asks for
  /// them and waits for what others give back. Measures as `reserveGrowth` does.
  ///
  /// - Parameter seconds: longest wait.
  package func reserve(_ bytes: Int, for kind: MemoryKind, waiting seconds: Double) -> Bool {
    if reserve(bytes, for: kind, leaving: slack / 2) { return true }
    let (wanted, overflow) = bytes.addingReportingOverflow(slack / 2)
    // Nobody can give more than there is.
    guard !overflow, wanted <= limit else { return false }
    ask(for: wanted)
    let deadline = Instant.now.adding(seconds: seconds)
    while Instant.now < deadline {
      usleep(5_000)
      if reserve(bytes, for: kind, leaving: slack / 2) { return true }
    }
    return false
  }

  /// Counts bytes that are held already, whatever is left.
  package func add(_ bytes: Int, to kind: MemoryKind) {
    state.withLock { $0.change(kind, by: max(0, bytes)) }
  }

  /// Ends the holding of bytes that were reserved or added; what is released beyond them is ignored.
  package func release(_ bytes: Int, from kind: MemoryKind) {
    state.withLock { $0.change(kind, by: -max(0, bytes)) }
  }

  /// Bytes that go on being held, for another purpose.
  package func move(_ bytes: Int, from: MemoryKind, to: MemoryKind) {
    guard bytes != 0 else { return }
    state.withLock { state in
      state.change(from, by: -bytes)
      state.change(to, by: bytes)
    }
  }

  /// Replaces the bytes of a kind that is measured as a whole; whatever is left, as `add` does.
  package func set(_ kind: MemoryKind, to bytes: Int) {
    state.withLock { $0.change(kind, by: max(0, bytes) - $0.bytes[Self.index(of: kind)]) }
  }

  /// Bytes that are held for one purpose now.
  package func bytes(of kind: MemoryKind) -> Int { state.withLock { $0.bytes[Self.index(of: kind)] } }

  /// Bytes that can still be reserved; never negative.
  package var left: Int { state.withLock { max(0, limit - $0.total) } }

  /// Bytes that caches can still grow by; never negative.
  package var leftForGrowth: Int { max(0, left - slack) }

  /// The whole account, taken in one step.
  package func snapshot() -> Snapshot {
    state.withLock { state in
      Snapshot(
        lines: MemoryKind.allCases.enumerated().map { index, kind in
          Line(kind: kind, bytes: state.bytes[index], peak: state.peaks[index])
        }, limit: limit, total: state.total)
    }
  }

  // MARK: Shortage

  /// Who is told, on the asking thread, that bytes are wanted that are not left. Must not block.
  package func onShortage(_ handle: (@Sendable (_ bytes: Int) -> Void)?) {
    state.withLock { $0.onShortage = handle }
  }

  /// Sets what measures the bytes that nobody accounts for and tells them by `set`. It is called on the thread that
  /// reserves, without the ledger's lock.
  package func onMeasurement(_ measure: (@Sendable () -> Void)?) {
    state.withLock { $0.onMeasurement = measure }
  }

  /// Asks others to give back this number of bytes. They may come later, or not.
  package func ask(for bytes: Int) {
    let handle = state.withLock { $0.onShortage }
    handle?(bytes)
  }
}
