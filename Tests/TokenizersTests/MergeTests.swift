// Merging: both ways of finding the next pair give the same tokens as the definition.

import Support
import Testing

@testable import Tokenizers

/// The definition of BPE, word for word.
private func mergedSlowly(_ ids: [Int32], _ table: MergeTable) -> [Int32] {
  var ids = ids
  while true {
    let pairs = ids.indices.dropLast().map { table.lookup(ids[$0], ids[$0 + 1]) }
    guard let lowest = pairs.map(\.rank).min(), lowest != MergeTable.none,
      let at = pairs.firstIndex(where: { $0.rank == lowest })
    else { return ids }
    ids.replaceSubrange(at...at + 1, with: [pairs[at].merged])
  }
}

private func merged(_ ids: [Int32], _ table: MergeTable) -> [Int32] {
  var workspace = MergeWorkspace()
  workspace.ids = ids
  workspace.merge(with: table)
  return workspace.ids
}

/// Merges of two earlier tokens each, in an order that is not always that of their parts.
private func randomTable(_ random: inout SeededGenerator, letters: Int32, merges: Int) -> MergeTable {
  var table = MergeTable(count: merges)
  let ranks = (0..<merges).map { UInt32($0) }.shuffled(using: &random)
  for (index, rank) in ranks.enumerated() {
    let next = letters + Int32(index)
    // Half of the merges are of letters, so that many places compete.
    let limit = Bool.random(using: &random) ? letters : next
    table.insert(
      Int32.random(in: 0..<limit, using: &random), Int32.random(in: 0..<limit, using: &random), rank: rank,
      merged: next)
  }
  return table
}

@Test func `short and long pieces merge as the definition says`() {
  var random = SeededGenerator(seed: 41)
  for round in 0..<400 {
    let table = randomTable(&random, letters: 4, merges: 40)
    let length =
      round % 2 == 0 ? Int.random(in: 0...90, using: &random) : Int.random(in: 97...400, using: &random)
    let ids = (0..<length).map { _ in Int32.random(in: 0..<4, using: &random) }
    #expect(merged(ids, table) == mergedSlowly(ids, table), "round \(round)")
  }
}

@Test func `runs of one token merge from the left`() {
  var table = MergeTable(count: 2)
  table.insert(0, 0, rank: 0, merged: 1)
  table.insert(1, 1, rank: 1, merged: 2)
  #expect(merged([0, 0, 0], table) == [1, 0])
  #expect(merged([Int32](repeating: 0, count: 203), table) == [Int32](repeating: 2, count: 50) + [1, 0])
}

@Test func `of two merges of the same pair the later one counts`() {
  var table = MergeTable(count: 2)
  table.insert(3, 4, rank: 0, merged: 5)
  table.insert(3, 4, rank: 1, merged: 6)
  #expect(table.lookup(3, 4) == (1, 6))
  #expect(table.lookup(4, 3).rank == MergeTable.none)
}
