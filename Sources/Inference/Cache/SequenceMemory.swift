// What one sequence holds of its engine's memory, as one value: how many tokens are remembered, and where.

import Compute

/// A sequence gets it empty. `EngineMemory` extends it, forks it from what others have computed, takes snapshots of it
/// for them, rewinds it and takes it back; the model is told where its parts are.
struct SequenceMemory {
  /// Leading tokens that are remembered: the next forward pass begins after them.
  var count = 0
  /// Blocks of keys and values in order of position: those of the remembered tokens, and room for the next ones.
  var blocks: [Int32] = []
  /// The first of them of which the sequence holds the sliding layers' part too, as it does of all after it.
  var firstWhole = 0
  /// The slot with the state of recurrent layers after `count` tokens; nil before there is any, and for models without
  /// such layers.
  var slot: Int32?
  /// What a draft that does not come true is rewound to: the state before it, and the tokens remembered by that.
  var checkpoint: (slot: Int32, count: Int)?
  /// Where the sequence stands among cached prefixes.
  var path: PrefixCache.Path
  /// Tokens of the request's prompt: others may begin with the same.
  let promptCount: Int
  /// Whether its blocks are saved as they become full.
  let isKept: Bool

  /// - Parameter root: what the sequence shares its prefixes with.
  init(_ root: PrefixCache.Root, promptCount: Int, isKept: Bool = false) {
    path = PrefixCache.Path(root)
    (self.promptCount, self.isKept) = (promptCount, isKept)
  }

  /// Whether a cached block could follow: the sequence holds full blocks, and all of them are shared.
  var isAtBorder: Bool {
    blocks.count == path.blocks && count == path.blocks * KVCache.blockTokens
  }

  /// The same before anything was computed.
  var emptied: SequenceMemory { SequenceMemory(path.root, promptCount: promptCount, isKept: isKept) }

  /// A forward pass has computed `rows` more.
  mutating func advance(by rows: Int) { count += rows }
}
