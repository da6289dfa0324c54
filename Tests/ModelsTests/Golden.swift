// What tests of models work with: a model and its cache, the results that are expected of it, and comparisons.

import Checkpoint
import Compute
import JSON
import Models
import Platform
import Support
import Testing

/// A model with a cache of its own and the steps tests take with it.
final class Runner {
  let folder: ModelFolder
  let model: any CausalModel
  let cache: KVCache
  private var logits = Logits()
  private var nextBlock: Int32 = 0
  /// Slots of state, by the first block of their sequences.
  private var slots: [Int32: Int32] = [:]

  convenience init(
    _ path: String, threads: Int = 1, isa: ISA? = nil, mode: ComputeMode = .exact, interleaves: Bool = true,
    useReference: Bool = false, blocks: Int = 64, format: KVFormat = .f32
  ) throws {
    let compute = try ComputeContext(
      threads: threads, isa: isa, mode: mode, interleaves: interleaves, useReference: useReference)
    try self.init(path, compute, blocks: blocks, format: format)
  }

  init(_ path: String, _ compute: ComputeContext, blocks: Int = 64, format: KVFormat = .f32) throws {
    folder = try ModelFolder(path: path)
    model = try ModelFamily.load(folder, compute: compute)
    let states = model.cacheShape.recurrent
    cache = try KVCache(
      shape: model.cacheShape.keysValues, blockCount: blocks, format: format,
      states: states.isEmpty ? nil : StateCache(shape: states, slotCount: blocks))
  }

  /// Blocks of a new sequence of at most `tokens` tokens; not contiguous, so that tables matter.
  func makeTable(_ tokens: Int) -> [Int32] {
    let count = Int32((tokens + KVCache.blockTokens - 1) / KVCache.blockTokens)
    let table = (0..<count).map { nextBlock + count - 1 - $0 }
    nextBlock += count
    return table
  }

  /// Runs a step; one array per requested row.
  @discardableResult
  func step(_ spans: [Batch.Span], afterLayer: (@Sendable (Rows) -> Void)? = nil) -> [[Float]] {
    var batch = Batch(spans: spans)
    for index in spans.indices { batch.spans[index].slot = slot(of: spans[index]) }
    batch.afterLayer = afterLayer
    model.forward(batch, cache: cache, logits: &logits)
    return (0..<logits.rows).map { logits.values(ofRow: $0) }
  }

  /// Where the sequence's states are; zero before its first token.
  private func slot(of span: Batch.Span) -> Int32? {
    guard let states = cache.states, let first = span.blocks.first else { return nil }
    if slots[first] == nil { slots[first] = states.take() }
    if let slot = slots[first], span.start == 0 { states.clear(slot) }
    return slots[first]
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

/// Writes a checkpoint of these files, and removes it after `body`.
func withCheckpoint(
  config: [UInt8], weights: [UInt8], preprocessor: [UInt8]? = nil, _ body: (_ path: String) throws -> Void
) throws {
  var template = Array("/tmp/mlxserve-checkpoint-XXXXXX".utf8CString)
  let made = template.withUnsafeMutableBufferPointer { $0.baseAddress.flatMap(mkdtemp) }
  let path = String(cString: try #require(made))
  let files =
    [(path + "/config.json", config), (path + "/model.safetensors", weights)]
    + (preprocessor.map { [(path + "/preprocessor_config.json", $0)] } ?? [])
  defer {
    for (file, _) in files { unlink(file) }
    rmdir(path)
  }
  for (name, bytes) in files {
    let file = try #require(fopen(name, "w"))
    let written = fwrite(bytes, 1, bytes.count, file)
    #expect(fclose(file) == 0 && written == bytes.count)
  }
  try body(path)
}

/// What a reference computed from a prompt of text: `expected.json` of a golden, or one variant inside it.
struct Expected {
  let inputs: [Int32]
  /// Logits by position in the prompt.
  let logits: [Int: [Float]]
  let argmaxEach: [Int32]
  let greedy: [Int32]

  init(_ golden: GoldenFolder, variant: String? = nil) throws {
    let document = try golden.expected()
    let results = variant.flatMap { document[$0] } ?? document
    // Multimodal goldens: the results of the text alone have names of their own, their logits a file.
    let isMultimodal = document["text_input_ids"] != nil
    let text = isMultimodal ? "text_" : ""
    inputs = tokenIDs(document[text + "input_ids"])
    argmaxEach = tokenIDs(results["argmax_each"] ?? results["text_argmax"])
    greedy = tokenIDs(results[text + "greedy"])
    guard !isMultimodal else {
      logits = Dictionary(
        uniqueKeysWithValues: try golden.array("text_logits").rows.enumerated().map { ($0, $1) })
      return
    }
    var logits = [0: numbers(results["logits_first"]), inputs.count - 1: numbers(results["logits_last"])]
    for (position, values) in results["logits_at"]?.objectValue?.entries ?? [] {
      logits[try #require(Int(position))] = numbers(values)
    }
    self.logits = logits
  }
}
