// Where images and sounds are made ready for the model: few at a time, and once as long as they are remembered.

import Media
import OpenAI
import Platform

/// Shared by all connections.
final class MediaDesk: Sendable {
  fileprivate struct State {
    var busy = 0
    var clock: UInt64 = 0
    var bytes = 0
    var inputs: [[UInt8]: (input: MediaInput, lastUse: UInt64)] = [:]
  }

  private let state = Monitor(State())

  /// Decoders at work at the same time. Each may hold a few hundred megabytes for a moment.
  private static let places = 2
  /// Most memory for inputs that are ready.
  private static let byteLimit = 64 << 20

  /// The input that was made under `key`, or a new one.
  ///
  /// - Parameter key: a digest of everything that decides about the input.
  func input(
    _ key: [UInt8], make: () throws(APIError) -> MediaInput
  ) throws(APIError) -> MediaInput {
    if let known = state.withLock({ $0.find(key) }) { return known }
    let _: Bool? = state.wait { state in
      guard state.busy < Self.places else { return nil }
      state.busy += 1
      return true
    }
    defer { state.update { $0.busy -= 1 } }
    let input = try make()
    state.withLock { $0.keep(input, key, limit: Self.byteLimit) }
    return input
  }
}

extension MediaDesk.State {
  fileprivate mutating func find(_ key: [UInt8]) -> MediaInput? {
    clock += 1
    inputs[key]?.lastUse = clock
    return inputs[key]?.input
  }

  fileprivate mutating func keep(_ input: MediaInput, _ key: [UInt8], limit: Int) {
    guard input.byteCount <= limit, inputs[key] == nil else { return }
    clock += 1
    bytes += input.byteCount
    inputs[key] = (input, clock)
    while bytes > limit, let oldest = inputs.min(by: { $0.value.lastUse < $1.value.lastUse }) {
      bytes -= oldest.value.input.byteCount
      inputs[oldest.key] = nil
    }
  }
}
