// The checks of `mlxserve verify` for models that make vectors or scores of texts, or hear.

import Checkpoint
import Compute
import Inference
import JSON
import Pipeline
import Platform
import Tokenizers

extension Verification {
  /// After the files and their checksums.
  mutating func runEncoder(_ folder: ModelFolder) {
    let inspection = checkEncoderWeights(folder)
    let tokenizer = checkTokenizer(rows: inspection?.limits.vocabularySize)
    guard inspection != nil, tokenizer != nil else {
      for subject in ["texts", "fast and exact", "results"] { skip(subject) }
      return
    }
    checkEncoder()
  }

  /// The same for models that hear.
  mutating func runSpeech(_ folder: ModelFolder) {
    do {
      try SpeechClient.check(folder, configuration)
      add(.ok, "weights", "every tensor is there, of the right shape and type (\(quantization(folder)))")
    } catch {
      fail("weights", error)
      for subject in ["tokenizer", "recording"] { skip(subject) }
      return
    }
    do {
      let (model, engine) = try LoadedModel.open(configuration)
      defer { engine.stop() }
      guard let service = model.transcriber else { throw InferenceError.cannotGenerate }
      let codes = service.vocabulary.codes
      add(.ok, "tokenizer", codes.count == 1 ? "hears English" : "hears \(codes.count) languages")
      // A sound that swells, so that it is not held for noise.
      let samples = (0..<32_000).map { Float(0.3 * sin(Double($0) * 0.17) * sin(Double($0) * 0.001)) }
      let job = try service.submit(SpeechRequest(samples: samples))
      while case .element(let event) = job.next() {
        if case .failed(let error) = event { throw error }
      }
      add(.ok, "recording", "\(engine.computeName): two seconds of a sound were written down")
    } catch {
      fail("recording", error)
    }
  }

  private mutating func checkEncoderWeights(_ folder: ModelFolder) -> EncoderInspection? {
    do {
      let inspection = try EncoderInspection(folder, configuration)
      let type = folder.config["model_type"]?.stringValue ?? ""
      add(
        .ok, "weights",
        "\(type): every tensor is there, of the right shape and type (\(quantization(folder)))")
      let unused = inspection.unusedTensors
      if !unused.isEmpty {
        add(.note, "unused tensors", "\(unused.count) that are not needed here: \(listed(unused))")
      }
      return inspection
    } catch {
      fail("weights", error)
      return nil
    }
  }

  /// What a mode makes of the samples.
  private struct Outcome {
    let computeName: String
    let mode: ComputeMode
    /// A vector of length 1 for each text, or the shares of a model's labels for each pair.
    let values: [[Float]]
    /// What the model takes and gives, in words.
    let facts: String
    let isScorer: Bool
  }

  private mutating func checkEncoder() {
    let exact: Outcome
    let fast: Outcome
    do {
      exact = try outcome(.exact)
      fast = try outcome(.fast)
    } catch {
      fail("texts", error)
      for subject in ["fast and exact", "results"] { skip(subject) }
      return
    }
    add(.ok, "texts", exact.facts)
    guard (exact.values + fast.values).joined().allSatisfy(\.isFinite) else {
      add(
        .failed, "fast and exact", "some numbers are infinite, or none at all",
        advice: "the weights are damaged: download them again.")
      return skip("results")
    }
    compare(exact, fast)
    let used = configuration.computeMode == .exact ? exact : fast
    let first = used.values.first ?? []
    add(
      .ok, "results",
      used.isScorer
        ? "\(used.computeName): \(used.values.count) pairs have scores, the first one \(fixed(Double(first.first ?? 0), 4))"
        : "\(used.computeName): \(used.values.count) sample texts have vectors of \(first.count) elements and length 1"
    )
  }

  /// Both modes should say about the same.
  private mutating func compare(_ exact: Outcome, _ fast: Outcome) {
    guard fast.mode != .exact else {
      return add(.ok, "fast and exact", "all numbers are finite; this machine computes both modes alike")
    }
    let words: String
    let isNear: Bool
    if exact.isScorer {
      let farthest = zip(exact.values.joined(), fast.values.joined()).map { abs($0 - $1) }.max() ?? 0
      words =
        "all numbers are finite; scores of the fast mode are within \(fixed(Double(farthest), 4)) of the exact ones"
      isNear = farthest < 0.05
    } else {
      let least = zip(exact.values, fast.values).map(Embedder.cosine).min() ?? 1
      words =
        "all numbers are finite; cosines of fast and exact vectors are at least \(fixed(Double(least), 5))"
      isNear = least > 0.99
    }
    add(
      isNear ? .ok : .note, "fast and exact", words,
      advice: isNear ? nil : "serve with --compute exact, or take a model of more bits.")
  }

  /// As a server computes it.
  private func outcome(_ mode: ComputeMode) throws -> Outcome {
    var configuration = configuration
    configuration.computeMode = mode
    let (model, engine) = try LoadedModel.open(configuration)
    defer { engine.stop() }
    guard let embedder = model.embedder else { throw InferenceError.cannotGenerate }
    let limits = embedder.service.limits
    let values: [[Float]]
    let gives: String
    if limits.labels > 0 {
      var options = PairOptions()
      options.truncation = .right
      let pairs = try embedder.preparePairs([Self.samples[0]], Self.samples, options)
      values = try embedder.encode(pairs.texts).map { logits in
        logits.count == 1 ? [Embedder.sigmoid(logits[0])] : Embedder.softmax(logits)
      }
      gives =
        limits.labels == 1 ? "a score for each pair" : "\(limits.labels) labels: \(listed(embedder.labels))"
    } else {
      var options = Embedder.Options()
      options.truncation = .right
      values = try embedder.embed(Self.samples.map { .text($0) }, options).vectors
      let prompts = embedder.prompts.names
      gives =
        "\(limits.dimensions) elements by \(limits.poolingNames.joined(separator: " and ")); "
        + (prompts.isEmpty ? "no prompts" : "prompts \(listed(prompts))")
    }
    return Outcome(
      computeName: engine.computeName, mode: engine.computeMode, values: values,
      facts: "up to \(embedder.maxTokens) tokens, \(gives)", isScorer: limits.labels > 0)
  }
}
