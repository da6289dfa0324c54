// One handle: a loaded model and its server, changed by one call at a time and looked at by any number.

import JSON
import MLXServe
import Platform

final class LibraryHandle: Sendable {
  private struct State {
    /// Whether a call is starting, stopping or unloading.
    var isBusy = false
    var isUnloaded = false
    var server: HostedServer?
  }

  let number: Int64
  private let model: HostedModel
  private let state = Monitor(State())

  init(_ number: Int64, _ model: HostedModel) {
    (self.number, self.model) = (number, model)
  }

  /// As lib_mlx_server_status tells it. Never waits.
  var status: JSONObject {
    let (server, isUnloaded) = state.withLock { ($0.server, $0.isUnloaded) }
    return JSONObject([
      ("handle", .int(Int(number))),
      (
        "model",
        .object(
          JSONObject([
            ("status", .string(isUnloaded ? "unloading" : "ready")), ("model_id", .string(model.id)),
            ("model_path", .string(model.folder)),
          ]))
      ),
      ("server", .object(server.map(Self.describe) ?? JSONObject([("status", "stopped")]))),
    ])
  }

  private static func describe(_ server: HostedServer) -> JSONObject {
    JSONObject([
      ("host", .string(server.host)), ("port", .int(server.port)), ("base_url", .string(server.baseURL)),
      ("model_id", .string(server.modelID)), ("status", "running"),
    ])
  }

  // MARK: Changes

  /// Waits until no other call changes the handle, and keeps others from it; false when it is unloaded.
  private func enter() -> Bool {
    let isThere: Bool? = state.wait { state in
      guard !state.isBusy else { return nil }
      state.isBusy = !state.isUnloaded
      return state.isBusy
    }
    return isThere ?? false
  }

  private func leave(_ change: (inout State) -> Void) {
    state.update { state in
      change(&state)
      state.isBusy = false
    }
  }

  func start(_ options: ServerOptions) throws(LibraryError) -> JSONObject {
    guard enter() else { throw .invalidHandle(number) }
    if let running = state.withLock({ $0.server }) {
      leave { _ in }
      throw LibraryError(
        "already_running", "this model is served at \(running.baseURL): stop that server first",
        detail: Self.describe(running))
    }
    do throws(MLXServeError) {
      let server = try HostedServer(model, options)
      leave { $0.server = server }
      return Self.describe(server)
    } catch {
      leave { _ in }
      throw LibraryError(error)
    }
  }

  func stop() throws(LibraryError) {
    guard enter() else { throw .invalidHandle(number) }
    state.withLock({ $0.server })?.stop()
    leave { $0.server = nil }
  }

  /// Called once, by who has taken the handle out of the library's table.
  func unload() {
    guard enter() else { return }
    let server = state.update { state in
      state.isUnloaded = true
      return state.server
    }
    server?.stop()
    model.close()
    leave { $0.server = nil }
  }

  // MARK: Requests

  /// Pieces of a body that wait for the calling thread.
  private static let waitingPieces = 64

  /// Answers on a thread of the library's; the pieces of the body come back to the calling one.
  func answer(_ call: LibraryCall, _ receiver: ChunkReceiver?) throws(LibraryError) -> JSONObject {
    guard let held = model.claim(bodyOf: call.count) else {
      throw LibraryError("out_of_memory", "the request does not fit below the limit now")
    }
    defer { withExtendedLifetime(held) {} }
    let (method, path, body) = (call.method, call.path, call.body)
    let pieces = Mailbox<[UInt8]>(capacity: Self.waitingPieces)
    let outcome = Monitor<Result<HostedModel.Answer, LibraryError>?>(nil)
    let thread: Thread
    do throws(PlatformError) {
      thread = try Thread(name: "lib_mlx", stackBytes: 4 << 20) { [model] in
        let result = Self.answer(method, path, body, model, pieces)
        outcome.withLock { $0 = result }
        pieces.close()
      }
    } catch {
      throw LibraryError("internal", "\(error)")
    }
    var text: [UInt8] = []
    var isWanted = true
    let memory = model.makeLoan()
    var isShort = false
    while case .element(let piece) = pieces.receive() {
      guard let receiver else {
        // As bytes, as text, and in the answer of the function.
        isShort = isShort || !memory.extend(by: 4 * piece.count)
        if isShort { pieces.close() } else { text += piece }
        continue
      }
      guard isWanted, !receiver.take(piece) else { continue }
      isWanted = false
      pieces.close()
    }
    thread.join()
    guard let result = outcome.withLock({ $0 }) else { throw LibraryError("internal", "there is no answer") }
    let answer = try result.get()
    guard !isShort else {
      throw LibraryError(
        "out_of_memory", "the body of the answer does not fit below the limit: take it by a callback")
    }
    var members = JSONObject([
      ("status", .int(answer.status)),
      ("headers", .object(JSONObject(answer.headers.map { ($0.name, .string($0.value)) }))),
    ])
    if receiver == nil { members["body"] = .string(String(decoding: text, as: UTF8.self)) }
    return members
  }

  private static func answer(
    _ method: String, _ path: String, _ body: [UInt8], _ model: HostedModel, _ pieces: Mailbox<[UInt8]>
  ) -> Result<HostedModel.Answer, LibraryError> {
    do throws(MLXServeError) {
      return .success(
        try model.answer(
          method, path, body: body, isGone: { pieces.isClosed },
          deliver: { pieces.send($0) { model.isClosing } }))
    } catch {
      return .failure(LibraryError(error))
    }
  }
}
