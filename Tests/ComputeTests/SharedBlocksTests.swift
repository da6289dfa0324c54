// Sequences that begin with the same blocks: attended together, each row has the bits that it has alone.

import KernelTypes
import Support
import Testing

@testable import Compute

@Suite struct SharedBlocksTests {
  /// A sequence of the step: its blocks, and where its rows stand.
  private struct Sequence {
    let table: [Int32]
    let start, count: Int
  }

  /// Two that fork after five blocks, one that shares four of these, one with a text of its own, and a long row of forks.
  private static let sequences =
    [
      Sequence(table: [0, 1, 2, 3, 4, 5], start: 160, count: 3),
      Sequence(table: [0, 1, 2, 3, 4, 6, 7], start: 200, count: 1),
      Sequence(table: [0, 1, 2, 3, 8, 9], start: 165, count: 2),
      Sequence(table: [10, 11, 12, 13, 14, 15], start: 161, count: 1),
    ] + (16..<24).map { Sequence(table: [0, 1, 2, 3, 4, $0], start: 170, count: 1) }

  @Test(arguments: KVFormat.allCases)
  func `rows that share blocks have the same bits as alone`(format: KVFormat) throws {
    var capped = AttentionShape(heads: 4, kvHeads: 2, headDim: 32, scale: 0.2)
    capped.softcap = 3
    capped.sinks = [0.5, -1, 2, 0]
    var latent = AttentionShape(heads: 4, kvHeads: 1, headDim: 40, scale: 0.2)
    latent.latentValues = 24
    let shapes = [AttentionShape(heads: 6, kvHeads: 2, headDim: 24, scale: 0.25), capped, latent]
    for (index, shape) in shapes.enumerated() {
      for isa in CPUFeatures.available {
        for threads in [1, 2] {
          let context = try ComputeContext(threads: threads, isa: isa)
          let step = try Step(shape, format: format, context)
          let alone = try Self.sequences.indices.map { try step.attend([$0]) }
          let together = try step.attend(Array(Self.sequences.indices))
          #expect(
            together.map { $0.map(\.bitPattern) } == alone.flatMap { $0.map { $0.map(\.bitPattern) } },
            "\(isa) \(index) \(threads)")
        }
      }
    }
  }

  @Test func `tiles join what has most in common, and only where layers see everything`() throws {
    let layout = StepLayout()
    for sequence in Self.sequences {
      layout.append(
        count: sequence.count, start: sequence.start, table: sequence.table, blockCount: 24, ropeVariant: 0)
    }
    layout.prepareTiles(StepLayout.Tiling(rows: 8, spans: 8))
    #expect(layout.hasWholeSpans)
    let joined = layout.tiles.map { layout.segments[$0.segments].map(\.span) }
    // The third shares four blocks of five with the first two, the fourth none; then the tile is full.
    #expect(joined == [[0, 1, 2, 4, 5], [3], [6, 7, 8, 9, 10, 11]])
    #expect(layout.tiles.map(\.sharedBlocks) == [4, 0, 5])
    #expect(layout.tiles.map(\.rows) == [8, 1, 6])
    layout.prepareTiles(StepLayout.Tiling(rows: 2, spans: 1))
    #expect(!layout.hasWholeSpans && layout.tiles.count == Self.sequences.count + 1)
    #expect(layout.tiles.allSatisfy { $0.segments.count == 1 && $0.sharedBlocks == 0 })
    #expect(!AttentionShape(heads: 1, kvHeads: 1, headDim: 4, scale: 1, window: 9).sharesBlocks)
  }

  /// A cache in which the sequences' earlier positions are stored, and rows for all of them.
  private struct Step {
    private let cache: KVCache
    private let context: ComputeContext
    private let shape: AttentionShape
    private let queries, keys, values: [[Float]]

    init(_ shape: AttentionShape, format: KVFormat, _ context: ComputeContext) throws {
      cache = try KVCache(shape: [shape.cacheShape], blockCount: 24, format: format)
      self.context = context
      self.shape = shape
      var random = SeededGenerator(seed: 21)
      func make(_ count: Int, _ columns: Int) -> [[Float]] {
        (0..<count).map { _ in (0..<columns).map { _ in Float.random(in: -2...2, using: &random) } }
      }
      let width = shape.kvHeads * shape.headDim
      let count = SharedBlocksTests.sequences.map(\.count).reduce(0, +)
      queries = make(count, shape.heads * shape.headDim)
      (keys, values) = (make(count, width), make(count, width))
      // Whatever earlier positions hold, blocks of several sequences hold it once.
      for sequence in SharedBlocksTests.sequences {
        let rows = (
          make(sequence.start, shape.heads * shape.headDim), make(sequence.start, width),
          make(sequence.start, width)
        )
        _ = attend(rows, [(sequence.table, 0, sequence.start)])
      }
    }

    /// The rows of these sequences, one after the other.
    func attend(_ chosen: [Int]) throws -> [[Float]] {
      var rows: ([[Float]], [[Float]], [[Float]]) = ([], [], [])
      for index in chosen {
        let first = SharedBlocksTests.sequences[..<index].map(\.count).reduce(0, +)
        let own = first..<first + SharedBlocksTests.sequences[index].count
        rows.0 += queries[own]
        rows.1 += keys[own]
        rows.2 += values[own]
      }
      return attend(
        rows,
        chosen.map {
          let sequence = SharedBlocksTests.sequences[$0]
          return (sequence.table, sequence.start, sequence.count)
        })
    }

    private func attend(
      _ rows: (queries: [[Float]], keys: [[Float]], values: [[Float]]),
      _ spans: [(table: [Int32], start: Int, count: Int)]
    ) -> [[Float]] {
      let layout = StepLayout()
      for span in spans {
        layout.append(count: span.count, start: span.start, table: span.table, blockCount: 24, ropeVariant: 0)
      }
      let (q, k, v) = (filled(rows.queries), filled(rows.keys), filled(rows.values))
      let out = ScratchBuffer()
      let result = out.rows(rows.queries.count, shape.heads * shape.valueDim)
      context.attend(
        q.rows, adding: (k.rows, shape.latentValues == nil ? v.rows : nil), shape: shape, layer: 0, of: cache,
        at: layout, into: result)
      let values = (0..<result.count).map(result.values(ofRow:))
      withExtendedLifetime((q.buffer, k.buffer, v.buffer, out)) {}
      return values
    }

    private func filled(_ source: [[Float]]) -> (buffer: ScratchBuffer, rows: Rows) {
      let buffer = ScratchBuffer()
      let rows = buffer.rows(source.count, source[0].count)
      for (r, row) in source.enumerated() {
        for (c, value) in row.enumerated() { rows.row(r)[c] = value }
      }
      return (buffer, rows)
    }
  }
}
