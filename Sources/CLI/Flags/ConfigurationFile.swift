// Flags from a file and from the environment: what the command line does not say. Flags win over variables, those over
// the file.
//
//   # a comment
//   port = 9000
//   model = qwen3:4b
//   api-key-file = /etc/mlxserve/keys

import Platform

/// Where the value of a flag came from.
enum FlagSource: Equatable {
  case commandLine
  case variable(String)
  case file(String, line: Int)

  var words: String {
    switch self {
    case .commandLine: "flag"
    case .variable(let name): name
    case .file(let path, let line): "\(path):\(line)"
    }
  }
}

/// A setting that a file or a variable gives.
struct Setting: Equatable {
  let name: String
  let value: String
  let source: FlagSource
}

struct ConfigurationFile {
  let path: String
  let settings: [Setting]

  private static let sizeLimit = 1 << 20

  /// The file that `--config` or MLXSERVE_CONFIG names, else the user's, else the machine's; nil where there is none.
  ///
  /// - Parameter flags: of all commands, each name once.
  /// - Throws: also when a named file is not there.
  static func find(
    _ named: String?, flags: [Flag], variable: (String) -> String? = { Environment.value($0) }
  ) throws -> ConfigurationFile? {
    if let named = named ?? variable("MLXSERVE_CONFIG"), !named.isEmpty {
      return try ConfigurationFile(named, flags)
    }
    let home = variable("XDG_CONFIG_HOME") ?? variable("HOME").map { $0 + "/.config" }
    for path in [home.map { $0 + "/mlxserve/config" }, "/etc/mlxserve/config"] {
      if let path, File.exists(path) { return try ConfigurationFile(path, flags) }
    }
    return nil
  }

  private init(_ path: String, _ flags: [Flag]) throws {
    self.path = path
    settings = try Self.parse(try File.read(path, limit: Self.sizeLimit), path: path, flags: flags)
  }

  /// - Throws: with the line, where a line is no setting, or no flag has its name.
  static func parse(
    _ bytes: [UInt8], path: String, flags: [Flag]
  ) throws(UsageError) -> [Setting] {
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw .badSetting(place: path, problem: "this is not UTF-8 text")
    }
    let lines = File.withoutMark(Array(text.utf8)).split(separator: 10, omittingEmptySubsequences: false)
    var settings: [Setting] = []
    for (index, line) in lines.enumerated() {
      let place = "\(path):\(index + 1)"
      let content = trimmed(line)
      guard !content.isEmpty, content.first != UInt8(ascii: "#") else { continue }
      let parts = content.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      let name = String(decoding: trimmed(parts[0]), as: UTF8.self)
      guard let flag = flags.first(where: { $0.name == name }) else {
        let near = suggest(for: name, among: flags.map(\.name)).map { "; did you mean '\($0)'?" } ?? ""
        throw .badSetting(place: place, problem: "there is no flag '\(name)'\(near)")
      }
      let value = parts.count == 2 ? String(decoding: trimmed(parts[1]), as: UTF8.self) : "true"
      if case .toggle = flag.kind, Self.truth(value) == nil {
        throw .badSetting(place: place, problem: "\(name) is on or off: true or false")
      }
      settings.append(Setting(name: name, value: value, source: .file(path, line: index + 1)))
    }
    return settings
  }

  /// What a toggle's value says; nil for anything else.
  static func truth(_ text: String) -> Bool? {
    switch text.lowercased() {
    case "1", "true", "yes", "on": true
    case "0", "false", "no", "off", "": false
    default: nil
    }
  }

  private static func trimmed(_ bytes: some Collection<UInt8>) -> ArraySlice<UInt8> {
    var rest = Array(bytes)[...]
    while let first = rest.first, first <= 0x20 { rest = rest.dropFirst() }
    while let last = rest.last, last <= 0x20 { rest = rest.dropLast() }
    return rest
  }

  private static let prefix = "MLXSERVE_"

  /// The variable that stands for a flag; nil where another part of the program reads it.
  static func variable(of flag: Flag) -> String? {
    // Keys are read where they are checked, from one variable for all.
    guard flag.name != "api-key" else { return nil }
    return prefix + flag.name.uppercased().split(separator: "-").joined(separator: "_")
  }

  /// Variables with the program's prefix that nothing reads, each with the name that was probably meant.
  ///
  /// - Parameter variables: of the environment, with their values.
  static func unread(
    _ variables: [(name: String, value: String)], flags: [Flag]
  ) -> [(name: String, meant: String?)] {
    let known = flags.compactMap(Self.variable) + ["API_KEY", "CACHE", "CONFIG"].map { prefix + $0 }
    // The examples read one more, and the project's tests some of their own.
    let read = Set(known + ["URL", "SHARED", "BINARY", "TESTS", "LIBRARY", "PG_BIN"].map { prefix + $0 })
    return variables.filter { name, value in
      name.hasPrefix(prefix) && !read.contains(name) && !isOfKubernetes(name, value)
    }.map { name, _ in
      let meant = suggest(
        for: String(name.dropFirst(prefix.count)), among: known.map { String($0.dropFirst(prefix.count)) })
      return (name, meant.map { prefix + $0 })
    }
  }

  /// Kubernetes tells the containers of a namespace of its services: one that is called `mlxserve` has
  /// `MLXSERVE_PORT=tcp://10.0.0.1:80`, `MLXSERVE_SERVICE_HOST` and a few more.
  private static func isOfKubernetes(_ name: String, _ value: String) -> Bool {
    value.hasPrefix("tcp://") || value.hasPrefix("udp://") || name.contains("_SERVICE_HOST")
      || name.contains("_SERVICE_PORT") || name.contains("_TCP_") || name.contains("_UDP_")
  }

  /// What the environment says of these flags; several values of one flag stand on lines of their own.
  static func environment(
    _ flags: [Flag], variable: (String) -> String? = { Environment.value($0) }
  ) throws(UsageError) -> [Setting] {
    var settings: [Setting] = []
    for flag in flags {
      guard let name = Self.variable(of: flag), let text = variable(name), !text.isEmpty,
        !isOfKubernetes(name, text)
      else { continue }
      if case .toggle = flag.kind, truth(text) == nil {
        throw .badSetting(place: name, problem: "is on or off: true or false")
      }
      let values = flag.isRepeatable ? text.split(separator: "\n").map(String.init) : [text]
      settings += values.map { Setting(name: flag.name, value: $0, source: .variable(name)) }
    }
    return settings
  }
}
