// Small trained checkpoints in many layouts: greedy text of the reference implementation, token by token.

import Checkpoint
import Compute
import JSON
import Models
import Platform
import Support
import Testing

@Suite struct RealCheckpointTests {
  static let names: [String] = {
    guard let shared = TestData.shared, let all = try? File.names(in: shared + "/models") else { return [] }
    return all.filter { File.exists(shared + "/models/" + $0 + "/golden.json") }
  }()

  @Test(.enabled(if: TestData.shared != nil, "shared test data is absent"), arguments: names)
  func `a trained checkpoint continues the prompt as the reference does`(name: String) throws {
    let path = (TestData.shared ?? "") + "/models/" + name
    let golden = try JSONValue(parsing: try File.read(path + "/golden.json", limit: 1 << 24))
    let runner = try Runner(path, threads: 2)
    func ids(_ key: String) -> [Int32] {
      (golden[key]?.arrayValue ?? []).compactMap { $0.intValue.map { Int32($0) } }
    }
    let margins = (golden["greedy_margins"]?.arrayValue ?? []).compactMap(\.doubleValue)
    let expected = ids("greedy_ids")
    try #require(!expected.isEmpty && margins.count == expected.count)
    // Half-precision references round activations and sums too; ours stay in float32.
    let weights = try ModelFolder(path: path).weights
    let norm = try #require(weights.names.first { $0.hasSuffix("norm.weight") })
    let isHalf = try weights.tensor(norm, shape: weights.shape(of: norm) ?? []).dtype != .f32
    let sure = margins.firstIndex { $0 < (isHalf ? 0.2 : 1e-3) } ?? expected.count
    let found = runner.greedy(ids("prompt_ids"), count: sure)
    #expect(found == Array(expected[..<sure]))

    let top = (golden["first_top5"]?.arrayValue ?? []).compactMap { pair in
      pair[0]?.intValue.flatMap { id in pair[1]?.doubleValue.map { (id, Float($0)) } }
    }
    try #require(top.count == 5)
    let last = runner.logits(of: ids("prompt_ids")).last ?? []
    for (id, logit) in top { #expect(abs(last[id] - logit) < (isHalf ? 0.5 : 1e-3), "logit of \(id)") }
  }
}
