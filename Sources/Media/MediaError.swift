// Why bytes are no image that can be used.

/// What is wrong with an image, and what to send instead; `AudioError` is the same for audio.
package enum MediaError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The first bytes are those of no format that is read here; the words name one that was recognised.
  case unknownFormat(String?)
  /// In a format that another program decodes, and that does not happen here.
  case needsProgram(format: String, problem: String)
  /// Ends, check sums, lengths and codes that contradict the format.
  case damaged(format: String, problem: String)
  /// A valid feature of the format that has no implementation here.
  case unsupported(format: String, feature: String)
  case tooManyPixels(width: Int, height: Int, limit: Int)
  /// There is not enough memory to decode it.
  case noMemory(bytes: Int)
  /// So narrow that it cannot be brought to the model's size.
  case unusableShape(width: Int, height: Int)
  /// One side is more than `limit` times the other.
  case tooNarrow(width: Int, height: Int, limit: Int)

  package var description: String {
    switch self {
    case .unknownFormat(let name):
      (name.map { "\($0) cannot be read here" } ?? "the bytes are not an image that can be read here")
        + "; send PNG or JPEG"
    case .needsProgram(let format, let problem):
      "\(format) is read by the program ffmpeg, and \(problem); send PNG or JPEG"
    case .damaged(let format, let problem): "the \(format) is damaged: \(problem)"
    case .unsupported(let format, let feature): "the \(format) uses \(feature), which cannot be read here"
    case .tooManyPixels(let width, let height, let limit):
      "\(width) x \(height) are more than \(limit) pixels; send a smaller image"
    case .noMemory(let bytes): "reading it takes \(bytes) bytes of memory, which are not there"
    case .unusableShape(let width, let height):
      "\(width) x \(height) is too narrow to be cut into patches; crop the image"
    case .tooNarrow(let width, let height, let limit):
      "of \(width) x \(height) one side is more than \(limit) times the other; crop the image"
    }
  }
}
