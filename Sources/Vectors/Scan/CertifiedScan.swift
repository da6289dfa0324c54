// The nearest passages by reading every row as bytes, with a proof that none is missing.
//
// A row's exact score lies within a known bound of the scanned one. While scanning, the k-th best lower bound so far is
// kept; a row whose upper bound is below it cannot belong to the answer. The few that are left at the end are scored in
// float32. So the answer is that of a scan in float32, with the same bits on every machine.

import Compute
import KernelTypes
import Platform

/// Rows of one part of an index, and the passages that they belong to. Pointers are valid while the part is held.
struct ScanRows {
  /// Gives rows in float32, checked.
  var vector: (Int) throws(IndexError) -> UnsafeBufferPointer<Float>
  var codes: CodeRows
  /// Bounds of the rows' errors.
  var errors: UnsafePointer<Float>
  /// The passage of each row; rows of a passage are neighbours.
  var owners: UnsafePointer<UInt32>
  /// What is searched.
  var ranges: [Range<Int>]
}

/// A passage that a scan found.
struct ScannedPassage: Equatable {
  var part: Int
  var passage: Int
  /// Its row with the highest score.
  var row: Int
  var score: Float
}

/// What a scan did.
package struct ScanCount: Sendable, Equatable {
  /// Rows that were read as signs.
  package var signs = 0
  /// Rows that were read as bytes.
  package var rows = 0
  /// Rows that were scored in float32.
  package var rescored = 0
  /// Seconds that took.
  package var rescoring = 0.0

  package init() {}

  /// What two scans did together.
  package func adding(_ other: ScanCount) -> ScanCount {
    var sum = self
    sum.signs += other.signs
    sum.rows += other.rows
    sum.rescored += other.rescored
    sum.rescoring += other.rescoring
    return sum
  }
}

/// One search over all parts of an index.
struct CertifiedScan {
  private let query: QueryCode
  private let kernels: ScanKernels
  private var bounds: BoundedHeap
  private var candidates: [Candidate] = []
  private(set) var count = ScanCount()
  /// The passage whose rows are being read, and its best lower bound: it counts once, for rows of a passage are neighbours.
  private var owner = UInt32.max
  private var lower = -Float.infinity

  private struct Candidate {
    var part: Int
    var row: Int
    var upper: Float
  }

  /// Rows between two looks at whether somebody still waits.
  static let blockRows = 4_096
  /// Rows that several searches read together: their bytes stay in the cache of a core.
  private static let sharedRows = 1_024
  /// Candidates from which on those that have fallen behind are dropped.
  private static let crowd = 4_096

  /// - Parameter limit: passages wanted, at least 1.
  init(_ query: [Float], limit: Int, kernels: ScanKernels) {
    self.query = QueryCode(query)
    self.kernels = kernels
    bounds = BoundedHeap(limit)
  }

  /// Several searches of the same rows, each of which is read once for all.
  ///
  /// - Parameter isCancelled: asked after every block.
  /// - Returns: for each search the best passages in no order, at least its limit of them if there are so many; nil when
  ///   cancelled.
  static func run(
    _ scans: inout [CertifiedScan], _ parts: [ScanRows], isCancelled: () -> Bool
  ) throws(IndexError) -> [[ScannedPassage]]? {
    let scores = UnsafeMutablePointer<Float>.allocate(capacity: 2 * blockRows)
    defer { scores.deallocate() }
    let most = scans.count > 1 ? sharedRows : blockRows
    for (number, part) in parts.enumerated() {
      for range in part.ranges {
        var start = range.lowerBound
        while start < range.upperBound {
          let end = min(start + most, range.upperBound)
          read(part, number, start..<end, &scans, scores)
          start = end
          guard !isCancelled() else { return nil }
        }
      }
      for index in scans.indices { scans[index].endPassage() }
    }
    var found: [[ScannedPassage]] = []
    for index in scans.indices { found.append(try scans[index].rescore(parts)) }
    return found
  }

  /// Reads some rows for all searches: for the first alone, which brings them into the cache, then for two at a time.
  private static func read(
    _ part: ScanRows, _ number: Int, _ rows: Range<Int>, _ scans: inout [CertifiedScan],
    _ scores: UnsafeMutablePointer<Float>
  ) {
    let codes = CodeRows(
      base: part.codes.base + rows.lowerBound * part.codes.rowBytes, rowBytes: part.codes.rowBytes,
      scales: part.codes.scales + rows.lowerBound, count: rows.count)
    var index = 0
    while index < scans.count {
      let kernels = scans[index].kernels
      if index > 0, index + 1 < scans.count, let scanTwice = kernels.scanTwice {
        let others = scores + blockRows
        scanTwice(codes, scans[index].query.planes, scans[index + 1].query.planes, scores, others)
        scans[index].take(scores, of: rows, part, number)
        scans[index + 1].take(others, of: rows, part, number)
        index += 2
      } else {
        kernels.scan(codes, scans[index].query.planes, scores)
        scans[index].take(scores, of: rows, part, number)
        index += 1
      }
    }
  }

