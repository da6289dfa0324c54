// Bytes in, requests out: HTTP/1.1 message parsing without any input or output of its own (RFC 9112).
//
// The result does not depend on how the bytes are cut into pieces. An error is found at the first byte that
// makes it and is final: nothing after it is ever read as another request.

/// The parser of one connection: bytes go in, events come out.
package struct RequestParser {
  /// What the bytes so far amount to.
  package enum Event {
    /// All input has been used.
    case needMore
    /// The head is complete; its body follows as the next event. `expectsContinue`: the client waits for
    /// a `100 Continue` before it sends the body.
    case head(Request, expectsContinue: Bool)
    /// The request is complete. Empty when `discardsBody` is set.
    case body([UInt8])
  }

  private enum State { case requestLine, fields, fixedBody, chunkedBody }

  /// Bytes already used are dropped from the buffer when there are more of them than this.
  private static let compactionBytes = 64 << 10
  private static let noFields = FieldLines(lineLimit: 0, countLimit: 0, totalLimit: 0)

  /// Set between head and body to read the body without keeping it.
  package var discardsBody = false

  private let limits: Limits
  private var input: [UInt8] = []
  private var position = 0
  private var state = State.requestLine
  private var line: RequestLine
  private var fields: FieldLines
  private var framing = Framing()
  /// Of a body with a length: what has not come yet.
  private var missingBytes = 0
  private var chunks: ChunkedDecoder
  private var body: [UInt8] = []
  private var failure: HTTPError?

  package init(limits: Limits = Limits()) {
    self.limits = limits
    line = RequestLine(targetLimit: limits.targetBytes)
    fields = Self.noFields
    chunks = ChunkedDecoder(limits: limits)
  }

  /// Adds bytes to the input.
  package mutating func feed(_ bytes: some Collection<UInt8>) {
    if position == input.count {
      // An array is taken over, not copied.
      input = Array(bytes)
      position = 0
      return
    }
    if position > Self.compactionBytes {
      input.removeFirst(position)
      position = 0
    }
    input += bytes
  }

  /// Whether bytes wait that no event has used.
  package var hasInput: Bool { position < input.count }

  /// Hands over the bytes that no event has used, for another protocol that takes the connection.
  mutating func takeInput() -> [UInt8] {
    defer {
      input = []
      position = 0
    }
    return Array(input[position...])
  }

  /// Whether a request has begun: its first byte, even of a skipped empty line, has been read.
  package var isInsideRequest: Bool {
    state != .requestLine || line.hasBegun || hasInput
  }

  /// Between head and body: the bytes the body will have, nil when it is chunked.
  package var declaredBodyBytes: Int? { state == .fixedBody ? missingBytes : nil }

  /// Bytes of the unfinished body held now.
  package var bufferedBodyBytes: Int { body.count }

  /// The next event of the input.
  ///
  /// - Throws: `HTTPError` at the first byte that is wrong, and the same one ever after.
  package mutating func next() throws(HTTPError) -> Event {
    if let failure { throw failure }
    do throws(HTTPError) {
      return try advance()
    } catch {
      fail(error)
      throw error
    }
  }

  /// Reads nothing any more, and gives back what has been read of a body.
  package mutating func fail(_ error: HTTPError) {
    failure = error
    body = []
  }

  private mutating func advance() throws(HTTPError) -> Event {
    while true {
      switch state {
      case .requestLine:
        guard hasInput else { return .needMore }
        if try line.feed(takeByte()) { try beginFields() }
      case .fields:
        guard hasInput else { return .needMore }
        switch try fields.feed(takeByte()) {
        case .more: break
        case .field: if let field = fields.headers.fields.last { try framing.read(field) }
        case .end: return try endHead()
        }
      case .fixedBody:
        let count = min(missingBytes, input.count - position)
        if !discardsBody { body += input[position..<(position + count)] }
        position += count
        missingBytes -= count
        return missingBytes == 0 ? endRequest() : .needMore
      case .chunkedBody:
        let isDone = try chunks.decode(input, from: &position, into: &body, keep: !discardsBody)
        return isDone ? endRequest() : .needMore
      }
    }
  }

  private mutating func takeByte() -> UInt8 {
    defer { position += 1 }
    return input[position]
  }

  private mutating func beginFields() throws(HTTPError) {
    fields = FieldLines(
      lineLimit: limits.fieldLineBytes, countLimit: limits.fieldCount, totalLimit: limits.headBytes,
      alreadyRead: line.countedBytes)
    state = .fields
  }

  private mutating func endHead() throws(HTTPError) -> Event {
    let target = try RequestTarget(line.target, method: line.method)
    let request = Request(
      method: line.method, target: target, minorVersion: line.minorVersion, headers: fields.headers)
    let length: Framing.BodyLength
    do throws(HTTPError) {
      length = try framing.finish(fields.headers, minorVersion: line.minorVersion, limits: limits)
    } catch {
      // A client that sends too much is refused in the route's own words, and only after its key was accepted.
      guard case .bodyTooLarge = error else { throw error }
      failure = error
      state = .chunkedBody
      return .head(request, expectsContinue: false)
    }
    let expectsContinue = framing.expectsContinue && length != .fixed(0)
    switch length {
    case .fixed(let count):
      missingBytes = count
      state = .fixedBody
    case .chunked:
      chunks = ChunkedDecoder(limits: limits)
      state = .chunkedBody
    }
    discardsBody = false
    return .head(request, expectsContinue: expectsContinue)
  }

  private mutating func endRequest() -> Event {
    defer { body = [] }
    state = .requestLine
    line = RequestLine(targetLimit: limits.targetBytes)
    framing = Framing()
    // A connection may wait for long, for its answer or its next request: it holds nothing of what has been read.
    fields = Self.noFields
    if !hasInput { _ = takeInput() }
    return .body(body)
  }
}
