// POST /v1/messages and /v1/messages/count_tokens, and how errors look on these paths.

import Chat
import HTTP
import Inference
import JSON
import OpenAI

struct MessagesRoute {
  private let server: ServerContext

  init(_ server: ServerContext) { self.server = server }

  /// Everything that can be known to be wrong is refused here, before the head of a stream is sent.
  func respond(to http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody()
    let core = try server.request(body, for: context.client)
    let request = try MessagesRequest(body, limits: core.limits, vocabularySize: core.model.vocabularySize)
    try core.checkUnknown(request.ignored)
    let run = try start(request, core, context)
    let answer = MessagesAnswer(
      request: request, id: "msg_" + core.settings.makeID(), run: run, core: core)
    var response = request.chat.options.streams ? answer.stream(context) : try answer.whole(context)
    response.nameIgnored(request.ignored)
    return response
  }

  private func start(
    _ request: MessagesRequest, _ core: RequestContext, _ context: ConnectionContext
  ) throws(APIError) -> AnswerRun {
    let media = MediaResolver(core, isUnwanted: context.isClientGone)
    let run: AnswerRun
    do throws(APIError) {
      run = try ChatPlan(core, media: media).makeRun(request.chat)
    } catch {
      throw request.translated(error)
    }
    do throws(InferenceError) {
      try run.start()
    } catch {
      throw APIError(error, param: "messages")
    }
    return run
  }

  func countTokens(_ http: Request) throws(APIError) -> Response {
    let body = try http.jsonBody()
    let core = try server.request(body)
    let request = try MessagesRequest(
      body, limits: core.limits, vocabularySize: core.model.vocabularySize, onlyCounts: true)
    try core.checkUnknown(request.ignored)
    do throws(APIError) {
      let prompt = try core.prompt(of: request.chat)
      var response = Response(json: ["input_tokens": .int(prompt.tokens.count)])
      response.nameIgnored(request.ignored)
      return response
    } catch {
      throw request.translated(error)
    }
  }

  // MARK: The paths' own words

  /// Gives responses on these paths the header that Anthropic's clients look for, and errors (those of HTTP
  /// too) the shape that they know.
  static func dress(_ response: Response, to request: Request, _ context: ConnectionContext) -> Response {
    let path = Array(request.path.utf8)
    let root = Array("/v1/messages".utf8)
    guard path == root || path.starts(with: root + [UInt8(ascii: "/")]) else { return response }
    var response = response
    response.headers.set("request-id", context.requestID)
    guard response.status >= 400, case .bytes(let bytes) = response.body,
      let message = (try? JSONValue(parsing: bytes))?["error"]?["message"]?.stringValue
    else { return response }
    let error = MessagesError(status: response.status, message: message, requestID: context.requestID)
    response.body = .bytes(error.json.bytes)
    return response
  }
}