  private mutating func take(
    _ scores: UnsafeMutablePointer<Float>, of rows: Range<Int>, _ part: ScanRows, _ number: Int
  ) {
    count.rows += rows.count
    let errors = part.errors + rows.lowerBound
    var at = 0
    while at < rows.count {
      // Most rows are far below: eight at a time.
      if at + 8 <= rows.count {
        let score = UnsafeRawPointer(scores + at).loadUnaligned(as: SIMD8<Float>.self)
        let error = UnsafeRawPointer(errors + at).loadUnaligned(as: SIMD8<Float>.self)
        if areBelow(score + (error + 0x1p-10), bounds.floor), upperBoundsHold(error) {
          at += 8
          continue
        }
      }
      let end = min(at + 8, rows.count)
      while at < end {
        let bound = query.bound(errors[at])
        let score = scores[at]
        if score + bound >= bounds.floor {
          let row = rows.lowerBound + at
          candidates.append(Candidate(part: number, row: row, upper: score + bound))
          if part.owners[row] != owner {
            endPassage()
            owner = part.owners[row]
          }
          lower = max(lower, score - bound)
        }
        at += 1
      }
    }
    if candidates.count > Self.crowd { dropBehind() }
  }

  private mutating func endPassage() {
    bounds.insert(lower)
    owner = .max
    lower = -.infinity
  }

  /// Whether the short cut above holds: the bound of each is below its error plus 2⁻¹⁰.
  @inline(__always)
  private func upperBoundsHold(_ error: SIMD8<Float>) -> Bool {
    areBelow(query.bound(error), error + 0x1p-10)
  }

  private mutating func dropBehind() {
    let floor = bounds.floor
    candidates.removeAll { $0.upper < floor }
  }

  private mutating func rescore(_ parts: [ScanRows]) throws(IndexError) -> [ScannedPassage] {
    let begin = Instant.now
    defer { count.rescoring = Instant.now.seconds(since: begin) }
    dropBehind()
    count.rescored = candidates.count
    var found: [ScannedPassage] = []
    for candidate in candidates {
      let part = parts[candidate.part]
      let score = query.exact(try part.vector(candidate.row))
      let passage = Int(part.owners[candidate.row])
      if let last = found.last, last.part == candidate.part, last.passage == passage {
        if score > last.score {
          found[found.count - 1].score = score
          found[found.count - 1].row = candidate.row
        }
      } else {
        found.append(
          ScannedPassage(part: candidate.part, passage: passage, row: candidate.row, score: score))
      }
    }
    return found
  }
}

/// Whether each of eight numbers is below its limit: one comparison, where the library's `max` goes through them one by one.
@inline(__always)
func areBelow(_ numbers: SIMD8<Float>, _ limits: SIMD8<Float>) -> Bool {
  let words = unsafeBitCast(numbers .< limits, to: SIMD4<UInt64>.self)
  return words[0] & words[1] & words[2] & words[3] == .max
}

@inline(__always)
func areBelow(_ numbers: SIMD8<Float>, _ limit: Float) -> Bool {
  areBelow(numbers, SIMD8(repeating: limit))
}

/// The largest numbers of those seen, the smallest of them on top.
struct BoundedHeap {
  private let limit: Int
  private var values: [Float] = []

  init(_ limit: Int) { self.limit = max(1, limit) }

  /// The smallest of the `limit` largest; -∞ while there are fewer.
  var floor: Float { values.count < limit ? -.infinity : values[0] }

  mutating func insert(_ value: Float) {
    guard value > floor else { return }
    if values.count < limit {
      values.append(value)
      var child = values.count - 1
      while child > 0, values[child] < values[(child - 1) / 2] {
        values.swapAt(child, (child - 1) / 2)
        child = (child - 1) / 2
      }
      return
    }
    values[0] = value
    var parent = 0
    while true {
      // A loop over an array of both would make that array each time: a third of a search by signs.
      var least = parent
      let child = 2 * parent + 1
      if child < values.count, values[child] < values[least] { least = child }
      if child + 1 < values.count, values[child + 1] < values[least] { least = child + 1 }
      guard least != parent else { return }
      values.swapAt(least, parent)
      parent = least
    }
  }
}
