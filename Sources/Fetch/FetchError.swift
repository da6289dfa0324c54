// Why something was not fetched, in words for a client: no addresses, and nothing of what a server said.

/// Ends a sentence that names what was to be fetched.
package enum FetchError: Error, Sendable, Equatable, CustomStringConvertible {
  case badURL(String)
  case noProgram
  /// The operator has named hosts, and this is none of them.
  case unlistedHost(String)
  case unknownHost(String)
  case privateHost(String)
  case unreachable(String)
  /// No connection that is safe: certificate, name or protocol.
  case insecure(String)
  case status(Int)
  case tooManyRedirects(limit: Int)
  case tooLarge(limit: Int)
  case tooSlow
  case broken
  /// Too many others are being fetched.
  case busy
  /// Nobody waits for it any more.
  case unwanted

  package var description: String {
    switch self {
    case .badURL(let problem): "the URL cannot be fetched: \(problem)"
    case .noProgram: "the program 'curl' is not installed"
    case .unlistedHost(let host): "nothing is fetched from '\(host)'"
    case .unknownHost(let host): "the host '\(host)' is not known"
    case .privateHost(let host):
      "the host '\(host)' has no public address; nothing is fetched from private networks"
    case .unreachable(let host): "the host '\(host)' refuses connections"
    case .insecure(let host): "no secure connection to '\(host)' could be made; its certificate may be wrong"
    case .status(let status): "its server answered with status \(status)"
    case .tooManyRedirects(let limit): "it leads to more than \(limit) other places"
    case .tooLarge(let limit): "it has more than \(limit) bytes"
    case .tooSlow: "it did not come in time"
    case .broken: "its server broke off"
    case .busy: "too many others are being fetched at the moment"
    case .unwanted: "the client did not wait for it"
    }
  }
}
