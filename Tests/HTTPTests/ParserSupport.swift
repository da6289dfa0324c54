// Runs the parser on input cut in different ways, and insists on the same result.

import HTTP
import Testing

/// What came out of a parser, in a form that can be compared and read.
struct Outcome: Equatable, CustomStringConvertible {
  /// `METHOD path | name=value ... | body` per complete request.
  var requests: [String] = []
  var error: HTTPError?
  /// Input ended inside a request.
  var isIncomplete = false

  var description: String {
    requests.joined(separator: " ; ") + (error.map { " ! \($0.status) \($0)" } ?? "")
      + (isIncomplete ? " …" : "")
  }
}

/// Parses `bytes` in pieces of `size`.
func outcome(_ bytes: [UInt8], piece size: Int, limits: Limits = Limits()) -> Outcome {
  var parser = RequestParser(limits: limits)
  var result = Outcome()
  var head: Request?
  var index = 0
  while true {
    do {
      switch try parser.next() {
      case .needMore:
        guard index < bytes.count else {
          result.isIncomplete = parser.isInsideRequest
          return result
        }
        let end = min(bytes.count, index + size)
        parser.feed(bytes[index..<end])
        index = end
      case .head(let request, let expectsContinue):
        head = request
        if expectsContinue { result.requests.append("expects 100-continue") }
      case .body(let body):
        guard let request = head else { continue }
        let fields = request.headers.fields.map { "\($0.name)=\($0.text)" }.joined(separator: " ")
        result.requests.append(
          "\(request.method) \(request.path) | \(fields) | \(String(decoding: body, as: UTF8.self))")
        head = nil
      }
    } catch {
      result.error = error
      return result
    }
  }
}

/// The outcome of `text` whole; byte by byte and in odd pieces it must be the same.
func parse(
  _ text: String, limits: Limits = Limits(), sourceLocation: SourceLocation = #_sourceLocation
) -> Outcome {
  parse(Array(text.utf8), limits: limits, sourceLocation: sourceLocation)
}

func parse(
  _ bytes: [UInt8], limits: Limits = Limits(), sourceLocation: SourceLocation = #_sourceLocation
) -> Outcome {
  let whole = outcome(bytes, piece: max(1, bytes.count), limits: limits)
  for size in [1, 7] {
    #expect(outcome(bytes, piece: size, limits: limits) == whole, sourceLocation: sourceLocation)
  }
  return whole
}
