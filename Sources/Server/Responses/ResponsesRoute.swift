// POST /v1/responses, and the endpoints of one response.

import HTTP
import JSON
import Platform
import Wire

struct ResponsesRoute {
  let server: ServerContext
  let jobs: ResponseJobs

  static func table(_ server: ServerContext, _ jobs: ResponseJobs) -> RouteTable {
    let route = ResponsesRoute(server: server, jobs: jobs)
    let one = "/v1/responses/:id"
    return RouteTable(
      .openAI,
      [
        .post(
          "/v1/responses", "createResponse", "Answers a conversation (Responses)",
          reads: .responses, gives: "Response", route.create
        ) { $0.event = "ResponseEvent" },
        .get(
          "/v1/responses", "connectResponses", "Upgrade to a WebSocket that takes messages response.create",
          route.connect
        ) { $0.status = "101" },
        .post(
          "/v1/responses/input_tokens", "countResponseTokens", "Counts the tokens of a prompt",
          reads: .responses, gives: "InputTokens", route.countTokens),
        .post(
          "/v1/responses/compact", "compactResponse", "A conversation as one item",
          reads: .responses, gives: "Compaction", route.compact),
        .get(
          one, "retrieveResponse", "A stored response, or its events again", gives: "Response", route.retrieve
        ) { ($0.event, $0.query) = ("ResponseEvent", ["stream", "starting_after", "include"]) },
        .delete(one, "deleteResponse", "Forgets a response", gives: "Deleted", route.delete),
        .post(
          one + "/cancel", "cancelResponse", "Ends a response in the background", gives: "Response",
          route.cancel),
        .get(
          one + "/input_items", "listInputItems", "What a response was made from", gives: "ItemList",
          route.inputItems
        ) { $0.query = ["after", "limit", "order", "include"] },
      ])
  }

  /// Over a WebSocket.
  private func connect(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    try ResponsesSocket.upgrade(http, context, server)
  }

  // MARK: Create

  /// Everything that can be known to be wrong is refused here, before the head of a stream is sent.
  private func create(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let scope = try server.request(body, for: context)
    let plan = try ResponsesPlanner(scope).plan(body)
    context.ignored = plan.ignored
    guard plan.request.isBackground else {
      let run = try ResponseRun(plan, scope, isUnwanted: context.isClientGone)
      return plan.request.isStreamed ? stream(run, context) : try run.whole(context)
    }
    let job = try jobs.start(plan, scope, requestID: context.requestID)
    return plan.request.isStreamed
      ? follow(job, from: 0, context)
      : Response(json: .object(ResponseObject.begun(plan.body, status: "queued")))
  }

  private func stream(_ run: ResponseRun, _ context: ConnectionContext) -> Response {
    .events { events in
      let stream = ResponseStream(isGone: events.isClientGone, onSilence: events.keepAlive) {
        (event) throws(SocketError) in try events.send(event.json.bytes, event: event.type)
      }
      guard run.stream(context, to: stream) else { throw SocketError.clientGone }
      if case .failed? = run.ending { events.finishWithError("[DONE]") } else { events.finish("[DONE]") }
    }
  }

  /// The events of a background response, those that have been and those to come.
  private func follow(_ job: ResponseJob, from first: Int, _ context: ConnectionContext) -> Response {
    let silence = server.settings.keepAliveSeconds
    return .events { events in
      var (next, readings) = (first, 0)
      while true {
        let (batch, isDone) = job.events(from: next, after: &readings, seconds: silence)
        for event in batch {
          try events.send(event.json.bytes, event: event.type)
          next = event.isReading ? next : event.sequence + 1
        }
        if batch.isEmpty {
          if isDone { break }
          try events.keepAlive()
        }
        if events.isClientGone() { throw SocketError.clientGone }
        if context.phase == .expired { return events.finishWithError("[DONE]") }
      }
      events.finish("[DONE]")
    }
  }

  // MARK: One response

  private func id(_ http: Request) -> String { http.parameter("id") ?? "" }

  /// A stored response, and the job that still makes it.
  private func find(_ id: String, _ records: ClientRecords) throws(APIError) -> (StoredResponse, ResponseJob?)
  {
    let record = try stored(id, records)
    guard record.isRunning else { return (record, nil) }
    if let job = jobs.job(id) { return (record, job) }
    // It has ended between the two looks: jobs store their response before they go.
    return (try stored(id, records), nil)
  }

  private func stored(_ id: String, _ records: ClientRecords) throws(APIError) -> StoredResponse {
    guard let record = records.response(id) else {
      try records.check()
      throw .responseNotFound(id)
    }
    return record
  }

