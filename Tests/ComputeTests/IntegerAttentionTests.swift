// Attention in integers: every kernel has the bits of its scalar twin, and no sum leaves 32 bits.

import KernelTypes
import Support
import Testing

@testable import Compute

@Suite struct IntegerAttentionTests {
  private static let twin = KernelTable.portable.integerAttention

  @Test func `floats are rounded to integers of one scale`() {
    var random = SeededGenerator(seed: 21)
    for (name, kernels) in tables {
      for count in 0...35 {
        for limit in [Float(127), 4_095] {
          for magnitude in [Float(1), 0x1p-101, 0x1p100, .infinity, .nan] {
            let x = Bytes.floats(count, misaligned: 4, using: &random)
            for i in 0..<count { x.floats[i] *= magnitude.isFinite ? magnitude : 1 }
            if count > 2, !magnitude.isFinite { x.floats[count / 2] = -magnitude }
            let (found, exact) = (Rounded(count), Rounded(count))
            let scale = kernels.integerAttention.quantize(x.floats, count, limit, found.start)
            let twin = Self.twin.quantize(x.floats, count, limit, exact.start)
            #expect(scale.bitPattern & 0x7FFF_FFFF == twin.bitPattern, "\(name) \(count) \(magnitude)")
            #expect(found.values == exact.values && found.bytes.isIntact, "\(name) \(count) \(magnitude)")
            guard scale.isFinite, magnitude >= 1 else { continue }
            for i in 0..<count {
              let error = abs(Float(found.values[i]) * scale - x.floats[i])
              #expect(error <= scale * 0.5001 && abs(Float(found.values[i])) <= limit, "\(name) \(count)")
            }
          }
        }
      }
    }
  }

  @Test func `scores and sums have the bits of their twins for all head sizes`() {
    var random = SeededGenerator(seed: 22)
    for (name, kernels) in tables {
      for size in Array(1...35) + [64, 80, 96, 128, 130, 256, 512] {
        for rows in [1, 2, 3, 4, 7] {
          for isBytes in [false, true] {
            let data = Block(size: size, rows: rows, isBytes: isBytes, using: &random)
            let (found, exact) = (data.run(kernels.integerAttention), data.run(Self.twin))
            #expect(found == exact, "\(name) \(size) \(rows) \(isBytes)")
          }
        }
      }
    }
  }

  @Test func `the running softmax has the bits of its twin and ignores what is hidden`() {
    var random = SeededGenerator(seed: 23)
    for (name, kernels) in tables {
      for (from, to) in [(0, 1), (0, 32), (5, 6), (7, 29), (15, 17), (31, 32)] {
        for rows in 1...9 {
          let scores = Bytes.floats(rows * 32, using: &random)
          for i in 0..<rows * 32 { scores.floats[i] *= 30 }
          // Some rows have a maximum from before, some a first block, one sees nothing but -infinity.
          for j in 0..<32 { scores.floats[(rows - 1) * 32 + j] = rows > 5 ? -.infinity : scores.floats[j] }
          let valueScales = Bytes.floats(32, using: &random)
          for j in 0..<32 {
            valueScales.floats[j] = from..<to ~= j ? valueScales.floats[j].magnitude : .nan
            // Slots that were never written may hold anything.
            if !(from..<to ~= j) { for r in 0..<rows { scores.floats[32 * r + j] = .nan } }
          }
          func run(_ kernels: IntegerAttention) -> [UInt32] {
            let (row, state) = (Bytes(rows * 128), Bytes(rows * 8))
            for i in 0..<rows * 32 { row.floats[i] = scores.floats[i] }
            for r in 0..<rows {
              (state.floats[2 * r], state.floats[2 * r + 1]) = r % 3 == 0 ? (-.infinity, 0) : (5, 2)
            }
            let (factors, scales) = (Bytes.room(rows), Bytes.room(rows))
            let folded = AttentionRows(
              count: rows, seen: from..<to, scores: row.floats, states: state.floats, factors: factors.floats,
              weightScales: scales.floats, sums: row.floats)
            kernels.softmax(folded, valueScales.floats)
            #expect(row.isIntact && state.isIntact && factors.isIntact && scales.isIntact)
            let rounded = (0..<rows).flatMap { Array(row.values(32 * rows)[32 * $0..<32 * $0 + 16]) }
            return (rounded + state.values(2 * rows) + factors.values(rows) + scales.values(rows))
              .map(\.bitPattern)
          }
          #expect(run(kernels.integerAttention) == run(Self.twin), "\(name) \(from)..<\(to) \(rows)")
        }
      }
    }
  }

