// Fetches what a URL names, from public places only, with the program curl.
//
// A stranger's URL makes this machine connect from where it stands: inside networks that the stranger cannot reach. So
// the host is looked up here, every address that it has is checked, and curl is told to connect to these and no others:
// a second look-up could give another answer (DNS rebinding). Redirects are followed here, each checked like the first.

package import Platform

extension ChildProcess.Bounds {
  /// Those of curl for a transfer of so many bytes. It takes 2 MiB, and 8 for the stack of a look-up.
  package init(curlFor bytes: Int, ledger: MemoryLedger?) {
    self.init(memory: 24 << 20, seconds: 30 + bytes / (4 << 20), ledger: ledger)
  }
}

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
    /// As `ChildProcess.run` of curl, with a limit for the output.
    var run:
      @Sendable (
        _ arguments: [String], _ outputLimit: Int, _ deadline: Instant, _ isUnwanted: () -> Bool
      ) throws -> (ending: ChildProcess.Ending, output: [UInt8])
  }

  private let rules: FetchRules
  private let network: Network
  /// Fetches under way.
  private let busy = Monitor(0)

  /// Fetches at the same time, with their look-ups.
  static let places = 8
  private static let redirectLimit = 3
  /// Room for what curl says after the bytes.
  private static let reportLimit = 16 << 10
  /// Variables that say which certificates are trusted. Proxies are not used: they would look the host up again.
  private static let variables = ["CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"]

  /// A fetcher that uses the program of its rules.
  ///
  /// - Parameter ledger: where the program's memory is claimed.
  package convenience init(_ rules: FetchRules, ledger: MemoryLedger) {
    self.init(rules, ledger: ledger, network: nil)
  }

  init(_ rules: FetchRules, ledger: MemoryLedger? = nil, network: Network?) {
    self.rules = rules
    let program = rules.program ?? ""
    let environment = Self.variables.compactMap { name in Environment.value(name).map { "\(name)=\($0)" } }
    self.network =
      network
      ?? Network(
        find: { host, deadline, held in try IPAddress.find(host, until: deadline, holding: held) },
        run: { arguments, limit, deadline, isUnwanted in
          try ChildProcess.run(
            program, arguments, environment: environment,
            bounds: ChildProcess.Bounds(curlFor: limit, ledger: ledger), outputLimit: limit, until: deadline,
            isUnwanted: isUnwanted)
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
      case .moved(let target): url = try WebURL(target)
      }
    }
    throw .tooManyRedirects(limit: Self.redirectLimit)
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
    let ending: ChildProcess.Ending
    let output: [UInt8]
    do {
      (ending, output) = try network.run(
        arguments(url, addresses), rules.byteLimit + Self.reportLimit, deadline, isUnwanted)
    } catch PlatformError.file(_, _, ENOMEM) {
      throw .busy
    } catch {
      throw .noProgram
    }
    // The report comes after the last line break: the body may hold any.
    let end = output.lastIndex(of: 10) ?? output.endIndex
    let report = output[end...].dropFirst().split(separator: UInt8(ascii: " "), maxSplits: 1)
    let status = report.first.flatMap { Int(String(decoding: $0, as: UTF8.self)) } ?? 0
    try check(ending, status: status, host: url.host)
    if report.count == 2 { return .moved(String(decoding: report[1], as: UTF8.self)) }
    guard (200..<300).contains(status) else { throw .status(status) }
    guard end <= rules.byteLimit else { throw .tooLarge(limit: rules.byteLimit) }
    return .bytes(Array(output[..<end]))
  }

  /// The meaning of curl's exit codes (its manual, "EXIT CODES").
  private func check(
    _ ending: ChildProcess.Ending, status: Int, host: String
  ) throws(FetchError) {
    switch ending {
    case .unwanted: throw .unwanted
    case .tooMuchOutput, .exited(63): throw .tooLarge(limit: rules.byteLimit)
    case .late, .exited(28): throw .tooSlow
    case .exited(0): break
    case .exited(7): throw .unreachable(host)
    case .exited(22): throw .status(status)
    case .exited(let code?) where Self.insecureCodes.contains(code): throw .insecure(host)
    case .exited: throw .broken
    }
  }

  private static let insecureCodes: Set<Int32> = [35, 53, 54, 58, 59, 60, 64, 66, 77, 80, 82, 83, 90, 91]

  private func arguments(_ url: WebURL, _ addresses: [IPAddress]) -> [String] {
    let list = addresses.map { $0.bytes.count == 16 ? "[\($0.text)]" : $0.text }.joined(separator: ",")
    // Whatever host curl reads in the URL, it connects to this name, which nobody has (RFC 6761), and which stands for
    // the checked addresses. With the URL's own host, one that curl reads otherwise would be looked up.
    let name = "checked.invalid"
    return [
      // First, or curl reads its user's settings.
      "--disable", "--silent", "--globoff", "--proto", "=http,https", "--noproxy", "*", "--max-redirs", "0",
      "--connect-to", "::\(name):\(url.port)", "--resolve", "\(name):\(url.port):\(list)",
      // A server that sends less than 1 KiB in each second of ten is given up.
      "--connect-timeout", "10", "--speed-time", "10", "--speed-limit", "1024", "--max-time",
      "\(Int(rules.seconds))",
      "--max-filesize", "\(rules.byteLimit)", "--fail", "--user-agent", rules.userAgent,
      "--header", "Accept: \(rules.accept)", "--write-out", "\\n%{http_code} %{redirect_url}",
      "--url", url.text,
    ]
  }
}
