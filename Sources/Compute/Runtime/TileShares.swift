// Which thread takes which tile of a fork: neighbouring ones of its own, then the last ones of others.

import Synchronization

/// The tiles of a fork in shares, one for each thread. Threads take tiles as they come, so fast cores take more than slow ones.
final class TileShares: Sendable {
  private let shares: [Share]
  /// How many threads are near the memory of each thread, with itself.
  private let near: [Int]
  /// For each thread, one after the other, the shares in the order in which it takes from them: its own, the next ones of its
  /// node, the next of others.
  private let orders: [Share]

  /// - Parameter nodes: of each thread. Neighbouring threads are of one node, as are the tiles that they begin with.
  init(nodes: [Int]) {
    let shares = nodes.map { _ in Share() }
    self.shares = shares
    near = nodes.map { node in nodes.count(where: { $0 == node }) }
    orders = nodes.indices.flatMap { worker in
      let ring = nodes.indices.map { (worker + $0) % nodes.count }
      return (ring.filter { nodes[$0] == nodes[worker] } + ring.filter { nodes[$0] != nodes[worker] })
        .map { shares[$0] }
    }
  }

  /// Deals `tiles` out: each goes to the thread that would begin with it if it were dealt with all of `whole`. Nobody takes
  /// meanwhile.
  func fill(_ tiles: Range<Int>, of whole: Range<Int>) {
    for (index, share) in shares.enumerated() {
      let start = whole.lowerBound + whole.count * index / shares.count
      let end = whole.lowerBound + whole.count * (index + 1) / shares.count
      share.fill((start..<end).clamped(to: tiles))
    }
  }

  /// Whether all tiles were taken.
  var areEmpty: Bool { shares.allSatisfy(\.isEmpty) }

  /// How far a thread has come in a fork.
  struct Turn {
    let worker: Int
    /// Shares that it has found empty.
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
  /// find it anew for each of some thousand tiles of a decode step would be two counts of its owners.
  ///
  /// - Parameter staysNear: leaves tiles of other nodes to the threads there.
  @inline(__always)
  func takeAll(worker: Int, staysNear: Bool = false, _ body: (_ tile: Int) -> Void) {
    let count = staysNear ? near[worker] : shares.count
    var turn = Turn(worker: worker)
    while turn.passed < count {
      let share = share(turn)
      while let tile = share.take(turn) { body(tile) }
      turn.passed += 1
    }
  }

  private func share(_ turn: Turn) -> Share { orders[turn.worker * shares.count + turn.passed] }
}

/// The tiles of a fork that one thread begins with.
private final class Share: Sendable {
  /// The next tile, and in the upper half the end: no fork has 2^32 tiles.
  private let range = Atomic<UInt64>(0)
  /// Shares are written all the time: no two of them in one cache line.
  private let padding = (UInt64(0), UInt64(0), UInt64(0), UInt64(0), UInt64(0), UInt64(0), UInt64(0))

  var isEmpty: Bool {
    let range = range.load(ordering: .relaxed)
    return range & 0xFFFF_FFFF >= range >> 32
  }

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
