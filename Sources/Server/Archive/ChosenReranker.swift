// The reranker that a search in a store is to use.

import Pipeline
import Platform
import Wire

extension ModelFleet {
  /// A model that puts results in order; nil where none is wanted or there is none.
  func reranker(
    _ choice: RerankerChoice, until deadline: Instant, tenant: UInt64
  ) throws(APIError) -> ModelReranker? {
    let all = statuses
    var found: ModelSource?
    switch choice {
    case .none: return nil
    case .loaded: found = all.first { $0.model?.loaded.embedder?.scoresPairs ?? false }?.source
    case .served:
      found =
        all.first { $0.model?.loaded.embedder?.scoresPairs ?? false }?.source
        ?? all.first { $0.model == nil && LoadedModel.makesScores($0.source.path) }?.source
    }
    guard let found else { return nil }
    let lease = try lease(found.id)
    return ModelReranker(lease.model, until: deadline, tenant: tenant, lease: lease)
  }
}
