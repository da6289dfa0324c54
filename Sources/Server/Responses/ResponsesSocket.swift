// The Responses API over a WebSocket: requests and events are text messages, one JSON object each.
//
// Responses that are not stored can be continued on their own connection: the last few are remembered here.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Wire

final class ResponsesSocket {
  /// Responses that a connection remembers.
  private static let memoryLimit = 4
  /// Most bytes of all of them, as JSON: a connection may stand idle with them for an hour.
  private static let memoryBytes = 8 << 20

  private let server: ServerContext
  private let socket: WebSocket
  private let context: ConnectionContext
  private var remembered: [(record: StoredResponse, bytes: Int, memory: MemoryLoan?)] = []

  private init(_ server: ServerContext, _ socket: WebSocket, _ context: ConnectionContext) {
    (self.server, self.socket, self.context) = (server, socket, context)
  }

  /// The answer to GET /v1/responses: there is nothing else to get.
  static func upgrade(_ request: Request, _ context: ConnectionContext, _ server: ServerContext)
    throws(APIError)
    -> Response
  {
    guard Response.isUpgrade(request) else {
      return upgradeRequired(
        context, "GET /v1/responses is for WebSockets. Use POST, or GET /v1/responses/{id}.")
    }
    let response = Response.webSocket(answering: request) { socket in
      context.isOneAnswer = false
      ResponsesSocket(server, socket, context).serve()
    }
    return response ?? upgradeRequired(context, "The WebSocket handshake is not one of version 13.")
  }

  private static func upgradeRequired(_ context: ConnectionContext, _ message: String) -> Response {
    let error = APIError(status: 426, code: "upgrade_required", message: message)
    var response = Wire.openAI.response(error, requestID: context.requestID)
    response.headers.add("upgrade", "websocket")
    response.headers.add("sec-websocket-version", "13")
    return response
  }

  private func serve() {
    while let message = socket.receive() { handle(message) }
  }

  private func handle(_ message: String) {
    // Each request has its own claims.
    context.memory = context.memory?.another()
    var body = JSONValue.null
    do throws(APIError) {
      body = try parse(message)
      switch body["type"]?.stringValue {
      case "response.create": try create(body)
      case "response.steer": refuseSteering(body)
      case nil:
        throw APIError(
          status: 400, code: "missing_required_parameter", param: "type",
          message: "Missing required parameter: 'type'.")
      case let type?:
        throw .invalidValue("type", "'\(APIError.shortened(type))' is not an event that a client can send")
      }
    } catch {
      // A continuation that failed cannot be tried again from this connection's memory.
      if let id = body["previous_response_id"]?.stringValue { forget(id) }
      send(ResponsesSocketError.json(error, streamID: streamID(body)))
    }
  }

  private func parse(_ message: String) throws(APIError) -> JSONValue {
    let bytes = Array(message.utf8)
    try claim(JSONValue.weight(ofRequest: bytes), of: context.memory)
    do {
      return try JSONValue(request: bytes)
    } catch {
      throw .malformedJSON(error)
    }
  }

  /// Events of a request that names a lane name it too. Requests of all lanes are answered one after the other.
  private func streamID(_ body: JSONValue) -> JSONValue? {
    guard case .string(let id)? = body["stream_id"] else { return nil }
    return .string(id)
  }

  private func send(_ value: JSONValue) {
    do throws(SocketError) {
      try socket.send(value.bytes)
    } catch {
      // The next attempt to receive finds the connection over.
    }
  }

  private func create(_ body: JSONValue) throws(APIError) {
    let scope = try server.request(body, for: context)
    let planner = ResponsesPlanner(scope) { id in
      self.remembered.last { $0.record.id.utf8.elementsEqual(id.utf8) }?.record
    }
    let plan = try planner.plan(body, isMessage: true)
    let lane = streamID(body)
    func send(_ event: ResponseEvent) throws(SocketError) {
      guard let lane, case .object(var object) = event.json else {
        return try socket.send(event.json.bytes)
      }
      object["stream_id"] = lane
      try socket.send(JSONValue.object(object).bytes)
    }
    guard plan.request.generates else { return try prepare(plan, scope, send) }
    let run = try ResponseRun(plan, scope, isUnwanted: socket.isPeerGone)
    _ = run.stream(context, to: ResponseStream(isGone: socket.isPeerGone, send: send))
    switch run.ending {
    case .completed, .incomplete: if !plan.request.isStored, let record = run.record { remember(record) }
    case .failed, .cancelled, nil: if let id = plan.request.previousResponseID { forget(id) }
    }
  }

  /// `generate: false`: the input is taken in, as a response without output that can be continued.
  private func prepare(
    _ plan: ResponsePlan, _ scope: RequestScope, _ send: (ResponseEvent) throws(SocketError) -> Void
  ) throws(APIError) {
    let usage = Usage(promptTokens: try plan.promptTokens(scope))
    let context = scope.model.contextTokens
    guard usage.promptTokens < context else {
      throw .contextLengthExceeded(
        ContextOverflow(tokens: usage.promptTokens, limit: context), param: "input")
    }
    let body = ResponseObject.ended(
      plan.body, .completed, output: [], usage: usage, at: scope.settings.now())
    let record = StoredResponse(
      body: body, context: plan.context, input: plan.input, reasoning: scope.reasoningEvents)
    if plan.request.isStored {
      try storing { () throws(PlatformError) in try scope.records.put(record) }
    } else {
      remember(record)
    }
    do throws(SocketError) {
      for event in record.events { try send(event) }
    } catch {
      // The next attempt to receive finds the connection over.
    }
  }

  private func refuseSteering(_ body: JSONValue) {
    let previous = body["previous_response_id"] ?? ""
    send([
      "type": "response.steer.failed", "sequence_number": 0,
      "error": [
        "type": "invalid_request_error", "code": "steering_not_supported",
        "message": "This server does not support steering.",
      ],
      "steer": ["input": body["input"] ?? "", "previous_response_id": previous],
    ])
  }

  // MARK: Memory

  private func remember(_ record: StoredResponse) {
    let bytes = record.bytes
    let memory = context.memory?.another()
    // Without it the client sends all of its conversation again.
    guard memory?.extend(by: JSONValue.weight(of: bytes) + bytes.count) ?? true else { return }
    remembered.append((record, bytes.count, memory))
    while remembered.count > Self.memoryLimit || remembered.reduce(0, { $0 + $1.bytes }) > Self.memoryBytes {
      remembered.removeFirst()
    }
  }

  private func forget(_ id: String) { remembered.removeAll { $0.record.id.utf8.elementsEqual(id.utf8) } }
}
