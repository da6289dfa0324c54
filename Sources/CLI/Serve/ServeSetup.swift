// From flags to what the listener needs: places, limits, and who may come in.

import Fetch
import HTTP
import JSON
import Pipeline
import Platform
import Server
import Wire

enum ServeSetup {
  static let keyVariable = ServedChat.keyVariable
  static let defaultHost = "127.0.0.1"

  static func host(_ flags: ParsedFlags) -> String { address(flags, .host) }

  /// Where programs of this machine find a server that listens on `host`.
  static func reachable(_ host: String) -> String {
    host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host
  }

  private static func address(_ flags: ParsedFlags, _ flag: TextFlag) -> String {
    unbracketed(flags[flag] ?? defaultHost)
  }

  /// An IPv6 address may stand in brackets, as in URLs.
  private static func unbracketed(_ text: String) -> String {
    guard text.hasPrefix("["), let (host, port) = Authority.parse(text), port == nil else { return text }
    return host
  }

  /// A Unix socket alone is enough; with `--host` or `--port` there is TCP too.
  static func listensOnTCP(_ flags: ParsedFlags) -> Bool {
    !flags.isSet(.unix) || flags.isSet(.host) || flags.isSet(.port)
  }

  // MARK: Access

  /// - Throws: also when others could use the server and nobody has said that they may.
  static func access(_ flags: ParsedFlags) throws -> Access {
    var settings = Access.Settings()
    for key in flags.texts(.apiKey) { try settings.keys.add(key, source: "--api-key") }
    if let key = Environment.value(keyVariable) { try settings.keys.add(key, source: keyVariable) }
    settings.keyFile = flags[.apiKeyFile]
    settings.hosts = HostRules(
      bind: host(flags), allowed: try hosts(flags.texts(.allowHost)), machine: Machine.name)
    settings.origins = OriginRules(
      allowed: try origins(flags.texts(.allowOrigin)), desktop: flags[.allowDesktopApps])
    let access = try Access(settings)
    guard
      access.needsKey || flags[.allowAnonymous]
        || HostRules.isLoopback(address(flags, .adminHost))
    else {
      throw UsageError.unusable(
        flag: "admin-host",
        reason:
          "\(address(flags, .adminHost)) lets other machines administrate: ask for keys with --api-key-file"
      )
    }
    guard
      access.needsKey || flags[.allowAnonymous] || !listensOnTCP(flags)
        || HostRules.isLoopback(host(flags))
    else {
      throw UsageError.unusable(
        flag: "host",
        reason: "\(host(flags)) lets other machines in: ask for keys with --api-key-file, --api-key or "
          + "\(keyVariable), or serve anyone with --allow-anonymous")
    }
    return access
  }

  private static func hosts(_ names: [String]) throws(UsageError) -> [String] {
    for name in names where name != "*" && !Authority.isNumeric(name) {
      guard let authority = Authority.parse(name), authority.port == nil else {
        throw .badValue(flag: "allow-host", value: name, expected: "a name without a port, or '*'")
      }
    }
    return names.map(unbracketed)
  }

  private static func origins(_ origins: [String]) throws(UsageError) -> [String] {
    for origin in origins where origin != "*" && origin != "null" {
      let parts = Array(origin.utf8).split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
      guard parts.count == 3, parts[0].last == UInt8(ascii: ":"), parts[1].isEmpty, !parts[2].isEmpty else {
        throw .badValue(
          flag: "allow-origin", value: origin,
          expected: "scheme and host as browsers send them, such as https://chat.example.com, or '*'")
      }
    }
    return origins
  }

  /// Reads the key file again and says how that went; a file that cannot be used changes nothing.
  static func reload(_ server: Host, file: String) {
    do {
      let (count, gone) = try server.reloadKeys()
      Log.info("keys read again", ["file": file, "keys": "\(count)", "gone": "\(gone)"])
    } catch {
      Log.error("keys not read, the old ones stay", ["file": file, "error": "\(error)"])
    }
  }

  // MARK: Listening

