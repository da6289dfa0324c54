// The engine with a toy model: same tokens alone and together, chunked and preempted; every way to end.

import Compute
import Decoding
import JSON
import Models
import Platform
import Sampling
import Support
import Testing
import Tokenizers

@testable import Grammar
@testable import Inference

@Suite struct EngineTests: EngineHarness {
  @Test func `greedy tokens are those of the model, whatever the size of the chunks`() throws {
    let prompt = prompt(seed: 1, count: 100)
    let expected = HashModel.greedy(after: prompt, count: 40)
    for rows in [1, 7, 32, 256] {
      let client = try client { $0.rowsPerStep = rows }
      let (tokens, reason, timings) = collect(try client.submit(request(prompt, 40)))
      #expect(tokens == expected, "rows per step: \(rows)")
      #expect(reason == .length)
      #expect(timings.promptTokens == 100)
      #expect(timings.generatedTokens == 40)
      client.stop()
    }
  }

  @Test func `many sequences together give the tokens that each gives alone, also when blocks run out`()
    throws
  {
    let prompts = (0..<12).map { prompt(seed: UInt64($0), count: 20 + 11 * $0) }
    // One block of one head of one float is 256 bytes: 24 blocks are 768 tokens for twelve sequences that want
    // about 2,400, so sequences must be preempted and computed again.
    let client = try client {
      $0.maxContext = 512
      $0.kvCacheBytes = 24 * 256
      $0.rowsPerStep = 48
    }
    let generations = try prompts.map { try client.submit(request($0, 120)) }
    for (prompt, generation) in zip(prompts, generations) {
      #expect(collect(generation).tokens == HashModel.greedy(after: prompt, count: 120))
    }
    client.stop()
  }

  @Test(arguments: [false, true])
  func `a sequence that outgrows its rotary frequencies is computed again with those for longer ones`(
    speculates: Bool
  ) throws {
    // The second repeats itself, so that drafts reach the border.
    let prompts = [prompt(seed: 3, count: 50), (0..<60).map { Int32($0 % 5) }, prompt(seed: 4, count: 70)]
    for limit in [50, 64, 65, 69] {
      let client = try client(shortLimit: limit) { $0.speculates = speculates }
      // A prompt's tokens do not depend on how many its request allows.
      for count in [5, 40] {
        let generations = try prompts.map { try client.submit(request($0, count)) }
        for (prompt, generation) in zip(prompts, generations) {
          let expected = HashModel.greedy(after: prompt, count: count, shortLimit: limit)
          let (tokens, reason, timings) = collect(generation)
          #expect(tokens == expected, "limit \(limit)")
          #expect(reason == .length && timings.generatedTokens == count)
        }
      }
      client.stop()
    }
  }

  @Test func `a stop token ends the generation and is not sent`() throws {
    let prompt = prompt(seed: 5, count: 10)
    let expected = HashModel.greedy(after: prompt, count: 60)
    let stop = expected[30]
    let before = expected.prefix { $0 != stop }
    let client = try client()
    var request = request(prompt, 60)
    request.stopTokens = [stop]
    let (tokens, reason, timings) = collect(try client.submit(request))
    #expect(tokens == Array(before))
    #expect(reason == .stop)
    #expect(timings.generatedTokens == before.count + 1)
    client.stop()
  }

  @Test func `the context ends a generation that asks for more`() throws {
    let client = try client { $0.maxContext = 50 }
    let (tokens, reason, _) = collect(try client.submit(request(prompt(seed: 2, count: 40), 1_000_000)))
    #expect(tokens.count == 10)
    #expect(reason == .length)
    client.stop()
  }

