// Settings of an engine, and the memory plan that follows from them.

package import Compute
package import Media
package import Platform
package import Sampling

/// What an engine is started with; most fields are flags of the command line.
package struct EngineConfiguration: Sendable {
  /// The model folder.
  package var modelPath: String
  /// Adapters that requests may choose.
  package var adapters: [AdapterSource] = []
  /// Threads that compute, the engine's own included.
  package var threads: Int
  /// Instruction set to use; nil picks the best that the machine has.
  package var isa: ISA?
  /// Whether activations stay float32 or are quantized for integer kernels, where this machine has them.
  package var computeMode = ComputeMode.fast
  /// Whether weights may be copied into memory in the order of the kernels.
  package var interleavesWeights = true
  /// The folder of weights that were put into that order before (`WeightPreparation`); nil uses none.
  package var preparedFolder: String?
  /// How keys and values are stored; nil: int16 in the fast mode, float32 in the exact one.
  package var kvFormat: KVFormat?
  /// Runs the scalar reference kernels: slow, for bisecting a suspected kernel fault.
  package var useReference = false
  /// Most tokens of one prompt and answer together; nil takes the model's own limit, or less if memory is short.
  package var maxContext: Int?
  /// Most sequences that are computed together.
  package var maxSequences = 8
  /// Most requests that wait while the engine is full.
  package var queueLimit = 64
  /// Most rows (tokens) of one step.
  package var rowsPerStep = 256
  /// The longest that a step may take while streams wait for their next token, seconds: prompts get as many rows as
  /// fit.
  package var maxStall = 0.2
  /// Most bytes of keys and values that are kept of ended sequences, for later ones with the same beginning; nil takes a
  /// quarter of what the weights leave of the ledger's limit.
  package var prefixCacheBytes: Int?
  /// Whether requests of one tenant may use what those of another have computed.
  package var sharesPrefixes = true
  /// Where prefixes outlive the server; nil keeps them in memory only.
  package var prefixCacheFolder: String?
  /// Most bytes of prefixes on disk.
  package var prefixCacheDiskBytes = 4 << 30
  /// What an engine that ends spends on saving prefixes, seconds.
  package var savingSeconds = 10.0
  /// The program's version: another one may compute other bits, and does not use what this one has saved.
  package var version = ""
  /// Which encoders of images and audio are used.
  package var media = MediaOptions()
  /// Most bytes of soft tokens that are kept of encoded images and audio.
  package var mediaCacheBytes = 256 << 20
  /// Whether drafts are taken from a sequence's own text and verified in the step that computes its next token.
  package var speculates = true

  /// The tokens with which a decoder answers that is to score pairs of texts.
  package var answerTokens: (yes: Int32, no: Int32)?
  /// Whether vectors may be cut to fewer elements by models that were not trained for it.
  package var cutsAnyVectors = false

  /// How tokens are chosen where neither a request nor the model's files say it.
  package var defaultSampling = DefaultSampling.local

  /// Added to every step; for tests that need time while the engine is at work.
  package var stepDelayMilliseconds: UInt32 = 0

  /// Most bytes of KV cache; nil takes three quarters of what the weights leave of the ledger's limit.
  package var kvCacheBytes: Int?
  /// Where the engine's memory is accounted for.
  package var ledger = MemoryLedger(limit: MemoryLimit.bytes)
  /// How long a sequence that has no room waits for others to give memory back before it fails, seconds.
  package var memoryPatience = 5.0
  /// Kernels and threads shared with other engines; nil gives the engine its own.
  package var compute: SharedCompute?
  /// Told how far the weights are while the model is loaded.
  package var progress: Progress?

  package init(modelPath: String, threads: Int = Machine.cores) {
    (self.modelPath, self.threads) = (modelPath, threads)
  }

  /// Kernels and threads as the configuration wants them.
  ///
  /// - Parameter mode: instead of the configuration's own.
  func makeContext(mode: ComputeMode? = nil) throws(ComputeError) -> ComputeContext {
    let context = try ComputeContext(
      threads: threads, isa: isa, mode: mode ?? computeMode, interleaves: interleavesWeights,
      useReference: useReference)
    context.preparedFolder = preparedFolder
    return context
  }

  /// How keys and values are stored beside activations of this mode.
  func kvFormat(beside mode: ComputeMode) -> KVFormat { kvFormat ?? (mode == .exact ? .f32 : .q16) }

  func prefixBytes(weights: Int) -> Int { prefixCacheBytes ?? max(0, ledger.limit - weights) / 4 }

  func kvBytes(weights: Int) -> Int { kvCacheBytes ?? (ledger.limit - weights) / 4 * 3 }
}

/// How many KV blocks to have, and the longest context they serve.
struct MemoryPlan: Equatable {
  /// Tokens of keys and values that are granted when the engine starts.
  static let guaranteedTokens = 4096

  var maxContext: Int
  var blockCount: Int
  /// Blocks that the engine holds from its start to its end: one sequence of some length always gets to its end.
  var guaranteedBlocks: Int

  /// - Parameters:
  ///   - bytes: what blocks weigh.
  ///   - freeBytes: memory that the KV cache may take; it is committed only as sequences grow into it.
  /// - Throws: `contextTooLarge`, or `memoryTooSmall` when an explicit context does not fit.
  init(
    requestedContext: Int?, modelContext: Int, maxSequences: Int, blockTokens: Int = KVCache.blockTokens,
    bytes: BlockBytes, freeBytes: Int
  ) throws(InferenceError) {
    if let requestedContext, requestedContext > modelContext {
      throw .contextTooLarge(requested: requestedContext, modelLimit: modelContext)
    }
    let affordable = bytes.blocks(in: max(0, freeBytes))
    let (tokens, exceeds) = affordable.multipliedReportingOverflow(by: blockTokens)
    let largest = exceeds ? .max : tokens
    let wanted = requestedContext ?? min(modelContext, largest)
    let blocksPerContext = (wanted + blockTokens - 1) / blockTokens
    guard wanted > 0, blocksPerContext <= affordable else {
      let context = requestedContext ?? modelContext
      throw .memoryTooSmall(
        neededBytes: bytes.bytes(of: (context + blockTokens - 1) / blockTokens) ?? .max,
        availableBytes: freeBytes, context: context, largestContext: largest)
    }
    maxContext = wanted
    let (all, overflow) = blocksPerContext.multipliedReportingOverflow(by: max(1, maxSequences))
    // Those that have left the window weigh less: several sequences may have more blocks than one of them.
    let most = max(affordable, max(0, freeBytes) / max(1, bytes.narrow))
    blockCount = overflow ? affordable : min(all, most)
    guaranteedBlocks = min(blocksPerContext, max(1, Self.guaranteedTokens / blockTokens))
  }
}