  @Test func `the largest numbers do not overflow`() {
    for (name, kernels) in tables {
      for sign in [Int16(1), -1] {
        let size = 256
        let (keys, queries) = (Rounded(64 * size), Rounded(size))
        for i in 0..<64 * size { keys.start[i] = sign * 4_095 }
        for i in 0..<size { queries.start[i] = 4_095 }
        let (ones, out) = (Bytes(256), Bytes.room(32))
        for i in 0..<64 { ones.floats[i] = 1 }
        let block = IntegerBlock(base: keys.start, scales: ones.floats, headDim: size, ahead: keys.start)
        let query = IntegerQueries(base: queries.start, stride: size, count: 1, scales: ones.floats)
        kernels.integerAttention.int16.scores(query, block, out.floats)
        let score = Float(sign) * (Float(128 * 4_095 * 4_095) + Float(128 * 4_095 * 4_095))
        #expect(out.values(32) == [Float](repeating: score, count: 32), "\(name)")

        // Equal scores, so that all weights are the largest.
        let (weights, state) = (Bytes(128), Bytes(8))
        for j in 0..<32 { weights.floats[j] = 1 }
        (state.floats[0], state.floats[1]) = (-.infinity, 0)
        let (factor, scale, sums) = (Bytes(4), Bytes(4), Bytes(4 * size))
        for d in 0..<size { sums.floats[d] = 0 }
        let row = AttentionRows(
          count: 1, seen: 0..<32, scores: weights.floats, states: state.floats, factors: factor.floats,
          weightScales: scale.floats, sums: sums.floats)
        kernels.integerAttention.softmax(row, ones.floats)
        kernels.integerAttention.int16.accumulate(row, block)
        let sum = Float(sign) * Float(32 * 16_383 * 4_095) * scale.floats[0]
        #expect(sums.values(size) == [Float](repeating: sum, count: size), "\(name)")
      }
    }
  }

  /// Room for integers, an even number of them, filled with what nobody writes.
  private struct Rounded {
    let bytes: Bytes
    private let count: Int

    init(_ count: Int) {
      bytes = Bytes(2 * (count + count % 2))
      self.count = count + count % 2
      for i in 0..<self.count { start[i] = -30_000 }
    }

    var start: UnsafeMutablePointer<Int16> { bytes.start.assumingMemoryBound(to: Int16.self) }
    var values: [Int16] { (0..<count).map { start[$0] } }
  }

  /// A random block of a cache, and what it is asked.
  private struct Block {
    let size, rows: Int
    let isBytes: Bool
    let queries: Rounded
    let queryScales, keyScales, factors, weights, weightScales, sums: Bytes
    /// Keys and values, with room after them.
    let stored: Bytes

    init(size: Int, rows: Int, isBytes: Bool, using random: inout SeededGenerator) {
      (self.size, self.rows, self.isBytes) = (size, rows, isBytes)
      let padded = size + size % 2
      queries = Rounded(rows * padded)
      for r in 0..<rows {
        for d in 0..<padded {
          queries.start[r * padded + d] = d < size ? Int16.random(in: -4_095...4_095, using: &random) : 0
        }
      }
      stored = Bytes.random(32 * (padded + size) * (isBytes ? 1 : 2) + 256, using: &random)
      if !isBytes {
        let elements = stored.start.assumingMemoryBound(to: Int16.self)
        for i in 0..<stored.count / 2 { elements[i] = Int16.random(in: -4_095...4_095, using: &random) }
      }
      queryScales = Bytes.floats(rows, using: &random)
      keyScales = Bytes.floats(64, using: &random)
      factors = Bytes.floats(rows, using: &random)
      weightScales = Bytes.floats(rows, using: &random)
      sums = Bytes.floats(rows * size, using: &random)
      weights = Bytes(rows * 128)
      let integers = weights.start.assumingMemoryBound(to: Int16.self)
      for i in 0..<rows * 64 {
        integers[i] = (3..<30).contains(i % 64) ? Int16.random(in: 0...16_383, using: &random) : 0
      }
    }

    /// Scores of all keys, then sums of some values.
    func run(_ kernels: IntegerAttention) -> [UInt32] {
      let width = isBytes ? kernels.int8 : kernels.int16
      let padded = size + size % 2
      let (scores, out) = (Bytes.room(rows * 32), Bytes(rows * size * 4))
      func block(_ start: UnsafeMutableRawPointer) -> IntegerBlock {
        IntegerBlock(base: start, scales: keyScales.floats, headDim: size, ahead: stored.start)
      }
      width.scores(
        IntegerQueries(base: queries.start, stride: padded, count: rows, scales: queryScales.floats),
        block(stored.start), scores.floats)
      for i in 0..<rows * size { out.floats[i] = sums.floats[i] }
      let values = stored.start + 32 * padded * (isBytes ? 1 : 2)
      // States are the softmax's.
      let seeing = AttentionRows(
        count: rows, seen: 3..<30, scores: weights.floats, states: out.floats, factors: factors.floats,
        weightScales: weightScales.floats, sums: out.floats)
      width.accumulate(seeing, block(values))
      #expect(scores.isIntact && out.isIntact)
      return (scores.values(rows * 32) + out.values(rows * size)).map(\.bitPattern)
    }
  }
}
