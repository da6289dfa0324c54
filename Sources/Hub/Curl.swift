// One HTTP request through the program curl: its head is read here, its body is given away as it comes.
//
// curl is told everything on its standard input: arguments can be seen by every user of the machine, and a token or a
// signed address is a secret. It follows no redirect, repeats nothing and writes no file: those are decisions of ours,
// and a program that only writes to us ends when we end.

import Fetch
import Platform

struct Curl: Sendable {
  struct Request: Sendable {
    let url: WebURL
    /// For the headers; nil where the place is not trusted with it.
    var token: String?
    /// The first byte that is wanted.
    var start = 0
    /// Bytes per second.
    var rateLimit: Int?
    /// Bytes that are expected, most of them.
    var bytes: Int
    /// Whether the hub is to count a download.
    var countsAsDownload = false
  }

  /// Status and fields of an answer.
  struct Head: Sendable {
    let status: Int
    /// Names in lower case.
    let fields: [(name: String, value: String)]

    subscript(name: String) -> String? { fields.first { $0.name.utf8.elementsEqual(name.utf8) }?.value }
  }

  /// How a transfer ended, beyond what its reader has seen.
  enum Ending: Sendable, Equatable {
    case complete
    /// The reader wanted no more.
    case refused
    case cancelled
    /// It may go better the next time.
    case broken(String)
    /// It will not.
    case impossible(String)
  }

  let program: String
  let environment: [String]
  let settings: HubSettings

  /// Variables that curl reads: what proxies there are, and whose certificates are trusted.
  private static let variables = [
    "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE",
  ]
  /// The first version with all options that are used here.
  private static let oldest = (7, 54)
  private static let headLimit = 256 << 10
  /// Less than this many bytes per second is no progress.
  private static let slowestRate = 1000

  init(_ settings: HubSettings) throws(HubError) {
    guard let program = ChildProcess.find("curl") else {
      throw .noProgram("the program curl is not installed, and mlxserve downloads with it; install curl")
    }
    (self.program, self.settings) = (program, settings)
    environment = Self.variables.compactMap { name in Environment.value(name).map { "\(name)=\($0)" } }
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
    guard numbers.count >= 2, (numbers[0], numbers[1]) >= Self.oldest else {
      let found = numbers.map(String.init).joined(separator: ".")
      throw .noProgram(
        "\(program) is version \(found.isEmpty ? "unknown" : found); mlxserve needs curl \(Self.oldest.0).\(Self.oldest.1) or newer"
      )
    }
  }

  /// Sends a request. Blocks.
  ///
  /// - Parameters:
  ///   - isUnwanted: asked many times a second; must not block.
  ///   - head: called once, with the final answer's; false ends the transfer.
  ///   - body: called with the bytes of the body in order; false ends the transfer.
  func send(
    _ request: Request, isUnwanted: () -> Bool, head: (Head) -> Bool, body: (ArraySlice<UInt8>) -> Bool
  ) throws(HubError) -> Ending {
    var beginning: [UInt8] = []
    var isInBody = false
    var isTooLong = false
    let ending: ChildProcess.Ending
    let rate = min(Self.slowestRate, request.rateLimit ?? .max)
    let seconds = settings.connectSeconds + settings.stallSeconds + request.bytes / max(1, rate)
    do {
      ending = try ChildProcess.stream(
        program, ["-q", "-K", "-"], environment: environment, input: .bytes(try configuration(request)),
        bounds: ChildProcess.Bounds(curlFor: request.bytes, ledger: settings.ledger),
        until: Instant.now.adding(seconds: Double(seconds)), isUnwanted: isUnwanted
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
    } catch let error as HubError {
      throw error
    } catch PlatformError.file(_, program, ENOMEM) {
      return .broken("there is no memory left for curl")
    } catch {
      throw .noProgram("\(program) cannot be started: \(error)")
    }
    if isTooLong { return .broken("its head is too long") }
    switch ending {
    case .unwanted: return .cancelled
    case .tooMuchOutput: return .refused
    case .late: return .broken("it took too long")
    case .exited(0): return isInBody ? .complete : .broken("it sent nothing")
    case .exited(let code): return Self.meaning(of: code, host: request.url.host)
    }
  }

  /// The meaning of curl's exit codes (its manual, "EXIT CODES").
  private static func meaning(of code: Int32?, host: String) -> Ending {
    switch code {
    case 5: .impossible("the proxy's name is not known")
    case 6: .broken("its name is not known")
    case 7: .broken("it takes no connection")
    case 18: .broken("the answer ended early")
    case 28: .broken("nothing came for too long")
    case 35: .broken("no secure connection could be made")
    case 52: .broken("it sent nothing")
    case 56: .broken("the connection broke")
    case 16, 92: .broken("the connection broke (HTTP/2)")
    case 51, 58, 59, 60, 64, 66, 77, 80, 82, 83, 90, 91:
      .impossible(
        "its certificate is not trusted; if a proxy of yours replaces it, name its certificate in SSL_CERT_FILE"
      )
    case 1, 3: .impossible("curl cannot use the address")
    case let code?: .broken("curl ends with code \(code)")
    case nil: .broken("curl was killed")
    }
  }

  // MARK: Words for curl

  private func configuration(_ request: Request) throws(HubError) -> [UInt8] {
    var lines = [
      "url = \(try Self.quoted(request.url.text))", "user-agent = \(try Self.quoted(settings.userAgent))",
      "silent",
      "globoff", "no-buffer", "include", "suppress-connect-headers",
      "proto = \"\(settings.place.isSecure ? "=https" : "=http,https")\"",
      "connect-timeout = \(settings.connectSeconds)", "speed-limit = \(Self.slowestRate)",
      "speed-time = \(settings.stallSeconds)",
    ]
    if request.start > 0 { lines.append("range = \"\(request.start)-\"") }
    if let rate = request.rateLimit { lines.append("limit-rate = \"\(rate)\"") }
    if let token = request.token {
      lines.append("header = \(try Self.quoted("Authorization: Bearer \(token)"))")
    }
    if request.countsAsDownload { lines.append("header = \"X-HF-Download-Counter: 1\"") }
    let text = Array((lines.joined(separator: "\n") + "\n").utf8)
    guard text.count <= ChildProcess.inputLimit else { throw .badRedirect("the address is too long") }
    return text
  }

  private static func quoted(_ text: String) throws(HubError) -> String {
    var out = "\""
    for scalar in text.unicodeScalars {
      guard scalar.value >= 0x20, scalar.value != 0x7F else {
        throw .badRedirect("the address holds a control character")
      }
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

  static func parse(_ bytes: ArraySlice<UInt8>) -> Head {
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