  static func place(_ flags: ParsedFlags) throws -> Listener.Configuration {
    var configuration = Listener.Configuration()
    configuration.limits = limits(flags)
    configuration.host = host(flags)
    configuration.port = flags[.port] ?? 8080
    configuration.listensOnTCP = listensOnTCP(flags)
    if let path = flags[.unix] {
      configuration.unix = UnixPlace(path: path, mode: try mode(flags[.unixMode] ?? "600"))
    } else if flags.isSet(.unixMode) {
      throw UsageError.unusable(flag: "unix-mode", reason: "needs --unix")
    }
    return configuration
  }

  /// The place that health, counters and administration have of their own; nil where there is none.
  static func administration(_ flags: ParsedFlags) throws -> Listener.Configuration? {
    guard flags.isSet(.adminPort) || flags.isSet(.adminHost) || flags.isSet(.adminUnix) else { return nil }
    var configuration = Listener.Configuration()
    configuration.limits.connections = administrationConnections
    configuration.host = address(flags, .adminHost)
    configuration.listensOnTCP = flags.isSet(.adminHost) || flags.isSet(.adminPort)
    configuration.port = flags[.adminPort] ?? 0
    if configuration.listensOnTCP, flags[.adminPort] == nil {
      throw UsageError.unusable(flag: "admin-host", reason: "needs --admin-port")
    }
    if let path = flags[.adminUnix] { configuration.unix = UnixPlace(path: path, mode: 0o600) }
    return configuration
  }

  /// Who watches and who runs the server are few.
  private static let administrationConnections = 64

  private static func mode(_ text: String) throws(UsageError) -> UInt16 {
    guard let mode = UInt16(text, radix: 8), mode <= 0o777 else {
      throw .badValue(flag: "unix-mode", value: text, expected: "an octal number up to 777")
    }
    return mode
  }

  /// The largest body that one of the models needs, by its config.json; nil where texts alone come. The listener opens
  /// before they are loaded: what is wrong with that file is told when they are.
  private static func bodyBytes(_ flags: ParsedFlags) -> Int? {
    // What is in a folder, or not here yet, may take them.
    let others = flags.isSet(.modelsDir) || !flags.isSet(.model) ? [BodySize.media] : []
    let named = flags.texts(.model).compactMap { text -> Int? in
      let given = FleetFlags.source(text).path
      guard let place = try? ModelLocator.present(given, flags) else { return BodySize.media }
      if LoadedModel.transcribes(place) { return BodySize.recording }
      let path = place + "/config.json"
      guard let bytes = try? File.read(path, limit: 16 << 20), let config = try? JSONValue(parsing: bytes)
      else { return nil }
      let takesMedia =
        config["vision_config"]?.objectValue != nil || config["audio_config"]?.objectValue != nil
      return takesMedia ? BodySize.media : nil
    }
    return (others + named).max()
  }

  /// Connections that are asked for.
  static func wantedConnections(_ flags: ParsedFlags) -> Int { flags[.maxConnections] ?? 1024 }

  /// - Parameter descriptors: that the process may have open.
  static func limits(_ flags: ParsedFlags, descriptors: Int = DescriptorLimit.now.soft) -> Limits {
    var limits = Limits()
    limits.connections = Limits.connections(wantedConnections(flags), descriptors: descriptors)
    limits.connectionsFromOne = flags[.maxConnectionsPerAddress]
    limits.connectionsPerKey = flags[.maxConnectionsPerKey]
    if let megabytes = flags[.maxBody] {
      limits.bodyBytes = megabytes << 20
    } else if let bytes = bodyBytes(flags) {
      limits.bodyBytes = bytes
    }
    limits.bufferedBodyBytes = max(limits.bufferedBodyBytes, limits.bodyBytes)
    limits.headSeconds = flags[.headerTimeout] ?? limits.headSeconds
    limits.bodyWindowSeconds = flags[.bodyTimeout] ?? limits.bodyWindowSeconds
    limits.idleSeconds = flags[.idleTimeout] ?? limits.idleSeconds
    return limits
  }

  // MARK: Requests

