// Which thread takes which tile of a fork: neighbouring ones of its own, then the last ones of others.

import Synchronization

/// The tiles of a fork in shares, one for each thread. Threads take tiles as they come, so fast cores take more than slow ones.
final class TileShares: Sendable {
  private let shares: [Share]

  init(count: Int) { shares = (0..<count).map { _ in Share() } }

  /// Deals `tiles` out. Nobody takes meanwhile.
  func fill(_ tiles: Int) {
    for (index, share) in shares.enumerated() {
      share.fill(tiles * index / shares.count..<tiles * (index + 1) / shares.count)
    }
  }

  /// How far a thread has come in a fork.
  struct Turn {
    let worker: Int
    /// Shares after its own that it has found empty.
    fileprivate var passed = 0

    init(worker: Int) { self.worker = worker }
  }

  /// The next tile for a thread: of its own share in the order of memory, then the last of the nearest that has one. Nil when
  /// all are taken.
  func take(_ turn: inout Turn) -> Int? {
    while turn.passed < shares.count {
      if let tile = share(turn).take(turn) { return tile }
      turn.passed += 1
    }
    return nil
  }

  /// Calls `body` with all tiles that `take` gives to a thread. A share is held as long as the thread takes from it: to
  /// find it anew for each of some thousand tiles of a decode step would be a division and two counts of its owners.
  @inline(__always)
  func takeAll(worker: Int, _ body: (_ tile: Int) -> Void) {
    var turn = Turn(worker: worker)
    while turn.passed < shares.count {
      let share = share(turn)
      while let tile = share.take(turn) { body(tile) }
      turn.passed += 1
    }
  }

  private func share(_ turn: Turn) -> Share { shares[(turn.worker + turn.passed) % shares.count] }
}

/// The tiles of a fork that one thread begins with.
private final class Share: Sendable {
  /// The next tile, and in the upper half the end: no fork has 2^32 tiles.
  private let range = Atomic<UInt64>(0)
  /// Shares are written all the time: no two of them in one cache line.
  private let padding = (UInt64(0), UInt64(0), UInt64(0), UInt64(0), UInt64(0), UInt64(0), UInt64(0))

  func fill(_ tiles: Range<Int>) {
    range.store(UInt64(tiles.upperBound) << 32 | UInt64(tiles.lowerBound), ordering: .relaxed)
  }

  /// The first tile for the share's own thread, the last for others.
  @inline(__always)
  func take(_ turn: TileShares.Turn) -> Int? {
    turn.passed == 0 ? take { ($0, $0 + 1, $1) } : take { ($1 - 1, $0, $1 - 1) }
  }

  /// - Parameter choose: from the range's bounds, the tile to take and the bounds that are left.
  @inline(__always)
  private func take(_ choose: (UInt64, UInt64) -> (tile: UInt64, next: UInt64, end: UInt64)) -> Int? {
    var current = range.load(ordering: .relaxed)
    while true {
      let (next, end) = (current & 0xFFFF_FFFF, current >> 32)
      guard next < end else { return nil }
      let taken = choose(next, end)
      let (exchanged, original) = range.compareExchange(
        expected: current, desired: taken.end << 32 | taken.next, ordering: .relaxed)
      if exchanged { return Int(taken.tile) }
      current = original
    }
  }
}
