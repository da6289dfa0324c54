// Why a model is not there, and what clients are told.

import Inference
import Platform
import Wire

enum ModelFailure: Error {
  /// It cannot be loaded: what the loader said.
  case broken(ModelSource, words: String)
  /// It does not fit beside what is busy or pinned.
  case noRoom(ModelSource, words: String)
  case tooSlow(ModelSource, seconds: Double)
  case shuttingDown

  init(_ error: InferenceError, _ source: ModelSource) {
    self =
      error.neededBytes == nil ? .broken(source, words: "\(error)") : .noRoom(source, words: "\(error)")
  }

  /// For the operator, paths and all.
  var words: String {
    switch self {
    case .broken(_, let words): words
    case .noRoom(let source, let words): "there is no room for the model '\(source.id)': it \(words)"
    case .tooSlow(let source, let seconds):
      "the model '\(source.id)' is not loaded after \(Int(seconds)) seconds"
    case .shuttingDown: "the server is shutting down"
    }
  }

  /// For clients, without the model's name.
  var reason: String {
    switch self {
    case .broken(let source, let words), .noRoom(let source, let words): source.withoutPath(words)
    case .tooSlow, .shuttingDown: words
    }
  }
}

/// Why the server cannot start.
struct PreloadError: Error, CustomStringConvertible {
  let failure: ModelFailure
  var description: String { failure.words }
}

extension InferenceError {
  /// What must be left for the model to be loaded; nil for other errors.
  var neededBytes: Int? {
    guard case .modelTooLarge(let weights, let cache, _, _, _) = self else { return nil }
    let (sum, overflow) = weights.addingReportingOverflow(cache)
    return overflow ? .max : sum
  }
}

extension ModelSource {
  /// A loader's words for clients, who need not know where the server keeps its files.
  func withoutPath(_ words: String) -> String {
    var bytes = Array(words.utf8)
    for folder in [path, File.resolved(path)].compactMap({ $0 }) where !folder.isEmpty {
      bytes = Self.removing(Array((folder + "/").utf8), from: bytes, leaving: [])
      bytes = Self.removing(Array(folder.utf8), from: bytes, leaving: Array("the folder".utf8))
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func removing(_ part: [UInt8], from bytes: [UInt8], leaving other: [UInt8]) -> [UInt8] {
    var out: [UInt8] = []
    var rest = bytes[...]
    while let next = rest.first {
      if rest.starts(with: part) {
        out += other
        rest = rest.dropFirst(part.count)
      } else {
        out.append(next)
        rest = rest.dropFirst()
      }
    }
    return out
  }
}

extension APIError {
  /// A model that the program around the server keeps.
  static func modelHeld(_ id: String) -> APIError {
    APIError(
      status: 409, code: "model_held", param: "model",
      message: "The model '\(id)' is held by the program that serves it, which alone can unload it.")
  }

  /// What is asked with a GET loads nothing.
  static func modelNotLoaded(_ id: String) -> APIError {
    APIError(
      status: 503, type: "server_error", code: "model_not_loaded", param: "model",
      message:
        "The model '\(id)' is not loaded, and this request loads none: ask it for an answer, or load it with "
        + "POST /models/load.")
  }

  init(_ failure: ModelFailure) {
    switch failure {
    case .broken(let source, _):
      self.init(
        status: 500, type: "server_error", code: "model_load_failed", param: "model",
        message: "The model '\(source.id)' cannot be loaded: \(failure.reason)")
    case .noRoom(let source, _):
      self.init(
        status: 503, type: "server_error", code: APIError.outOfMemoryCode, param: "model",
        message: "There is no room for the model '\(source.id)': it \(failure.reason).", retryAfter: 5)
    case .tooSlow(let source, _):
      self.init(
        status: 503, type: "server_error", code: "model_loading", param: "model",
        message: "The model '\(source.id)' is still being loaded.", retryAfter: 2)
    case .shuttingDown: self = .shuttingDown
    }
  }
}
