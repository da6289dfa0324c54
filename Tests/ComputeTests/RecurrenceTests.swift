// Recurrences with a state per head, and the short convolutions before them: against the recurrence written out, and the
// same bits however a sequence is cut.

import Support
import Testing

@testable import Compute

@Suite struct RecurrenceTests {
  /// Sizes that fill registers and such that do not; heads of values to one of keys: 1, 2, 3 and 12.
  private static let shapes = [
    RecurrenceShape(heads: 2, keyHeads: 2, keyDim: 128, valueDim: 64),
    RecurrenceShape(heads: 4, keyHeads: 2, keyDim: 32, valueDim: 32),
    RecurrenceShape(heads: 6, keyHeads: 2, keyDim: 16, valueDim: 8, alternatesKeys: true),
    RecurrenceShape(heads: 3, keyHeads: 1, keyDim: 5, valueDim: 11),
    RecurrenceShape(heads: 12, keyHeads: 1, keyDim: 16, valueDim: 8),
    RecurrenceShape(heads: 2, keyHeads: 2, keyDim: 128, valueDim: 128, decaysChannels: true),
    RecurrenceShape(heads: 3, keyHeads: 3, keyDim: 13, valueDim: 7, decaysChannels: true),
  ]

  /// The inputs of one sequence, row by row.
  private struct Sequence {
    var queries, keys, values, decays, corrections: [[Float]]
    var count: Int { queries.count }

    init(_ count: Int, _ shape: RecurrenceShape, seed: UInt64) {
      var random = SeededGenerator(seed: seed)
      func rows(_ columns: Int, _ range: ClosedRange<Float>) -> [[Float]] {
        (0..<count).map { _ in (0..<columns).map { _ in Float.random(in: range, using: &random) } }
      }
      let size = 1 / Float(shape.keyDim).squareRoot()
      queries = rows(shape.keyHeads * shape.keyDim, -size...size)
      keys = rows(shape.keyHeads * shape.keyDim, -size...size)
      values = rows(shape.heads * shape.valueDim, -1...1)
      // From what lasts for hundreds of positions to what is gone at the next.
      decays = rows(shape.decayCount, -8...0).map { $0.enumerated().map { $0 % 2 == 0 ? $1 / 400 : $1 } }
      corrections = rows(shape.heads, 0...1)
    }
  }

  /// The recurrence position by position.
  private func expected(_ sequence: Sequence, _ shape: RecurrenceShape, corrects: Bool) -> [[Float]] {
    var states = (0..<shape.heads).map { _ in
      Reference.RecurrentState(keyDim: shape.keyDim, valueDim: shape.valueDim)
    }
    func part(_ row: [Float], _ index: Int, _ size: Int) -> [Float] {
      Array(row[index * size..<(index + 1) * size])
    }
    return (0..<sequence.count).map { t in
      (0..<shape.heads).flatMap { head in
        let keyHead = shape.alternatesKeys ? head % shape.keyHeads : head / (shape.heads / shape.keyHeads)
        return Reference.recur(
          &states[head], query: part(sequence.queries[t], keyHead, shape.keyDim),
          key: part(sequence.keys[t], keyHead, shape.keyDim),
          value: part(sequence.values[t], head, shape.valueDim),
          decays: part(sequence.decays[t], head, shape.decayCount / shape.heads),
          correction: corrects ? sequence.corrections[t][head] : nil
        ).map { Float($0) }
      }
    }
  }

  /// Runs sequences side by side, each in its own pieces.
  private func run(
    _ sequences: [Sequence], pieces: [[Int]], _ shape: RecurrenceShape, corrects: Bool,
    _ compute: ComputeContext
  ) throws -> [[[Float]]] {
    let states = try StateCache(
      shape: [shape.state(convolutionRows: 0, convolutionChannels: 0)], slotCount: sequences.count)
    let slots = sequences.compactMap { _ in states.take() }
    var done = sequences.map { _ in 0 }
    var results: [[[Float]]] = sequences.map { _ in [] }
    let buffers = (0..<5).map { _ in ScratchBuffer() }
    for round in 0..<(pieces.map(\.count).max() ?? 0) {
      let layout = StepLayout()
      var spans: [(sequence: Int, range: Range<Int>)] = []
      for index in sequences.indices where round < pieces[index].count {
        let range = done[index]..<done[index] + pieces[index][round]
        layout.append(
          count: range.count, start: range.lowerBound, table: [Int32](repeating: 0, count: 32), blockCount: 1,
          ropeVariant: 0, slot: slots[index])
        spans.append((index, range))
        done[index] = range.upperBound
      }
      func rows(_ buffer: Int, _ source: (Sequence) -> [[Float]]) -> Rows {
        let all = spans.flatMap { Array(source(sequences[$0.sequence])[$0.range]) }
        let rows = buffers[buffer].rows(all.count, all.first?.count ?? 0)
        for (index, row) in all.enumerated() { rows.set(index, to: row[...]) }
        return rows
      }
      let values = rows(2, \.values)
      compute.recur(
        RecurrenceInput(
          queries: rows(0, \.queries), keys: rows(1, \.keys), values: values, decays: rows(3, \.decays),
          corrections: corrects ? rows(4, \.corrections) : nil),
        shape: shape, layer: 0, of: states, at: layout, into: values)
      var row = 0
      for span in spans {
        for _ in span.range {
          results[span.sequence].append(values.values(ofRow: row))
          row += 1
        }
      }
    }
    return results
  }

