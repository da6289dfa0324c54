// How near rows come by chance: remembered for a view, and told anew when its rows have changed.

import Support
import Testing

@testable import Vectors

@Suite struct NoiseFloorTests {
  private func put(_ key: String, _ vector: [Float], _ index: VectorIndex) throws {
    let text = Array(key.utf8)
    let row = RowKey(of: text)
    try index.remember([(key: row, vector: vector)])
    try index.commit(
      NewDocument(key: key, info: [], passages: [Passage(text: text, range: 0..<text.count, rows: [row])]))
  }

  @Test func `a view remembers it, and a changed one tells its own`() throws {
    let disk = SimulatedDisk()
    func open() throws -> VectorIndex {
      try VectorIndex(folder: "/i", fingerprint: "f", dimensions: 2, files: disk)
    }
    let early: IndexView
    do {
      let index = try open()
      #expect(try index.view.noiseFloor() == -1)
      // Half of the rows at a right angle to the others.
      for number in 0..<40 { try put("\(number)", number % 2 == 0 ? [1, 0] : [0, 1], index) }
      early = index.view
      #expect(try early.noiseFloor() == 1 && index.view.noiseFloor() == 1)
      // Directions all around, none of them twice.
      for number in 0..<40 { try #expect(index.remove("\(number)")) }
      for number in 40..<400 {
        let t = Float(number - 220) / 40
        try put("\(number)", [(1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)], index)
      }
      #expect(try early.noiseFloor() == 1)
      let floor = try index.view.noiseFloor()
      #expect(floor > 0.5 && floor < 1)
    }
    let index = try open()
    let floor = try index.view.noiseFloor()
    #expect(try floor == index.view.noiseFloor())
    try put("more", [0.6, 0.8], index)
    var fresh = index.view
    fresh.parts = index.view.parts
    #expect(try index.view.noiseFloor() == fresh.noiseFloor())
  }
}
