// One HTTP request through the program curl: its head is read here, its body is given away as it comes.
//
// curl is told everything on its standard input: arguments can be seen by every user of the machine, and a token or a
// signed address is a secret. It follows no redirect, repeats nothing and writes no file: those are decisions of ours,
// and a program that only writes to us ends when we end.

package import Platform

extension ChildProcess.Bounds {
  /// Those of curl for a transfer of so many bytes. It takes 2 MiB, and 8 for the stack of a look-up.
  package init(curlFor bytes: Int, ledger: MemoryLedger?) {
    self.init(memory: 24 << 20, seconds: 30 + bytes / (4 << 20), ledger: ledger)
  }
}

/// The program curl, and what is claimed for it.
package struct Curl: Sendable {
  /// What is asked of a server, and by which ways.
  package struct Request: Sendable {
    package let url: WebURL
    /// Lines of the head, `Name: value`.
    package var fields: [String]
    package var userAgent = "mlxserve"
    /// The first byte that is wanted.
    package var start = 0
    /// What is sent, by POST; nil for GET.
    package var body: String?
    /// Nil for what the body says.
    package var method: String?
    /// Bytes that are expected, most of them.
    package var bytes: Int
    /// Most bytes per second.
    package var rateLimit: Int?
    /// Longest wait for a connection, and how long less than 1 KB/s may come, seconds.
    package var (connectSeconds, stallSeconds) = (10, 10)
    /// The only ones that it connects to, whatever the host's name stands for, and without a proxy, which would look the
    /// host up again. Nil leaves both to curl.
    package var addresses: [IPAddress]?

    package init(url: WebURL, fields: [String] = [], bytes: Int) {
      (self.url, self.fields, self.bytes) = (url, fields, bytes)
    }
  }

  /// Status and fields of an answer.
  package struct Head: Sendable {
    package let status: Int
    /// Names in lower case.
    package let fields: [(name: String, value: String)]

    package init(status: Int, fields: [(name: String, value: String)]) {
      (self.status, self.fields) = (status, fields)
    }

    package subscript(name: String) -> String? {
      fields.first { $0.name.utf8.elementsEqual(name.utf8) }?.value
    }
  }

  /// How a transfer ended, beyond what its reader has seen.
  package enum Ending: Sendable, Equatable {
    case complete
    /// The reader wanted no more.
    case refused
    case cancelled
    case failed(Failure)
  }

  /// Why a transfer did not come to its end.
  package struct Failure: Sendable, Equatable {
    /// What a client may be told of it.
    package enum Kind: Sendable {
      case connection, time, insecure, other
    }

    /// What the other side does, or is: `nothing came for too long`.
    package let words: String
    package let kind: Kind
    /// Whether it will not go better the next time.
    package let isLasting: Bool

    package init(_ words: String, _ kind: Kind = .other, isLasting: Bool = false) {
      (self.words, self.kind, self.isLasting) = (words, kind, isLasting)
    }
  }

  /// The program's path.
  package let program: String
  private let ledger: MemoryLedger?

  /// Variables that curl reads: whose certificates are trusted, and what proxies there are.
  private static let trust = ["SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"]
  private static let proxies = [
    "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY",
    "no_proxy",
  ]
  /// The first version with all options that are used here.
  private static let oldest = (7, 54)
  private static let headLimit = 256 << 10
  /// Bytes of all lines: older versions take no longer line.
  private static let configurationLimit = 96 << 10
  /// Less than this many bytes per second is no progress.
  private static let slowestRate = 1000

  /// - Parameter ledger: where the program's memory is claimed; nil for nowhere.
  package init(program: String, ledger: MemoryLedger?) { (self.program, self.ledger) = (program, ledger) }

  /// The program's path, if it is there and new enough; else what is wrong, as a sentence.
  package static func find() -> (program: String?, problem: String) {
    guard let program = ChildProcess.find("curl") else {
      return (nil, "the program curl is not installed, and mlxserve downloads with it; install curl")
    }
    var words: [UInt8] = []
    _ = try? ChildProcess.stream(
      program, ["-q", "--version"], bounds: ChildProcess.Bounds(curlFor: 0, ledger: nil),
      until: Instant.now.adding(seconds: 10)
    ) { bytes in
      words += bytes
      return words.count < 4096
    }
    let numbers =
      String(decoding: words, as: UTF8.self).split(separator: " ").dropFirst().first?
      .split(separator: ".").map { Int($0) ?? 0 } ?? []
    guard numbers.count >= 2, (numbers[0], numbers[1]) >= oldest else {
      let found = numbers.map(String.init).joined(separator: ".")
      let version = found.isEmpty ? "unknown" : found
      return (nil, "\(program) is version \(version); mlxserve needs curl \(oldest.0).\(oldest.1) or newer")
    }
    return (program, "")
  }

  /// Sends a request. Blocks.
  ///
  /// - Parameters:
  ///   - deadline: beyond which it has to end, beside what its bytes take.
  ///   - isUnwanted: asked many times a second; must not block.
  ///   - head: called once, with the final answer's; false ends the transfer.
  ///   - body: called with the bytes of the body in order; false ends the transfer.
  /// - Throws: when the address cannot be written down for curl (`badURL`), or curl cannot be started.
  package func send(
    _ request: Request, until deadline: Instant? = nil, isUnwanted: () -> Bool, head: (Head) -> Bool,
    body: (ArraySlice<UInt8>) -> Bool
  ) throws(FetchError) -> Ending {
    var beginning: [UInt8] = []
    var isInBody = false
    var isTooLong = false
    let lines = try Self.configuration(request)
    let file = lines.count > ChildProcess.inputLimit ? try? NamelessFile(lines) : nil
    let input = file.map { ChildProcess.Input.file($0.descriptor) } ?? .bytes(lines)
    defer { withExtendedLifetime(file) {} }
    let names = Self.trust + (request.addresses == nil ? Self.proxies : [])
    let seconds =
      request.connectSeconds + request.stallSeconds
      + request.bytes / max(1, min(Self.slowestRate, request.rateLimit ?? .max))
    let end = Instant.now.adding(seconds: Double(seconds))
    let ending: ChildProcess.Ending
    do {
      ending = try ChildProcess.stream(
        program, ["-q", "-K", "-"],
        environment: names.compactMap { name in Environment.value(name).map { "\(name)=\($0)" } },
        input: input, bounds: ChildProcess.Bounds(curlFor: request.bytes, ledger: ledger),
        until: min(end, deadline ?? end), isUnwanted: isUnwanted
      ) { bytes in
        if isInBody { return body(bytes) }
        beginning += bytes
        while let end = Self.headEnd(beginning) {
          let found = Self.parse(beginning[..<end])
          beginning.removeFirst(end)
          // Informational answers come before the one that counts.
          if (100..<200).contains(found.status) { continue }
          isInBody = true
          guard head(found) else { return false }
          return beginning.isEmpty || body(beginning[...])
        }
        isTooLong = beginning.count > Self.headLimit
        return !isTooLong
      }
    } catch PlatformError.file(_, _, ENOMEM) {
      return .failed(Failure("there is no memory left for curl"))
    } catch {
      throw .noProgram
    }
    if isTooLong { return .failed(Failure("its head is too long")) }
    switch ending {
    case .unwanted: return .cancelled
    case .tooMuchOutput: return .refused
    case .late: return .failed(Failure("it took too long", .time))
    case .exited(0): return isInBody ? .complete : .failed(Failure("it sent nothing"))
    case .exited(let code): return .failed(Self.meaning(of: code))
    }
  }

  /// The meaning of curl's exit codes (its manual, "EXIT CODES").
  static func meaning(of code: Int32?) -> Failure {
    switch code {
    case 5: Failure("the proxy's name is not known", isLasting: true)
    case 6: Failure("its name is not known")
    case 7: Failure("it refuses connections", .connection)
    case 18: Failure("the answer ended early")
    case 28: Failure("nothing came for too long", .time)
    case 35, 53, 54: Failure("no secure connection could be made", .insecure)
    case 52: Failure("it sent nothing")
    case 56: Failure("the connection broke")
    case 16, 92: Failure("the connection broke (HTTP/2)")
    case 51, 58, 59, 60, 64, 66, 77, 80, 82, 83, 90, 91:
      Failure(
        "its certificate is not trusted; if a proxy of yours replaces it, name its certificate in SSL_CERT_FILE",
        .insecure, isLasting: true)
    case 1, 3: Failure("curl cannot use the address", isLasting: true)
    case let code?: Failure("curl ends with code \(code)")
    case nil: Failure("curl was killed")
    }
  }

  // MARK: Words for curl

  /// The lines that curl reads.
  static func configuration(_ request: Request) throws(FetchError) -> [UInt8] {
    var lines = [
      "url = \(try quoted(request.url.text))", "user-agent = \(try quoted(request.userAgent))", "silent",
      "globoff", "no-buffer", "include", "suppress-connect-headers",
      "proto = \"\(request.url.isSecure ? "=https" : "=http,https")\"",
      "connect-timeout = \(request.connectSeconds)", "speed-limit = \(slowestRate)",
      "speed-time = \(request.stallSeconds)",
    ]
    if request.start > 0 { lines.append("range = \"\(request.start)-\"") }
    if let rate = request.rateLimit { lines.append("limit-rate = \"\(rate)\"") }
    for field in request.fields { lines.append("header = \(try quoted(field))") }
    if let body = request.body { lines.append("data-raw = \(try quoted(body))") }
    if let method = request.method { lines.append("request = \(try quoted(method))") }
    if let addresses = request.addresses {
      let list = addresses.map { $0.bytes.count == 16 ? "[\($0.text)]" : $0.text }.joined(separator: ",")
      // Whatever host curl reads in the URL, it connects to this name, which nobody has (RFC 6761), and which stands
      // for the checked addresses. With the URL's own host, one that curl reads otherwise would be looked up.
      let (name, port) = ("checked.invalid", request.url.port)
      lines += [
        "noproxy = \"*\"", "connect-to = \"::\(name):\(port)\"", "resolve = \"\(name):\(port):\(list)\"",
      ]
    }
    let text = Array((lines.joined(separator: "\n") + "\n").utf8)
    guard text.count <= configurationLimit else { throw .badURL("it is too long") }
    return text
  }

  private static func quoted(_ text: String) throws(FetchError) -> String {
    var out = "\""
    for scalar in text.unicodeScalars {
      guard scalar.value >= 0x20, scalar.value != 0x7F else { throw .badURL("it holds a control character") }
      if scalar == "\\" || scalar == "\"" { out += "\\" }
      out.unicodeScalars.append(scalar)
    }
    return out + "\""
  }

  // MARK: Heads

  /// Behind the empty line that ends a head.
  private static func headEnd(_ bytes: [UInt8]) -> Int? {
    var lineStart = 0
    while let end = bytes[lineStart...].firstIndex(of: 10) {
      let isEmpty = end == lineStart || (end == lineStart + 1 && bytes[lineStart] == 13)
      if isEmpty { return end + 1 }
      lineStart = end + 1
    }
    return nil
  }

  /// Reads a head, as far as it is one.
  package static func parse(_ bytes: ArraySlice<UInt8>) -> Head {
    let lines = bytes.split(separator: 10).map { $0.last == 13 ? $0.dropLast() : $0 }
    let words = lines.first?.split(separator: UInt8(ascii: " ")) ?? []
    let status = words.count >= 2 ? Int(String(decoding: words[1], as: UTF8.self)) ?? 0 : 0
    let fields = lines.dropFirst().compactMap { line -> (String, String)? in
      guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return nil }
      let value = line[(colon + 1)...].drop { $0 == 0x20 || $0 == 9 }
      return (
        String(decoding: line[..<colon], as: UTF8.self).lowercased(), String(decoding: value, as: UTF8.self)
      )
    }
    return Head(status: status, fields: fields)
  }
}
