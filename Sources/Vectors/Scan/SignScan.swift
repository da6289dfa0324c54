// The first stage of a search of very many rows: signs choose the rows that are read as bytes.
//
// A row's estimate errs by a deviation that is known. What is left out lies several deviations below the last passage of
// the answer that of a hundred rows that belong to it at most one is lost. `ScanDepth` says when this is good enough.

import Compute
import KernelTypes

/// How a search goes about its rows.
package enum ScanDepth: Sendable, Equatable {
  /// Signs first where there are very many rows.
  case automatic
  /// Every row as bytes: the answer is that of a scan in float32.
  case exact
  /// Signs first wherever there are some.
  case signs

  /// Components of all rows from which on signs are read first: 40 ms of reading bytes.
  static let many = 300_000_000
}

/// Signs of one part of an index.
struct SignPart {
  var rows: SignRows
  /// One for each row.
  var factors: UnsafePointer<Float>
  var mean: UnsafePointer<Float>
  /// What is searched.
  var ranges: [Range<Int>]
}

/// The rows that may be nearest by their signs.
struct SignScan {
  private let query: SignQuery
  private let kernels: ScanKernels
  private let parts: [SignPart]
  private var candidates: [Candidate] = []
  /// Rows that were read.
  private(set) var count = 0

  private struct Candidate {
    var part: Int
    var row: Int
    var upper: Float
  }

  /// Rows of the first pass for each passage that is wanted.
  private static let spare = 20
  private static let least = 200

  init(_ query: [Float], _ parts: [SignPart], kernels: ScanKernels) {
    self.query = SignQuery(query, SignTurn(dimensions: query.count))
    (self.kernels, self.parts) = (kernels, parts)
  }

  /// The rows of the highest upper bounds.
  ///
  /// - Parameter limit: passages wanted.
  /// - Returns: for every part the rows in order, and a number that the bounds of all others are not above; nil when
  ///   cancelled.
  mutating func best(_ limit: Int, isCancelled: () -> Bool) -> (ranges: [[Range<Int>]], bound: Float)? {
    let kept = max(Self.least, Self.spare * min(limit, 1 << 20))
    var bounds = BoundedHeap(kept)
    candidates = []
    let isDone = run(isCancelled) { candidate, candidates in
      // Of equal ones the first stay. What is no number is never one of the best.
      guard candidate.upper > bounds.floor else { return bounds.floor }
      bounds.insert(candidate.upper)
      candidates.append(candidate)
      if candidates.count > 4 * kept {
        let floor = bounds.floor
        candidates.removeAll { $0.upper < floor }
      }
      return bounds.floor
    }
    guard isDone else { return nil }
    let floor = bounds.floor
    candidates.removeAll { $0.upper < floor }
    return (chosen, floor)
  }

  /// All rows whose upper bound is at least `bound`.
  ///
  /// - Returns: for every part the rows in order; nil when cancelled, and nothing when they are more than an eighth of all:
  ///   then reading all is as fast.
  mutating func all(from bound: Float, isCancelled: () -> Bool) -> [[Range<Int>]]?? {
    let most = parts.reduce(0) { $0 + $1.ranges.reduce(0) { $0 + $1.count } } / 8
    candidates = []
    let isDone = run(isCancelled) { candidate, candidates in
      if candidate.upper >= bound, candidates.count <= most { candidates.append(candidate) }
      return bound
    }
    guard isDone else { return nil }
    return .some(candidates.count <= most ? chosen : nil)
  }

  /// Calls `take` with rows whose bounds are not below what it returned last.
  private mutating func run(
    _ isCancelled: () -> Bool, _ take: (Candidate, inout [Candidate]) -> Float
  ) -> Bool {
    let sums = UnsafeMutablePointer<Int32>.allocate(capacity: CertifiedScan.blockRows)
    defer { sums.deallocate() }
    var floor = -Float.infinity
    for (number, part) in parts.enumerated() {
      let offset = query.offset(part.mean)
      for range in part.ranges {
        var start = range.lowerBound
        while start < range.upperBound {
          // Blocks begin at multiples of 32.
          let first = start / SignCode.blockRows
          let end = min(first * SignCode.blockRows + CertifiedScan.blockRows, range.upperBound)
          let blocks = (end + SignCode.blockRows - 1) / SignCode.blockRows - first
          let rows = SignRows(
            base: part.rows.base + first * SignCode.blockRows * part.rows.rowBytes,
            rowBytes: part.rows.rowBytes, blocks: blocks)
          query.tables.withUnsafeBufferPointer { tables in
            if let tables = tables.baseAddress { kernels.signs(rows, tables, sums) }
          }
          var row = start
          while row < end {
            let stop = min(row + 8, end)
            let rows = SignSums(sums + (row - first * SignCode.blockRows), part.factors + row, stop - row)
            let uppers = query.uppers(rows, offset)
            // Most rows are far below: eight at a time.
            if !areBelow(uppers, floor) {
              for next in row..<stop {
                floor = take(Candidate(part: number, row: next, upper: uppers[next - row]), &candidates)
              }
            }
            row = stop
          }
          count += end - start
          start = end
          guard !isCancelled() else { return false }
        }
      }
    }
    return true
  }

  private var chosen: [[Range<Int>]] {
    var ranges = [[Range<Int>]](repeating: [], count: parts.count)
    for candidate in candidates {
      let row = candidate.row
      if let last = ranges[candidate.part].last, last.upperBound == row {
        ranges[candidate.part][ranges[candidate.part].count - 1] = last.lowerBound..<row + 1
      } else {
        ranges[candidate.part].append(row..<row + 1)
      }
    }
    return ranges
  }
}
