// The tokenizer and the chat template without the model: POST /tokenize, /detokenize, /apply-template and
// /v1/chat/completions/input_tokens.

import Chat
import HTTP
import Inference
import JSON
import OpenAI
import Tokenizers

struct TokenizeRoutes {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let routes = TokenizeRoutes(server: server)
    return RouteTable(
      .openAI,
      [
        Route("POST", "/v1/chat/completions/input_tokens", routes.countInput),
        Route("POST", "/tokenize", routes.tokenize), Route("POST", "/detokenize", routes.detokenize),
        Route("POST", "/apply-template", routes.applyTemplate),
      ])
  }

  private func answer(_ json: JSONValue, ignored: [String]) throws(APIError) -> Response {
    try server.checkUnknown(ignored)
    var response = Response(json: json)
    response.nameIgnored(ignored)
    return response
  }

  // MARK: Tokens

  private func tokenize(_ http: Request, _: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody()
    let core = try server.request(body)
    let tokenizer = core.model.tokenizer
    let request = try TokenizeRequest(
      body, model: core.model.id, limits: core.limits, vocabularySize: core.model.vocabularySize)
    let tokens = try tokens(of: request, core)
    return try answer(
      [
        "count": .int(tokens.count), "max_model_len": .int(core.model.service.limits.maxContext),
        "tokens": .array(
          request.wantsPieces ? tokens.map { piece($0, tokenizer) } : tokens.map { .int(Int($0)) }),
        "token_strs": request.wantsStrings
          ? .array(tokens.map { .string(tokenizer.token(of: $0) ?? "") }) : nil,
      ], ignored: request.ignored)
  }

  private func tokens(of request: TokenizeRequest, _ core: RequestContext) throws(APIError) -> [Int32] {
    switch request.input {
    case .chat(let chat): try core.prompt(of: chat).tokens
    case .text(let text) where request.parsesSpecialTokens:
      core.model.tokenizer.encode(text, addSpecialTokens: request.addsSpecialTokens)
    case .text(let text):
      core.model.prompts.tokens(ofForeign: text)
    }
  }

  /// The text of a token; its bytes where they are part of a character.
  private func piece(_ id: Int32, _ tokenizer: Tokenizer) -> JSONValue {
    let bytes = tokenizer.bytes(of: id)
    let text = String(validating: bytes, as: UTF8.self).map(JSONValue.string)
    return ["id": .int(Int(id)), "piece": text ?? .array(bytes.map { .int(Int($0)) })]
  }

  /// The text by the names that both kinds of clients look for.
  private func detokenize(_ http: Request, _: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody()
    let core = try server.request(body)
    let request = try DetokenizeRequest(
      body, limits: core.limits, vocabularySize: core.model.vocabularySize)
    let text = JSONValue.string(core.model.tokenizer.decode(request.tokens, skipSpecialTokens: false))
    return try answer(["content": text, "prompt": text], ignored: request.ignored)
  }

  // MARK: Prompts

  private func applyTemplate(_ http: Request, _: ConnectionContext) throws(APIError) -> Response {
    var body = try http.jsonBody()
    let core = try server.request(body)
    if var object = body.objectValue, object["model"]?.isNull ?? true {
      object["model"] = .string(core.model.id)
      body = .object(object)
    }
    let (prompt, request) = try prompt(of: body, core)
    return try answer(["prompt": .string(prompt.text)], ignored: request.ignored)
  }

  private func countInput(_ http: Request, _: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody()
    let (prompt, request) = try prompt(of: body, server.request(body))
    return try answer(
      ["object": "response.input_tokens", "input_tokens": .int(prompt.tokens.count)],
      ignored: request.ignored)
  }

  private func prompt(of body: JSONValue, _ core: RequestContext) throws(APIError) -> (
    ModelPrompt, ChatRequest
  ) {
    let request = try ChatRequest(body, limits: core.limits, vocabularySize: core.model.vocabularySize)
    return (try core.prompt(of: request), request)
  }
}
