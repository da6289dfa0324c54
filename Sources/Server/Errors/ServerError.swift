// The one place where errors of other modules become errors of the API.

import Chat
import Grammar
import HTTP
import Inference
import JSON
import Platform
import Wire

extension APIError {
  /// - Parameter param: the field that holds the prompt: `messages` or `prompt`.
  init(_ error: InferenceError, param: String) {
    switch error {
    case .promptTooLong(let tokens, let limit):
      self = .contextLengthExceeded(ContextOverflow(tokens: tokens, limit: limit), param: param)
    case .cannotGenerate:
      self.init(status: 400, code: "unsupported_operation", param: "model", message: "\(error).")
    case .textTooLong: self = .invalidValue(param, "\(error)")
    case .emptyPrompt: self = .invalidValue(param, "it has no tokens")
    case .tokenOutOfRange: self = .invalidValue(param, "\(error)")
    case .unusableMedia: self = .unusableMedia(param, "\(error)")
    case .unknownAdapter:
      self.init(status: 404, code: "model_not_found", param: "model", message: "\(error).")
    case .queueFull(_, _, _, let retryAfter):
      self.init(
        status: 429, type: "rate_limit_error", code: "rate_limit_exceeded",
        message: "The server is busy: \(error).",
        retryAfter: retryAfter)
    case .draining: self = .shuttingDown
    case .modelLoading:
      self.init(
        status: 503, type: "server_error", code: "model_loading",
        message: "The model is not ready: \(error).",
        retryAfter: 1)
    case .outOfMemory:
      self.init(
        status: 503, type: "server_error", code: APIError.outOfMemoryCode,
        message: "The server is out of memory: \(error).", retryAfter: 5)
    case .modelTooLarge, .contextTooLarge, .memoryTooSmall, .textTooShort, .badWindow, .noFastMode,
      .vocabulariesDiffer,
      .brokenLogits, .unusableLogits:
      self = .internalError("\(error)")
    }
  }

  init(_ error: ChatError, of request: ChatRequest) {
    switch error {
    case .cannotContinue: self = .invalidValue(request.continuationField, "\(error)")
    case .badTemplate: self = .internalError("\(error)")
    case .refused, .renderingFailed, .unsupportedPart, .malformedMessage:
      self = .invalidValue(request.messagesField, "\(error)")
    }
  }

  /// - Parameter param: the field that holds the schema, expression or grammar; what is wrong inside of it is named by
  ///   a JSON pointer after it.
  init(_ error: GrammarError, param: String) {
    let (code, place): (String, String)
    switch error {
    case .unsupported(_, let path, _): (code, place) = ("unsupported_value", path)
    case .malformed(let path, _), .unsatisfiable(let path, _): (code, place) = ("invalid_value", path)
    case .tooLarge: (code, place) = ("schema_too_complex", "")
    case .unwanted:
      self = APIError(AnswerFailure.clientGone, param: param)
      return
    }
    let pointer = place.utf8.first == UInt8(ascii: "/") ? APIError.shortened(place, to: 200) : ""
    self.init(
      status: 400, code: code, param: param + pointer, message: "Invalid '\(param)': \(error).")
  }

  init(_ error: HTTPError) {
    let isServerSide = error.status >= 500 && error.status != 501 && error.status != 505
    let type = isServerSide ? "server_error" : "invalid_request_error"
    self.init(
      status: error.status, type: type, code: error.code, message: "\(error)",
      retryAfter: error.retryAfterSeconds)
  }

  init(_ failure: AnswerFailure, param: String) {
    switch failure {
    case .engine(let error): self.init(error, param: param)
    case .refused(let error): self = error
    case .shuttingDown: self = .shuttingDown
    case .outOfMemory(let needed, let limit): self = .outOfMemory(needed: needed, limit: limit)
    case .noToken: self = .internalError("the model computed no usable number for any token")
    case .clientGone:
      // For the log and the counters: nobody reads it.
      self.init(status: APIError.clientGoneStatus, code: "client_gone", message: "The client has gone.")
    case .clientTooSlow:
      self.init(
        status: 500, type: "server_error", code: "client_too_slow",
        message: "The answer was given up because it was not read.")
    }
  }

  /// What could not be stored. The words name no path: those are for the log.
  init(storing error: PlatformError) {
    if case .damaged = error {
      self.init(
        status: 500, type: "server_error", code: "file_damaged",
        message: "What is kept under this id is not what was stored.")
      return
    }
    let (isFull, reason) =
      switch error {
      case .file(_, _, let code), .system(_, let code):
        ([ENOSPC, EDQUOT, EFBIG].contains(code), PlatformError.words(code))
      case .tooLarge(_, let bytes, let limit):
        (true, "\(bytes) bytes, and all records together have \(limit)")
      case .notARegularFile, .damaged: (false, "a file is in the way")
      }
    self.init(
      status: isFull ? 507 : 503, type: "server_error", code: isFull ? "storage_full" : "storage_failed",
      message: "The server cannot store this change: \(reason).", retryAfter: isFull ? nil : 5)
  }

