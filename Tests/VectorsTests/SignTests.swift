// Signs as the first stage of a search: every kernel gives the scalar twin's sums, and little is lost by them.

import Compute
import KernelTypes
import Support
import Testing

@testable import Vectors

@Suite struct SignTests {
  @Test(arguments: CPUFeatures.available)
  func `all kernels add the scalar twin's sums`(isa: ISA) {
    var random = SeededGenerator(seed: 21)
    for rowBytes in [8, 48, 120, 128, 136, 264, 2_048] {
      for blocks in [1, 2, 5] {
        let bytes = (0..<32 * blocks * rowBytes).map { _ in UInt8.random(in: 0...255, using: &random) }
        let tables = (0..<32 * rowBytes).map { _ in UInt8.random(in: 0...127, using: &random) }
        var found = [Int32](repeating: -1, count: 32 * blocks)
        var expected = found
        bytes.withUnsafeBytes { bytes in
          let rows = SignRows(base: bytes.baseAddress!, rowBytes: rowBytes, blocks: blocks)
          ScanKernels.table(for: isa).signs(rows, tables, &found)
          ScanKernels.reference.signs(rows, tables, &expected)
        }
        #expect(found == expected, "\(rowBytes) x \(blocks)")
        let slow = (0..<32 * blocks).map { row in
          (0..<rowBytes).reduce(Int32(0)) { sum, at in
            let byte = Int(bytes[(row / 32 * rowBytes + at) * 32 + row % 32])
            return sum + Int32(tables[32 * at + byte % 16]) + Int32(tables[32 * at + 16 + byte / 16])
          }
        }
        #expect(expected == slow, "\(rowBytes) x \(blocks)")
      }
    }
  }

  @Test(arguments: [1, 64, 100, 384, 1_000])
  func `turning keeps products and spreads what one component holds`(dimensions: Int) {
    let turn = SignTurn(dimensions: dimensions)
    let vectors = clusteredVectors(4, dimensions: dimensions, seed: 5)
    let turned = vectors.map { vector in vector.withUnsafeBufferPointer { turn($0, minus: nil) } }
    for a in 0..<4 {
      for b in 0..<4 {
        let before = zip(vectors[a], vectors[b]).reduce(0) { $0 + $1.0 * $1.1 }
        let after = zip(turned[a], turned[b]).reduce(0) { $0 + $1.0 * $1.1 }
        #expect(abs(before - after) < 1e-4)
      }
    }
    var single = [Float](repeating: 0, count: dimensions)
    single[dimensions / 2] = 1
    let spread = single.withUnsafeBufferPointer { turn($0, minus: nil) }
    #expect(spread.map(abs).max()! < 0.4)
  }

  @Test func `an estimate errs by what one bit of a component leaves open`() {
    let dimensions = 384
    let turn = SignTurn(dimensions: dimensions)
    let vectors = clusteredVectors(320, dimensions: dimensions, seed: 6)
    let mean = (0..<dimensions).map { at in vectors.reduce(Float(0)) { $0 + $1[at] } / 320 }
    var block = [UInt8](repeating: 0, count: 32 * turn.rowBytes)
    for query in vectors.prefix(5) {
      let signs = SignQuery(query, turn)
      let offset = mean.withUnsafeBufferPointer { signs.offset($0.baseAddress!) }
      var (worst, above): (Float, Int) = (0, 0)
      for (number, vector) in vectors.enumerated() {
        if number % 32 == 0 { block = [UInt8](repeating: 0, count: block.count) }
        let turned = vector.withUnsafeBufferPointer { turn($0, minus: mean) }
        let factor = SignCode.encode(turned, row: number % 32, of: &block)
        var sums = [Int32](repeating: 0, count: 32)
        block.withUnsafeBytes { bytes in
          let rows = SignRows(base: bytes.baseAddress!, rowBytes: turn.rowBytes, blocks: 1)
          ScanKernels.reference.signs(rows, signs.tables, &sums)
        }
        let rows = sums.withUnsafeBufferPointer { sums in
          withUnsafePointer(to: factor) { SignSums(sums.baseAddress! + number % 32, $0, 1) }
        }
        // The upper bound is so much above the estimate.
        let found = signs.uppers(rows, offset)[0] - SignQuery.deviations * SignQuery.deviation * factor
        // The slow twin: the product with the signs themselves.
        let slow = query.withUnsafeBufferPointer { turn($0, minus: nil) }
        let product = zip(turned, slow).reduce(Float(0)) { $0 + ($1.0 >= 0 ? $1.1 : -$1.1) }
        #expect(abs(found - (offset + factor * product)) < 0.01)
        let exact = zip(query, vector).reduce(0) { $0 + $1.0 * $1.1 }
        worst = max(worst, abs(found - exact))
        if exact > signs.uppers(rows, offset)[0] { above += 1 }
      }
      // Five deviations of √((1 - 2/π) / (2/π) / 384).
      #expect(worst < 0.2)
      // 1 of 100 is what the bound is made for.
      #expect(above <= 10)
    }
  }

  /// Documents of 500 rows.
  private func made(_ vectors: [[Float]], on disk: SimulatedDisk) throws -> VectorIndex {
    let index = try VectorIndex(
      folder: "/i", fingerprint: "f", dimensions: vectors[0].count, files: disk)
    for start in stride(from: 0, to: vectors.count, by: 500) {
      let rows = start..<min(start + 500, vectors.count)
      try index.remember(rows.map { (key: rowKey($0), vector: vectors[$0]) })
      let passages = rows.map { Passage(text: Array("p\($0)".utf8), range: 0..<1, rows: [rowKey($0)]) }
      try index.commit(NewDocument(key: "d\(start / 500)", info: [], passages: passages))
    }
    try index.compact(all: true)
    return index
  }

