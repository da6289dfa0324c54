// Encoders against their goldens: states, vectors, logits, and the same bits whatever is encoded beside a text.

import Checkpoint
import Compute
import JSON
import Platform
import Support
import Testing

@testable import Models

@Suite struct EncoderTests {
  @Test func `the package has goldens of encoders`() {
    #expect(
      EncoderGolden.fixtures.map(\.testDescription) == [
        "models/encoder-tiny", "models/gte-reranker-tiny", "models/reranker-tiny",
      ])
  }

  @Test(arguments: EncoderGolden.sentences)
  func `texts have the vectors and states of the reference`(golden: EncoderGolden) throws {
    for kernels in kernelSets {
      let encoder = try golden.encoder(isa: kernels, useReference: kernels == nil)
      for expected in golden.cases {
        let text = encoderText(expected)
        let vector = try encoder.encode([text])[0]
        #expect(distance(unit(vector), numbers(expected["embedding"])) < 1e-4)
        if expected["unnormalised"] != nil {
          #expect(distance(vector, numbers(expected["unnormalised"])) < 1e-3)
        }
        guard expected["last_hidden_first"] != nil else { continue }
        let states = try encoder.encode([encoderText(expected, .states)])[0]
        #expect(distance(Array(states.prefix(encoder.hidden)), numbers(expected["last_hidden_first"])) < 1e-3)
        #expect(distance(Array(states.suffix(encoder.hidden)), numbers(expected["last_hidden_last"])) < 1e-3)
      }
    }
  }

  @Test(arguments: EncoderGolden.states)
  func `a text's states are those of the reference`(golden: EncoderGolden) throws {
    let encoder = try golden.encoder(threads: 2)
    let text = encoderText(golden.expected, .states)
    let states = try encoder.encode([text])[0]
    #expect(states.count == text.tokens.count * encoder.hidden)
    #expect(
      distance(Array(states.prefix(encoder.hidden)), numbers(golden.expected["last_hidden_first"])) < 2e-3)
    #expect(
      distance(Array(states.suffix(encoder.hidden)), numbers(golden.expected["last_hidden_last"])) < 2e-3)
  }

  @Test(arguments: EncoderGolden.pairs)
  func `pairs have the logits of the reference`(golden: EncoderGolden) throws {
    for kernels in kernelSets {
      let encoder = try golden.encoder(isa: kernels, useReference: kernels == nil)
      for expected in golden.cases {
        let logits = try encoder.encode([encoderText(expected, .labels)])[0]
        #expect(distance(logits, numbers(expected["logits"])) < 1e-3)
        #expect(encoder.labels == logits.count)
      }
    }
  }

  @Test(arguments: EncoderGolden.judged)
  func `a decoder's answers have the logits of the reference`(golden: EncoderGolden) throws {
    let expected = golden.expected
    let answers = AnswerTokens(
      yes: Int32(try #require(expected["token_yes"]?.intValue)),
      no: Int32(try #require(expected["token_no"]?.intValue)))
    let encoder = try EncoderFamily.load(
      ModelFolder(path: golden.path), answers: answers, compute: ComputeContext(threads: 1, mode: .exact))
    for pair in golden.cases {
      let logits = try encoder.encode([encoderText(pair, .labels)])[0]
      let yes = try #require(pair["logit_yes"]?.doubleValue)
      let no = try #require(pair["logit_no"]?.doubleValue)
      #expect(logits.count == 1 && abs(Double(logits[0]) - (yes - no)) < 1e-3)
    }
  }

  @Test(arguments: [ComputeMode.exact, .fast])
  func `a beginning that texts share is computed once, and changes no bit`(mode: ComputeMode) throws {
    func encoder() throws -> SentenceEncoder {
      try EncoderFamily.load(
        ModelFolder(path: TestData.fixtures + "/models/qwen3-tiny-q4"), answers: AnswerTokens(yes: 5, no: 9),
        compute: ComputeContext(threads: 2, mode: mode))
    }
    let beginnings = [70, 40, 12].map { count in (0..<count).map { Int32($0 * 7 % 150 + count % 5) } }
    let texts = (0..<24).map { number -> EncoderText in
      let start = beginnings[number % 3]
      let count = number % 11 * 4 + 1
      let rest = (0..<count).map { Int32(($0 * 13 + number) % 150) }
      return EncoderText(tokens: start + rest, second: start.count, output: .labels)
    }
    let alone = try texts.map { text in
      try encoder().encode([EncoderText(tokens: text.tokens, output: .labels)])[0]
    }
    let one = try encoder()
    #expect(sameBits(try one.encode(texts), alone))
    // Two beginnings of 64 and 32 tokens, each for eight texts, of which the first computed them.
    #expect(one.reusedTokens == 7 * 64 + 7 * 32)
    var next = 0
    for size in [5, 1, 9, 2, 7] {
      #expect(sameBits(try one.encode(Array(texts[next..<next + size])), Array(alone[next..<next + size])))
      next += size
    }
    #expect(try sameBits(one.encode([texts[3]]) + one.encode([texts[3]]), [alone[3], alone[3]]))
  }

  @Test(arguments: EncoderGolden.sparse)
  func `sparse vectors have the weights of the reference`(golden: EncoderGolden) throws {
    let encoder = try golden.encoder()
    for expected in golden.cases {
      let weights = try encoder.encode([encoderText(expected, .sparse)])[0]
      #expect(weights.count { $0 > 0 } == expected["nonzero"]?.intValue)
      for pair in expected["top"]?.arrayValue ?? [] {
        let (index, value) = (try #require(pair[0]?.intValue), try #require(pair[1]?.doubleValue))
        #expect(abs(weights[index] - Float(value)) < 1e-4)
      }
    }
  }

  /// All poolings, by changing the folder's file, in both generations of its keys.
  @Test(arguments: EncoderGolden.sentences)
  func `other poolings have the vectors of the reference`(golden: EncoderGolden) throws {
    let encoder = try golden.encoder()
    for expected in golden.cases {
      for (name, vector) in expected["other_poolings_l2"]?.objectValue?.entries ?? [] {
        let pooling = try #require(Pooling(rawValue: name))
        let pooled = try encoder.encoder.forward([encoderText(expected)]).pooled(pooling)
        #expect(distance(unit(pooled), numbers(vector)) < 1e-4, "\(name)")
      }
    }
  }

  @Test(arguments: EncoderGolden.fixtures + EncoderGolden.all.filter { $0.path.contains("/search/") })
  func `a text has the same bits alone and beside others`(golden: EncoderGolden) throws {
    for mode in [ComputeMode.exact, .fast] {
      let one = try golden.encoder(threads: 1, mode: mode)
      let output: EncoderText.Output =
        one.labels > 0 ? .labels : one.makesSparseVectors ? .sparse : .vector
      let texts = golden.cases.map { encoderText($0, output) }
      let alone = try texts.map { try one.encode([$0])[0] }
      var random = SeededGenerator(seed: 22)
      for threads in [1, 2, 5] {
        let encoder = try golden.encoder(threads: threads, mode: mode)
        for count in [2, texts.count, 64] {
          let order = (0..<count).map { _ in Int.random(in: 0..<texts.count, using: &random) }
          let together = try encoder.encode(order.map { texts[$0] })
          #expect(sameBits(together, order.map { alone[$0] }), "\(mode), \(threads) threads, \(count) texts")
        }
        // Each text between the layers of all.
        var (pauses, inPauses): (Int, [[Float]]) = (0, [])
        let around = try encoder.encode(texts) {
          inPauses += (try? encoder.encode([texts[pauses % texts.count]])) ?? []
          pauses += 1
        }
        #expect(encoder.takesPauses == (pauses > 0))
        #expect(sameBits(around, alone))
        #expect(sameBits(inPauses, (0..<pauses).map { alone[$0 % texts.count] }))
      }
    }
  }

  @Test func `distances share buckets as T5's do`() {
    let buckets = [0, -1, -7, -8, -127, -128, 1, 7, 8, 128].map { DistanceBuckets.bucket(of: $0, count: 32) }
    #expect(buckets == [0, 1, 7, 8, 15, 15, 17, 23, 24, 31])
    // With any count that a configuration may have, every distance has a bucket of its side.
    for count in 4...1024 {
      for distance in -DistanceBuckets.reach...DistanceBuckets.reach {
        let bucket = DistanceBuckets.bucket(of: distance, count: count)
        #expect(
          (distance > 0 ? count / 2..<count : 0..<count / 2).contains(bucket), "\(distance) of \(count)")
      }
    }
  }

  @Test func `what a folder says and nothing knows is refused by name`() throws {
    let golden = try #require(EncoderGolden.fixtures.first)
    func refusal(_ change: (inout JSONObject) -> Void) throws -> String {
      var config = try #require(try GoldenFolder.document(golden.path + "/config.json").objectValue)
      change(&config)
      var message = ""
      try withCheckpoint(
        config: JSONValue.object(config).bytes,
        weights: try File.read(golden.path + "/model.safetensors", limit: 1 << 24)
      ) { path in
        do {
          let compute = try ComputeContext(threads: 1)
          _ = try EncoderFamily.load(try ModelFolder(path: path), compute: compute)
        } catch { message = "\(error)" }
      }
      return message
    }
    #expect(try refusal { $0["hidden_act"] = "swish" }.contains("hidden_act"))
    #expect(
      try refusal { $0["position_embedding_type"] = "relative_key" }.contains("position_embedding_type"))
    #expect(try refusal { $0["num_attention_heads"] = 5 }.contains("num_attention_heads"))
    #expect(try refusal { $0["max_position_embeddings"] = 41 }.contains("position_embeddings"))
    #expect(try refusal { _ in } == "")
  }
}
