// The servers of tools that whoever runs this machine has chosen, from a file as desktop programs have it.

package import Fetch
import HTTP
import JSON
package import Platform

/// A member of the file that cannot be used.
package struct ToolServersError: Error, Sendable, CustomStringConvertible {
  package let description: String
}

/// What `mcpServers` of a file names, and which addresses requests may name themselves. Shared by all requests.
package final class ToolServers: Sendable {
  /// One of the file.
  package struct Entry: Sendable {
    /// What a server is.
    enum Place: Sendable {
      case program(LineTools)
      case address(WebURL, fields: [String], Fetcher)
    }
    package let label: String
    let place: Place
    /// Names of the keys that may use it; nil for everybody.
    let keys: [String]?
    /// Tools that a person at a terminal need not be asked about.
    package let unasked: [String]
    /// Most seconds of one call.
    package let seconds: Double

    /// Whether its tools are asked for again in each answer, which costs nothing.
    package var isNear: Bool { if case .program = place { true } else { false } }

    /// A session, or what all share.
    package var server: any ToolServer {
      switch place {
      case .program(let tools): tools
      case .address(let url, let fields, let fetcher): HTTPTools(url, fields: fields, fetcher: fetcher)
      }
    }
  }

  package let entries: [Entry]
  /// Fetches what requests name; nil where they may name nothing.
  private let fetcher: Fetcher?
  private let named: [FetchRules.Host]
  private let urlKeys: [String]?

  /// Seconds of a call where the file does not say.
  private static let usualSeconds = 30.0
  private static let most = 64

  /// Reads the file. Unknown members are those of other programs.
  ///
  /// - Parameters:
  ///   - curl: the program's path; nil where there is none.
  ///   - ledger: where the memory of fetches is claimed.
  package init(_ bytes: [UInt8], curl: String?, ledger: MemoryLedger) throws(ToolServersError) {
    let file: JSONValue
    do {
      file = try JSONValue(parsing: bytes, maxDepth: 16, maxValues: 10_000)
    } catch {
      throw ToolServersError(description: "it is no JSON: \(error)")
    }
    let found = file["mcpServers"] ?? file["servers"] ?? [:]
    guard let members = found.objectValue, members.count <= Self.most else {
      throw ToolServersError(description: "'mcpServers' is an object of at most \(Self.most) servers")
    }
    var entries: [Entry] = []
    for (label, value) in members.entries where value["disabled"] != true {
      do throws(ToolServersError) {
        entries.append(try Self.entry(label, value, curl, ledger))
      } catch {
        throw ToolServersError(description: "'mcpServers.\(label)': \(error)")
      }
    }
    self.entries = entries
    guard let urls = file["urls"], urls != false else {
      (fetcher, named, urlKeys) = (nil, [], nil)
      return
    }
    var hosts: [FetchRules.Host] = []
    for text in try Self.texts(urls["hosts"], "urls.hosts") ?? [] {
      guard let (name, port) = Authority.parse(text) else {
        throw ToolServersError(description: "'urls.hosts': '\(text)' is no host, perhaps with a port")
      }
      hosts.append(FetchRules.Host(name: name, port: port))
    }
    (named, urlKeys) = (hosts, try Self.texts(urls["keys"], "urls.keys"))
    fetcher = Self.fetcher(hosts, curl, ledger)
  }

  private static func fetcher(_ hosts: [FetchRules.Host], _ curl: String?, _ ledger: MemoryLedger) -> Fetcher
  {
    var rules = FetchRules()
    (rules.hosts, rules.program, rules.byteLimit) = (hosts, curl, ToolLimits.messageBytes)
    // Each request has its own deadline.
    rules.seconds = 600
    rules.userAgent = "mlxserve/\(Version.text)"
    return Fetcher(rules, ledger: ledger)
  }

  /// Whether a label can stand in a request and in a name of a function.
  private static func isLabel(_ text: String) -> Bool {
    (1...64).contains(text.utf8.count)
      && text.unicodeScalars.allSatisfy {
        $0.isASCII
          && ($0.properties.isAlphabetic || (0x30...0x39).contains($0.value) || $0 == "_" || $0 == "-")
      }
  }

  private static func entry(
    _ label: String, _ value: JSONValue, _ curl: String?, _ ledger: MemoryLedger
  ) throws(ToolServersError) -> Entry {
    guard isLabel(label) else {
      throw ToolServersError(description: "a name has at most 64 letters, digits, '-' and '_'")
    }
    let seconds = value["timeout"]?.doubleValue ?? usualSeconds
    guard (1...3_600).contains(seconds) else {
      throw ToolServersError(description: "'timeout' is a number of seconds from 1 to 3600")
    }
    let place: Entry.Place
    if let command = value["command"]?.stringValue {
      var program = LineTools.Program(command: command)
      program.arguments = try texts(value["args"], "args") ?? []
      program.environment = try pairs(value["env"], "env")
      program.folder = value["cwd"]?.stringValue
      place = .program(LineTools(program))
    } else if let text = value["url"]?.stringValue {
      guard value["type"] != "sse" else {
        throw ToolServersError(description: "the transport 'sse' is not spoken; use 'http'")
      }
      guard let url = try? WebURL(text) else {
        throw ToolServersError(description: "'url' is no http or https URL")
      }
      let host = FetchRules.Host(name: url.host, port: url.port)
      place = .address(
        url, fields: try pairs(value["headers"], "headers").map { "\($0.name): \($0.value)" },
        fetcher([host], curl, ledger))
    } else {
      throw ToolServersError(description: "it has neither a 'command' nor a 'url'")
    }
    let unasked = try texts(value["alwaysAllow"] ?? value["autoApprove"], "alwaysAllow") ?? []
    return Entry(
      label: label, place: place, keys: try texts(value["keys"], "keys"), unasked: unasked, seconds: seconds)
  }

  private static func texts(_ value: JSONValue?, _ name: String) throws(ToolServersError) -> [String]? {
    guard let value else { return nil }
    let texts = value.arrayValue?.compactMap(\.stringValue)
    guard let texts, texts.count == value.arrayValue?.count else {
      throw ToolServersError(description: "'\(name)' is a list of texts")
    }
    return texts
  }

  private static func pairs(_ value: JSONValue?, _ name: String) throws(ToolServersError) -> [(
    name: String, value: String
  )] {
    guard let value else { return [] }
    guard let object = value.objectValue else {
      throw ToolServersError(description: "'\(name)' is an object")
    }
    return try object.entries.map { (key, value) throws(ToolServersError) in
      guard let text = value.stringValue, !key.isEmpty,
        !(key + text).unicodeScalars.contains(where: { $0.value < 0x20 })
      else {
        throw ToolServersError(description: "the members of '\(name)' are texts of one line")
      }
      return (key, text)
    }
  }

  // MARK: Requests

  /// Labels that a client may name.
  ///
  /// - Parameter key: its name; nil for a client without one.
  package func labels(for key: String?) -> [String] { entries.filter { allows($0.keys, key) }.map(\.label) }

  /// The server of a label, if a client may use it.
  package func entry(_ label: String, for key: String?) -> Entry? {
    entries.first { $0.label.utf8.elementsEqual(label.utf8) && allows($0.keys, key) }
  }

  /// Whether a client may name an address.
  package func takesURLs(of key: String?) -> Bool { fetcher != nil && allows(urlKeys, key) }

  private func allows(_ keys: [String]?, _ key: String?) -> Bool {
    guard let keys else { return true }
    return keys.contains { key?.utf8.elementsEqual($0.utf8) == true }
  }

  /// A server that a request names by its address.
  ///
  /// - Parameters:
  ///   - secrets: lines of the head. They only travel encrypted, or to a host of the file.
  /// - Throws: what is wrong with the URL.
  package func entry(_ label: String, at text: String, secrets: [String], for key: String?) throws(FetchError)
    -> Entry?
  {
    guard takesURLs(of: key), let fetcher else { return nil }
    let url = try WebURL(text)
    let isNamed = named.contains {
      $0.name.utf8.elementsEqual(url.host.utf8) && ($0.port ?? url.port) == url.port
    }
    guard url.isSecure || isNamed || secrets.isEmpty else {
      throw .badURL("it begins with http://, and secrets are sent encrypted only")
    }
    return Entry(
      label: label, place: .address(url, fields: secrets, fetcher), keys: nil, unasked: [],
      seconds: Self.usualSeconds)
  }

  /// Ends all programs.
  package func end() { for entry in entries where entry.isNear { entry.server.end() } }
}
