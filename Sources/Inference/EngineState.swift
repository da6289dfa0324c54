// What the engine was doing when it last looked for work: numbers for tests that watch a server from outside.

package struct EngineState: Sendable, Equatable {
  /// Sequences that are computed, those that gave their KV blocks back for a while included.
  package var running = 0
  /// Most sequences that are computed together.
  package var maxSequences = 0
  /// Requests that wait for a place.
  package var waiting = 0
  package var totalBlocks = 0
  /// KV blocks that hold something. An idle engine has as many as the prefix cache, or it has lost some.
  package var usedBlocks = 0
  /// KV blocks that the prefix cache holds.
  package var cachedBlocks = 0
  /// Forward passes since the start.
  package var steps = 0
  /// Requests that got a place since the start.
  package var admitted = 0

  package init() {}

  func admitting(_ count: Int) -> EngineState {
    var state = self
    state.running += count
    state.admitted += count
    return state
  }
}
