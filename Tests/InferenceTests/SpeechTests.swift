// Transcripts of the demo model, which writes the same two sentences of every window that is not silent; the rules of
// tokens; and how repetition, silence and words are told.

import Compute
import Media
import Platform
import Support
import Synchronization
import Testing
import Tokenizers

@testable import Inference

@Suite struct SpeechTests {
  private static let folder = TestData.fixtures + "/speech/demo"

  private func client(_ change: (inout EngineConfiguration) -> Void = { _ in }) throws -> SpeechClient {
    var configuration = EngineConfiguration(modelPath: Self.folder, threads: 1)
    configuration.ledger = MemoryLedger(limit: 1 << 30)
    change(&configuration)
    return try SpeechClient.start(configuration, try tokenizer())
  }

  private func tokenizer() throws -> Tokenizer {
    try Tokenizer(tokenizerJSON: try File.read(Self.folder + "/tokenizer.json", limit: 1 << 20))
  }

  private func vocabulary() throws -> SpeechVocabulary {
    try SpeechVocabulary(try tokenizer(), size: 1774, context: 64, isMultilingual: true)
  }

  private func tone(_ seconds: Double) -> [Float] {
    (0..<Int(seconds * 16_000)).map { Float(0.3 * sin(Double($0) * 0.17) * (1 + sin(Double($0) * 0.001))) }
  }

  private struct Result {
    var language: String?
    var segments: [SpeechSegment] = []
    var error: InferenceError?
    var text: String { segments.map(\.text).joined() }
  }

  private func collect(_ job: SpeechJob) -> Result {
    var result = Result()
    while true {
      switch job.next() {
      case .element(.language(let code)): result.language = code
      case .element(.segments(let segments, _)): result.segments += segments
      case .element(.failed(let error)):
        result.error = error
        return result
      case .element(.finished), .closed, .timedOut: return result
      }
    }
  }

  private func transcribe(_ client: SpeechClient, _ request: SpeechRequest) throws -> Result {
    collect(try client.submit(request))
  }

  @Test func `windows follow one another, and each is cut at its timestamps`() throws {
    let client = try client()
    defer { client.stop() }
    let result = try transcribe(client, SpeechRequest(samples: tone(33)))
    #expect(result.language == "en")
    #expect(result.segments.map(\.text) == [" Hello world.", " Again.", " Hello world.", " Again."])
    #expect(result.segments.map { Int(($0.start * 100).rounded()) } == [0, 120, 3000, 3120])
    #expect(result.segments.map { Int(($0.end * 100).rounded()) } == [120, 200, 3120, 3200])
    #expect(result.segments.map(\.seek) == [0, 0, 3000, 3000])
    #expect(result.segments.allSatisfy { $0.tokens.count == $0.logprobs.count && $0.averageLogprob > -0.1 })
  }

  @Test func `nothing is written of silence, before, between and after what is heard`() throws {
    let client = try client()
    defer { client.stop() }
    let silence = [Float](repeating: 0, count: 40 * 16_000)
    #expect(try transcribe(client, SpeechRequest(samples: silence)).segments.isEmpty)
    let quiet = silence.indices.map { Float(5e-4 * sin(Double($0))) }
    #expect(try transcribe(client, SpeechRequest(samples: quiet)).segments.isEmpty)
    let both = try transcribe(client, SpeechRequest(samples: silence + tone(10) + silence + tone(5)))
    #expect(both.segments.count == 4)
    // A fifth of a second before the sound begins.
    #expect(both.segments.map { Int(($0.start * 10).rounded()) } == [398, 410, 898, 910])
  }

  @Test func `words are in order, inside the recording, and make up the text`() throws {
    let client = try client()
    defer { client.stop() }
    var request = SpeechRequest(samples: tone(4))
    request.wantsWords = true
    let result = try transcribe(client, request)
    let words = result.segments.flatMap(\.words)
    #expect(words.map(\.text) == [" Hello", " world.", " Again."])
    #expect(words.map(\.text).joined() == result.text)
    #expect(zip(words, words.dropFirst()).allSatisfy { $0.start <= $1.start && $0.end <= $1.end })
    #expect(words.allSatisfy { $0.start >= 0 && $0.start <= $0.end && $0.end <= 4 && $0.probability > 0.5 })
  }

