// Operations of encoders against the plain formulas.

import Support
import Testing

@testable import Compute

@Suite struct PatchTests {
  private func rows(_ values: [[Float]]) -> (ScratchBuffer, Rows) {
    let buffer = ScratchBuffer()
    let rows = buffer.rows(values.count, values[0].count)
    for (index, row) in values.enumerated() { rows.set(index, to: row[...]) }
    return (buffer, rows)
  }

  @Test func `values are held between bounds`() throws {
    let context = try ComputeContext(threads: 1)
    let (buffer, x) = rows([[-3, -1, 0, 2, 9]])
    context.clamp(x, to: -1...2, into: x)
    #expect(x.values(ofRow: 0) == [-1, -1, 0, 2, 2])
    withExtendedLifetime(buffer) {}
  }

  @Test func `blocks of a plane become their mean`() throws {
    let context = try ComputeContext(threads: 2)
    // 4 x 2 cells with their number: two blocks.
    let (buffer, x) = rows((0..<8).map { [Float($0), 1] })
    let out = ScratchBuffer()
    let pooled = out.rows(2, 2)
    context.pool(x, width: 4, side: 2, into: pooled)
    #expect(pooled.values(ofRow: 0) == [2.5, 1])
    #expect(pooled.values(ofRow: 1) == [4.5, 1])
    context.standardize(pooled, offset: [0.5, 1], factor: [2, 3])
    #expect(pooled.values(ofRow: 1) == [8, 0])
    withExtendedLifetime((buffer, out)) {}
  }

  @Test func `the halves of a head turn by two coordinates`() throws {
    let context = try ComputeContext(threads: 1)
    let quarter = RoPEFrequencies(inverse: [Double.pi / 2])
    let (across, down) = (RoPE(variants: [quarter]), RoPE(variants: [quarter]))
    across.prepare(positions: [0, 1])
    down.prepare(positions: [1, 2])
    let (buffer, x) = rows([[1, 2, 3, 4], [1, 2, 3, 4]])
    context.rotate(x, headDim: 4, by: across, down)
    let expected: [[Float]] = [[1, 2, -4, 3], [-2, 1, -3, -4]]
    for row in 0..<2 {
      for (found, wanted) in zip(x.values(ofRow: row), expected[row]) { #expect(abs(found - wanted) < 1e-5) }
    }
    withExtendedLifetime(buffer) {}
  }
}
