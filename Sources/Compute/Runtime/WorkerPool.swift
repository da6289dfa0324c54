// Fork and join of kernel work on long-lived threads.
//
// A decode step forks about 140 times, with a few microseconds of other work in between. Workers therefore look out
// for the next fork for a moment before they sleep: taking a fork from memory costs a fraction of a microsecond,
// waking a thread ten or more (Dispatch's `concurrentPerform`, which wakes one for every fork, spent 11 % of a decode
// step of a 0.6 B model in the kernel's scheduler).

import Platform
import Synchronization

/// Runs numbered tiles on a fixed number of threads, the calling one included.
///
/// Each thread has a share of neighbouring tiles, which it takes one by one in the order of memory: what it prefetched
/// ahead of its last tile is its next one. A thread that is done takes the last tiles of others, so one that is
/// descheduled does not hold them up. Which thread computes a tile never changes its result.
///
/// On a machine with several nodes of memory the threads are spread over them in the order of their numbers, and kept there:
/// memory that a thread of a node was the first to write lies near it, and equal shares of later forks find it near.
package final class WorkerPool: Sendable {
  /// Threads that work on a fork, at least 1.
  package let threads: Int
  private let board: Board
  private let workers: [Thread]

  /// Nodes of memory that the threads are near.
  let nodes: Int

  /// Starts the threads; those that the system does not give are done without.
  ///
  /// - Parameter nodes: the processors of each node of memory.
  package init(threads: Int, nodes: [[Int]] = Topology.here.nodes) {
    let places = Self.places(of: max(1, threads), on: nodes.map(\.count))
    let board = Board(nodes: places)
    self.board = board
    let isSpread = places.first != places.last
    var workers: [Thread] = []
    for worker in 1..<max(1, threads) {
      let body = {
        // The caller is not ours to keep anywhere: it finds place where the others leave it, on the first node.
        if isSpread { Thread.keepCurrent(on: nodes[places[worker]]) }
        board.serve(worker)
      }
      guard let thread = try? Thread(name: "kernels", stackBytes: 1 << 20, body) else { break }
      workers.append(thread)
    }
    self.workers = workers
    self.threads = workers.count + 1
    // A node whose threads are missing would wait for ever for its tiles.
    self.nodes = workers.count + 1 == places.count ? Set(places).count : 1
  }

  /// The node of each thread: in order, as many on each as it has processors.
  static func places(of threads: Int, on processors: [Int]) -> [Int] {
    let all = max(1, processors.reduce(0, +))
    var (place, end) = (0, processors.first ?? 0)
    return (0..<threads).map { thread in
      // The processor in the middle of the thread's share of them.
      while place + 1 < processors.count, (2 * thread + 1) * all >= 2 * threads * end {
        place += 1
        end += processors[place]
      }
      return place
    }
  }

  deinit {
    board.close()
    for worker in workers { worker.join() }
  }

  /// Calls `body(tile, worker)` once for every tile in `0 ..< tiles` and returns when all are done.
  ///
  /// `worker` is in `0 ..< threads` and is never in use twice at a time: it indexes per-thread buffers.
  /// Not reentrant: one fork at a time.
  func run(tiles: Int, _ body: (_ tile: Int, _ worker: Int) -> Void) {
    guard threads > 1, tiles > 1 else {
      for tile in 0..<max(0, tiles) { body(tile, 0) }
      return
    }
    withoutActuallyEscaping(body) {
      board.run(0..<tiles, of: 0..<tiles, staysNear: false, SharedBody(call: $0))
    }
  }

  /// As `run`, for tiles that are the first to write their memory: each is done on the node where the tile at its place is
  /// going to be done, in forks of all of `whole`. On one node all threads do them.
  func place(_ tiles: Range<Int>, of whole: Range<Int>, _ body: (_ tile: Int, _ worker: Int) -> Void) {
    guard nodes > 1 else { return run(tiles: tiles.count) { body(tiles.lowerBound + $0, $1) } }
    withoutActuallyEscaping(body) {
      board.run(tiles, of: whole, staysNear: true, SharedBody(call: $0))
    }
  }
}