  @Test func `requests that cannot work are refused at once`() throws {
    let client = try client { $0.maxContext = 50 }
    #expect(throws: InferenceError.emptyPrompt) { try client.submit(request([], 1)) }
    #expect(throws: InferenceError.promptTooLong(tokens: 50, limit: 50)) {
      try client.submit(request(prompt(seed: 1, count: 50), 1))
    }
    #expect(throws: InferenceError.tokenOutOfRange(token: 50, vocabularySize: 50)) {
      try client.submit(request([50], 1))
    }
    #expect(throws: InferenceError.tokenOutOfRange(token: -1, vocabularySize: 50)) {
      try client.submit(request([-1], 1))
    }
    client.stop()
  }

  @Test func `a full queue refuses, and a cancelled request leaves it`() throws {
    let gate = Monitor(false)
    let client = try client(gate: gate) {
      $0.maxSequences = 1
      $0.queueLimit = 2
    }
    let running = try client.submit(request([1], 3))
    guard case .element(.started) = running.next() else {
      Issue.record("the first request was not started")
      return
    }
    let waiting = try client.submit(request([2], 3))
    let impatient = try client.submit(request([3], 3))
    #expect(throws: InferenceError.queueFull(limit: 2, running: 1, waiting: 2)) {
      try client.submit(request([4], 3))
    }
    impatient.cancel()
    let late = try client.submit(request([4], 3))
    gate.update { $0 = true }
    #expect(collect(running).tokens == HashModel.greedy(after: [1], count: 3))
    #expect(collect(waiting).tokens == HashModel.greedy(after: [2], count: 3))
    #expect(collect(late).tokens == HashModel.greedy(after: [4], count: 3))
    client.stop()
  }

  @Test func `without a queue, requests are served while the engine has room`() throws {
    let gate = Monitor(false)
    let client = try client(gate: gate) {
      $0.maxSequences = 2
      $0.queueLimit = 0
    }
    let first = try client.submit(request([1], 3))
    let second = try client.submit(request([2], 3))
    #expect(throws: InferenceError.queueFull(limit: 0, running: 2, waiting: 0)) {
      try client.submit(request([3], 3))
    }
    gate.update { $0 = true }
    #expect(collect(first).tokens == HashModel.greedy(after: [1], count: 3))
    #expect(collect(second).tokens == HashModel.greedy(after: [2], count: 3))
    client.stop()
  }

  @Test func `a cancelled generation frees its blocks`() throws {
    let client = try client {
      $0.maxContext = 512
      $0.kvCacheBytes = 16 * 256
    }
    let endless = try client.submit(request(prompt(seed: 1, count: 400), 100))
    _ = endless.next()
    endless.cancel()
    let prompt = prompt(seed: 2, count: 450)
    #expect(
      collect(try client.submit(request(prompt, 5))).tokens == HashModel.greedy(after: prompt, count: 5))
    client.stop()
  }

  @Test func `the state tells who runs, who waits and that nothing is held afterwards`() throws {
    let gate = Monitor(false)
    let client = try client(gate: gate) { $0.maxSequences = 1 }
    let prompt = prompt(seed: 3, count: 40)
    let first = try client.submit(request(prompt, 3))
    while client.statistics.running == 0 { usleep(1000) }
    let second = try client.submit(request([2], 3))
    let third = try client.submit(request([3], 3))
    #expect(client.statistics.waiting == 2)
    third.cancel()
    #expect(client.statistics.waiting == 1)
    gate.update { $0 = true }
    #expect(collect(first).reason == .length)
    #expect(collect(second).reason == .length)
    while client.statistics.running > 0 { usleep(1000) }
    let state = client.statistics
    #expect(state.admitted == 2)
    #expect(state.waiting == 0)
    #expect(state.steps >= 2)
    #expect(state.maxSequences == 1)
    // The first prompt stays for others to continue: a full block, and one that it began.
    #expect(state.kvBlocksCached == 2)
    #expect(state.kvBlocksUsed == 2)
    client.stop()
  }

  @Test func `draining serves what was accepted and refuses what is new`() throws {
    let client = try client()
    let accepted = try client.submit(request([1, 2], 5))
    client.drain()
    #expect(throws: InferenceError.draining) { try client.submit(request([1], 1)) }
    #expect(collect(accepted).tokens == HashModel.greedy(after: [1, 2], count: 5))
    client.stop()
  }

  @Test func `stopping cancels what runs and what waits`() throws {
    let gate = Monitor(false)
    let client = try client(gate: gate) { $0.maxSequences = 1 }
    let running = try client.submit(request([1], 1000))
    let waiting = try client.submit(request([2], 1000))
    gate.update { $0 = true }
    client.stop()
    #expect(collect(running).reason == .cancelled)
    #expect(collect(waiting).reason == .cancelled)
  }

  @Test func `prompt log probabilities cover every prompt token but the first`() throws {
    let prompt = prompt(seed: 9, count: 45)
    let client = try client { $0.rowsPerStep = 20 }
    var request = request(prompt, 2)
    request.promptLogprobs = 1
    let generation = try client.submit(request)
    var reported: [SampledToken?] = []
    while case .element(let event) = generation.next() {
      if case .promptLogprobs(let entries) = event { reported = entries }
    }
    #expect(reported.count == 45)
    #expect(reported.first.map { $0 == nil } == true)
    for (position, entry) in reported.enumerated().dropFirst() {
      let values = HashModel.logits(after: Array(prompt[..<position]))
      let likeliest = values.indices.max { values[$0] < values[$1] }
      #expect(entry?.id == prompt[position])
      #expect(entry?.top.first.map { Int($0.id) } == likeliest)
      #expect((entry?.logprob ?? 1) <= 0)
    }
    client.stop()
  }

  @Test(arguments: [
    // Preempted after some tokens of its answer, and before the end of its prompt.
    (older: (prompt: 200, answer: 250), younger: (prompt: 150, answer: 120)),
    (older: (prompt: 220, answer: 250), younger: (prompt: 280, answer: 5)),
  ])
  func `a preempted sequence asks for each row of its prompt's log probabilities once`(
    older: (prompt: Int, answer: Int), younger: (prompt: Int, answer: Int)
  ) throws {
    let (gate, watch) = (Monitor(false), Monitor(HashModel.Watch()))
    // 16 blocks are 512 tokens, less than the two sequences come to; nothing is found in the prefix cache.
    let client = try client(gate: gate, watch: watch) {
      $0.maxContext = 512
      $0.kvCacheBytes = 16 * 256
      $0.prefixCacheBytes = 0
      $0.speculates = false
    }
    let (first, prompt) = (prompt(seed: 1, count: older.prompt), prompt(seed: 2, count: younger.prompt))
    let other = try client.submit(request(first, older.answer))
    var wanting = request(prompt, younger.answer)
    wanting.promptLogprobs = 0
    let generation = try client.submit(wanting)
    gate.update { $0 = true }
    var reports: [[SampledToken?]] = []
    var tokens: [Int32] = []
    while case .element(let event) = generation.next(until: Instant.now.adding(seconds: 30)) {
      if case .promptLogprobs(let entries) = event { reports.append(entries) }
      if case .token(let token) = event { tokens.append(token.id) }
    }
    #expect(collect(other).tokens == HashModel.greedy(after: first, count: older.answer))
    #expect(tokens == HashModel.greedy(after: prompt, count: younger.answer))
    #expect(reports.map(\.count) == [younger.prompt])
    #expect(reports.first?.compactMap { $0?.id } == Array(prompt.dropFirst()))
    #expect(client.statistics.preemptions > 0)
    let seen = watch.withLock { $0 }
    #expect(seen.mostLogitRows <= 16 + 1)
    // A row for each token of prompt and answers, and once what a chunk holds before the first that is missing.
    #expect(seen.logitRows <= younger.prompt + younger.answer + older.answer + 16)
    client.stop()
  }

  @Test func `rows beyond the token limit are never sampled`() throws {
    let client = try client()
    var request = request(prompt(seed: 3, count: 4), 50)
    request.tokenLimit = 10
    #expect(collect(try client.submit(request)).tokens.allSatisfy { $0 < 10 })
    client.stop()
  }

  @Test func `threads that share the rows of a growing batch leave its tokens as they are`() throws {
    let gate = Monitor(false)
    let client = try client(
      gate: gate, padding: 40_000, turns: SharedCompute(try ComputeContext(threads: 3))
    ) { $0.maxSequences = 12 }
    defer { client.stop() }
    let prompts = (0..<12).map { prompt(seed: UInt64($0), count: 4 + 9 * $0) }
    let generations = try prompts.enumerated().map { index, prompt in
      var request = request(prompt, 40 - index)
      request.tokenLimit = HashModel.vocabulary
      return try client.submit(request)
    }
    gate.update { $0 = true }
    for (index, (prompt, generation)) in zip(prompts, generations).enumerated() {
      #expect(collect(generation).tokens == HashModel.greedy(after: prompt, count: 40 - index))
    }
  }

  @Test func `a loader's failure is the start's failure`() {
    struct Broken: Error, CustomStringConvertible { let description = "no such tensor" }
    #expect(throws: InferenceError.modelLoading("no such tensor")) {
      try EngineClient.start(EngineConfiguration(modelPath: "", threads: 1)) { _ in throw Broken() }
    }
  }

  // MARK: Cached prefixes

  @Test func `a second turn computes only its new tokens, and gives the same`() throws {
    let client = try client()
    let prompt = prompt(seed: 3, count: 100)
    let answer = collect(try client.submit(request(prompt, 40))).tokens
    let next = prompt + answer + [1, 2, 3]
    let second = try client.submit(request(next, 20))
    // 139 tokens were computed: four full blocks, and a copy of the last.
    #expect(cachedTokens(second) == 139)
    #expect(collect(second).tokens == HashModel.greedy(after: next, count: 20))
    let again = try client.submit(request(prompt, 40))
    #expect(cachedTokens(again) == 96)
    #expect(collect(again).tokens == answer)
    client.stop()
  }

  @Test func `somebody who types after 2,000 tokens waits for two steps at most, with each letter`() throws {
    let client = try client { $0.maxContext = 4096 }
    defer { client.stop() }
    let text = prompt(seed: 5, count: 2000)
    let tail = prompt(seed: 6, count: 24)
    _ = collect(try client.submit(request(text + tail, 4)))
    // What stands after the cursor follows in every prompt, so that no prompt goes on from the one before.
    for letters in 1...8 {
      let typed = text + prompt(seed: UInt64(100), count: letters) + tail
      // Counts are told after the last event of a request.
      while client.statistics.finished < letters { usleep(1000) }
      let before = client.statistics
      let (tokens, _, timings) = collect(try client.submit(request(typed, 1)))
      #expect(tokens == HashModel.greedy(after: typed, count: 1))
      // Whole blocks, and a copy of the one in which the prompts part.
      #expect(timings.cachedTokens >= 1984)
      while client.statistics.finished <= letters { usleep(1000) }
      #expect(client.statistics.steps - before.steps <= 2)
    }
  }

  @Test func `choices of one prompt share its prefill`() throws {
    let gate = Monitor(false)
    let client = try client(gate: gate) {
      $0.rowsPerStep = 64
    }
    let prompt = prompt(seed: 8, count: 200)
    let generations = try (0..<4).map { _ in try client.submit(request(prompt, 10)) }
    gate.update { $0 = true }
    let expected = HashModel.greedy(after: prompt, count: 10)
    #expect(cachedTokens(generations[0]) == 0)
    for generation in generations.dropFirst() { #expect(cachedTokens(generation) == 192) }
    for generation in generations { #expect(collect(generation).tokens == expected) }
    client.stop()
  }

  @Test func `log probabilities of the prompt are complete although its beginning is cached`() throws {
    let client = try client()
    let prompt = prompt(seed: 3, count: 100)
    _ = collect(try client.submit(request(prompt, 4)))
    var wanting = request(prompt, 1)
    wanting.promptLogprobs = 1
    let generation = try client.submit(wanting)
    #expect(cachedTokens(generation) == 0)
    guard case .element(.promptLogprobs(let logprobs)) = generation.next() else {
      Issue.record("no log probabilities of the prompt came")
      return
    }
    #expect(logprobs.count == 100)
    client.stop()
  }

  // MARK: Drafts

  @Test func `drafts change the number of steps, not the tokens`() throws {
    // A prompt that holds the answer to its own end: every draft from it is right.
    let beginning = prompt(seed: 21, count: 40)
    let answer = HashModel.greedy(after: beginning, count: 60)
    for speculates in [false, true] {
      for draft in [[], answer, answer.map { ($0 + 1) % Int32(HashModel.vocabulary) }] {
        let client = try client { $0.speculates = speculates }
        var drafted = request(beginning, 60)
        drafted.draft = draft
        let (tokens, reason, timings) = collect(try client.submit(drafted))
        #expect(tokens == answer)
        #expect(reason == .length)
        #expect(timings.generatedTokens == 60)
        client.stop()
      }
    }
  }

  @Test func `many sequences with drafts, sampled at random, give what each gives alone`() throws {
    let prompts = (0..<6).map { index -> [Int32] in
      let part = prompt(seed: UInt64(index % 3), count: 30)
      return part + part + part
    }
    var answers: [[[Int32]]] = []
    for speculates in [false, true] {
      for together in [false, true] {
        let client = try client {
          $0.speculates = speculates
          $0.kvCacheBytes = 40 * 256
          $0.maxContext = 400
        }
        let requests = prompts.enumerated().map { index, prompt in
          var request = request(prompt, 80)
          request.sampling.temperature = 0.2
          request.sampling.seed = UInt64(index)
          request.draft = Array(prompt.reversed())
          return request
        }
        if together {
          let generations = try requests.map { try client.submit($0) }
          answers.append(generations.map { collect($0).tokens })
        } else {
          answers.append(try requests.map { collect(try client.submit($0)).tokens })
        }
        client.stop()
      }
    }
    for answer in answers.dropFirst() { #expect(answer == answers[0]) }
    #expect(answers[0].allSatisfy { $0.count == 80 })
  }

  // MARK: Guides

  /// Closes the reasoning after five tokens.
  private func closingGuide() throws -> Guide {
    let byteLevel: JSONValue = [
      "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
    ]
    let markers = [(48, "<t>"), (49, "</t>")].map { id, text -> JSONValue in
      [
        "id": .int(id), "content": .string(text), "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": false,
      ]
    }
    let file: JSONValue = [
      "version": "1.0", "added_tokens": .array(markers), "pre_tokenizer": byteLevel, "decoder": byteLevel,
      "model": ["type": "BPE", "vocab": ["a": 0, "\u{10A}": 46], "merges": []],
    ]
    let tokenizer = try Tokenizer(tokenizerJSON: file.bytes)
    return Guide(
      reasoning: Guide.Reasoning(
        tokenizer: tokenizer, open: "<t>", close: "</t>", lead: "\n", separator: "\n\n", budget: 5,
        startsInside: true))
  }

  @Test func `a mask of an answer ends when its reader has left`() throws {
    // Tokens that leave one call and begin the next are what must be walked.
    let calls = "abcdefghij".map { "\($0)(" }
    let words = (0..<256).map { [UInt8($0)] } + calls.map { Array(($0 + "x").utf8) } + [[]]
    let end = Int32(words.count - 1)
    let vocabulary = GrammarVocabulary(count: words.count, endTokens: [end]) { words[Int($0)] }
    let rules = calls.map { "\"\($0)\" root \")\"" }.joined(separator: " | ")
    // Of three masks the first and the last must be walked.
    func masks(leavingAt step: Int) throws -> [Guide.Allowance] {
      let grammar = try CompiledGrammar(.gbnf("root ::= \(rules) | \"x\""), vocabulary: vocabulary)
      var guided = request(prompt(seed: 2, count: 10), 100)
      guided.guide = Guide(grammar: grammar)
      let mailbox = Mailbox<GenerationEvent>(capacity: 1)
      let sequence = ActiveSequence(
        job: Job(request: guided, mailbox: mailbox, seed: 1, arrived: .now),
        root: PrefixCache.Root(ropeVariant: 0), maxContext: 512, speculates: false)
      return "a(b".utf8.enumerated().map { index, byte in
        if index == step { mailbox.close() }
        let allowance = sequence.allowance()
        sequence.append(Int32(byte), at: .now)
        return allowance
      }
    }

    let whole = try masks(leavingAt: .max)
    for step in [0, 2] {
      let left = try masks(leavingAt: step)
      #expect(left[..<step] == whole[..<step])
      guard case .among(let all) = whole[step], case .among(let part) = left[step] else {
        Issue.record("there is no mask")
        return
      }
      #expect(zip(part.words, all.words).allSatisfy { $0 & ~$1 == 0 } && part != all)
    }
  }

  @Test func `a guide forces the tokens that close reasoning`() throws {
    let client = try client()
    var guided = request(prompt(seed: 2, count: 10), 12)
    guided.guide = try closingGuide()
    let tokens = collect(try client.submit(guided)).tokens
    #expect(tokens.count == 12)
    #expect(Array(tokens[5...8]) == [46, 49, 46, 46])
    client.stop()
  }

  @Test func `a prompt is computed while its guide is made, and nothing is sampled before`() throws {
    for guide in [nil, try closingGuide()] {
      var guided = request(prompt(seed: 2, count: 100), 12)
      guided.guide = guide
      let known = try client { $0.rowsPerStep = 32 }
      let expected = collect(try known.submit(guided)).tokens
      known.stop()

      let client = try client { $0.rowsPerStep = 32 }
      let late = LateGuide()
      guided.guide = nil
      guided.lateGuide = late
      let generation = try client.submit(guided)
      #expect(wait(client) { $0.prefillTokens == 99 })
      #expect(cachedTokens(generation) == 0)
      guard case .timedOut = generation.next(until: Instant.now.adding(seconds: 0.05)) else {
        Issue.record("a token came without a guide")
        return
      }
      #expect(client.statistics.prefillTokens == 99)
      late.fill(guide)
      #expect(collect(generation).tokens == expected)
      client.stop()
    }
  }

  @Test func `sequences whose guides come late give the tokens that each gives alone`() throws {
    let prompts = (0..<12).map { prompt(seed: UInt64($0), count: 20 + 11 * $0) }
    let client = try client {
      $0.maxContext = 512
      $0.kvCacheBytes = 24 * 256
      $0.rowsPerStep = 48
    }
    let guides = prompts.map { _ in LateGuide() }
    let generations = try zip(prompts, guides).map { prompt, guide in
      var request = request(prompt, 60)
      request.lateGuide = guide
      return try client.submit(request)
    }
    // Every third one is given up instead.
    for index in prompts.indices.reversed() {
      if index % 3 == 0 { generations[index].cancel() } else { guides[index].fill(nil) }
    }
    for (index, generation) in generations.enumerated() where index % 3 != 0 {
      #expect(collect(generation).tokens == HashModel.greedy(after: prompts[index], count: 60))
    }
    #expect(wait(client) { $0.running == 0 && $0.waiting == 0 })
    client.stop()
  }
}
