// Figures of the index on this machine; they assert nothing but that the answers are right.

import Compute
import Platform
import Support
import Testing

@testable import Vectors

@Suite(.enabled(if: TestData.isMeasuring, "MLXSERVE_MEASURE is not set"), .serialized) struct MeasuredTests {
  /// Seconds of one call, the median of several.
  private func median(_ rounds: Int, _ body: () throws -> Void) rethrows -> Double {
    var times: [Double] = []
    for _ in 0..<rounds {
      let start = Instant.now
      try body()
      times.append(Double(Instant.now.nanoseconds - start.nanoseconds) * 1e-9)
    }
    return times.sorted()[rounds / 2]
  }

  /// `MLXSERVE_MEASURE_ROWS` names one size instead.
  private static let sizes =
    Environment.value("MLXSERVE_MEASURE_ROWS").flatMap { Int($0) }.map { [$0] } ?? [100_000, 1_000_000]

  @Test(arguments: sizes) func `a scan of many rows`(rows: Int) throws {
    let folder = "/tmp/mlxserve-measure-\(getpid())"
    defer { removeFolder(folder) }
    var limits = VectorIndex.Limits()
    limits.logBytes = 1 << 40
    let perDocument = 10_000
    do {
      let index = try VectorIndex(folder: folder, fingerprint: "f", dimensions: 384, limits: limits)
      for number in 0..<rows / perDocument {
        let vectors = clusteredVectors(
          perDocument, dimensions: 384, seed: UInt64(number), spread: 0.4, centres: perDocument / 100)
        let base = number * perDocument
        let start = Instant.now
        try index.remember(vectors.enumerated().map { (rowKey(base + $0), $1) })
        let passages = vectors.indices.map {
          Passage(text: Array("passage \(base + $0)".utf8), range: 0..<1, rows: [rowKey(base + $0)])
        }
        try index.commit(NewDocument(key: "d\(number)", info: [], passages: passages))
        if number == 0 { print("add 10,000 rows: \(start.elapsed) s") }
        if number % 20 == 19 { try index.compact() }
      }
      let start = Instant.now
      try index.compact(all: true)
      print("\(rows) rows: joined in \(start.elapsed) s")
    }
    let opened = Instant.now
    let index = try VectorIndex(folder: folder, fingerprint: "f", dimensions: 384, limits: limits)
    print("\(rows) rows: opened in \(opened.elapsed * 1e3) ms")
    // Near the first rows, as those of compare_search.py are.
    let queries = clusteredVectors(
      50, dimensions: 384, seed: 0, spread: 0.4, centres: perDocument / 100)
    let view = index.view
    let first = Instant.now
    _ = try view.nearest(queries[0], limit: 10)
    print("\(rows) rows: first query \(first.elapsed * 1e3) ms")
    for isa in CPUFeatures.available where isa != .portable {
      let kernels = ScanKernels.table(for: isa)
      for (name, depth) in [("exact", ScanDepth.exact), ("signs", .signs)] {
        var (next, rescored, right) = (0, 0, 0)
        let truth = try queries.map {
          try view.nearest($0, limit: 10, depth: .exact, kernels: kernels)?.hits ?? []
        }
        for (query, truth) in zip(queries, truth) {
          let found = try view.nearest(query, limit: 10, depth: depth, kernels: kernels)?.hits ?? []
          right += found.count { truth.contains($0) }
        }
        let time = try median(rows > 200_000 ? 21 : 101) {
          let found = try view.nearest(queries[next % 50], limit: 10, depth: depth, kernels: kernels)
          rescored += found?.count.rescored ?? 0
          next += 1
        }
        let bytes = depth == .exact ? 384 : 384 / 8
        print(
          "\(rows) rows, \(isa), \(name): \(1 / time) queries/s, \(Double(rows * bytes) / time / 1e9) GB/s,",
          "\(rescored / next) rescored, recall \(Double(right) / Double(10 * queries.count))")
      }
    }
  }

  private func removeFolder(_ folder: String) {
    for name in (try? File.names(in: folder)) ?? [] { unlink(folder + "/" + name) }
    rmdir(folder)
  }
}

extension Instant {
  fileprivate var elapsed: Double { Double(Instant.now.nanoseconds - nanoseconds) * 1e-9 }
}
