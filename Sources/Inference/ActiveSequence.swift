// The state of one generation on the engine's thread: tokens, KV blocks, sampler, mailbox.

import Compute
import Decoding
import Platform

/// Not Sendable: only the engine's thread touches it.
final class ActiveSequence {
  let request: GenerationRequest
  let mailbox: Mailbox<GenerationEvent>
  /// Prompt followed by everything generated.
  private(set) var tokens: [Int32]
  /// Leading tokens whose keys and values are in the cache.
  var computed = 0
  /// KV blocks in order of position.
  var blocks: [Int32] = []
  var sampler: Sampler
  /// What the answer may say next.
  var guide: Guide?
  /// Where the sequence stands among cached prefixes.
  var path: PrefixCache.Path
  private(set) var drafter: Drafter?
  /// Tokens that may still be generated.
  private(set) var remaining: Int
  /// Leading tokens that were found in the prefix cache when the first step took the sequence.
  private(set) var cachedTokens = 0
  private var hasBegun = false
  /// Its reader has been told the end; it leaves with the step.
  var hasEnded = false
  /// More of its prefix is being read from disk: it is not computed meanwhile.
  var isLoading = false
  var promptLogprobs: [SampledToken?] = []

  private let arrived: Instant
  private var admitted: Instant?
  private var firstToken: Instant?

  /// - Parameter root: what the sequence shares its prefixes with.
  init(job: Job, root: PrefixCache.Root, maxContext: Int, speculates: Bool) {
    request = job.request
    mailbox = job.mailbox
    arrived = job.arrived
    tokens = job.request.promptTokens
    remaining = min(job.request.maxTokens, maxContext - tokens.count)
    sampler = Sampler(
      job.request.sampling, seed: job.seed, promptTokens: tokens, stopTokens: job.request.stopTokens)
    guide = job.request.guide
    path = PrefixCache.Path(root)
    drafter = speculates ? Drafter(reference: job.request.draft) : nil
  }

  var ropeVariant: Int { path.root.ropeVariant }
  var promptCount: Int { request.promptTokens.count }
  var generatedCount: Int { tokens.count - promptCount }
  /// Tokens that the next steps must still run through the model.
  var pending: Int { tokens.count - computed }
  var isCancelled: Bool { mailbox.isClosed }

  /// A preempted sequence that returns keeps its first times.
  func markAdmitted(at now: Instant) {
    if admitted == nil { admitted = now }
  }

  /// Whether prompt positions are yet to be reported: then nothing of the prompt may come from the cache.
  var wantsPromptLogprobs: Bool { request.promptLogprobs != nil && generatedCount == 0 }
  /// Whether it stands where a cached block could follow.
  var isAtBorder: Bool {
    pending > 1 && !wantsPromptLogprobs && blocks.count == path.blocks
      && computed == path.blocks * KVCache.blockTokens
  }
  /// Whether the next step samples one token that a reader waits for, so that drafts may go along.
  var isDecoding: Bool { pending == 1 && generatedCount > 0 }

  /// True the first time that a step takes the sequence.
  func begin() -> Bool {
    guard !hasBegun else { return false }
    hasBegun = true
    cachedTokens = computed
    return true
  }

  /// Tokens that probably follow, at most `most`.
  func draft(most: Int) -> [Int32] {
    Array(drafter?.guess(after: tokens, most: min(most, remaining - 1)) ?? [])
  }

  func learn(guessed: Int, held: Int) { drafter?.learn(guessed: guessed, held: held) }

  /// Forgets what is in the KV cache; the caller has given the blocks back.
  func rewind() {
    computed = 0
    path = PrefixCache.Path(path.root)
  }

  func append(_ token: Int32, at now: Instant) {
    if firstToken == nil { firstToken = now }
    tokens.append(token)
    remaining -= 1
  }

  func timings(at now: Instant) -> GenerationTimings {
    var timings = GenerationTimings()
    let admitted = admitted ?? now
    let firstToken = firstToken ?? now
    timings.queued = admitted.seconds(since: arrived)
    timings.prefill = firstToken.seconds(since: admitted)
    timings.decode = now.seconds(since: firstToken)
    timings.promptTokens = promptCount
    timings.cachedTokens = cachedTokens
    timings.generatedTokens = generatedCount
    return timings
  }
}

/// A request in the queue.
struct Job: Sendable {
  let request: GenerationRequest
  let mailbox: Mailbox<GenerationEvent>
  let seed: UInt64
  let arrived: Instant
}
