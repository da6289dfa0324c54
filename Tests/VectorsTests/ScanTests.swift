// The scan by bytes finds exactly what a scan in float32 finds, whatever computes it.

import Compute
import KernelTypes
import Support
import Testing

@testable import Vectors

/// Unit vectors around a few centres, as texts of a few kinds have.
func clusteredVectors(
  _ count: Int, dimensions: Int, seed: UInt64, spread: Float = 0.6, centres: Int = 7
) -> [[Float]] {
  var random = SeededGenerator(seed: seed)
  func vector(_ scale: Float) -> [Float] {
    (0..<dimensions).map { _ in Float.random(in: -scale...scale, using: &random) }
  }
  let middles = (0..<centres).map { _ in vector(1) }
  return (0..<count).map { index in
    let x = zip(middles[index % centres], vector(spread)).map { $0 + $1 }
    return RowCode.normalized(x) ?? x
  }
}

/// Keys that are all different.
func rowKey(_ number: Int) -> RowKey { RowKey(of: Array("row \(number)".utf8)) }

@Suite struct ScanTests {
  @Test(arguments: CPUFeatures.available)
  func `all kernels give the scalar twin's bits`(isa: ISA) {
    for dimensions in [1, 63, 64, 65, 127, 384, 768, 1_000, 1_984, 2_048] {
      for rows in [1, 2, 3, 4, 5, 7, 8, 33] {
        let vectors = clusteredVectors(rows + 2, dimensions: dimensions, seed: UInt64(rows + dimensions))
        let stride = RowCode.stride(of: dimensions)
        let codes = UnsafeMutableRawPointer.allocate(byteCount: rows * stride, alignment: 64)
        defer { codes.deallocate() }
        var scales: [Float] = []
        for row in 0..<rows {
          let place = (codes + row * stride).assumingMemoryBound(to: UInt8.self)
          scales.append(vectors[row].withUnsafeBufferPointer { RowCode.encode($0, into: place).scale })
        }
        let query = QueryCode(vectors[rows])
        let other = QueryCode(vectors[rows + 1])
        var got = [Float](repeating: .nan, count: rows)
        var (expected, first, second, expectedSecond) = (got, got, got, got)
        scales.withUnsafeBufferPointer { scales in
          let operand = CodeRows(
            base: codes, rowBytes: stride, scales: scales.baseAddress!, count: rows)
          ScanKernels.table(for: isa).scan(operand, query.planes, &got)
          ScanKernels.reference.scan(operand, query.planes, &expected)
          ScanKernels.reference.scan(operand, other.planes, &expectedSecond)
          ScanKernels.table(for: isa).scanTwice?(operand, query.planes, other.planes, &first, &second)
        }
        #expect(got == expected, "\(dimensions) x \(rows)")
        if ScanKernels.table(for: isa).scanTwice != nil {
          #expect(first == expected && second == expectedSecond, "two of \(dimensions) x \(rows)")
        }
      }
    }
  }

  @Test func `a scanned score is within its bound`() {
    let vectors = clusteredVectors(300, dimensions: 384, seed: 3)
    var codes = [UInt8](repeating: 0, count: 384)
    for query in vectors.prefix(10) {
      let code = QueryCode(query)
      for row in vectors {
        let (scale, error) = row.withUnsafeBufferPointer { row in
          codes.withUnsafeMutableBufferPointer { RowCode.encode(row, into: $0.baseAddress!) }
        }
        #expect(error < 0.02)
        var score: Float = 0
        codes.withUnsafeBytes { bytes in
          withUnsafePointer(to: scale) { scale in
            ScanKernels.reference.scan(
              CodeRows(base: bytes.baseAddress!, rowBytes: 384, scales: scale, count: 1), code.planes, &score)
          }
        }
        let exact = row.withUnsafeBufferPointer { code.exact($0) }
        #expect(abs(score - exact) <= code.bound(error))
      }
    }
  }

