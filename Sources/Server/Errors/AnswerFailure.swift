// Why an answer that was begun cannot be completed.

import Inference
import Wire

/// What ends an answer before its last token.
enum AnswerFailure: Error {
  /// Nobody reads any more.
  case clientGone
  /// The reader lagged so far that the engine gave the generation up.
  case clientTooSlow
  /// The server's time to drain is over.
  case shuttingDown
  case engine(InferenceError)
  /// A further generation of the answer cannot begin.
  case refused(APIError)
  /// What is kept of the answer needs this many bytes more than are left of the limit.
  case outOfMemory(needed: Int, limit: Int)
  /// The model's numbers left no token to choose.
  case noToken
}
