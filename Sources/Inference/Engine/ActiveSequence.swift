// The state of one generation on the engine's thread: tokens, memory, sampler, mailbox.

import Compute
import Decoding
import Media
import Models
import Platform

/// Not Sendable: only the engine's thread touches it.
final class ActiveSequence {
  let request: GenerationRequest
  let mailbox: Mailbox<GenerationEvent>
  /// Prompt followed by everything generated.
  private(set) var tokens: [Int32]
  /// What the prefix cache knows the tokens by: where an image or an audio clip stands, its content. Nil when
  /// there are none, and the tokens serve.
  private var mediaKeys: [Int32]?
  /// Where tokens stand, where images have rows and columns.
  private let places: TokenPlaces?
  /// Soft tokens by the index of their span, from when they are encoded until their positions are computed.
  private var soft: [Int: [Float]] = [:]
  /// What of the tokens is computed, and where.
  var memory: SequenceMemory {
    didSet {
      soft = soft.isEmpty ? soft : soft.filter { request.media[$0.key].positions.upperBound > computed }
    }
  }
  var sampler: Sampler
  /// What the answer may say next.
  private(set) var guide: Guide?
  /// The guide that is being made.
  private var lateGuide: LateGuide?
  private(set) var drafter: Drafter?
  /// What is still to come of the answer as it is said to be; empty once another token came.
  private var expected: ArraySlice<Int32>
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
  /// How far the prompt is read; nil before its first step, and when it has been.
  private(set) var progress: PromptProgress?
  private var toldProgress: Instant?

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
    expected = job.request.expected[...]
    guide = job.request.guide
    lateGuide = job.request.lateGuide
    memory = SequenceMemory(
      root, promptCount: job.request.promptTokens.count, isKept: job.request.keepsPrefix)
    drafter = speculates ? Drafter(reference: job.request.draft) : nil
    places = TokenPlaces(job.request.media, count: job.request.promptTokens.count)
    guard !request.media.isEmpty else { return }
    var keys = tokens
    for span in request.media {
      for (offset, position) in span.positions.enumerated() {
        keys[position] = Self.key(span.input.digest, offset)
      }
    }
    mediaKeys = keys
  }

  /// Leading tokens that no step need run through the model again.
  var computed: Int { memory.count }
  var ropeVariant: Int { memory.path.root.ropeVariant }

  /// What the prefix cache knows the tokens by.
  var keys: [Int32] { mediaKeys ?? tokens }

  /// What stands for a position of a content with this SHA-256: a part of it, negative as no token is. Positions all
  /// hold the same token, which cannot tell two images apart.
  private static func key(_ digest: [UInt8], _ offset: Int) -> Int32 {
    let start = offset % 8 * 4
    guard start + 4 <= digest.count else { return -1 }
    return digest[start..<start + 4].reduce(0) { $0 << 8 | Int32($1) } | .min
  }

  /// Time, row and column of these positions; empty where each position is all three.
  func places(in range: Range<Int>) -> [SIMD3<Int32>] { places?[range] ?? [] }

  func hasSoft(_ index: Int) -> Bool { soft[index] != nil }
  func softTokens(of index: Int) -> [Float]? { soft[index] }
  func setSoft(_ values: [Float], of index: Int) { soft[index] = values }

  /// Whether nobody waits for it.
  var givesWay: Bool { request.givesWay }
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
  /// Whether a row before the position `end` tells a log probability that has not been collected. A sequence that is
  /// computed again after preemption has some of them, or all.
  func lacksPromptLogprobs(before end: Int) -> Bool {
    // The row of a position predicts the token after it; nothing predicts the first.
    wantsPromptLogprobs && max(1, promptLogprobs.count) <= min(end, promptCount - 1)
  }
  /// Whether it stands where others may have computed what comes next.
  var isAtBorder: Bool { pending > 1 && !wantsPromptLogprobs && memory.isAtBorder }
  /// Whether the next step samples one token that a reader waits for, so that drafts may go along.
  var isDecoding: Bool { pending == 1 && generatedCount > 0 }

  /// Whether its guide is still being made, so that nothing can be sampled.
  var awaitsGuide: Bool {
    guard let lateGuide else { return false }
    guard let made = lateGuide.guide else { return true }
    guide = made
    self.lateGuide = nil
    return false
  }

  /// What the next token may be.
  func allowance() -> Guide.Allowance {
    guide?.allowance(remaining: remaining, isUnwanted: { [mailbox] in mailbox.isClosed }) ?? .any
  }

  /// True the first time that a step takes the sequence.
  func begin() -> Bool {
    guard !hasBegun else { return false }
    hasBegun = true
    cachedTokens = computed
    return true
  }

  /// How often a reader is told how far its prompt is read, seconds.
  private static let progressSeconds = 0.25

  /// Notes how far the prompt is read, and tells a reader that wants to know it: first, last, and now and then between.
  func note(secondsLeft: Double?, at now: Instant) {
    let isRead = pending == 0
    let noted = PromptProgress(
      total: promptCount, cached: cachedTokens, processed: min(computed, promptCount),
      seconds: now.seconds(since: admitted ?? now), secondsLeft: isRead ? 0 : secondsLeft)
    progress = isRead ? nil : noted
    guard request.reportsProgress else { return }
    if !isRead, let toldProgress, now.seconds(since: toldProgress) < Self.progressSeconds { return }
    toldProgress = now
    // A reader that is behind can do without.
    _ = mailbox.trySend(.progress(noted))
  }

  /// Tokens that probably follow, at most `most`, as many as the budget is better for.
  func draft(most: Int, within budget: inout DraftBudget) -> [Int32] {
    guard expected.isEmpty else { return Array(expected.prefix(max(0, min(most, remaining - 1)))) }
    guard let draft = drafter?.draft(after: tokens, most: min(most, remaining - 1)) else { return [] }
    return Array(draft.prefix(budget.add(most: draft.count, reliability: drafter?.reliability ?? 0)))
  }

  /// Whether what comes is known, as far as it has come true.
  var isExpected: Bool { !expected.isEmpty }

  /// Begins anew with other rotary frequencies; the caller has given the memory back.
  func restart(ropeVariant: Int) {
    var root = memory.path.root
    root.ropeVariant = ropeVariant
    memory = SequenceMemory(root, promptCount: promptCount, isKept: request.keepsPrefix)
  }

  func append(_ token: Int32, at now: Instant) {
    if firstToken == nil { firstToken = now }
    guide?.accept(token)
    tokens.append(token)
    expected = expected.first == token ? expected.dropFirst() : []
    mediaKeys?.append(token)
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

// MARK: - Images and audio

extension ActiveSequence {
  /// The first span that is still to be computed and whose soft tokens are not there.
  var missingMedia: Int? {
    request.media.indices.first { request.media[$0].positions.upperBound > computed && !hasSoft($0) }
  }

  /// Takes over soft tokens that `find` knows, by digest.
  func takeSoft(_ find: (_ digest: [UInt8]) -> [Float]?) {
    for (index, span) in request.media.enumerated()
    where span.positions.upperBound > computed && !hasSoft(index) {
      if let found = find(span.input.digest) { setSoft(found, of: index) }
    }
  }

  /// Tokens that the next steps can run before an encoder has to, or before the guide must be there.
  var ready: Int {
    if let missing = missingMedia { return max(0, request.media[missing].start - computed) }
    guard awaitsGuide else { return pending }
    // The last token waits, and an image whole where it is that image's.
    let last = request.media.last.map(\.positions).flatMap {
      $0.upperBound == tokens.count ? $0.lowerBound : nil
    }
    return max(0, (last ?? tokens.count - 1) - computed)
  }

  /// Rows of the next step such that no image is cut; more than `rows` where an image comes next.
  func wholeRows(_ rows: Int) -> Int {
    let end = computed + rows
    let cut = request.media.first {
      $0.input.kind == .image && $0.start < end && end < $0.positions.upperBound
    }
    guard let cut else { return rows }
    return (cut.start > computed ? cut.start : cut.positions.upperBound) - computed
  }

  /// Soft tokens of the positions `range`, as rows from its start.
  func softRows(in range: Range<Int>) -> [Batch.SoftRows] {
    request.media.enumerated().compactMap { index, span in
      let shared = span.positions.clamped(to: range)
      guard !shared.isEmpty, let values = softTokens(of: index) else { return nil }
      let width = values.count / span.input.tokenCount
      let first = (shared.lowerBound - span.start) * width
      return Batch.SoftRows(
        row: shared.lowerBound - range.lowerBound, values: values[first..<first + shared.count * width],
        width: width)
    }
  }

  /// The images of which `range` holds positions.
  func imageGroups(in range: Range<Int>) -> [Range<Int>] {
    request.media.filter { $0.input.kind == .image && $0.positions.overlaps(range) }.map(\.positions)
  }
}
