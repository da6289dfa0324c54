// What `mlxserve bench` measures, by its flags.

/// What is measured, by the flags.
struct BenchPlan {
  /// Tokens of a prefill run.
  let promptTokens: Int
  /// Tokens of a decode run, of each sequence.
  let generateTokens: Int
  /// Tokens in the context before the measured ones.
  let depths: [Int]
  /// Sequences that are computed together; 1 is what `depths` measures.
  let counts: [Int]
  let repetitions: Int
  /// Whether decoding with guesses is compared with decoding without.
  let speculates: Bool

  init(_ flags: ParsedFlags) throws(UsageError) {
    promptTokens = flags[.promptTokens] ?? 512
    generateTokens = flags[.generateTokens] ?? 64
    depths = flags[.depth] ?? [0, 1024]
    counts = flags[.sequences] ?? [1]
    repetitions = flags[.repetitions] ?? 3
    speculates = try flags.word(.speculate) == Speculation.lookup
  }

  /// - Throws: when the longest run does not fit a context of this length.
  func check(context: Int) throws(BenchError) {
    for needed in depths.map({ $0 + max(promptTokens, generateTokens) + 1 }) where needed > context {
      throw .contextTooSmall(needed: needed, context: context)
    }
  }
}

enum BenchError: Error, CustomStringConvertible {
  case contextTooSmall(needed: Int, context: Int)

  var description: String {
    switch self {
    case .contextTooSmall(let needed, let context):
      "the run needs a context of \(needed) tokens, this model has \(context): "
        + "lower --prompt-tokens, --depth or --generate-tokens"
    }
  }
}
