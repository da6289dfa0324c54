// One request with its answer on the way: what the log needs to know.

import Platform

final class Exchange {
  let request: Request
  let context: ConnectionContext
  let start: Instant
  /// A response has been begun: no other may follow.
  var isAnswered = false
  /// Of the response.
  var errorCode: String?

  init(request: Request, context: ConnectionContext, start: Instant) {
    (self.request, self.context, self.start) = (request, context, start)
  }

  func record(_ outcome: ResponseSender.Outcome) -> AccessRecord {
    AccessRecord(
      method: request.method, path: request.path, status: outcome.status, bytes: outcome.bytes,
      seconds: Instant.now.seconds(since: start), requestID: context.requestID, peer: context.peer,
      isComplete: !outcome.isCut, route: context.route, errorCode: errorCode, client: context.client,
      facts: context.facts)
  }
}