  static func contextLengthExceeded(_ overflow: ContextOverflow, param: String) -> APIError {
    var error = APIError(
      status: 400, code: "context_length_exceeded", param: param, message: overflow.message(param: param))
    error.overflow = overflow
    return error
  }

  static func noChatTemplate(model: String) -> APIError {
    APIError(
      status: 400, code: "unsupported_value", param: "model",
      message: "The model '\(model)' has no chat template. Use /v1/completions.")
  }

  static func unsupportedTools(model: String) -> APIError {
    APIError(
      status: 400, code: "unsupported_value", param: "tools",
      message: "\"\(model)\" does not support tools: its chat template has no place for them.")
  }

  static let shuttingDown = APIError(
    status: 503, type: "server_error", code: "shutting_down",
    message: "The server is shutting down. Try another one, or again later.", retryAfter: 1)

  /// The status of what nobody waits for any more.
  static let clientGoneStatus = 499

  /// The code of whatever finds no room under `--memory`.
  static let outOfMemoryCode = "insufficient_memory"

  /// Work on a request that finds no room under `--memory`.
  static func outOfMemory(needed: Int, limit: Int) -> APIError {
    APIError(
      status: 503, type: "server_error", code: APIError.outOfMemoryCode,
      message:
        "The request needs \(MemoryLimit.words(needed)) to be worked on, and they are not left of --memory "
        + "\(MemoryLimit.words(limit)). Send less at once, or try again later.", retryAfter: 5)
  }

  /// - Parameter part: of the weights that are there, from 0 to 1; nil where that is not known.
  static func loading(_ part: Double? = nil) -> APIError {
    let share = part.map { " \(Int($0 * 100)) % of its weights are there." } ?? ""
    var error = APIError(
      status: 503, type: "server_error", code: "loading",
      message: "The model is being loaded.\(share) Try again soon.", retryAfter: 1)
    error.details = part.map { ["progress": .double($0)] }
    return error
  }

  static func internalError(_ problem: String) -> APIError {
    APIError(status: 500, type: "server_error", code: "internal", message: "The server failed: \(problem).")
  }
}

/// Changes what is stored; what cannot be stored is an error of the API.
func storing<Result>(_ change: () throws(PlatformError) -> Result) throws(APIError) -> Result {
  do throws(PlatformError) {
    return try change()
  } catch {
    throw APIError(storing: error)
  }
}

/// Claims memory for what a request becomes, beside its body, until it is answered.
///
/// - Throws: 503 where `--memory` does not leave it.
func claim(_ bytes: Int, of memory: MemoryLoan?) throws(APIError) {
  guard let memory, !memory.extend(by: bytes) else { return }
  throw .outOfMemory(needed: bytes, limit: memory.limit)
}

extension Response {
  /// Bytes from which on a body is written in parts, while it is made.
  private static let partBytes = 64 << 10

  /// A body that may be long: what is short has a known length, the rest is made while it is sent.
  init(parts: JSONParts) {
    struct IsLong: Error {}
    var bytes: [UInt8] = []
    do throws(IsLong) {
      try parts.write(partBytes: Self.partBytes) { (part) throws(IsLong) in
        guard bytes.isEmpty, part.count < Self.partBytes else { throw IsLong() }
        bytes = part
      }
      self.init(contentType: "application/json", bytes: bytes)
    } catch {
      self.init(
        headers: ["content-type": "application/json"],
        body: .stream { writer in
          try parts.write(partBytes: Self.partBytes) { part throws(SocketError) in try writer.write(part) }
          writer.finish()
        })
    }
  }

  init(json: JSONValue, status: Int = 200) {
    self.init(status: status, contentType: "application/json", bytes: json.bytes)
  }

  /// Names what of the request has no effect, as far as a header can carry it.
  mutating func nameIgnored(_ fields: [String]) {
    guard !fields.isEmpty else { return }
    var names: [String] = []
    var length = 0
    for field in fields {
      let name = Self.headerSafe(field)
      length += name.utf8.count + 2
      guard length <= 1_000 else {
        names.append("...")
        break
      }
      names.append(name)
    }
    headers.add("x-mlxserve-ignored", names.joined(separator: ", "))
  }

  /// Percent-encodes what a list in a header cannot hold; at most 64 bytes of the name.
  private static func headerSafe(_ name: String) -> String {
    var out = ""
    for byte in name.utf8.prefix(64) {
      switch byte {
      case UInt8(ascii: ","), UInt8(ascii: "%"), 0...0x20, 0x7F...:
        let digits = String(byte, radix: 16, uppercase: true)
        out += "%" + (digits.utf8.count == 1 ? "0" : "") + digits
      default: out.unicodeScalars.append(Unicode.Scalar(byte))
      }
    }
    return out
  }
}

extension ResponseFormat {
  /// What the header says of it: a `$schema` that names no known draft.
  var notes: [String] {
    guard case .schema(let schema) = form, let address = SchemaNotes.unknownDraft(of: schema) else {
      return []
    }
    return ["$schema=" + APIError.shortened(address)]
  }
}
