// What the engine was doing when it last looked for work: numbers for those who watch a server.

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
  /// KV blocks that running sequences hold; one that several of them share counts for each.
  package var heldBlocks = 0
  /// Forward passes since the start.
  package var steps = 0
  /// Requests that got a place since the start.
  package var admitted = 0
  /// Sequences that gave their KV blocks back for a while, since the start.
  package var preemptions = 0
  /// Guesses that were verified since the start, their tokens, and those of them that held.
  package var drafts = 0
  package var draftTokens = 0
  package var acceptedTokens = 0

  package init() {}

  func admitting(_ count: Int) -> EngineState {
    var state = self
    state.running += count
    state.admitted += count
    return state
  }
}
