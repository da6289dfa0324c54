// The routes of Hugging Face's text-embeddings-inference (TEI): /embed and its relatives, /predict, /similarity, /info.
//
// Statuses, shapes of errors and headers are TEI's, whose clients test them.

import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Tokenizers
import Wire

struct TEIRoutes {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let routes = TEIRoutes(server: server)
    func route(
      _ path: String, _ id: String, _ summary: String, _ body: DescribedBody, gives: String,
      _ answer: @escaping @Sendable (JSONValue, ConnectionContext) throws(APIError) -> Response
    ) -> Route {
      .post(
        path, id, summary + " (TEI)", reads: body, gives: gives,
        { http, context in
          routes.answer(context) { () throws(APIError) in
            try answer(try http.jsonBody(context.memory), context)
          }
        })
    }
    let texts = DescribedBody.of(TEIEmbedRequest.self)
    return RouteTable(
      .tei,
      [
        route("/embed", "teiEmbed", "Vectors of texts", texts, gives: "Vectors", routes.embed),
        route(
          "/embed_all", "teiEmbedAll", "The state of every token", texts, gives: "VectorLists",
          routes.embedAll),
        route(
          "/embed_sparse", "teiEmbedSparse", "Sparse vectors", texts, gives: "SparseVectors",
          routes.embedSparse),
        route(
          "/predict", "teiPredict", "Labels of texts or pairs", .of(TEIPredictRequest.self),
          gives: "Predictions", routes.predict),
        route(
          "/similarity", "teiSimilarity", "How near sentences are to one", .of(TEISimilarityRequest.self),
          gives: "Vector", routes.similarity),
        route(
          "/decode", "teiDecode", "Texts of tokens", .of(TEIDecodeRequest.self), gives: "Strings",
          routes.decode),
        .get(
          "/info", "teiInfo", "What the model is (TEI)",
          { _, context in
            routes.answer(context) { () throws(APIError) in try routes.info(context) }
          }),
      ])
  }

  /// An answer, or an error in TEI's words.
  func answer(
    _ context: ConnectionContext, _ body: () throws(APIError) -> Response
  ) -> Response {
    do throws(APIError) {
      return try body()
    } catch {
      return Wire.tei.response(error.forTEI, requestID: context.requestID)
    }
  }

  // MARK: Vectors

  private func embed(_ body: JSONValue, _ context: ConnectionContext) throws(APIError) -> Response {
    let own = try server.embedding(body, for: context)
    let request = try TEIEmbedRequest(body, limits: own.limits, vocabularySize: own.vocabularySize)
    var options = try own.options(request.options)
    options.dimensions = request.dimensions
    options.normalizes = request.normalizes
    let result = try own.run(request.inputs, options, .vector, context)
    let vectors = result.values.map { own.embedder.finish($0, options) }
    return finished(vectors.map { $0[...] }, result.work, request.ignored)
  }

  private func embedAll(_ body: JSONValue, _ context: ConnectionContext) throws(APIError) -> Response {
    let own = try server.embedding(body, for: context)
    let request = try TEIEmbedRequest(body, limits: own.limits, vocabularySize: own.vocabularySize)
    let result = try own.run(request.inputs, try own.options(request.options), .states, context)
    let hidden = max(1, own.embedder.service.limits.hidden)
    // Each number has some ten digits.
    try claim(12 * result.values.reduce(0) { $0 + $1.count }, of: context.memory)
    var writer = JSONWriter()
    writer.writeRaw("[")
    for (index, states) in result.values.enumerated() {
      if index > 0 { writer.separate() }
      let tokens = stride(from: 0, to: states.count, by: hidden).map { states[$0..<$0 + hidden] }
      Self.write(tokens, to: &writer)
    }
    writer.writeRaw("]")
    return finished(bytes: writer.bytes, result.work, request.ignored)
  }

  private func embedSparse(_ body: JSONValue, _ context: ConnectionContext) throws(APIError) -> Response {
    let own = try server.embedding(body, for: context)
    guard own.embedder.service.limits.isSparse else {
      throw .unsupportedByModel("it makes no sparse vectors, which need a model with a SPLADE head")
    }
    let request = try TEIEmbedRequest(body, limits: own.limits, vocabularySize: own.vocabularySize)
    let result = try own.run(request.inputs, try own.options(request.options), .sparse, context)
    let texts = result.values.map { weights -> JSONValue in
      .array(
        weights.enumerated().filter { $0.element > 0 }.map { index, value in
          ["index": .int(index), "value": .double(Double(value))]
        })
    }
    return finished(.array(texts), result.work, request.ignored)
  }

  private func similarity(_ body: JSONValue, _ context: ConnectionContext) throws(APIError) -> Response {
    let own = try server.embedding(body, for: context)
    let request = try TEISimilarityRequest(body, limits: own.limits)
    let inputs = ([request.source] + request.sentences).map { TextInput.text($0) }
    let result = try own.run(inputs, try own.options(request.options), .vector, context) {
      $0 == 0 ? "inputs.source_sentence" : "inputs.sentences[\($0 - 1)]"
    }
    let scores = result.values.dropFirst().map { Embedder.cosine(result.values[0], $0) }
    var writer = JSONWriter()
    writer.write(Array(scores))
    return finished(bytes: writer.bytes, result.work, request.ignored)
  }

  // MARK: Scores

  /// POST /rerank, by a body that has `texts`.
  func rank(_ body: JSONValue, _ context: ConnectionContext) throws(APIError) -> Response {
    let own = try server.reranking(body, for: context)
    let request = try TEIRerankRequest(body, limits: own.limits)
    var work = TEIWork(characters: request.query.count + request.texts.reduce(0) { $0 + $1.count })
    var options = PairOptions()
    options.truncation = request.options.truncation.map(Embedder.Truncation.init)
    let scored = try own.score(
      [request.query], request.texts, options, isRaw: request.isRaw, context
    ) { $0 < 0 ? "query" : "texts[\($0)]" }
    work.tokens = scored.tokens
    let results = RankedDocument.sorted(scored.scores).map { result -> JSONValue in
      var entry = JSONObject([("index", .int(result.index))])
      if request.returnsTexts { entry["text"] = .string(request.texts[result.index]) }
      entry["score"] = .double(Double(result.score))
      return .object(entry)
    }
    return finished(.array(results), work, request.ignored)
  }

  private func predict(_ body: JSONValue, _ context: ConnectionContext) throws(APIError) -> Response {
    let scope = try server.textModel(body, scores: true, for: context)
    guard let embedder = scope.model.embedder, embedder.service.limits.labels > 0, !embedder.takesInstruction
    else {
      throw .unsupportedByModel("it is not a classifier")
    }
    let own = EmbeddingContext(scope: scope, embedder: embedder)
    let request = try TEIPredictRequest(body, limits: own.limits)
    let (logits, work) = try own.classify(request, context)
    let answers = logits.map { logits -> JSONValue in
      let scores =
        request.isRaw
        ? logits : logits.count == 1 ? logits.map(Embedder.sigmoid) : Embedder.softmax(logits)
      return .array(
        RankedDocument.sorted(scores).map { ranked in
          ["score": .double(Double(ranked.score)), "label": .string(own.embedder.labels[ranked.index])]
        })
    }
    return finished(request.isBatch ? .array(answers) : answers.first ?? [], work, request.ignored)
  }

  // MARK: Tokens and facts

  /// POST /tokenize, by a body that has `inputs`.
  func tokenize(_ body: JSONValue, _ scope: RequestScope, _ context: ConnectionContext) throws(APIError)
    -> Response
  {
    let request = try TEITokenizeRequest(body, limits: scope.limits)
    var prompt = ""
    if let name = request.promptName {
      guard let text = scope.model.embedder?.prompts[name] else {
        throw .invalidValue("prompt_name", "the model has no prompt '\(APIError.shortened(name))'")
      }
      prompt = text
    }
    let bytes = request.texts.reduce(0) { $0 + prompt.utf8.count + $1.utf8.count }
    try claim(RequestScope.workForTokens(ofBytes: bytes), of: context.memory)
    let tokenizer = scope.model.tokenizer
    var work = TEIWork(characters: request.texts.reduce(0) { $0 + $1.count })
    var writer = JSONWriter()
    writer.writeRaw("[")
    for (index, text) in request.texts.enumerated() {
      let ids = tokenizer.encode(prompt + text, addSpecialTokens: request.addsSpecialTokens)
      work.tokens += ids.count
      func spelling(_ id: Int32) -> String { tokenizer.token(of: id) ?? "" }
      // As values they would take 300 bytes each. The text is there twice while it grows.
      try claim(
        2 * ids.reduce(0) { $0 + Self.bytesAroundToken + JSONWriter.bytes(of: spelling($1)) },
        of: context.memory)
      if index > 0 { writer.separate() }
      writer.writeRaw("[")
      for (place, id) in ids.enumerated() {
        if place > 0 { writer.separate() }
        // Where a token begins in the text is not known here; TEI leaves it out for special tokens.
        writer.write([
          "id": .int(Int(id)), "text": .string(spelling(id)), "special": .bool(tokenizer.isSpecial(id)),
          "start": nil, "stop": nil,
        ])
      }
      writer.writeRaw("]")
    }
    writer.writeRaw("]")
    return finished(bytes: writer.bytes, work, request.ignored)
  }

  /// Of a token of /tokenize, beside its spelling.
  private static let bytesAroundToken = 68

  private func decode(_ body: JSONValue, _ context: ConnectionContext) throws(APIError) -> Response {
    let scope = try server.anyRequest(body, for: context)
    let request = try TEIDecodeRequest(
      body, limits: scope.limits, vocabularySize: scope.model.vocabularySize)
    let tokenizer = scope.model.tokenizer
    let bytes = request.lists.reduce(0) { $0 + $1.reduce(0) { $0 + tokenizer.bytes(of: $1).count } }
    // As in /detokenize.
    try claim(4 * bytes, of: context.memory)
    let texts = request.lists.map { tokenizer.decode($0, skipSpecialTokens: request.skipsSpecialTokens) }
    try claim(2 * texts.reduce(0) { $0 + JSONWriter.bytes(of: $1) }, of: context.memory)
    var work = TEIWork(characters: 0)
    work.tokens = request.lists.reduce(0) { $0 + $1.count }
    return finished(.array(texts.map(JSONValue.string)), work, request.ignored)
  }

  /// What the first model that makes vectors or scores is.
  private func info(_ context: ConnectionContext) throws(APIError) -> Response {
    let scope = try server.textModel([:], scores: false, loads: false, for: context)
    guard let embedder = scope.model.embedder else { throw .cannotEmbed(model: scope.model.id) }
    let labels = embedder.labels.enumerated()
    let type: JSONValue =
      labels.isEmpty
      ? ["embedding": ["pooling": .string(embedder.service.limits.poolingNames.joined(separator: ","))]]
      : [
        embedder.scoresPairs ? "reranker" : "classifier": [
          "id2label": .object(JSONObject(labels.map { ("\($0.offset)", .string($0.element)) })),
          "label2id": .object(JSONObject(labels.map { ($0.element, .int($0.offset)) })),
        ]
      ]
    return Response(
      json: [
        "model_id": .string(scope.model.id), "model_sha": nil,
        "model_dtype": .string(scope.model.facts.quantization.map { "\($0.mode)\($0.bits)" } ?? "float32"),
        "model_type": type, "max_concurrent_requests": 64, "max_input_length": .int(embedder.maxTokens),
        "max_batch_tokens": .int(scope.limits.embeddingTokens), "max_batch_requests": nil,
        "max_client_batch_size": .int(scope.limits.embeddingInputs), "auto_truncate": false,
        "tokenization_workers": 1, "version": .string(server.settings.version), "sha": nil,
        "docker_label": nil,
      ])
  }

  // MARK: Answers

  private static func write(_ lists: [ArraySlice<Float>], to writer: inout JSONWriter) {
    writer.writeRaw("[")
    for (index, list) in lists.enumerated() {
      if index > 0 { writer.separate() }
      writer.write(Array(list))
    }
    writer.writeRaw("]")
  }

  /// Numbers with the digits of float32.
  private func finished(_ lists: [ArraySlice<Float>], _ work: TEIWork, _ ignored: [String]) -> Response {
    var writer = JSONWriter()
    Self.write(lists, to: &writer)
    return finished(bytes: writer.bytes, work, ignored)
  }

  private func finished(_ json: JSONValue, _ work: TEIWork, _ ignored: [String]) -> Response {
    finished(bytes: json.bytes, work, ignored)
  }

  private func finished(bytes: [UInt8], _ work: TEIWork, _ ignored: [String]) -> Response {
    var response = Response(contentType: "application/json", bytes: bytes)
    for (name, value) in work.headers { response.headers.add(name, value) }
    response.nameIgnored(ignored)
    return response
  }
}
