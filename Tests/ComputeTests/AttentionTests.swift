// Attention: kernels against the reference, the whole against a plain softmax, and chunks against one pass.

import KernelTypes
import Support
import Testing

@testable import Compute

@Suite struct AttentionTests {
  @Test func `scores and weighted sums agree with the reference for all head sizes`() {
    var random = SeededGenerator(seed: 7)
    for (name, kernels) in tables {
      for size in Array(1...35) + [64, 80, 96, 128, 256, 512] {
        for rows in [1, 3, 4, 6] {
          let q = Bytes.floats(rows * size, using: &random)
          let block = Bytes.floats(32 * size, using: &random)
          let found = Bytes.room(rows * 32)
          let exact = Bytes.room(rows * 32)
          let stored = FloatBlock(base: block.floats, headDim: size)
          kernels.scores(q.activations(rows, size), stored, found.floats)
          KernelTable.reference.scores(q.activations(rows, size), stored, exact.floats)
          let bound = epsilon * Float(size * (size + 2))
          #expect(
            worst(found.values(rows * 32), exact.values(rows * 32)) { _ in bound } <= 1, "\(name) \(size)")

          let sums = Bytes.floats(rows * size, using: &random)
          let twin = Bytes(rows * size * 4)
          for i in 0..<rows * size { twin.floats[i] = sums.floats[i] }
          let factors = Bytes.floats(rows, using: &random)
          func seeing(_ sums: Bytes) -> AttentionRows {
            // States and scales of weights are another kernel's.
            AttentionRows(
              count: rows, seen: 2..<31, scores: found.floats, states: sums.floats, factors: factors.floats,
              weightScales: sums.floats, sums: sums.floats)
          }
          kernels.accumulate(seeing(sums), stored)
          KernelTable.reference.accumulate(seeing(twin), stored)
          // 29 products of scores up to `size`, and the former sum.
          let sumBound = epsilon * Float(32 * 32 * size + 2)
          #expect(
            worst(sums.values(rows * size), twin.values(rows * size)) { _ in sumBound } <= 1,
            "\(name) \(size)")
          #expect(sums.isIntact && found.isIntact)
        }
      }
    }
  }

  @Test func `attention over a short text agrees with the reference and reads no other row`() {
    var random = SeededGenerator(seed: 22)
    for (name, kernels) in tables {
      guard let attend = kernels.attendShortly else { continue }
      for (headDim, group) in [(32, 1), (32, 3), (64, 1), (64, 2), (96, 1), (128, 1)] {
        let (stride, width) = ((group + 2) * headDim + 5, group * headDim)
        let counts = [1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 65, 100, 127, 128]
        for (first, tokens) in counts.flatMap({ [(0, $0), ($0 / 3, $0)] }) {
          let rows = Bytes.floats((tokens + 2) * stride, using: &random)
          for i in tokens * stride..<(tokens + 2) * stride { rows.floats[i] = .nan }
          var text = ShortText(
            queries: rows.floats + first * stride, keys: rows.floats + width,
            values: rows.floats + width + headDim, stride: stride, tokens: tokens, group: group,
            headDim: headDim, scale: 0.7)
          text.rows = tokens - first
          let (found, exact) = (Bytes(tokens * (width + 3) * 4), Bytes(tokens * (width + 3) * 4))
          for bytes in [found, exact] { bytes.floats.update(repeating: 5, count: tokens * (width + 3)) }
          let scratch = Bytes(ShortText.scratchFloats(headDim: headDim) * 4)
          attend(text, scratch.floats, Output(base: found.floats, stride: width + 3))
          Reference.attendShortly(text, into: Output(base: exact.floats, stride: width + 3))
          // Scores are off by some roundings of sums of `headDim` products, and so are their weights.
          let bound = epsilon * Float(4 * headDim + 32)
          #expect(
            worst(found.values(tokens * (width + 3)), exact.values(tokens * (width + 3))) { _ in bound } <= 1,
            "\(name) \(headDim) \(group) \(tokens)")
          #expect(found.isIntact && scratch.isIntact)
        }
      }
    }
  }

  @Test func `the running softmax agrees with the reference and ignores hidden scores`() {
    var random = SeededGenerator(seed: 8)
    for (name, kernels) in tables {
      for (from, to) in [(0, 1), (0, 32), (5, 6), (7, 29), (31, 32)] {
        var results: [[Float]] = []
        let scores = Bytes.floats(64, using: &random)
        for table in [kernels, .reference] {
          let copy = Bytes(64 * 4)
          for i in 0..<64 { copy.floats[i] = scores.floats[i] * 20 }
          // A hidden score may be anything, NaN too: its slot may never have been written.
          for i in 0..<64 where i % 32 < from || i % 32 >= to { copy.floats[i] = .nan }
          let state = Bytes(8)
          state.floats[0] = -.infinity
          state.floats[1] = 0
          let first = table.softmaxBlock(copy.floats, from..<to, state.floats)
          let second = table.softmaxBlock(copy.floats + 32, from..<to, state.floats)
          #expect(first == 0)
          results.append(
            [second] + state.values(2) + Array(copy.values(64)[from..<to])
              + Array(copy.values(64)[32 + from..<32 + to]))
        }
        #expect(
          worst(results[0], results[1]) { max(1, abs(results[1][$0])) * 2e-6 } <= 1, "\(name) \(from)..<\(to)"
        )
      }
    }
  }

  @Test(arguments: [nil, 5, 32, 40])
  func `attention over blocks is the softmax over all visible keys`(window: Int?) throws {
    let shape = AttentionShape(heads: 4, kvHeads: 2, headDim: 24, scale: 0.3, window: window)
    let count = 75
    let input = Input(rows: count, shape: shape, seed: 9)
    for (name, context) in try contexts() {
      let found = try attend(input, shape: shape, chunks: [count], context)
      var largest: Float = 0
      for row in 0..<count {
        for head in 0..<shape.heads {
          let exact = plainAttention(input, shape: shape, row: row, head: head)
          for d in 0..<shape.headDim {
            largest = max(largest, abs(found[row][head * shape.headDim + d] - Float(exact[d])))
          }
        }
      }
      #expect(largest < 2e-6, "\(name)")
    }
  }

  @Test(arguments: [nil, 5, 40])
  func `attention has the same bits in chunks of any size and on any number of threads`(window: Int?) throws {
    let shape = AttentionShape(heads: 6, kvHeads: 2, headDim: 16, scale: 0.25, window: window)
    let input = Input(rows: 70, shape: shape, seed: 10)
    for (name, context) in try contexts() {
      let whole = try attend(input, shape: shape, chunks: [70], context)
      for chunks in [[Int](repeating: 1, count: 70), [7, 32, 31], [33, 37], [64, 6]] {
        let parts = try attend(input, shape: shape, chunks: chunks, context)
        #expect(parts.map { $0.map(\.bitPattern) } == whole.map { $0.map(\.bitPattern) }, "\(name) \(chunks)")
      }
      for threads in [2, 3] {
        let other = try ComputeContext(threads: threads, isa: context.isa, useReference: context.isa == nil)
        let parallel = try attend(input, shape: shape, chunks: [70], other)
        #expect(
          parallel.map { $0.map(\.bitPattern) } == whole.map { $0.map(\.bitPattern) }, "\(name) \(threads)")
      }
    }
  }

  @Test(arguments: [nil, 5, 32, 40], [KVFormat.f32, .q16])
  func `positions of a group see each other in both directions`(window: Int?, format: KVFormat) throws {
    let shape = AttentionShape(heads: 4, kvHeads: 2, headDim: 32, scale: 0.3, window: window)
    let input = Input(rows: 75, shape: shape, seed: 12)
    let groups = [3..<20, 21..<60]
    for (name, context) in try contexts() {
      let whole = try attend(input, shape: shape, chunks: [75], context, format: format, groups: groups)
      var largest: Float = 0
      for row in 0..<75 {
        for head in 0..<shape.heads {
          let exact = plainAttention(input, shape: shape, row: row, head: head, groups: groups)
          for d in 0..<shape.headDim {
            largest = max(largest, abs(whole[row][head * shape.headDim + d] - Float(exact[d])))
          }
        }
      }
      #expect(largest < (format == .f32 ? 2e-6 : 6e-3), "\(name)")
      // Chunks that cut no group.
      let parts = try attend(
        input, shape: shape, chunks: [3, 17, 1, 39, 1, 14], context, format: format, groups: groups)
      #expect(parts.map { $0.map(\.bitPattern) } == whole.map { $0.map(\.bitPattern) }, "\(name)")
      // A layer that does not look at groups.
      var causal = shape
      causal.seesGroups = false
      let blind = try attend(input, shape: causal, chunks: [75], context, format: format, groups: groups)
      let plain = try attend(input, shape: shape, chunks: [75], context, format: format)
      #expect(blind.map { $0.map(\.bitPattern) } == plain.map { $0.map(\.bitPattern) }, "\(name)")
    }
  }

  @Test func `stored integers give what their rounding gives, in chunks of any size`() throws {
    for (size, group, window) in [
      (5, 2, nil), (20, 3, nil), (64, 3, nil), (32, 2, 40), (96, 1, nil), (256, 4, 7),
    ] as [(Int, Int, Int?)] {
      let shape = AttentionShape(heads: 2 * group, kvHeads: 2, headDim: size, scale: 0.25, window: window)
      try checkStored(shape)
    }
  }

  /// Sums of integers are exact, and their scaling has one order: no chunks, no instruction set and no number of threads
  /// change a bit.
  private func checkStored(_ shape: AttentionShape) throws {
    let input = Input(rows: 70, shape: shape, seed: 11)
    for (format, tolerance) in [(KVFormat.q16, Float(6e-3)), (.q8, 1e-1)] {
      var first: [[UInt32]] = []
      for (name, context) in try contexts() {
        let exact = try attend(input, shape: shape, chunks: [70], context)
        let whole = try attend(input, shape: shape, chunks: [70], context, format: format)
        for (a, b) in zip(exact, whole) {
          for (x, y) in zip(a, b) { #expect(abs(x - y) < tolerance, "\(name) \(format)") }
        }
        #expect(whole != exact)
        let bits = whole.map { $0.map(\.bitPattern) }
        let parts = try attend(input, shape: shape, chunks: [1, 31, 7, 31], context, format: format)
        #expect(parts.map { $0.map(\.bitPattern) } == bits, "\(name) \(format)")
        // The reference has a softmax of its own.
        guard context.isa != nil else { continue }
        if first.isEmpty { first = bits }
        #expect(bits == first, "\(name) \(format)")
      }
    }
  }

  @Test func `infinite and undefined activations reach the output and do not trap`() throws {
    let shape = AttentionShape(heads: 1, kvHeads: 1, headDim: 4, scale: 1)
    let bad: [[Float]] = [[.infinity, 0, 1, 2], [.nan, 1, 2, 3], [0, 0, 0, 0], [3e38, -3e38, 0, 1]]
    let input = Input(queries: bad, keys: bad, values: bad)
    for format in KVFormat.allCases {
      let out = try attend(input, shape: shape, chunks: [4], try ComputeContext(threads: 1), format: format)
      #expect(out.count == 4)
      // The first three rows are undefined by what is infinite or undefined in them or before them.
      #expect(out[0].contains(where: \.isNaN) && out[2].contains(where: \.isNaN), "\(format)")
    }
  }

  /// Random queries, keys and values.
  private struct Input {
    let queries, keys, values: [[Float]]

    init(queries: [[Float]], keys: [[Float]], values: [[Float]]) {
      (self.queries, self.keys, self.values) = (queries, keys, values)
    }

    init(rows: Int, shape: AttentionShape, seed: UInt64) {
      var random = SeededGenerator(seed: seed)
      func make(_ columns: Int) -> [[Float]] {
        (0..<rows).map { _ in (0..<columns).map { _ in Float.random(in: -2...2, using: &random) } }
      }
      queries = make(shape.heads * shape.headDim)
      keys = make(shape.kvHeads * shape.headDim)
      values = make(shape.kvHeads * shape.headDim)
    }
  }

  private func contexts() throws -> [(String, ComputeContext)] {
    try CPUFeatures.available.map { ($0.rawValue, try ComputeContext(threads: 1, isa: $0)) }
      + [("reference", try ComputeContext(threads: 1, useReference: true))]
  }

  private func attend(
    _ input: Input, shape: AttentionShape, chunks: [Int], _ context: ComputeContext, format: KVFormat = .f32,
    groups: [Range<Int>] = []
  ) throws -> [[Float]] {
    let cache = try KVCache(
      shape: [
        KVLayerShape(kvHeads: 1, headDim: 2), KVLayerShape(kvHeads: shape.kvHeads, headDim: shape.headDim),
      ],
      blockCount: 5, format: format)
    let layout = StepLayout()
    var result: [[Float]] = []
    for count in chunks {
      let start = result.count
      layout.reset()
      layout.append(
        count: count, start: start, table: [4, 1, 3], blockCount: 5, ropeVariant: 0,
        groups: groups.filter { $0.overlaps(start..<start + count) })
      let (q, k, v) = (
        fill(input.queries, start, count), fill(input.keys, start, count), fill(input.values, start, count)
      )
      let out = ScratchBuffer()
      let rows = out.rows(count, shape.heads * shape.headDim)
      context.attend(
        q.rows, adding: (k.rows, v.rows), shape: shape, layer: 1, of: cache, at: layout, into: rows)
      result += (0..<count).map(rows.values(ofRow:))
      withExtendedLifetime((q.buffer, k.buffer, v.buffer, out)) {}
    }
    return result
  }

  private func fill(_ source: [[Float]], _ start: Int, _ count: Int) -> (buffer: ScratchBuffer, rows: Rows) {
    let buffer = ScratchBuffer()
    let rows = buffer.rows(count, source[0].count)
    for r in 0..<count {
      for (c, value) in source[start + r].enumerated() { rows.row(r)[c] = value }
    }
    return (buffer, rows)
  }

  private func plainAttention(
    _ input: Input, shape: AttentionShape, row: Int, head: Int, groups: [Range<Int>] = []
  ) -> [Double] {
    let size = shape.headDim
    let kvHead = head / (shape.heads / shape.kvHeads)
    let visible = max(0, row + 1 - (shape.window ?? .max))...(groups.first { $0.contains(row) }?.last ?? row)
    let scores = visible.map { key in
      (0..<size).reduce(0.0) { sum, d in
        sum + Double(input.queries[row][head * size + d]) * Double(input.keys[key][kvHead * size + d])
      } * Double(shape.scale)
    }
    let top = scores.max() ?? 0
    let weights = scores.map { exponential($0 - top) }
    let total = weights.reduce(0, +)
    return (0..<size).map { d in
      zip(visible, weights).reduce(0.0) { $0 + $1.1 * Double(input.values[$1.0][kvHead * size + d]) } / total
    }
  }
}