  @Test(arguments: shapes, [true, false])
  func `a recurrence in chunks gives what it gives position by position`(
    shape: RecurrenceShape, corrects: Bool
  ) throws {
    guard corrects || !shape.decaysChannels else { return }
    let sequence = Sequence(150, shape, seed: 3)
    let expected = expected(sequence, shape, corrects: corrects).flatMap { $0 }
    for (name, compute) in try contexts() {
      let found = try run([sequence], pieces: [[150]], shape, corrects: corrects, compute)[0].flatMap { $0 }
      let error = zip(found, expected).map { abs($0 - $1) }.max() ?? .infinity
      #expect(found.count == expected.count && error < 2e-5, "\(name): \(error)")
    }
  }

  @Test(arguments: shapes, [true, false])
  func `a recurrence has the same bits in pieces, in a batch and on any number of threads`(
    shape: RecurrenceShape, corrects: Bool
  ) throws {
    guard corrects || !shape.decaysChannels else { return }
    let sequences = [Sequence(100, shape, seed: 4), Sequence(70, shape, seed: 5)]
    for (name, compute) in try contexts() {
      let whole = try sequences.enumerated().map {
        try run([$1], pieces: [[$1.count]], shape, corrects: corrects, compute)[0]
      }
      for pieces in [
        [[Int](repeating: 1, count: 100), [Int](repeating: 1, count: 70)],
        [[31, 1, 1, 40, 27], [3, 60, 7]], [[33, 67], [32, 32, 6]],
      ] {
        let found = try run(sequences, pieces: pieces, shape, corrects: corrects, compute)
        #expect(
          found.map { $0.map { $0.map(\.bitPattern) } } == whole.map { $0.map { $0.map(\.bitPattern) } },
          "\(name) \(pieces)")
      }
    }
  }

  /// Every kernel set, on one thread and on three.
  private func contexts() throws -> [(String, ComputeContext)] {
    var found = [("reference", try ComputeContext(threads: 1, useReference: true))]
    for isa in CPUFeatures.available {
      for threads in [1, 3] {
        found.append(("\(isa) \(threads)", try ComputeContext(threads: threads, isa: isa)))
      }
    }
    return found
  }

  @Test(arguments: [2, 3, 4], [7, 600])
  func `a short convolution goes on with the inputs that the step before has left`(taps: Int, channels: Int)
    throws
  {
    var random = SeededGenerator(seed: 9)
    func numbers(_ count: Int) -> [Float] {
      (0..<count).map { _ in Float.random(in: -1...1, using: &random) }
    }
    let (weights, bias) = (numbers(taps * channels), numbers(channels))
    let inputs = (0..<9).map { _ in numbers(channels) }
    let expected = inputs.indices.map { t in
      (0..<channels).map { c in
        let sum = (0..<taps).reduce(Double(bias[c])) { sum, tap in
          let at = t - taps + 1 + tap
          return at < 0 ? sum : sum + Double(weights[c * taps + tap]) * Double(inputs[at][c])
        }
        return Float(sum / (1 + exponential(-sum)))
      }
    }
    let convolution = ShortConvolution(weights: weights, bias: bias, taps: taps, isActivated: true)
    for (name, compute) in try contexts() {
      var first: [[Float]]?
      for pieces in [[9], [1, 1, 1, 1, 1, 1, 1, 1, 1], [2, 5, 2], [1, 8]] {
        let states = try StateCache(
          shape: [
            StateShape(
              convolutionRows: taps - 1, convolutionChannels: channels, heads: 0, keyDim: 0, valueDim: 0)
          ],
          slotCount: 1)
        let slot = try #require(states.take())
        let (source, target) = (ScratchBuffer(), ScratchBuffer())
        var found: [[Float]] = []
        for count in pieces {
          let layout = StepLayout()
          layout.append(
            count: count, start: found.count, table: [0], blockCount: 1, ropeVariant: 0, slot: slot)
          let (x, out) = (source.rows(count, channels), target.rows(count, channels))
          for row in 0..<count { x.set(row, to: inputs[found.count + row][...]) }
          compute.convolve(x, by: convolution, layer: 0, of: states, at: layout, into: out)
          for row in 0..<count { found.append(out.values(ofRow: row)) }
        }
        let error = zip(found.flatMap { $0 }, expected.flatMap { $0 }).map { abs($0 - $1) }.max() ?? .infinity
        #expect(found.count == 9 && error < 2e-6, "\(name): \(error)")
        if let first { #expect(found == first, "\(name) \(pieces)") }
        first = first ?? found
      }
    }
  }
}
