// Golden checkpoints: a folder with config, weights, and what a reference implementation computed from them.

import Checkpoint
import Compute
import JSON
import Models
import Platform
import Support
import Testing

/// A model with a cache of its own and the steps tests take with it.
final class Runner {
  let model: any CausalModel
  let cache: KVCache
  private var logits = Logits()
  private var nextBlock: Int32 = 0

  init(
    _ path: String, threads: Int = 1, isa: ISA? = nil, mode: ComputeMode = .exact, interleaves: Bool = true,
    useReference: Bool = false, blocks: Int = 64
  ) throws {
    let compute = try ComputeContext(
      threads: threads, isa: isa, mode: mode, interleaves: interleaves, useReference: useReference)
    model = try ModelFamily.load(try ModelFolder(path: path), compute: compute)
    cache = try KVCache(shape: model.cacheShape.keysValues, blockCount: blocks)
  }

  /// Blocks of a new sequence of at most `tokens` tokens; not contiguous, so that tables matter.
  func makeTable(_ tokens: Int) -> [Int32] {
    let count = Int32((tokens + KVCache.blockTokens - 1) / KVCache.blockTokens)
    let table = (0..<count).map { nextBlock + count - 1 - $0 }
    nextBlock += count
    return table
  }

  /// Runs a step; one array per requested row.
  func step(_ spans: [Batch.Span]) -> [[Float]] {
    model.forward(Batch(spans: spans), cache: cache, logits: &logits)
    return (0..<logits.rows).map { logits.values(ofRow: $0) }
  }

  /// Logits of every token of a fresh sequence, prefilled in chunks of `chunk` tokens.
  func logits(of tokens: [Int32], chunk: Int = .max, variant: Int = 0) -> [[Float]] {
    let table = makeTable(tokens.count)
    var rows: [[Float]] = []
    var start = 0
    while start < tokens.count {
      let end = start + min(chunk, tokens.count - start)
      rows += step([
        .init(
          tokens: Array(tokens[start..<end]), start: start, blocks: table, ropeVariant: variant, logits: .all)
      ])
      start = end
    }
    return rows
  }

  /// Greedy tokens after a prompt that is prefilled at once.
  func greedy(_ prompt: [Int32], count: Int, variant: Int = 0) -> [Int32] {
    let table = makeTable(prompt.count + count)
    var tokens = prompt
    var start = 0
    var result: [Int32] = []
    while result.count < count {
      let rows = step([
        .init(tokens: tokens, start: start, blocks: table, ropeVariant: variant, logits: .last)
      ])
      start += tokens.count
      tokens = [argmax(rows[0])]
      result += tokens
    }
    return result
  }
}

/// The index of the largest element, the first of equals.
func argmax(_ row: [Float]) -> Int32 {
  Int32(row.indices.max { row[$0] < row[$1] || (row[$0] == row[$1] && $0 > $1) } ?? 0)
}

/// The largest absolute difference; infinity when a value is NaN or the counts differ.
func distance(_ a: [Float], _ b: [Float]) -> Float {
  guard a.count == b.count else { return .infinity }
  return zip(a, b).reduce(0) { largest, pair in
    let difference = abs(pair.0 - pair.1)
    return difference.isNaN ? .infinity : max(largest, difference)
  }
}

/// Two results are the same to the bit.
func sameBits(_ a: [[Float]], _ b: [[Float]]) -> Bool {
  a.map { $0.map(\.bitPattern) } == b.map { $0.map(\.bitPattern) }
}

/// `expected.json` of a golden checkpoint, or one variant inside it.
struct Expected {
  let inputs: [Int32]
  let first: [Float]
  let last: [Float]
  let argmaxEach: [Int32]
  let greedy: [Int32]

  init(_ path: String, variant: String? = nil) throws {
    let document = try JSONValue(parsing: try File.read(path + "/expected.json", limit: 1 << 24))
    let results = variant.flatMap { document[$0] } ?? document
    // Multimodal goldens: the results of the text alone have names of their own, their logits a file.
    let text = document["text_input_ids"] == nil ? "" : "text_"
    func floats(_ key: String) -> [Float] {
      (results[key]?.arrayValue ?? []).compactMap { $0.doubleValue.map { Float($0) } }
    }
    func ids(_ value: JSONValue?) -> [Int32] {
      (value?.arrayValue ?? []).compactMap { $0.intValue.map { Int32($0) } }
    }
    inputs = ids(document[text + "input_ids"])
    let rows = text.isEmpty ? [] : try Self.rows("text_logits", of: path + "/expected.safetensors")
    first = rows.first ?? floats("logits_first")
    last = rows.last ?? floats("logits_last")
    argmaxEach = ids(results["argmax_each"] ?? results["text_argmax"])
    greedy = ids(results[text + "greedy"])
  }

  /// The rows of a float32 matrix in a safetensors file.
  static func rows(_ name: String, of path: String) throws -> [[Float]] {
    let bytes = try File.read(path, limit: 1 << 24)
    let length = bytes.prefix(8).reversed().reduce(0) { $0 << 8 | Int($1) }
    let entry = try #require(JSONValue(parsing: Array(bytes[8..<8 + length]))[name])
    let columns = try #require(entry["shape"]?.arrayValue?.last?.intValue)
    let start = 8 + length + (try #require(entry["data_offsets"]?[0]?.intValue))
    let end = 8 + length + (try #require(entry["data_offsets"]?[1]?.intValue))
    return stride(from: start, to: end, by: 4 * columns).map { row in
      stride(from: row, to: row + 4 * columns, by: 4).map { at in
        Float(bitPattern: bytes[at..<at + 4].reversed().reduce(0) { $0 << 8 | UInt32($1) })
      }
    }
  }
}