  @Test func `ten nearest of 5,000 by signs are the ten nearest, 99 of 100`() throws {
    let vectors = clusteredVectors(5_000, dimensions: 128, seed: 8)
    let index = try made(vectors, on: SimulatedDisk())
    _ = try index.remove("d3")
    let view = index.view
    var found = 0
    for number in 0..<20 {
      let query = vectors[number * 211]
      let exact = try #require(try view.nearest(query, limit: 10))
      #expect(exact.count.signs == 0 && exact.count.rows == 4_500)
      let signs = try #require(try view.nearest(query, limit: 10, depth: .signs))
      #expect([4_500, 9_000].contains(signs.count.signs))
      #expect(signs.hits.count == 10)
      for hit in signs.hits where exact.hits.contains(hit) { found += 1 }
      #expect(try signs.hits.allSatisfy { try view.passage($0).document.key != "d3" })
      // A filter holds before the signs do.
      let few = try #require(
        try view.nearest(query, limit: 10, among: view.choose { $0.key == "d7" }, depth: .signs))
      #expect([500, 1_000].contains(few.count.signs))
      #expect(try few.hits.allSatisfy { try view.passage($0).document.key == "d7" })
    }
    #expect(found >= 198)
    #expect(try view.nearest(vectors[0], limit: 10, depth: .signs, isCancelled: { true }) == nil)
  }

  @Test func `where all rows are as near the answer is exact`() throws {
    // No row is ruled out, so all are read.
    let vectors = clusteredVectors(4_200, dimensions: 64, seed: 14, spread: 0.01)
    let view = try made(vectors, on: SimulatedDisk()).view
    let exact = try #require(try view.nearest(vectors[7], limit: 10))
    let signs = try #require(try view.nearest(vectors[7], limit: 10, depth: .signs))
    #expect(signs.hits == exact.hits)
    #expect(signs.count.rows > 4_200)
  }

  @Test func `rows without signs are read as bytes`() throws {
    let vectors = clusteredVectors(700, dimensions: 64, seed: 9)
    let index = try made(vectors, on: SimulatedDisk())
    let exact = try #require(try index.view.nearest(vectors[5], limit: 10))
    let signs = try #require(try index.view.nearest(vectors[5], limit: 10, depth: .signs))
    #expect(exact.hits == signs.hits)
    #expect(signs.count.signs == 0 && signs.count.rows == 700)
  }

  @Test func `equal rows keep their order by signs too`() throws {
    let vector = clusteredVectors(1, dimensions: 64, seed: 10)[0]
    let index = try made([[Float]](repeating: vector, count: 4_500), on: SimulatedDisk())
    let found = try #require(try index.view.nearest(vector, limit: 3, depth: .signs))
    #expect(found.hits.map(\.passage) == [0, 1, 2])
  }

  @Test func `a segment of the first version is read, and gets signs when it is joined`() throws {
    let disk = SimulatedDisk()
    let vectors = clusteredVectors(4_200, dimensions: 64, seed: 12)
    var exact: [Hit] = []
    do {
      let index = try made(vectors, on: disk)
      exact = try #require(try index.view.nearest(vectors[9], limit: 5)).hits
    }
    let path = try #require(disk.files.first { $0.hasSuffix(".segment") })
    let bytes = try #require(disk.content(path))
    // Its footer without the new sections: what they hold is then bytes that nobody reads.
    var (footer, start) = try bytes.withUnsafeBytes { try #require(SegmentFooter.find(in: $0)) }
    footer.version = 1
    disk.restart(losingPower: false)
    disk.put(path, Array(bytes[..<start]) + footer.encoded)
    let index = try VectorIndex(folder: "/i", fingerprint: "f", dimensions: 64, files: disk)
    let old = try #require(try index.view.nearest(vectors[9], limit: 5, depth: .signs))
    #expect(old.hits == exact && old.count.signs == 0)
    #expect(index.faults().isEmpty)
    try index.compact(all: true)
    #expect(try index.view.nearest(vectors[9], limit: 5, depth: .signs)?.count.signs ?? 0 >= 4_200)
  }

  @Test func `a changed bit in the signs is damage`() throws {
    let disk = SimulatedDisk()
    let vectors = clusteredVectors(4_200, dimensions: 64, seed: 13)
    do { _ = try made(vectors, on: disk) }
    let path = try #require(disk.files.first { $0.hasSuffix(".segment") })
    let whole = try #require(disk.content(path))
    let footer = try whole.withUnsafeBytes { try #require(SegmentFooter.find(in: $0)) }.footer
    let signs = footer.sections[Section.signs.rawValue]
    #expect(signs.count == SignCode.byteCount(rows: 4_200, dimensions: 64))
    var bytes = whole
    bytes[signs.lowerBound + signs.count / 2] ^= 4
    disk.restart(losingPower: false)
    disk.put(path, bytes)
    // They end in the block of the table of documents, which is read at the start: the segment is put aside, and told.
    let index = try VectorIndex(folder: "/i", fingerprint: "f", dimensions: 64, files: disk)
    #expect(index.losses.count == 1 && index.losses.first?.contains("is damaged") == true, "\(index.losses)")
    #expect(disk.content(path + ".damaged") == bytes)
  }
}
