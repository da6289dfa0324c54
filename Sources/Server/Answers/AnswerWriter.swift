// The one way of an answer to its client, whole or as it comes: what drives it, and what each API writes of its events.

import HTTP
import JSON
import Pipeline
import Wire

/// The generations of one answer, and what the server does between them.
protocol AnswerSource: AnyObject {
  /// Generates now; nil before a search that comes first.
  var current: AnswerRun? { get }
  /// Of all generations; nil before the first.
  var usageSoFar: Usage? { get }
  /// Searches that were made, as items with their results.
  var searches: [JSONValue] { get }

  /// Begins. Nothing has been sent, so the answer can still be refused.
  ///
  /// - Parameter param: the field that holds the prompt, for errors.
  /// - Throws: what is to be answered instead.
  func start(param: String) throws(APIError)

  /// Works until the answer has ended, or throws; then nothing is left running.
  ///
  /// - Parameters:
  ///   - context: of the connection: tells when the server's time is over, and names the request in the log.
  ///   - isClientGone: asked between tokens and while waiting; must not block.
  ///   - weight: bytes that are kept of an event until the answer is sent; nil where it is passed on.
  ///   - onSilence: called when nothing was delivered for the keep-alive time.
  ///   - deliver: the choice, and what comes of it.
  func run(
    _ context: ConnectionContext, isClientGone: () -> Bool, weight: ((TokenStream.Piece) -> Int)?,
    onSilence: () throws(SocketError) -> Void, deliver: (Int, TokenStream.Piece) throws(SocketError) -> Void
  ) throws(AnswerFailure)

  /// The citation of a passage; nil for a file that is cited there already.
  ///
  /// - Parameter index: Unicode scalars of the text before it.
  func citation(_ number: Int, at index: Int) -> FileCitation?
}

/// Where the events of an answer go as they come.
protocol AnswerStream {
  /// Whether nobody reads any more, found out without waiting.
  func isClientGone() -> Bool
  /// Shows that the answer lives.
  func keepAlive() throws(SocketError)
}

extension EventStream: AnswerStream {}

/// Writes one answer in the words of its API. Used by one thread.
protocol AnswerWriter {
  associatedtype Stream: AnswerStream = EventStream

  /// Whose words errors are in.
  var wire: Wire { get }
  /// The field that holds the prompt, for errors.
  var param: String { get }
  /// Whether a stream, too, keeps its answer until the end.
  var keepsStream: Bool { get }

  /// Bytes that are kept of an event until the answer is sent.
  func weight(_ piece: TokenStream.Piece) -> Int
  /// Begins the answer; there is a stream unless it is sent whole.
  mutating func open(_ stream: Stream?) throws(SocketError)
  /// Takes what comes of a choice, and sends what a stream has of it.
  mutating func add(_ piece: TokenStream.Piece, of choice: Int, to stream: Stream?) throws(SocketError)
  /// The whole answer, when all of it has come.
  mutating func response() -> Response
  /// Ends a stream.
  mutating func close(_ stream: Stream) throws(SocketError)
  /// Ends a stream whose answer cannot be completed; its client reads on.
  mutating func fail(_ stream: Stream, _ error: APIError, _ context: ConnectionContext) throws(SocketError)
}

extension AnswerWriter {
  var keepsStream: Bool { false }
  func weight(_ piece: TokenStream.Piece) -> Int { AnswerRun.keptBytes(piece) }
  mutating func open(_ stream: Stream?) throws(SocketError) {}

  /// Waits for the end. A client that leaves meanwhile gets nothing, and the generations end.
  func whole(_ source: some AnswerSource, _ context: ConnectionContext) throws(APIError) -> Response {
    var writer = self
    do throws(AnswerFailure) {
      try writer.drive(
        source, context, isClientGone: context.isClientGone, isKept: true, to: nil,
        onSilence: { () throws(SocketError) in })
    } catch {
      throw APIError(error, param: param)
    }
    return writer.response()
  }

  /// Tells a stream what comes, to its end. After the first byte an error can only be told there.
  ///
  /// - Throws: when the client has left.
  mutating func tell(_ source: some AnswerSource, _ context: ConnectionContext, _ stream: Stream)
    throws(SocketError)
  {
    do throws(AnswerFailure) {
      try drive(
        source, context, isClientGone: stream.isClientGone, isKept: keepsStream, to: stream,
        onSilence: stream.keepAlive)
    } catch {
      guard case .clientGone = error else { return try fail(stream, APIError(error, param: param), context) }
      throw .clientGone
    }
    try close(stream)
  }

  private mutating func drive(
    _ source: some AnswerSource, _ context: ConnectionContext, isClientGone: () -> Bool, isKept: Bool,
    to stream: Stream?, onSilence: () throws(SocketError) -> Void
  ) throws(AnswerFailure) {
    do throws(SocketError) {
      try open(stream)
    } catch {
      throw .clientGone
    }
    let weight: ((TokenStream.Piece) -> Int)? = isKept ? { [self] in self.weight($0) } : nil
    try source.run(
      context, isClientGone: isClientGone, weight: weight, onSilence: onSilence,
      deliver: { (choice, piece) throws(SocketError) in try add(piece, of: choice, to: stream) })
  }
}

extension AnswerWriter where Stream == EventStream {
  /// Begins the generations and answers with what comes of them.
  ///
  /// - Parameter form: how the events of a stream are written.
  /// - Throws: whatever can be known before the first byte.
  func respond(
    _ source: some AnswerSource, _ context: ConnectionContext, streams: Bool,
    as form: EventStream.Form = .events
  ) throws(APIError) -> Response {
    try source.start(param: param)
    guard streams else { return try whole(source, context) }
    return .events(form) { events in
      var writer = self
      try writer.tell(source, context, events)
    }
  }

  mutating func fail(_ events: EventStream, _ error: APIError, _ context: ConnectionContext) {
    let body = wire.json(error, context.requestID)
    guard let mark = wire.endMark else { return events.finishWithError(body.text, event: wire.errorEvent) }
    do throws(SocketError) {
      try events.send(body.bytes)
    } catch {
      return
    }
    events.finishWithError(mark)
  }
}
