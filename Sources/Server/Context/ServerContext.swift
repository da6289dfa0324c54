// What every route shares, and the one step from a request's `model` to the model that serves it.

import Fetch
import HTTP
import JSON
import Pipeline
import Platform
import Wire

struct ServerContext: Sendable {
  let models: ModelFleet
  let settings: ServerSettings
  let limits: RequestLimits
  /// Where images and audio come from, and where they are made ready for the model.
  let media: MediaSources
  /// Where PDFs of requests become text.
  let texts: TextDesk
  /// Prompts of next turns that are computed ahead now.
  let readersAhead = Monitor(0)
  /// What reads prompts of earlier conversations ahead; nil where nothing does.
  let readAhead: ReadAhead?
  /// What reads files ahead that a client has named.
  let documents: DocumentReader

  init(models: ModelFleet, settings: ServerSettings) {
    (self.models, self.settings) = (models, settings)
    var limits = RequestLimits()
    limits.refusesHostedTools = settings.refusesHostedTools
    limits.keptLines = settings.keptLines
    if let archive = settings.archive { limits.fileBytes = archive.settings.fileBytes }
    self.limits = limits
    documents = DocumentReader(models)
    readAhead = settings.readAheadFolder.map { ReadAhead($0, models: models) }
    texts = TextDesk(ledger: models.ledger)
    media = MediaSources(
      desk: MediaDesk(ledger: models.ledger),
      fetcher: settings.mediaURLs.map { Fetcher($0, ledger: models.ledger) },
      root: settings.mediaRoot)
  }

  /// The model that a body names, loaded, and kept for as long as the result is held.
  ///
  /// A body without a proper name gets the first model: where the name is optional that is meant, and elsewhere the
  /// body's reader says what is wrong with it.
  ///
  /// - Parameter context: whose request it is, and what it may take of memory.
  /// - Throws: 404 for a model that does not exist, 500 or 503 for one that is not to be had, 400 for one that does not
  ///   generate.
  func request(_ body: JSONValue, for context: ConnectionContext) throws(APIError) -> RequestScope {
    let scope = try anyRequest(body, for: context)
    try scope.model.checkGenerates()
    return scope
  }

  /// As `request`, whatever the model is for.
  ///
  /// - Parameter loads: false for a GET, which any page of the web can have a browser send: 503 for a model that is not
  ///   loaded.
  func anyRequest(
    _ body: JSONValue, loads: Bool = true, for context: ConnectionContext
  ) throws(APIError) -> RequestScope {
    let lease = try models.lease(body["model"]?.stringValue ?? "", loads: loads)
    return RequestScope(server: self, lease: lease, for: context)
  }

  /// As `anyRequest`, for what is asked about tokens: their ids mean nothing to a model with another tokenizer, so where
  /// several could be meant none is guessed.
  ///
  /// - Parameter http: its address may name the model, where the body does not.
  func tokenRequest(
    _ http: Request, _ body: JSONValue, loads: Bool = true, for context: ConnectionContext
  ) throws(APIError) -> RequestScope {
    let named = body["model"]?.stringValue.flatMap { $0.utf8.isEmpty ? nil : $0 } ?? http.query("model")
    if named == nil, models.catalog.resolve("") == nil, let others = models.catalog.tokenizersDiffer {
      throw APIError(
        status: 400, code: "missing_required_parameter", param: "model",
        message:
          "The tokenizers of the models of this server differ, and the request does not say which is meant: "
          + others.prefix(20).map { "'\(APIError.shortened($0))'" }.joined(separator: ", ")
          + ". Name one as 'model' in the body, or as ?model= in the address; --alias '*'=MODEL names it for all who "
          + "cannot.")
    }
    return try anyRequest(["model": named.map(JSONValue.string) ?? .null], loads: loads, for: context)
  }

  /// What a client has stored.
  func records(of client: ClientIdentity, memory: MemoryLoan?) -> ClientRecords {
    settings.store.records(of: client, memory: memory)
  }

  /// What the client of a request has stored.
  func records(for context: ConnectionContext) -> ClientRecords {
    records(of: context.client, memory: context.memory)
  }

  /// - Parameter fields: of the request, all unknown.
  /// - Throws: 400 for the first of them, if the server is strict.
  func checkUnknown(_ fields: [String]) throws(APIError) {
    if settings.strictParameters, let field = fields.first { throw .unknownParameter(field) }
  }

  /// The body of a request that names no model.
  ///
  /// - Parameter isOptional: whether a request without one is taken.
  /// - Throws: what is wrong with it, and as `ignore`.
  func read<Body: RequestBody>(
    _: Body.Type, _ http: Request, _ context: ConnectionContext, isOptional: Bool = false
  ) throws(APIError) -> Body {
    let body = try Body(isOptional && http.body.isEmpty ? [:] : http.jsonBody(context.memory))
    try ignore(body.ignored, for: context)
    return body
  }

  /// Notes what of a request changes nothing: a header of its answer names it.
  ///
  /// - Parameter others: what is known all the same.
  /// - Throws: as `checkUnknown`.
  func ignore(
    _ unknown: [String], _ others: [String] = [], for context: ConnectionContext
  ) throws(APIError) {
    try checkUnknown(unknown)
    context.ignored = unknown + others
  }
}

extension LoadedModel {
  /// - Throws: 400 for a model that does not go on with text.
  func checkGenerates() throws(APIError) {
    if transcriber != nil { throw .onlyTranscribes(model: id) }
    if !generates { throw .cannotGenerate(model: id) }
  }
}
