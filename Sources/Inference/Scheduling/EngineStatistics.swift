// What the engine counts, as one value that any thread can have at any time.

/// Totals are since the start.
package struct EngineStatistics: Sendable, Equatable {
  /// Requests that are being computed, preempted ones included.
  package var running = 0
  /// Most requests that are computed together.
  package var maxSequences = 0
  /// Requests that wait for a place; cancelled ones do not count.
  package var waiting = 0
  /// Prompts that are being read, in the order in which they got their places.
  package var reading: [PromptProgress] = []
  package var kvBlocksTotal = 0
  /// Blocks held by running requests or by cached prefixes.
  package var kvBlocksUsed = 0
  /// Blocks that running requests hold; one that several of them share counts for each.
  package var kvBlocksHeld = 0
  /// Blocks held by cached prefixes; those that no request reads count as free.
  package var kvBlocksCached = 0
  /// Tokens of all prompts that were begun, and how many of them were found computed.
  package var prefixQueryTokens = 0
  package var prefixHitTokens = 0
  /// Of the hits, those that were read from disk.
  package var prefixDiskTokens = 0
  /// Tokens that were given up of the prefix cache, and then computed again.
  package var prefixLostTokens = 0
  /// Most blocks that the prefix cache holds, tokens of a block, and blocks that it had to give up.
  package var prefixBlocksMost = 0
  package var blockTokens = 0
  package var prefixBlocksGivenUp = 0
  /// Tokens that were computed ahead for prompts that nobody had sent yet, the seconds of their steps, what all threads of
  /// the process computed meanwhile, and what the machine's processors took; nil where the system does not tell.
  package var aheadTokens = 0
  package var aheadSeconds = 0.0
  package var aheadCPUSeconds = 0.0
  package var aheadJoules: Double?
  /// Times that a request gave its memory back because others needed them.
  package var preemptions = 0
  package var steps = 0
  /// Seconds that forward passes took; the rest of a step is choosing rows and tokens, and telling readers.
  package var forwardSeconds = 0.0
  /// Requests that got a place.
  package var admitted = 0
  package var prefillTokens = 0
  package var decodeTokens = 0
  /// Drafts that were verified, their tokens, and how many of these came true.
  package var drafts = 0
  package var draftedTokens = 0
  package var acceptedTokens = 0
  package var finished = 0
  package var cancelled = 0
  package var failed = 0
  /// Refused because the queue was full.
  package var refused = 0
  /// The longest step that running streams had to wait for, seconds.
  package var longestStall = 0.0

  package init() {}

  /// Steps and seconds of forward passes since `earlier`.
  package func forward(since earlier: EngineStatistics) -> (steps: Int, seconds: Double) {
    (steps - earlier.steps, forwardSeconds - earlier.forwardSeconds)
  }
}
