// An encoder with what a model folder puts after it: pooling, dense layers, a classifier.

package import Checkpoint
package import Compute
import JSON
import Platform

/// Turns texts into vectors, states or scores. Engine thread only.
package final class SentenceEncoder {
  private struct Dense {
    let map: Linear
    let activation: SentenceActivation
  }

  let encoder: any TextEncoder
  private let compute: ComputeContext
  /// Vectors of each of them stand side by side.
  package let pooling: [Pooling]
  /// Whether the tokens of a prompt are pooled too.
  package let poolsPrompt: Bool
  private let dense: [Dense]
  /// Elements of a vector.
  package let dimensions: Int
  private let even = ScratchBuffer()
  private let odd = ScratchBuffer()

  package init(
    _ encoder: any TextEncoder, _ sentences: SentenceFolder, defaultPooling: Pooling, folder: ModelFolder,
    compute: ComputeContext
  ) throws(ModelError) {
    (self.encoder, self.compute) = (encoder, compute)
    var pooling = [defaultPooling]
    var poolsPrompt = true
    var width = encoder.hidden
    var dense: [Dense] = []
    for module in sentences.modules ?? [] {
      switch module {
      case .pooling(let modes, let includesPrompt):
        pooling = modes
        poolsPrompt = includesPrompt
        width = modes.count * encoder.hidden
      case .dense(let place, let inputs, let outputs, let activation):
        guard inputs == width else {
          throw .invalidValue(
            key: "\(place)/config.json in_features", found: "\(inputs)", expected: "\(width) features")
        }
        let map = try Self.dense(folder, place, inputs: inputs, outputs: outputs, compute)
        dense.append(Dense(map: map, activation: activation))
        width = outputs
      case .normalize: break
      }
    }
    if sentences.modules == nil {
      // MLX conversions of EmbeddingGemma have the dense layers among the other tensors.
      while let shape = folder.weights.shape(of: "dense.\(dense.count).weight"), let outputs = shape.first {
        let loader = LayerLoader(folder.weights, compute: compute)
        let map = try loader.linear(["dense.\(dense.count)": outputs], from: width)
        dense.append(Dense(map: map, activation: .identity))
        width = outputs
      }
    }
    (self.pooling, self.poolsPrompt, self.dense) = (pooling, poolsPrompt, dense)
    dimensions = width
  }

  private static func dense(
    _ folder: ModelFolder, _ place: String, inputs: Int, outputs: Int, _ compute: ComputeContext
  ) throws(ModelError) -> Linear {
    guard let weights = try loading(try folder.weights(inside: place)) else {
      throw .missingTensor(
        name: "\(place)/model.safetensors: linear.weight", because: "modules.json lists a dense layer")
    }
    return try LayerLoader(weights, compute: compute).linear(["linear": outputs], from: inputs)
  }

  package var vocabularySize: Int { encoder.vocabularySize }
  package var maxTokens: Int { encoder.maxTokens }
  package var hidden: Int { encoder.hidden }
  /// Threads that compute.
  package var threads: Int { compute.threads }
  package var workBytesPerToken: Int { encoder.workBytesPerToken }
  package var tableBytes: Int { encoder.tableBytes }
  package var takesPauses: Bool { encoder.takesPauses }
  /// Labels of the classifier; 0 where there is none.
  package var labels: Int { encoder.classifier?.labels ?? 0 }
  /// Tokens that were not computed, because texts with the same beginning had been.
  package var reusedTokens: Int { encoder.reusedTokens }
  package var makesSparseVectors: Bool { encoder.sparseHead != nil }

  /// What each text asks for, in order; the states of a text row by row. A text's result does not depend, to the bit, on the
  /// others.
  ///
  /// - Parameter pause: called between layers where the encoder takes pauses; others may be encoded in it, without pauses. Nil for
  ///   texts that somebody waits for.
  package func encode(
    _ texts: [EncoderText], pause: (() -> Void)? = nil
  ) throws(ModelError) -> [[Float]] {
    let states = if let pause { try encoder.forward(texts, pause: pause) } else { try encoder.forward(texts) }
    var results: [[Float]] = []
    var start = 0
    for text in texts {
      let own = states.rows(from: start, count: encoder.rows(of: text))
      results.append(result(of: text, own))
      start += own.count
    }
    projectVectors(texts, &results)
    return results
  }

  private func result(of text: EncoderText, _ states: Rows) -> [Float] {
    switch text.output {
    case .vector:
      let skipped = min(text.unpooled, states.count)
      let pooled = states.rows(from: skipped, count: states.count - skipped)
      return pooling.flatMap { pooled.pooled($0) }
    case .states: return (0..<states.count).flatMap { states.values(ofRow: $0) }
    case .labels: return encoder.classifier?(states) ?? []
    case .sparse: return encoder.sparseHead?(states) ?? []
    }
  }

  /// Pooled vectors through the dense layers, all together.
  private func projectVectors(_ texts: [EncoderText], _ results: inout [[Float]]) {
    guard !dense.isEmpty else { return }
    let places = texts.indices.filter { texts[$0].output == .vector }
    guard let first = places.first else { return }
    var x = even.rows(places.count, results[first].count)
    for (row, place) in places.enumerated() { x.set(row, to: results[place][...]) }
    for (index, layer) in dense.enumerated() {
      let y = (index % 2 == 0 ? odd : even).rows(places.count, layer.map.rows)
      // In float32 in the fast mode too: it is one row for each text.
      layer.map.exactly(x, into: y)
      switch layer.activation {
      case .identity: break
      case .tanh: compute.tanh(y, into: y)
      case .relu: compute.clamp(y, to: 0...Float.greatestFiniteMagnitude, into: y)
      case .gelu: compute.erfGELU(y)
      }
      x = y
    }
    for (row, place) in places.enumerated() { results[place] = x.values(ofRow: row) }
  }
}