  /// How requests are read and answers written.
  static func settings(_ flags: ParsedFlags) throws -> ServerSettings {
    var settings = ServerSettings()
    settings.reasoningField = try flags.word(.reasoningField) ?? settings.reasoningField
    settings.strictParameters = flags[.strictParams]
    settings.allowsUndeclaredMembers = flags[.additionalProperties]
    settings.isHistoryStrict = flags[.strictHistory]
    settings.responsesReasoningEvents =
      try flags.word(.responsesReasoningEvents) ?? settings.responsesReasoningEvents
    settings.maxAnswer = flags[.maxAnswer].map { $0 == 0 ? .max : $0 } ?? settings.maxAnswer
    settings.refusesHostedTools = flags[.refuseHostedTools]
    settings.keptLines = Set(flags.texts(.keepLines).compactMap { MovingLines(rawValue: $0) })
    if flags[.readAhead] {
      guard let folder = flags[.prefixCacheDir] else {
        throw UsageError.unusable(flag: "read-ahead", reason: "needs --prefix-cache-dir")
      }
      settings.readAheadFolder = folder
    }
    settings.mediaRoot = try mediaRoot(flags)
    settings.mediaURLs = try mediaURLs(flags)
    settings.judge = ModelFetch.judge
    settings.receipts = try flags.word(.receipts) ?? (flags.isSet(.record) ? .full : .off)
    settings.receiptKey = try receiptKey(flags)
    if let path = flags[.record] {
      guard settings.receipts != .off else {
        throw UsageError.unusable(flag: "record", reason: "needs receipts, and --receipts is off")
      }
      settings.recorder = try Recorder(path: path, keepsTexts: settings.receipts == .full)
    }
    return settings
  }

  /// The key that signs receipts: a PEM file of PKCS #8 as RFC 8410 has it.
  private static func receiptKey(_ flags: ParsedFlags) throws -> Ed25519? {
    guard let path = flags[.receiptKey] else { return nil }
    let lines = String(decoding: try File.read(path, limit: 1 << 12), as: UTF8.self).split(
      whereSeparator: \.isNewline)
    // An algorithm, 1.3.101.112, and an octet string in an octet string.
    let head: [UInt8] = [0x30, 0x2E, 2, 1, 0, 0x30, 5, 6, 3, 0x2B, 0x65, 0x70, 4, 0x22, 4, 0x20]
    guard let bytes = Base64.decode(lines.filter { !$0.hasPrefix("-") }.joined()), bytes.starts(with: head),
      let key = Ed25519(seed: Array(bytes.dropFirst(head.count)))
    else {
      throw UsageError.badValue(
        flag: "receipt-key", value: path,
        expected: "a file that 'openssl genpkey -algorithm ed25519' has written")
    }
    return key
  }

  /// The folder whose files requests may name.
  static func mediaRoot(_ flags: ParsedFlags) throws(UsageError) -> String? {
    guard let folder = flags[.mediaRoot] else { return nil }
    guard let root = File.resolved(folder), File.isDirectory(root) else {
      throw .badValue(flag: "media-root", value: folder, expected: "a folder that exists")
    }
    return root
  }

  /// What requests may name by http and https URLs; nil for nothing.
  static func mediaURLs(_ flags: ParsedFlags) throws(UsageError) -> FetchRules? {
    let hosts = flags.texts(.mediaUrlHost)
    guard flags[.allowMediaUrls] else {
      if !hosts.isEmpty { throw .unusable(flag: "media-url-host", reason: "needs --allow-media-urls") }
      return nil
    }
    var rules = FetchRules()
    for host in hosts {
      guard let (name, port) = Authority.parse(host) else {
        throw .badValue(
          flag: "media-url-host", value: host, expected: "a name or an address, perhaps with a port")
      }
      rules.hosts.append(FetchRules.Host(name: name, port: port))
    }
    rules.program = ChildProcess.find("curl")
    rules.accept = "image/png, image/jpeg"
    rules.userAgent = "mlxserve/\(Version.text)"
    return rules
  }
}