  @Test func `a recording that is cancelled does not hold up the next`() throws {
    let client = try client { $0.stepDelayMilliseconds = 5 }
    defer { client.stop() }
    let long = try client.submit(SpeechRequest(samples: tone(3_000)))
    guard case .element = long.next() else {
      Issue.record("no first event")
      return
    }
    long.cancel()
    #expect(try transcribe(client, SpeechRequest(samples: tone(2))).text == " Hello world. Again.")
  }

  @Test func `recordings take turns, a slow reader waits alone, and the end fails what is left`() throws {
    let client = try client { $0.queueLimit = 2 }
    let slow = try client.submit(SpeechRequest(samples: tone(3_000)))
    #expect(try transcribe(client, SpeechRequest(samples: tone(2))).segments.count == 2)
    let other = try client.submit(SpeechRequest(samples: tone(2_000)))
    #expect(throws: InferenceError.self) { try client.submit(SpeechRequest(samples: tone(1))) }
    client.drain()
    #expect(throws: InferenceError.draining) { try client.submit(SpeechRequest(samples: tone(1))) }
    client.stop()
    #expect(collect(slow).error != nil || collect(other).error == .draining)
  }

  @Test func `memory is claimed before it is taken`() throws {
    #expect(throws: InferenceError.self) { try client { $0.ledger = MemoryLedger(limit: 1 << 20) } }
  }

  // MARK: Rules

  @Test func `timestamps come in pairs, do not run backwards, and begin early`() throws {
    let v = try vocabulary()
    let rules = SpeechRules(vocabulary: v)
    func allowed(_ written: [Int32], _ change: (inout [Float]) -> Void = { _ in }) -> Set<Int32> {
      var logits = [Float](repeating: 0, count: 1774)
      // Text is more likely than all timestamps together.
      for token in 0..<Int(v.timestamps) { logits[token] = 20 }
      change(&logits)
      rules.apply(to: &logits, written: written)
      return Set(logits.indices.filter { logits[$0] > -.infinity }.map { Int32($0) })
    }
    let times = { (range: ClosedRange<Int32>) in Set((range).map { v.timestamps + $0 }) }
    #expect(allowed([]) == times(0...50))
    let text = try #require(v.tokenizer.encode("A", addSpecialTokens: false).first)
    let afterFirst = allowed([v.timestamps])
    #expect(afterFirst.contains(text) && afterFirst.isDisjoint(with: times(0...1500)))
    #expect(afterFirst.isDisjoint(with: v.suppressed) && afterFirst.contains(v.end))
    let inside = allowed([v.timestamps + 10, text])
    #expect(inside.contains(text) && inside.isSuperset(of: times(11...1500)))
    #expect(inside.isDisjoint(with: times(0...10)))
    let closed = allowed([v.timestamps, text, v.timestamps + 40])
    #expect(closed == times(40...1500).union([v.end]))
    let reopened = allowed([v.timestamps, text, v.timestamps + 40, v.timestamps + 40])
    #expect(reopened.contains(text) && reopened.isDisjoint(with: times(0...1500)))
    let likely = allowed([v.timestamps, text]) { logits in
      for token in Int(v.timestamps)..<logits.count { logits[token] = 13 }
    }
    #expect(likely == times(1...1500))
  }

