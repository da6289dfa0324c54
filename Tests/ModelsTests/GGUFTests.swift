// Models in GGUF: the logits of their goldens, and of every family's golden when it is written as converters to GGUF do.

import Checkpoint
import Compute
import JSON
import Models
import Platform
import Support
import Testing

/// A GGUF file with what transformers computed from its decoded weights.
private struct GGUFGolden: CustomTestStringConvertible {
  let path: String
  var testDescription: String { path.split(separator: "/").last.map(String.init) ?? path }

  static let all: [GGUFGolden] = {
    let shared = TestData.shared.map { $0 + "/formats/gguf/" }
    let more = shared.map { place in
      ["gemma3-q4_1", "llama-mxfp4", "llama-q4_k_m", "llama3-q8_0", "qwen2-q5_0", "qwen3-q5_1"].map {
        place + $0
      }
    }
    return ([TestData.fixtures + "/gguf/llama-q4_0"] + (more ?? [])).map { GGUFGolden(path: $0) }
  }()

  func expected() throws -> JSONValue { try GoldenFolder.document(path + ".expected.json") }
}

@Suite struct GGUFTests {
  @Test(arguments: GGUFGolden.all)
  fileprivate func `logits are those of the decoded weights`(_ golden: GGUFGolden) throws {
    let expected = try golden.expected()
    let runner = try Runner(golden.path + ".gguf")
    let inputs = tokenIDs(expected["input_ids"])
    let rows = runner.logits(of: inputs)
    #expect(distance(rows[0], numbers(expected["logits_first"])) < 1e-3)
    #expect(distance(try #require(rows.last), numbers(expected["logits_last"])) < 1e-3)
    #expect(rows.map(argmax) == tokenIDs(expected["argmax_each"]))
    #expect(runner.greedy(inputs, count: 8) == tokenIDs(expected["greedy"]))
  }

  @Test(arguments: GGUFGolden.all)
  fileprivate func `the fast mode comes near, and has the same bits with panels, without, and in any batch`(
    _ golden: GGUFGolden
  ) throws {
    let expected = try golden.expected()
    let inputs = tokenIDs(expected["input_ids"])
    let panels = try Runner(golden.path + ".gguf", mode: .fast).logits(of: inputs)
    let mapped = try Runner(golden.path + ".gguf", mode: .fast, interleaves: false)
    #expect(sameBits(panels, mapped.logits(of: inputs)))
    #expect(sameBits(panels, mapped.logits(of: inputs, chunk: 3)))
    let last = numbers(expected["logits_last"])
    let size = last.reduce(0) { $0 + abs($1) } / Float(last.count)
    #expect(distance(try #require(panels.last), last) < 0.2 * size)
  }

  /// Files of llama.cpp's own converter, by their names in `Fixtures/gguf/converted`; each architecture has one.
  private static let converted =
    (try? File.names(in: TestData.fixtures + "/gguf/converted")).map {
      $0.filter { $0.hasSuffix(".gguf") }.sorted().map {
        GGUFGolden(path: TestData.fixtures + "/gguf/converted/" + $0.dropLast(5))
      }
    } ?? []

  @Test(arguments: converted)
  fileprivate func `what llama.cpp's converter made of a family computes what transformers does`(
    _ golden: GGUFGolden
  ) throws {
    let expected = try golden.expected()
    guard expected["embedding"] == nil else {
      let folder = try ModelFolder(path: golden.path + ".gguf")
      #expect(folder.task == .embed)
      let encoder = try EncoderFamily.load(folder, compute: ComputeContext(threads: 1, mode: .exact))
      let vector = try encoder.encode([encoderText(expected)])[0]
      #expect(distance(unit(vector), numbers(expected["embedding"])) < 1e-4)
      return
    }
    var unknown: [String] = []
    _ = try ModelFamily.load(
      try ModelFolder(path: golden.path + ".gguf"), compute: ComputeContext(threads: 1, mode: .exact),
      onUnknown: { unknown = $0 })
    #expect(unknown.isEmpty, "nobody reads what config.json would say")
    let rows = try Runner(golden.path + ".gguf").logits(of: tokenIDs(expected["input_ids"]))
    #expect(distance(rows[0], numbers(expected["logits_first"])) < 1e-3)
    #expect(distance(try #require(rows.last), numbers(expected["logits_last"])) < 1e-3)
    #expect(rows.map(argmax) == tokenIDs(expected["argmax_each"]))
  }
}
