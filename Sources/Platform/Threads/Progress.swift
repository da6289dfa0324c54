// How far a long piece of work is, told by the thread that does it to those that wait for it.

/// For any thread.
package final class Progress: Sendable {
  private let counts = Monitor<(done: Int, all: Int)>((0, 0))

  package init() {}

  /// Work of so many units begins, again where it had begun already.
  package func begin(_ units: Int) { counts.withLock { $0 = (0, max(0, units)) } }

  /// So many more units are done.
  package func add(_ units: Int) {
    counts.withLock { counts in
      counts.done += min(max(0, units), counts.all - counts.done)
    }
  }

  /// The part that is done, from 0 to 1; nil before it begins.
  package var part: Double? {
    counts.withLock { $0.all > 0 ? Double($0.done) / Double($0.all) : nil }
  }
}
