// What a model's linear maps are multiplied with when it reads a text: by it scales of weights are searched for.

import Checkpoint
import Compute
import Models

/// A text read for its activations.
package enum Calibration {
  /// Mean squares of the inputs of each linear map, by its module's name.
  ///
  /// - Parameters:
  ///   - tokens: the text.
  ///   - opening: what each window begins with.
  ///   - limit: most tokens to read.
  /// - Throws: as `PerplexityEvaluator`.
  package static func meanSquares(
    _ configuration: EngineConfiguration, tokens: [Int32], opening: [Int32], limit: Int,
    progress: (_ done: Int, _ all: Int) -> Void = { _, _ in }
  ) throws(InferenceError) -> [String: [Float]] {
    let recorder = InputRecorder()
    let model: any CausalModel
    do {
      let compute = try configuration.makeContext(mode: .exact)
      compute.recorder = recorder
      model = try ModelFamily.load(try ModelFolder(path: configuration.modelPath), compute: compute)
    } catch {
      throw .modelLoading(String(describing: error))
    }
    let evaluator = PerplexityEvaluator(models: [model], formats: [.f32], computeNames: ["exact"])
    _ = try evaluator.evaluate(
      tokens, opening: opening, window: min(512, evaluator.contextLength), limit: limit
    ) { progress($0.tokens, $1) }
    let ending = ".weight"
    return Dictionary(
      recorder.meanSquares.map { name, values in
        (name.hasSuffix(ending) ? String(name.dropLast(ending.count)) : name, values)
      }, uniquingKeysWith: { first, _ in first })
  }
}
