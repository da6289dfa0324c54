// The state of one generation on the engine's thread: tokens, KV blocks, sampler, mailbox.

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
  /// Tokens that may still be generated.
  private(set) var remaining: Int
  let ropeVariant: Int
  var promptLogprobs: [SampledToken?] = []

  private let arrived: Instant
  private var admitted: Instant?
  private var firstToken: Instant?

  init(job: Job, ropeVariant: Int, maxContext: Int) {
    request = job.request
    mailbox = job.mailbox
    arrived = job.arrived
    tokens = job.request.promptTokens
    remaining = min(job.request.maxTokens, maxContext - tokens.count)
    sampler = Sampler(
      job.request.sampling, seed: job.seed, promptTokens: tokens, stopTokens: job.request.stopTokens)
    self.ropeVariant = ropeVariant
  }

  var promptCount: Int { request.promptTokens.count }
  var generatedCount: Int { tokens.count - promptCount }
  /// Tokens that the next steps must still run through the model.
  var pending: Int { tokens.count - computed }
  var isCancelled: Bool { mailbox.isClosed }

  /// Called at the first admission; a preempted sequence that returns keeps its first times.
  func markAdmitted(at now: Instant) -> Bool {
    guard admitted == nil else { return false }
    admitted = now
    return true
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