/// `@unchecked Sendable`: bodies are written to be called from several threads at once, each call on its own
/// tile and its own worker's buffers, and `run` does not return before the last call has.
private struct SharedBody: @unchecked Sendable {
  let call: (_ tile: Int, _ worker: Int) -> Void
}

/// Where a fork is posted, and how its workers find and leave it.
///
/// `@unchecked Sendable`: `body` is written while no worker is inside (`inside` is 0 and `isOpen` false)
/// and read only by workers that have entered. A worker counts itself in before it looks whether the fork is still
/// open, and the fork is closed before the count is read, both in one total order: whoever comes too late touches
/// nothing, and nobody is inside when `run` returns.
private final class Board: @unchecked Sendable {
  private var body: SharedBody?
  /// Written as `body` is.
  private var staysNear = false
  private let shares: TileShares
  private let isOpen = Atomic<Bool>(false)
  private let inside = Atomic<Int>(0)
  /// Counts forks, so that waiting threads see a new one.
  private let forks = Atomic<Int>(0)
  /// Whether a thread sleeps, or is about to.
  private let haveSleepers = Atomic<Bool>(false)
  private let isClosed = Atomic<Bool>(false)
  /// Wakes sleepers, all of them; it guards no value.
  private let alarm = Monitor(false)

  /// How long to look out for the next fork, seconds: longer than the work between two forks of a step.
  private static let watch = 200e-6

  init(nodes: [Int]) { shares = TileShares(nodes: nodes) }

  func run(_ tiles: Range<Int>, of whole: Range<Int>, staysNear: Bool, _ body: SharedBody) {
    (self.body, self.staysNear) = (body, staysNear)
    shares.fill(tiles, of: whole)
    isOpen.store(true, ordering: .sequentiallyConsistent)
    forks.wrappingAdd(1, ordering: .sequentiallyConsistent)
    wakeSleepers()
    work(body, worker: 0)
    // What is left is for threads of other nodes, which may not have come yet.
    while staysNear, !shares.areEmpty { sched_yield() }
    isOpen.store(false, ordering: .sequentiallyConsistent)
    // The others are on their last tile. If the machine has given their core away, so do we.
    var rounds = 0
    while inside.load(ordering: .sequentiallyConsistent) != 0 {
      rounds += 1
      if rounds > 1 << 16 { sched_yield() }
    }
    self.body = nil
  }

  /// A worker's life.
  func serve(_ worker: Int) {
    var seen = 0
    while true {
      let fork = waitForFork(after: seen)
      if isClosed.load(ordering: .acquiring) { return }
      seen = fork
      inside.wrappingAdd(1, ordering: .sequentiallyConsistent)
      if isOpen.load(ordering: .sequentiallyConsistent), let body { work(body, worker: worker) }
      inside.wrappingSubtract(1, ordering: .sequentiallyConsistent)
    }
  }

  func close() {
    isClosed.store(true, ordering: .sequentiallyConsistent)
    forks.wrappingAdd(1, ordering: .sequentiallyConsistent)
    wakeSleepers()
  }

  private func work(_ body: SharedBody, worker: Int) {
    shares.takeAll(worker: worker, staysNear: staysNear) { body.call($0, worker) }
  }

  /// The number of the latest fork, once it is not `seen`.
  private func waitForFork(after seen: Int) -> Int {
    let begin = Instant.now
    while Instant.now.seconds(since: begin) < Self.watch {
      for _ in 0..<256 {
        let fork = forks.load(ordering: .acquiring)
        if fork != seen { return fork }
      }
    }
    // The thread that posts a fork looks for sleepers afterwards: either the fork is seen here, or the alarm is rung when this
    // thread waits. A ring of the fork before may come late: whoever goes on sleeping says so anew. All sleepers hear a ring:
    // where each took one of as many, a thread that was done took another's, who slept through a fork that waited for it.
    let fork = alarm.wait { _ -> Int? in
      haveSleepers.store(true, ordering: .sequentiallyConsistent)
      let fork = forks.load(ordering: .sequentiallyConsistent)
      return fork == seen ? nil : fork
    }
    return fork ?? seen
  }

  private func wakeSleepers() {
    guard haveSleepers.exchange(false, ordering: .sequentiallyConsistent) else { return }
    alarm.update { _ in }
  }
}
