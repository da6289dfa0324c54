// Fetches what a URL names, from public places only, with the program curl.
//
// A stranger's URL makes this machine connect from where it stands: inside networks that the stranger cannot reach. So
// the host is looked up here, every address that it has is checked, and curl is told to connect to these and no others:
// a second look-up could give another answer (DNS rebinding). Redirects are followed here, each checked like the first.

package import Platform

/// What may be fetched.
package struct FetchRules: Sendable {
  /// A host that the operator has named.
  package struct Host: Sendable, Equatable {
    /// In lower case.
    package var name: String
    /// Nil for every port.
    package var port: Int?

    package init(name: String, port: Int?) {
      (self.name, self.port) = (name, port)
    }
  }

  /// The only hosts, also private ones: the operator knows them. Without any, every public host.
  package var hosts: [Host] = []
  /// The path of curl; nil when there is none.
  package var program: String?
  /// For the server that is asked.
  package var userAgent = "mlxserve"
  /// The media types that are wanted, as the header `Accept` says them.
  package var accept = "*/*"
  /// Most bytes of one answer.
  package var byteLimit = 20 << 20
  /// Longest time of one request, seconds.
  package var seconds = 30.0

  package init() {}
}

/// Shared by all threads; a fetch runs on the one that needs it.
package final class Fetcher: Sendable {
  /// What is replaced in tests.
  struct Network: Sendable {
    /// As `IPAddress.find`.
    var find: @Sendable (_ host: String, _ deadline: Instant, _ held: any Sendable) throws -> [IPAddress]?
    /// As `Curl.send`.
    var send:
      @Sendable (
        _ request: Curl.Request, _ deadline: Instant, _ isUnwanted: () -> Bool, _ head: (Curl.Head) -> Bool,
        _ body: (ArraySlice<UInt8>) -> Bool
      ) throws(FetchError) -> Curl.Ending
  }

  private let rules: FetchRules
  private let network: Network
  /// Fetches under way.
  private let busy = Monitor(0)

  /// Fetches at the same time, with their look-ups.
  static let places = 8
  private static let redirectLimit = 3
  /// A fetcher that uses the program of its rules.
  ///
  /// - Parameter ledger: where the program's memory is claimed.
  package convenience init(_ rules: FetchRules, ledger: MemoryLedger) {
    self.init(rules, ledger: ledger, network: nil)
  }

  init(_ rules: FetchRules, ledger: MemoryLedger? = nil, network: Network?) {
    self.rules = rules
    let curl = Curl(program: rules.program ?? "", ledger: ledger)
    self.network =
      network
      ?? Network(
        find: { host, deadline, held in try IPAddress.find(host, until: deadline, holding: held) },
        send: { request, deadline, isUnwanted, head, body throws(FetchError) in
          try curl.send(request, until: deadline, isUnwanted: isUnwanted, head: head, body: body)
        })
  }

  /// The bytes that a URL stands for. Blocks.
  ///
  /// - Parameter isUnwanted: asked many times a second; must not block.
  package func bytes(
    at text: String, until deadline: Instant, isUnwanted: () -> Bool
  ) throws(FetchError) -> [UInt8] {
    guard rules.program != nil else { throw .noProgram }
    var url = try WebURL(text)
    let place = try takePlace(until: deadline, isUnwanted)
    defer { withExtendedLifetime(place) {} }
    for _ in 0...Self.redirectLimit {
      let addresses = try addresses(of: url, until: deadline, place)
      switch try load(url, addresses, until: deadline, isUnwanted) {
      case .bytes(let bytes): return bytes
      case .moved(let target): url = try url.target(of: target)
      }
    }
    throw .tooManyRedirects(limit: Self.redirectLimit)
  }

  /// Posts a text, and gives away what comes back while it comes. Redirects are answers like others. Blocks.
  ///
  /// - Parameters:
  ///   - text: nil to delete what the URL names.
  ///   - fields: lines of the head.
  ///   - head: called once; false ends it.
  ///   - body: false ends it.
  /// - Throws: also where the answer broke off.
  package func post(
    _ text: String?, to url: WebURL, fields: [String], until deadline: Instant, isUnwanted: () -> Bool,
    head: (Curl.Head) -> Bool, body: (ArraySlice<UInt8>) -> Bool
  ) throws(FetchError) {
    guard rules.program != nil else { throw .noProgram }
    let place = try takePlace(until: deadline, isUnwanted)
    defer { withExtendedLifetime(place) {} }
    var request = Curl.Request(url: url, fields: fields, bytes: rules.byteLimit)
    (request.userAgent, request.body, request.method) = (rules.userAgent, text, text == nil ? "DELETE" : nil)
    request.addresses = try addresses(of: url, until: deadline, place)
    // Silence may be work.
    request.stallSeconds = Int(rules.seconds)
    let ending = try network.send(request, deadline, isUnwanted, head, body)
    if let error = Self.error(of: ending, url) { throw error }
  }

  /// Why nothing came, or not all.
  private static func error(of ending: Curl.Ending, _ url: WebURL) -> FetchError? {
    switch ending {
    case .complete, .refused: nil
    case .cancelled: .unwanted
    case .failed(let failure):
      switch failure.kind {
      case .connection: .unreachable(url.host)
      case .time: .tooSlow
      case .insecure: .insecure(url.host)
      case .other: .broken
      }
    }
  }

  // MARK: Places

  /// Counts as under way for as long as anybody holds it: a look-up may outlast its fetch.
  private final class Place: Sendable {
    private let busy: Monitor<Int>
    init(_ busy: Monitor<Int>) { self.busy = busy }
    deinit { busy.update { $0 -= 1 } }
  }

  private func takePlace(until deadline: Instant, _ isUnwanted: () -> Bool) throws(FetchError) -> Place {
    while true {
      let isMine: Bool? = busy.wait(until: min(deadline, Instant.now.adding(seconds: 0.1))) { count in
        guard count < Self.places else { return nil }
        count += 1
        return true
      }
      if isMine == true { return Place(busy) }
      if isUnwanted() { throw .unwanted }
      if Instant.now >= deadline { throw .busy }
    }
  }

  // MARK: Addresses

  /// Those that a connection may go to.
  private func addresses(
    of url: WebURL, until deadline: Instant, _ place: Place
  ) throws(FetchError) -> [IPAddress] {
    let isNamed = rules.hosts.contains { host in
      host.name.utf8.elementsEqual(url.host.utf8) && (host.port ?? url.port) == url.port
    }
    guard isNamed || rules.hosts.isEmpty else { throw .unlistedHost(url.host) }
    let found: [IPAddress]?
    do {
      found = try network.find(url.host, deadline, place)
    } catch {
      throw .busy
    }
    guard let addresses = found else { throw .tooSlow }
    guard !addresses.isEmpty else { throw .unknownHost(url.host) }
    // One that is not public is enough: such a name is made to deceive, or meant for inside.
    guard isNamed || addresses.allSatisfy(\.isPublic) else { throw .privateHost(url.host) }
    return addresses
  }

  // MARK: One request

  private enum Answer {
    case bytes([UInt8])
    case moved(String)
  }

  private func load(
    _ url: WebURL, _ addresses: [IPAddress], until deadline: Instant, _ isUnwanted: () -> Bool
  ) throws(FetchError) -> Answer {
    var request = Curl.Request(url: url, fields: ["Accept: \(rules.accept)"], bytes: rules.byteLimit)
    (request.userAgent, request.addresses) = (rules.userAgent, addresses)
    let end = min(deadline, Instant.now.adding(seconds: rules.seconds))
    var found: Curl.Head?
    var body: [UInt8] = []
    let ending = try network.send(
      request, end, isUnwanted,
      { head in
        found = head
        let announced = head["content-length"].flatMap { Int($0) } ?? 0
        return (200..<300).contains(head.status) && announced <= rules.byteLimit
      },
      { bytes in
        body += bytes
        return body.count <= rules.byteLimit
      })
    if let error = Self.error(of: ending, url) { throw error }
    let status = found?.status ?? 0
    if [301, 302, 303, 307, 308].contains(status), let place = found?["location"] { return .moved(place) }
    guard (200..<300).contains(status) else { throw .status(status) }
    guard ending == .complete else { throw .tooLarge(limit: rules.byteLimit) }
    return .bytes(body)
  }
}
