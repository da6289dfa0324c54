// Where the hub and the cache are, and who asks: the variables that the hub's own tools read too.

import Fetch
package import Platform

/// What a download needs to know of its surroundings.
package struct HubSettings: Sendable {
  /// The hub's public address; `HF_ENDPOINT` names another.
  package static let usualEndpoint = "https://huggingface.co"

  /// A secret, and where it came from.
  package struct Token: Sendable {
    let value: String
    package let source: String
  }

  /// Without a slash at the end.
  package let endpoint: String
  /// The same, taken apart.
  let place: WebURL
  /// Nil when there is none, or none may be sent there.
  package private(set) var token: Token?
  /// The folder of all repositories.
  package var cache: String
  package let isOffline: Bool
  /// Longest wait for a connection, seconds.
  let connectSeconds: Int
  /// How long less than 1 KB/s may come, seconds.
  let stallSeconds: Int
  let usesLinks: Bool
  package let showsProgress: Bool
  package let userAgent: String
  /// Where the memory of curl is claimed; nil for nowhere.
  package var ledger: MemoryLedger?
  /// What a person should know, such as a token that is not sent.
  package private(set) var warnings: [String] = []

  /// The program that downloads, if it is there and new enough.
  package static var curl: Result<String, HubError> {
    let (program, problem) = Curl.find()
    return program.map { .success($0) } ?? .failure(.noProgram(problem))
  }

  /// Host and port as in a pasted address.
  package var host: String {
    String(endpoint.drop { $0 != ":" }.dropFirst(3).prefix { $0 != "/" })
  }

  /// Reads the environment.
  ///
  /// - Parameters:
  ///   - cache: the folder that the user named; nil for none.
  ///   - tokenFile: the same.
  ///   - version: of this program.
  ///   - variable: the environment.
  package init(
    cache: String? = nil, tokenFile: String? = nil, version: String,
    variable: (String) -> String? = { Environment.value($0) }
  ) throws(HubError) {
    func set(_ names: String...) -> String? { names.lazy.compactMap(variable).first { !$0.isEmpty } }
    func isOn(_ names: String...) -> Bool {
      names.contains { name in ["1", "ON", "YES", "TRUE"].contains(variable(name)?.uppercased() ?? "") }
    }
    func seconds(_ name: String, else usual: Int) throws(HubError) -> Int {
      guard let text = set(name) else { return usual }
      guard let seconds = Int(text), (1...86_400).contains(seconds) else {
        throw .badSetting(
          name: name, problem: "is '\(HubError.plain(text))', expected seconds from 1 to 86400")
      }
      return seconds
    }
    func expand(_ path: String) -> String { Self.expanded(path, variable) }

    var endpoint = set("HF_ENDPOINT") ?? Self.usualEndpoint
    while endpoint.hasSuffix("/") { endpoint.removeLast() }
    do {
      place = try WebURL(endpoint)
    } catch {
      throw .badSetting(name: "HF_ENDPOINT", problem: "cannot be used: \(error)")
    }
    self.endpoint = endpoint
    let home =
      expand(set("HF_HOME") ?? (set("XDG_CACHE_HOME") ?? "~/.cache") + "/huggingface")
    self.cache = expand(
      cache ?? set("MLXSERVE_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE") ?? home + "/hub")
    isOffline = isOn("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    connectSeconds = try seconds("HF_HUB_ETAG_TIMEOUT", else: 10)
    stallSeconds = try seconds("HF_HUB_DOWNLOAD_TIMEOUT", else: 30)
    usesLinks = !isOn("HF_HUB_DISABLE_SYMLINKS")
    showsProgress = !isOn("HF_HUB_DISABLE_PROGRESS_BARS")
    userAgent = "mlxserve/\(version)"

    var token: Token?
    if let tokenFile {
      token = Token(value: try Self.secret(expand(tokenFile)), source: "--token-file")
    } else if !isOn("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
      if let name = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"].first(where: { set($0) != nil }) {
        token = Token(value: Self.trimmed(set(name) ?? ""), source: name)
      } else {
        let path = expand(set("HF_TOKEN_PATH") ?? home + "/token")
        if File.exists(path) {
          token = Token(value: try Self.secret(path), source: path)
          if File.isOpenToOthers(path) {
            warnings.append("others may read the token in \(path); chmod 600 it")
          }
        }
      }
    }
    if let value = token?.value {
      guard value.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), value.utf8.count <= 4096 else {
        throw .badSetting(
          name: token?.source ?? "", problem: "holds no token: it has spaces or other strange characters")
      }
      if value.isEmpty { token = nil }
    }
    if token != nil, !place.isSecure, !place.isLoopback {
      warnings.append("HF_ENDPOINT is http, not https: the token is not sent")
      token = nil
    }
    self.token = token
  }

  private static func secret(_ path: String) throws(HubError) -> String {
    do {
      let bytes = File.withoutMark(try File.read(path, limit: 64 << 10))
      return trimmed(String(decoding: bytes.prefix { $0 != 10 }, as: UTF8.self))
    } catch {
      throw .disk(error)
    }
  }

  private static func trimmed(_ text: String) -> String {
    let bytes = Array(text.utf8)
    guard let first = bytes.firstIndex(where: { $0 > 0x20 }), let last = bytes.lastIndex(where: { $0 > 0x20 })
    else {
      return ""
    }
    return String(decoding: bytes[first...last], as: UTF8.self)
  }

  /// `~` at the beginning and `$NAME` or `${NAME}` anywhere, as Python's `expanduser` and `expandvars`.
  static func expanded(_ path: String, _ variable: (String) -> String?) -> String {
    var rest = Array(path.utf8)[...]
    var out: [UInt8] = []
    if rest.first == UInt8(ascii: "~"), rest.count == 1 || rest.dropFirst().first == UInt8(ascii: "/") {
      out += Array((variable("HOME") ?? "~").utf8)
      rest = rest.dropFirst()
    }
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "$") else {
        out.append(byte)
        continue
      }
      let isBraced = rest.first == UInt8(ascii: "{")
      let body = isBraced ? rest.dropFirst() : rest
      let name = body.prefix { byte in
        byte == UInt8(ascii: "_") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
          || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
      }
      let isClosed = !isBraced || body.dropFirst(name.count).first == UInt8(ascii: "}")
      guard !name.isEmpty, isClosed, let value = variable(String(decoding: name, as: UTF8.self)) else {
        out.append(byte)
        continue
      }
      out += Array(value.utf8)
      rest = body.dropFirst(name.count + (isBraced ? 1 : 0))
    }
    return String(decoding: out, as: UTF8.self)
  }
}
