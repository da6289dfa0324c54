// A model with one of its adapters, as a model of its own: the same folder and engine, other answers.

package import Inference
import JSON

/// An adapter of a loaded model.
package struct ModelAdapter: Sendable, Equatable {
  /// Beside the name of its model.
  package let name: String
  /// SHA-256 over its files, in hexadecimal digits.
  package let digest: String
}

/// What an engine generates with an adapter, for those who know of none.
private struct AdaptedService: GenerationService {
  let engine: any GenerationService
  let choice: AdapterChoice

  var limits: EngineLimits { engine.limits }
  var statistics: EngineStatistics { engine.statistics }

  func submit(_ request: GenerationRequest) throws(InferenceError) -> Generation {
    var request = request
    request.adapter = choice
    return try engine.submit(request)
  }
}

extension LoadedModel {
  /// A model with each of its adapters.
  package func adapted(by adapters: [LoadedAdapter]) -> [LoadedModel] {
    guard case .generation(let service) = capability else { return [] }
    return adapters.map { adapter in
      let choice = AdapterChoice(digest: adapter.digest)
      var model = self.generating(by: AdaptedService(engine: service, choice: choice))
      model.id = id + ":" + adapter.name
      model.adapter = ModelAdapter(name: adapter.name, digest: adapter.digest)
      // What one has written is no news of the other.
      model.written = written.another()
      // The arithmetic stays the last of it.
      let parts = systemFingerprint.split(separator: "-", maxSplits: 1)
      let fingerprint = "fp_" + String(FNV1a.hash("\(systemFingerprint)|\(adapter.digest)"), radix: 16)
      model.systemFingerprint = parts.count == 2 ? "\(fingerprint)-\(parts[1])" : fingerprint
      return model
    }
  }
}
