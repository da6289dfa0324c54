// POST /v1/messages and /v1/messages/count_tokens, and how errors look on these paths.

import Chat
import HTTP
import Inference
import JSON
import Pipeline
import Wire

struct MessagesRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let route = MessagesRoute(server: server)
    return RouteTable(
      .messages,
      [
        .post(
          "/v1/messages", "createMessage", "Answers a conversation (Anthropic)",
          reads: .messages, gives: "Message", route.respond
        ) { $0.event = "MessageEvent" },
        .post(
          "/v1/messages/count_tokens", "countMessageTokens",
          "Counts the tokens of a conversation (Anthropic)", reads: .messagesToCount,
          gives: "MessageTokens", route.countTokens),
      ])
  }

  /// Everything that can be known to be wrong is refused here, before the head of a stream is sent.
  private func respond(to http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let scope = try server.request(body, for: context)
    let request = try MessagesRequest(
      RequestFiles(scope, isUnwanted: context.isClientGone).read(body), limits: scope.limits,
      vocabularySize: scope.model.vocabularySize)
    try server.ignore(
      request.ignored, request.chat.dropped + (request.chat.format?.notes ?? []), for: context)
    let media = MediaResolver(scope, isUnwanted: context.isClientGone)
    let run = try ChatPlan(scope, media: media).makeRun(request.chat)
    let answer = MessagesAnswer(request, run, scope)
    return try answer.respond(run, context, streams: request.chat.options.streams)
  }

  private func countTokens(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let scope = try server.request(body, for: context)
    let request = try MessagesRequest(
      RequestFiles(scope, isUnwanted: context.isClientGone).read(body), limits: scope.limits,
      vocabularySize: scope.model.vocabularySize, onlyCounts: true)
    try server.ignore(request.ignored, request.chat.dropped, for: context)
    let prompt = try scope.prompt(of: request.chat)
    return Response(json: ["input_tokens": .int(prompt.tokens.count)])
  }
}

extension Request {
  /// Whether it comes from a client of Anthropic's API: some of its paths are OpenAI's too, with other shapes.
  var isMessagesClient: Bool { headers.contains("anthropic-version") }
}

extension Wire {
  /// This one, or Anthropic's where its client asks for what both APIs have.
  func asked(by request: Request) -> Wire {
    roots == Wire.openAI.roots && request.isMessagesClient ? .messages : self
  }

  /// Anthropic's: errors, those of HTTP too, have the shape that its clients know, and they look for `request-id`.
  static let messages = Wire(
    roots: ["/v1/messages"], idHeader: "request-id", schema: "MessagesError", errorEvent: "error"
  ) { error, requestID in MessagesError(error, requestID: requestID).json }
}

extension DescribedBody {
  fileprivate static let messages = DescribedBody("MessagesRequest") { (fields) throws(APIError) in
    _ = try MessagesRequest(&fields, onlyCounts: false)
  }
  fileprivate static let messagesToCount = DescribedBody("MessagesCountRequest") {
    (fields) throws(APIError) in
    _ = try MessagesRequest(&fields, onlyCounts: true)
  }
}
