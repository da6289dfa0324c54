// The models of the host by their handles, and what each function does with them.

import JSON
import MLXServe
import Platform

/// The process's handles. Used from any thread.
final class Library: Sendable {
  private struct State {
    var handles: [Int64: LibraryHandle] = [:]
    /// Numbers are never used again.
    var last: Int64 = 0
  }

  static let shared = Library()
  /// `LIB_MLX_ABI` of lib_mlx.h.
  private static let abi = 1
  private static let levels = Log.Level.allCases.map(\.name)

  private let state = Monitor(State())

  static var version: JSONObject {
    JSONObject([
      ("version", .string(Version.text)), ("abi", .int(abi)),
      (
        "features",
        .array(["load", "server", "request", "log_callback", "configure", "list"].map(JSONValue.string))
      ),
    ])
  }

  // MARK: The process

  func configure(_ fields: inout LibraryFields) throws(LibraryError) -> JSONObject {
    let limit = try fields.size("memory_limit")
    let threads = try fields.integer("threads")
    let level = try fields.word("log_level", { Log.Level(name: $0) }, of: Self.levels)
    if let threads, !(1...1024).contains(threads) { throw .invalid("threads", "is a number from 1 to 1024") }
    if limit != nil || threads != nil {
      do throws(MLXServeError) {
        try ModelHost.shared.configure { settings in
          settings.memoryLimit = limit ?? settings.memoryLimit
          settings.threads = threads ?? settings.threads
        }
      } catch {
        throw LibraryError("busy", "\(error)")
      }
    }
    if let level { Log.configure(level: level, json: false) }
    return JSONObject()
  }

  var list: JSONObject {
    let handles = state.withLock { $0.handles.values.sorted { $0.number < $1.number } }
    return JSONObject([("models", .array(handles.map { .object($0.status) }))])
  }

  // MARK: One model

  func load(_ fields: inout LibraryFields) throws(LibraryError) -> JSONObject {
    guard let path = try fields.string("model_path") else { throw .invalid("model_path", "is missing") }
    var options = ModelOptions()
    options.id = try fields.string("model_id")
    // One answer at a time, as in a program with one user; others wait, as many as `queue_limit` says.
    options.maxSequences = try fields.integer("max_sequences") ?? 1
    options.maxContext = try fields.integer("max_context")
    options.thinking = try fields.bool("thinking_enabled") ?? true
    options.lazyEncoders = try fields.bool("lazy_encoders") ?? true
    options.preparedFolder = try fields.string("prepared_dir")
    // A folder has no other revisions: null alone says something true.
    if try fields.string("revision") != nil {
      throw .invalid("revision", "has no meaning for a folder: leave it out, or null")
    }
    let model: HostedModel
    do throws(MLXServeError) {
      model = try HostedModel(path, options)
    } catch {
      throw LibraryError(error, path: "model_path")
    }
    let handle = state.withLock { state in
      state.last += 1
      let handle = LibraryHandle(state.last, model)
      state.handles[state.last] = handle
      return handle
    }
    return JSONObject([
      ("handle", .int(Int(handle.number))), ("status", "ready"), ("model_id", .string(model.id)),
    ])
  }

  func start(_ number: Int64, _ fields: inout LibraryFields) throws(LibraryError) -> JSONObject {
    let handle = try handle(number)
    var options = ServerOptions()
    options.host = try fields.string("host") ?? options.host
    options.port = try fields.integer("port") ?? options.port
    options.modelID = try fields.string("model_id")
    options.queueLimit = try fields.integer("queue_limit")
    options.apiKeys = [try fields.string("api_key")].compactMap { $0 }
    let server = try handle.start(options)
    return JSONObject([("handle", .int(Int(number))), ("server", .object(server))])
  }

  func stop(_ number: Int64) throws(LibraryError) -> JSONObject {
    try handle(number).stop()
    return JSONObject([("handle", .int(Int(number))), ("status", "stopped")])
  }

  func status(_ number: Int64) throws(LibraryError) -> JSONObject { try handle(number).status }

  func unload(_ number: Int64) throws(LibraryError) -> JSONObject {
    // Whoever takes the handle out of the table unloads it.
    guard let handle = state.withLock({ $0.handles.removeValue(forKey: number) }) else {
      throw .invalidHandle(number)
    }
    handle.unload()
    return JSONObject([("handle", .int(Int(number))), ("status", "unloaded")])
  }

  func answer(_ number: Int64, _ call: LibraryCall, _ receiver: ChunkReceiver?) throws(LibraryError)
    -> JSONObject
  {
    let answer = try handle(number).answer(call, receiver)
    return JSONObject([("handle", .int(Int(number)))] + answer.entries.map { ($0.key, $0.value) })
  }

  private func handle(_ number: Int64) throws(LibraryError) -> LibraryHandle {
    guard let handle = state.withLock({ $0.handles[number] }) else { throw .invalidHandle(number) }
    return handle
  }
}

extension LibraryError {
  /// - Parameter path: the member that names the folder, which is what is wrong when there is no model.
  fileprivate init(_ error: MLXServeError, path: String) {
    self.init(error)
    if error.code == .modelNotFound { param = path }
  }
}