  @Test func `a tokenizer of another model is refused, and languages are known by code and name`() throws {
    #expect(throws: InferenceError.self) {
      try SpeechVocabulary(try tokenizer(), size: 1000, context: 64, isMultilingual: true)
    }
    let v = try vocabulary()
    #expect(["de", "German", "EN", "english"].map(v.language) == ["de", "de", "en", "en"])
    #expect(v.language("fr") == nil && v.language("xx") == nil)
    let english = try SpeechVocabulary(try tokenizer(), size: 1774, context: 64, isMultilingual: false)
    #expect(english.language("de") == nil && english.language("English") == "en")
    #expect(english.opening(language: "en", translates: false) == [english.start])
    #expect(v.opening(language: "de", translates: true).count == 3)
    #expect(SpeechLanguage.name(of: "yue") == "cantonese")
  }

  @Test func `a round that repeats itself is found, and a list is not`() {
    let round: [Int32] = [5, 6, 7, 8, 9, 10]
    let begun: [Int32] = [1, 2, 3] + round + round + round + round + round
    #expect(Repetition.beginning(of: begun) == 9)
    #expect(Repetition.beginning(of: begun.dropLast()) == nil)
    #expect(Repetition.beginning(of: (0..<200).map { Int32($0) }) == nil)
    #expect(Repetition.beginning(of: [Int32](repeating: 4, count: 29)) == nil)
    #expect(Repetition.beginning(of: [Int32](repeating: 4, count: 30)) == 1)
  }

  @Test func `sizes are zlib's within a tenth, and small ones within four bytes`() {
    // Python's zlib.compress at its default level.
    let texts = [
      (String(repeating: "Thank you for watching. ", count: 12), 37),
      (String(repeating: "ha ", count: 60), 14),
      (
        "the quick brown fox jumps over the lazy dog and then it runs away into the forest where nobody will ever "
          + "find it again", 94
      ),
      (
        "A good engineer writes down what she expects before she looks at the result. It is a small habit, but it "
          + "changes how you read your own mistakes. The train to the coast leaves at half past seven and arrives "
          + "shortly after nine. There is a restaurant on board, and the windows are large. In the middle of the night "
          + "the old clock struck twelve, and the children woke up and ran to the window to see whether it had started "
          + "to snow.", 257
      ),
    ]
    for (text, size) in texts {
      let found = DeflateSize.size(Array(text.utf8))
      #expect(abs(found - Double(size)) <= max(4, 0.1 * Double(size)), "\(found) \(size)")
    }
    #expect(DeflateSize.ratio("") == 0)
  }

  @Test func `the way through a matrix follows its largest elements`() {
    // Rows are tokens; each is heard at one place.
    let matrix: [Float] = [
      9, 9, -1, -1, -1, -1,  //
      -1, -1, 9, -1, -1, -1,  //
      -1, -1, -1, 9, 9, 9,
    ]
    #expect(WordTimes.path(matrix, rows: 3, columns: 6) == [0, 2, 3])
    #expect(WordTimes.path([], rows: 2, columns: 0) == [0, 0])
    #expect(
      WordTimes.smoothed([0, 0, 9, 0, 0, 0, 0, 5, 5, 5, 5, 5, 5, 5], columns: 7).prefix(7) == [
        0, 0, 0, 0, 0, 0, 0,
      ])
    var columns: [Float] = [1, 5, 3, 5]
    WordTimes.normalise(&columns, rows: 2, columns: 2)
    #expect(columns == [-1, 0, 1, 0])
  }

  @Test func `marks join the words they belong to, and pauses leave the words beside them`() {
    func word(_ text: String, _ start: Double, _ end: Double) -> WordTimes.Word {
      WordTimes.Word(text: text, tokens: 1, start: start, end: end, probability: 1)
    }
    let joined = WordTimes.joined([
      word(" (", 0, 1), word("so", 1, 2), word(")", 2, 3), word(" it", 3, 4), word(".", 4, 5),
    ])
    #expect(joined.map(\.text) == [" (so)", " it."])
    #expect(joined.map(\.tokens) == [3, 2] && joined[0].start == 0)
    var words = [
      word(" a", 0, 0.2), word(".", 0.2, 0.3), word(" b", 0.3, 5), word(" c", 5, 5.2), word(" d", 5.2, 5.4),
    ]
    WordTimes.shorten(&words)
    #expect(words[2].start == 4.6 && words[2].end == 5)
  }

  @Test func `noise is steady, and speech is not`() {
    var random = SeededGenerator(seed: 1)
    let noise = (0..<32_000).map { _ in Float.random(in: -0.1...0.1, using: &random) }
    #expect(SoundActivity(noise, frames: 0..<200).isSteady)
    #expect(!SoundActivity(tone(2), frames: 0..<200).isSteady)
    #expect(SoundActivity([Float](repeating: 0, count: 3200), frames: 0..<20).firstAudible == nil)
    #expect(SoundActivity([Float](repeating: 0, count: 1600) + tone(0.1), frames: 0..<20).firstAudible == 10)
  }
}