  @Test func `the heap keeps the largest`() {
    var random = SeededGenerator(seed: 9)
    for limit in [1, 2, 3, 10] {
      var heap = BoundedHeap(limit)
      var all: [Float] = []
      for count in 1...50 {
        let value = Float.random(in: -1...1, using: &random)
        heap.insert(value)
        all.append(value)
        let kept = all.sorted(by: >).prefix(limit)
        #expect(heap.floor == (count < limit ? -.infinity : kept.last))
      }
    }
  }

  @Test func `an index finds what a scan in float32 finds, bit for bit`() throws {
    var random = SeededGenerator(seed: 11)
    for round in 0..<40 {
      let dimensions = [8, 48, 96, 384][round % 4]
      let disk = SimulatedDisk()
      let index = try VectorIndex(folder: "/i", fingerprint: "f", dimensions: dimensions, files: disk)
      var documents: [(key: String, passages: [[[Float]]])] = []
      // Small spreads make many scores nearly equal.
      let vectors = clusteredVectors(
        200, dimensions: dimensions, seed: UInt64(round), spread: [0.6, 0.05, 0.001, 0][round / 10])
      var next = 0
      while next < 190 {
        var passages: [[[Float]]] = []
        for _ in 0..<Int.random(in: 1...6, using: &random) {
          let rows = Int.random(in: 1...3, using: &random)
          passages.append(Array(vectors[next..<min(next + rows, 200)]))
          next = min(next + rows, 200)
        }
        documents.append(("d\(documents.count)", passages.filter { !$0.isEmpty }))
      }
      try fill(index, documents)
      if round % 3 == 0 { try index.compact() }
      if round % 3 == 1 { try index.compact(all: true) }
      let query = vectors[Int.random(in: 0..<200, using: &random)]
      for limit in [1, 3, 10, 1_000] {
        let found = try #require(try index.view.nearest(query, limit: limit))
        let got = try found.hits.map { hit in
          let passage = try index.view.passage(hit)
          return "\(passage.document.key)/\(passage.number) \(hit.score)"
        }
        #expect(got == Self.slow(documents, query, limit), "round \(round), \(limit)")
      }
      // Several searches together find what each finds alone.
      let queries = (0..<5).map { vectors[$0 * 37] }
      for depth in [ScanDepth.exact, .signs] {
        let together = try #require(try index.view.nearest(queries, limit: 7, depth: depth))
        let alone = try queries.map { try index.view.nearest($0, limit: 7, depth: depth)?.hits }
        #expect(together.map(\.hits) == alone, "round \(round)")
      }
    }
  }

  private func fill(_ index: VectorIndex, _ documents: [(key: String, passages: [[[Float]]])]) throws {
    var number = 0
    for (key, passages) in documents {
      var rows: [(RowKey, [Float])] = []
      let stored = passages.map { vectors in
        let keys = vectors.map { vector in
          number += 1
          rows.append((rowKey(number), vector))
          return rowKey(number)
        }
        return Passage(text: Array("text".utf8), range: 0..<4, rows: keys)
      }
      try index.remember(rows.map { (key: $0.0, vector: $0.1) })
      try index.commit(NewDocument(key: key, info: [], passages: stored))
    }
  }

  private static func slow(
    _ documents: [(key: String, passages: [[[Float]]])], _ query: [Float], _ limit: Int
  ) -> [String] {
    var all: [(name: String, score: Float)] = []
    for (key, passages) in documents {
      for (number, rows) in passages.enumerated() {
        let score = rows.map { row in row.withUnsafeBufferPointer { ExactScore.dot(query, $0.baseAddress!) } }
          .max()!
        all.append(("\(key)/\(number)", score))
      }
    }
    // Stable: equal scores stay in order.
    let order = all.indices.sorted {
      all[$0].score != all[$1].score ? all[$0].score > all[$1].score : $0 < $1
    }
    return order.prefix(limit).map { "\(all[$0].name) \(all[$0].score)" }
  }
}
