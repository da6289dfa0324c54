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
  }

  /// Replays a fork: whoever is free first takes the next tile.
  ///
  /// - Parameters:
  ///   - seconds: of each core for a tile.
  ///   - starts: when each core comes to the fork.
  private func replay(tiles: Int, seconds: [Double], starts: [Double]) -> Replay {
    let shares = TileShares(count: seconds.count)
    shares.fill(tiles)
    var replay = Replay(
      taken: [Int](repeating: 0, count: tiles), counts: [Int](repeating: 0, count: seconds.count))
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
    let shares = TileShares(count: 4)
    shares.fill(8)
    var turns = (0..<4).map { TileShares.Turn(worker: $0) }
    #expect(turns.indices.map { shares.take(&turns[$0]) } == [0, 2, 4, 6])
    #expect(turns.indices.map { shares.take(&turns[$0]) } == [1, 3, 5, 7])
    #expect(turns.indices.allSatisfy { shares.take(&turns[$0]) == nil })
  }

  @Test func `more threads than tiles are no harm`() {
    let shares = TileShares(count: 64)
    shares.fill(3)
    var turns = (0..<64).map { TileShares.Turn(worker: $0) }
    let taken = turns.indices.compactMap { shares.take(&turns[$0]) }
    #expect(taken.sorted() == [0, 1, 2])
  }
}
