// What the threads of a download tell each other: how far each file is, what is to be said, and whether to stop.

import Platform

/// Shared by the threads that fetch and the one that tells.
final class DownloadBoard: Sendable {
  private struct State {
    var parts: [(path: String, done: Int, total: Int, phase: DownloadProgress.Part.Phase)] = []
    /// Of files that are there now.
    var finishedBytes = 0
    var total = 0
    /// Bytes that came from the hub, not from an earlier try.
    var arrived = 0
    var shown = 0
    var events: [DownloadEvent] = []
    var isCancelled = false
    var failure: HubError?
  }

  private let state = Monitor(State())

  func tell(_ event: DownloadEvent) { state.update { $0.events.append(event) } }
  func setTotal(_ bytes: Int) { state.withLock { $0.total = bytes } }

  // MARK: Files

  func begin(_ file: RepositoryFile, _ phase: DownloadProgress.Part.Phase) {
    state.withLock { state in
      if let index = state.parts.firstIndex(where: { $0.path == file.path }) {
        state.parts[index].phase = phase
      } else {
        state.parts.append((file.path, 0, file.bytes, phase))
      }
    }
  }

  func set(_ file: RepositoryFile, done: Int) {
    state.withLock { state in
      guard let index = state.parts.firstIndex(where: { $0.path == file.path }) else { return }
      if state.parts[index].phase == .downloading { state.arrived += max(0, done - state.parts[index].done) }
      state.parts[index].done = done
    }
  }

  func end(_ file: RepositoryFile) {
    state.update { state in
      state.parts.removeAll { $0.path == file.path }
      state.finishedBytes += file.bytes
      state.events.append(.file(path: file.path, bytes: file.bytes))
    }
  }

  /// Of a file that is not part of the plan.
  func forget(_ file: RepositoryFile) { state.withLock { $0.parts.removeAll { $0.path == file.path } } }

  // MARK: Stopping

  var isUnwanted: Bool { state.withLock { $0.isCancelled || $0.failure != nil } }
  func cancel() { state.update { $0.isCancelled = true } }
  /// The first failure counts; it ends the others.
  func fail(_ error: HubError) { state.update { if $0.failure == nil { $0.failure = error } } }
  var failure: HubError? { state.withLock { $0.failure } }

  // MARK: Telling

  /// What has been told since the last call, in order; waits for it until the deadline.
  func events(until deadline: Instant) -> [DownloadEvent] {
    let some: [DownloadEvent]? = state.wait(until: deadline) { state in
      guard !state.events.isEmpty else { return nil }
      defer { state.events = [] }
      return state.events
    }
    return some ?? []
  }

  /// Nil before there is a total.
  func progress(_ meter: inout SpeedMeter, at seconds: Double) -> DownloadProgress? {
    let (parts, done, total, arrived) = state.withLock { state in
      let done = min(state.total, state.finishedBytes + state.parts.reduce(0) { $0 + $1.done })
      // A file that starts again takes its bytes back; a person would not believe it.
      state.shown = max(state.shown, done)
      let parts = state.parts.map {
        DownloadProgress.Part(path: $0.path, done: $0.done, total: $0.total, phase: $0.phase)
      }
      return (parts, state.shown, state.total, state.arrived)
    }
    guard total > 0 else { return nil }
    return DownloadProgress(
      parts: parts, done: done, total: total, speed: meter.add(seconds: seconds, bytes: arrived))
  }
}
