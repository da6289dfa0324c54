// What Compute refuses: weights it has no kernel for, memory it cannot get, an instruction set the CPU lacks.

/// Thrown while weights are bound or memory is reserved. Operations throw nothing.
package enum ComputeError: Error, Equatable, CustomStringConvertible {
  /// The tensor's storage has no kernel; `reason` says what was found, `supported` what would work.
  case unsupportedWeights(tensor: String, reason: String, supported: String)
  /// The kernel refused an address range.
  case outOfMemory(purpose: String, bytes: Int)
  /// A size overflows or makes no sense.
  case invalidSize(what: String, value: Int)
  case unsupportedISA(requested: String, available: [String])

  package var description: String {
    switch self {
    case .unsupportedWeights(let tensor, let reason, let supported):
      "tensor '\(tensor)' cannot be computed with: \(reason). Supported: \(supported)."
    case .outOfMemory(let purpose, let bytes):
      "cannot reserve \(bytes) bytes of memory for \(purpose). Lower the context length or the cache size."
    case .invalidSize(let what, let value):
      "\(what) = \(value) is out of range. Correct the setting."
    case .unsupportedISA(let requested, let available):
      "this CPU does not support the instruction set '\(requested)'. "
        + "Choose one of: \(available.joined(separator: ", "))."
    }
  }
}
