// POST /v1/chat/completions.

import HTTP
import Inference
import JSON
import Pipeline
import Wire

struct ChatRoute {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    RouteTable(
      .openAI,
      [
        .post(
          "/v1/chat/completions", "createChatCompletion", "Answers a conversation",
          reads: .of(ChatRequest.self), gives: "ChatCompletion", ChatRoute(server: server).respond
        ) { ($0.form, $0.event) = ("ChatForm", "ChatCompletionChunk") }
      ])
  }

  /// Everything that can be known to be wrong is refused here, before the head of a stream is sent.
  func respond(to http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let form = try http.chatForm(server.limits, context.memory)
    let scope = try server.request(form.body, for: context)
    let body = try RequestFiles(scope, isUnwanted: context.isClientGone).read(form.body)
    let request = try ChatRequest(body, limits: scope.limits, vocabularySize: scope.model.vocabularySize)
    try server.ignore(request.ignored, request.dropped + (request.format?.notes ?? []), for: context)
    try form.check(request)
    let media = MediaResolver(scope, attachments: form.attachments, isUnwanted: context.isClientGone)
    let source = try scope.source(request, showsResults: true, isUnwanted: context.isClientGone) {
      (request) throws(APIError) in try ChatPlan(scope, media: media).makeRun(request)
    }
    let answer = ChatAnswer(request, source, scope, asked: request.isStored ? form.body : .null)
    return try answer.respond(source, context, streams: request.options.streams)
  }
}
