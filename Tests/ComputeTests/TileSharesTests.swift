// Forks replayed on cores that differ, without threads or a clock: all tiles are computed once, and nobody waits long.

import Support
import Testing

@testable import Compute

@Suite struct TileSharesTests {
  /// What became of a fork.
  private struct Replay {
    /// How often each tile was taken.
    var taken: [Int]
    /// When the last tile was done.
    var end = 0.0
    /// Tiles of each core.
    var counts: [Int]
    /// The core that took each tile.
    var cores: [Int]
  }

  /// Replays a fork: whoever is free first takes the next tile.
  ///
  /// - Parameters:
  ///   - seconds: of each core for a tile.
  ///   - starts: when each core comes to the fork.
  ///   - nodes: of memory that the cores are near; nil for one.
  private func replay(tiles: Int, seconds: [Double], starts: [Double], nodes: [Int]? = nil) -> Replay {
    let shares = TileShares(nodes: nodes ?? [Int](repeating: 0, count: seconds.count))
    shares.fill(0..<tiles, of: 0..<tiles)
    var replay = Replay(
      taken: [Int](repeating: 0, count: tiles), counts: [Int](repeating: 0, count: seconds.count),
      cores: [Int](repeating: -1, count: tiles))
    var free = starts
    var turns = seconds.indices.map { TileShares.Turn(worker: $0) }
    var working = Set(seconds.indices)
    while let core = working.min(by: { (free[$0], $0) < (free[$1], $1) }) {
      guard let tile = shares.take(&turns[core]) else {
        working.remove(core)
        continue
      }
      replay.taken[tile] += 1
      replay.counts[core] += 1
      replay.cores[tile] = core
      free[core] += seconds[core]
      replay.end = max(replay.end, free[core])
    }
    return replay
  }

  @Test(arguments: [1, 7, 64, 128, 513, 4096])
  func `on 64 cores that differ every tile is computed once, and the last is done soon after a fair end`(
    tiles: Int
  ) {
    var random = SeededGenerator(seed: 31)
    // Some are four times as fast as others, and some come late.
    let seconds = (0..<64).map { _ in Double.random(in: 1...4, using: &random) }
    let starts = (0..<64).map { _ in Double.random(in: 0...2, using: &random) }
    let replay = replay(tiles: tiles, seconds: seconds, starts: starts)
    #expect(replay.taken == [Int](repeating: 1, count: tiles))
    // If tiles could be cut: all end at the time when as many have been computed.
    var fair = 0.0
    while zip(seconds, starts).reduce(0, { $0 + max(0, fair - $1.1) / $1.0 }) < Double(tiles) { fair += 0.01 }
    let slowest = 4.0
    #expect(replay.end <= fair + slowest + 0.01, "\(replay.end), fair \(fair)")
  }

  @Test func `fast cores take more tiles than slow ones`() {
    let seconds = (0..<64).map { $0 % 4 == 0 ? 1.0 : 3.0 }
    let replay = replay(tiles: 3200, seconds: seconds, starts: [Double](repeating: 0, count: 64))
    for core in 0..<64 {
      // 3200 tiles in 64 · (1/4 + 3/4 · 1/3) = 32 per unit of time.
      let fair = core % 4 == 0 ? 100 : 33
      #expect(abs(replay.counts[core] - fair) <= 4, "core \(core): \(replay.counts[core])")
    }
  }

  @Test func `a core that never comes holds nobody up`() {
    var starts = [Double](repeating: 0, count: 8)
    starts[3] = 1e9
    let replay = replay(tiles: 80, seconds: [Double](repeating: 1, count: 8), starts: starts)
    #expect(replay.counts[3] == 0)
    #expect(replay.end <= 80.0 / 7 + 1)
  }

  @Test func `equal cores take their own shares in the order of memory`() {
    let shares = TileShares(nodes: [0, 0, 0, 0])
    shares.fill(0..<8, of: 0..<8)
    var turns = (0..<4).map { TileShares.Turn(worker: $0) }
    #expect(turns.indices.map { shares.take(&turns[$0]) } == [0, 2, 4, 6])
    #expect(turns.indices.map { shares.take(&turns[$0]) } == [1, 3, 5, 7])
    #expect(turns.indices.allSatisfy { shares.take(&turns[$0]) == nil })
  }

  @Test func `more threads than tiles are no harm`() {
    let shares = TileShares(nodes: [Int](repeating: 0, count: 64))
    shares.fill(0..<3, of: 0..<3)
    var turns = (0..<64).map { TileShares.Turn(worker: $0) }
    let taken = turns.indices.compactMap { shares.take(&turns[$0]) }
    #expect(taken.sorted() == [0, 1, 2])
  }

  /// Four nodes of sixteen cores.
  private static let fourNodes = (0..<64).map { $0 / 16 }

  @Test func `on equal cores every tile is done on the node that it lies on`() {
    let tiles = 640
    let equal = [Double](repeating: 1, count: 64)
    let replay = replay(
      tiles: tiles, seconds: equal, starts: [Double](repeating: 0, count: 64), nodes: Self.fourNodes)
    #expect(replay.cores.indices.allSatisfy { replay.cores[$0] / 16 == $0 * 4 / tiles })
  }

  @Test func `cores take what is left on their own node first, and then that of others`() {
    var random = SeededGenerator(seed: 5)
    // Cores of one node differ, nodes do not, until one of them is slow as a whole.
    for slowNode in [nil, 2] {
      let pace = (0..<16).map { _ in Double.random(in: 1...4, using: &random) }
      let seconds = (0..<64).map { pace[$0 % 16] * ($0 / 16 == slowNode ? 8 : 1) }
      let replay = replay(
        tiles: 6400, seconds: seconds, starts: [Double](repeating: 0, count: 64), nodes: Self.fourNodes)
      #expect(replay.taken.allSatisfy { $0 == 1 })
      let far = replay.cores.indices.filter { replay.cores[$0] / 16 != $0 * 4 / 6400 }
      guard let slowNode else {
        // The last tile of a node may be taken by whoever is done first.
        #expect(far.count <= 64, "\(far.count)")
        continue
      }
      #expect(far.count > 800)
      #expect(far.allSatisfy { $0 * 4 / 6400 == slowNode || replay.cores[$0] / 16 != slowNode })
    }
  }

  @Test func `tiles of a part of a fork go where they would in all of it`() {
    let shares = TileShares(nodes: [0, 0, 1, 1])
    shares.fill(30..<62, of: 0..<80)
    var taken: [[Int]] = []
    for worker in 0..<4 {
      var tiles: [Int] = []
      shares.takeAll(worker: worker, staysNear: true) { tiles.append($0) }
      taken.append(tiles)
    }
    // Nothing is left for the second of each node: the first takes its share from the end on.
    #expect(taken == [Array(30..<40).reversed(), [], Array(40..<60) + [61, 60], []])
    #expect(shares.areEmpty)
  }
}
