// The tokenizer and the chat template without the model: POST /tokenize, /detokenize, /apply-template and
// /v1/chat/completions/input_tokens.

import Chat
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Tokenizers
import Wire

struct TokenizeRoutes {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let routes = TokenizeRoutes(server: server)
    return RouteTable(
      .openAI,
      [
        .post(
          "/v1/chat/completions/input_tokens", "countChatTokens", "Counts the tokens of a conversation",
          reads: .of(ChatRequest.self), gives: "InputTokens", routes.countInput),
        .post(
          "/tokenize", "tokenize", "Text or a conversation to tokens", reads: .of(TokenizeRequest.self),
          gives: "TokenizeResponse", routes.tokenize
        ) {
          $0.query = ["model"]
          $0.isTEI(too: .of(TEITokenizeRequest.self))
        },
        .post(
          "/detokenize", "detokenize", "Tokens to text", reads: .of(DetokenizeRequest.self),
          gives: "DetokenizeResponse", routes.detokenize
        ) { $0.query = ["model"] },
        .post(
          "/apply-template", "applyTemplate", "A conversation to the text of its prompt",
          reads: .template, gives: "TemplateResponse", routes.applyTemplate),
      ])
  }

  /// - Parameter bytes: of the answer, where it may be long. It is there twice while it grows.
  private func answer(
    _ json: JSONValue, of bytes: Int = 0, _ context: ConnectionContext, ignored: [String]
  ) throws(APIError) -> Response {
    try server.ignore(ignored, for: context)
    try claim(2 * bytes, of: context.memory)
    return Response(json: json)
  }

  // MARK: Tokens

  /// How long cached prefixes have to make room, seconds.
  private static let patience = 0.5

  private func tokenize(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    if body["inputs"] != nil {
      let scope = try server.anyRequest(body, for: context)
      let tei = TEIRoutes(server: server)
      return tei.answer(context) { () throws(APIError) in try tei.tokenize(body, scope, context) }
    }
    let scope = try server.tokenRequest(http, body, for: context)
    let request = try TokenizeRequest(
      RequestFiles(scope, isUnwanted: context.isClientGone).read(body), limits: scope.limits,
      vocabularySize: scope.model.vocabularySize)
    try server.ignore(request.ignored, for: context)
    let loan = MemoryLoan(server.models.ledger, for: .answers, patience: Self.patience)
    if case .text(let text) = request.input {
      try claim(RequestScope.workForTokens(ofBytes: text.utf8.count), of: loan)
    }
    let tokens = try tokens(of: request, scope)
    // The answer is written part by part, however long its client takes to read it: this is all that stays.
    loan.shrink(to: tokens.count * MemoryLayout<Int32>.stride)
    return TokenList(
      tokens: tokens, tokenizer: scope.model.tokenizer,
      maxContext: scope.model.contextTokens, wantsPieces: request.wantsPieces,
      wantsStrings: request.wantsStrings, loan: loan
    ).response
  }

  private func tokens(of request: TokenizeRequest, _ scope: RequestScope) throws(APIError) -> [Int32] {
    switch request.input {
    case .chat(let chat): try scope.prompt(of: chat).tokens
    case .text(let text) where request.parsesSpecialTokens:
      scope.model.tokenizer.encode(text, addSpecialTokens: request.addsSpecialTokens)
    case .text(let text):
      scope.model.prompts.tokens(ofForeign: text)
    }
  }

  /// The text by the names that both kinds of clients look for.
  private func detokenize(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let scope = try server.tokenRequest(http, body, for: context)
    let request = try DetokenizeRequest(
      body, limits: scope.limits, vocabularySize: scope.model.vocabularySize)
    // Ids of long tokens are many times smaller than their text, which grows to it: a byte that is no character becomes
    // three.
    let bytes = request.tokens.reduce(0) { $0 + scope.model.tokenizer.bytes(of: $1).count }
    try claim(4 * bytes, of: context.memory)
    let text = scope.model.tokenizer.decode(request.tokens, skipSpecialTokens: false)
    return try answer(
      ["content": .string(text), "prompt": .string(text)], of: 2 * JSONWriter.bytes(of: text), context,
      ignored: request.ignored)
  }

  // MARK: Prompts

  private func applyTemplate(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    var body = try http.jsonBody(context.memory)
    let scope = try server.request(body, for: context)
    if var object = body.objectValue, object["model"]?.isNull ?? true {
      object["model"] = .string(scope.model.id)
      body = .object(object)
    }
    let (prompt, request) = try prompt(of: body, scope)
    return try answer(
      ["prompt": .string(prompt.text)], of: JSONWriter.bytes(of: prompt.text), context,
      ignored: request.ignored)
  }

  private func countInput(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let (prompt, request) = try prompt(of: body, server.request(body, for: context))
    return try answer(
      ["object": "response.input_tokens", "input_tokens": .int(prompt.tokens.count)], context,
      ignored: request.ignored)
  }

  private func prompt(of body: JSONValue, _ scope: RequestScope) throws(APIError) -> (
    ModelPrompt, ChatRequest
  ) {
    let request = try ChatRequest(
      RequestFiles(scope).read(body), limits: scope.limits, vocabularySize: scope.model.vocabularySize)
    return (try scope.prompt(of: request), request)
  }
}

extension DescribedBody {
  /// A chat request that need not name its model.
  fileprivate static let template = DescribedBody("TemplateRequest") { (fields) throws(APIError) in
    try fields.anyModel()
    _ = try ChatRequest(rest: &fields)
  }
}