  private func retrieve(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let id = id(http)
    let isStreamed = try http.boolQuery("stream") ?? false
    let after = try http.integerQuery("starting_after", in: 0...Int.max - 1)
    let include = try ResponsesRequest.inclusions(http.listQuery("include").map(JSONValue.string))
    if after != nil, !isStreamed {
      throw .invalidValue("starting_after", "it is only allowed together with 'stream=true'")
    }
    let first = after.map { $0 + 1 } ?? 0
    let (found, job) = try find(id, server.records(for: context))
    var record = found
    if let job {
      return isStreamed ? follow(job, from: first, context) : Response(json: .object(job.body))
    }
    if isStreamed { return replay(record.events.filter { $0.sequence >= first }) }
    if include.encryptedReasoning, let output = record.body["output"]?.arrayValue {
      record.body["output"] = .array(output.map(ResponseObject.sealed))
    }
    return Response(json: .object(record.body))
  }

  private func replay(_ past: [ResponseEvent]) -> Response {
    .events { events in
      for event in past { try events.send(event.json.bytes, event: event.type) }
      events.finish("[DONE]")
    }
  }

  private func delete(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let id = id(http)
    let job = jobs.job(id)
    let isRemoved = try storing { () throws(PlatformError) in
      try server.records(for: context).removeResponse(id)
    }
    guard isRemoved else { throw .responseNotFound(id) }
    job?.cancel()
    return Response(json: ResponseObject.deleted(id))
  }

  /// Time that a generation gets to stop, seconds.
  private static let cancelSeconds = 10.0

  private func cancel(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let id = id(http)
    let (record, job) = try find(id, server.records(for: context))
    if let job {
      job.cancel()
      _ = job.waitUntilDone(seconds: Self.cancelSeconds)
      return Response(json: .object(job.body))
    }
    guard record.body["background"] == true else {
      throw APIError(status: 400, code: nil, message: "Cannot cancel a synchronous response.")
    }
    return Response(json: .object(record.body))
  }

  private func inputItems(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let id = id(http)
    let record = try stored(id, server.records(for: context))
    return Response(json: try http.page(of: record.context + record.input))
  }

  // MARK: Without an answer

  private func countTokens(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    let scope = try server.request(body, for: context)
    let plan = try ResponsesPlanner(scope).plan(body)
    context.ignored = plan.ignored
    return Response(
      json: ["object": "response.input_tokens", "input_tokens": .int(try plan.promptTokens(scope))])
  }

  private func compact(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.jsonBody(context.memory)
    // The items with what is added to each, and the messages that are made of them.
    try claim(2 * JSONValue.weight(ofRequest: http.body), of: context.memory)
    let scope = try server.request(body, for: context)
    let plan = try ResponsesPlanner(scope).plan(body)
    context.ignored = plan.ignored
    let usage = Usage(promptTokens: try plan.promptTokens(scope))
    return Response(
      json: ResponseObject.compaction(
        id: plan.id, itemID: "cmp_" + server.settings.makeID(), createdAt: server.settings.now(),
        items: plan.context + plan.input, usage: usage))
  }
}

// MARK: Queries

extension Request {
  func boolQuery(_ name: String) throws(APIError) -> Bool? {
    switch query(name)?.lowercased() {
    case nil: nil
    case "true", "1": true
    case "false", "0": false
    default: throw .invalidValue(name, "expected 'true' or 'false'")
    }
  }

  func integerQuery(_ name: String, in range: ClosedRange<Int>) throws(APIError) -> Int? {
    guard let text = query(name) else { return nil }
    guard let value = Int(text), range.contains(value) else {
      throw .invalidValue(name, "expected an integer from \(range.lowerBound) to \(range.upperBound)")
    }
    return value
  }

  /// A list as SDKs write it: `name[]=a&name[]=b`, or without the brackets.
  func listQuery(_ name: String) -> [String] { queries(name + "[]") + queries(name) }

  /// A page of items by the query's `after`, `limit` and `order`.
  func page(of items: [JSONValue]) throws(APIError) -> JSONValue {
    let limit = try integerQuery("limit", in: 1...100) ?? 20
    _ = try ResponsesRequest.inclusions(listQuery("include").map(JSONValue.string))
    var ordered = items
    switch query("order") {
    case nil, "desc": ordered.reverse()
    case "asc": break
    default: throw .invalidValue("order", "expected 'asc' or 'desc'")
    }
    if let after = query("after") {
      // The last of several with one id, or paging would turn in a circle.
      guard
        let index = ordered.lastIndex(where: {
          $0["id"]?.stringValue.map { $0.utf8.elementsEqual(after.utf8) } ?? false
        })
      else { throw .invalidValue("after", "there is no item '\(APIError.shortened(after))'") }
      ordered.removeFirst(index + 1)
    }
    return ResponseObject.list(Array(ordered.prefix(limit)), hasMore: ordered.count > limit)
  }
}

extension DescribedBody {
  fileprivate static let responses = DescribedBody(
    "ResponsesRequest", like: ["model": "demo", "input": "Hello!"]
  ) { (fields) throws(APIError) in _ = try ResponsesRequest(&fields) }
}
