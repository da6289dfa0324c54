// Flags from files and variables: what wins, what is refused, and what shells and manuals are told.

import Testing

@testable import CLI

@Suite struct ConfigurationTests {
  private let flags = Command.all[0].flags

  private func parse(_ text: String) throws(UsageError) -> [Setting] {
    try ConfigurationFile.parse(Array(text.utf8), path: "f", flags: Command.allFlags)
  }

  @Test func `a file has comments, a mark at its start, and line ends of any system`() throws {
    let settings = try parse("\u{FEFF}# x\r\n\r\n port = 9000\r\nmodel=a = b\nstrict-params\n")
    #expect(
      settings == [
        Setting(name: "port", value: "9000", source: .file("f", line: 3)),
        Setting(name: "model", value: "a = b", source: .file("f", line: 4)),
        Setting(name: "strict-params", value: "true", source: .file("f", line: 5)),
      ])
  }

  @Test func `an unknown name is told with its line, and what may be meant`() {
    #expect(
      throws: UsageError.badSetting(place: "f:2", problem: "there is no flag 'prot'; did you mean 'port'?")
    ) {
      try parse("\nprot = 1\n")
    }
    #expect(throws: UsageError.self) { try parse("strict-params = maybe") }
    #expect(throws: UsageError.self) {
      try ConfigurationFile.parse([0xFF, 0xFE], path: "f", flags: Command.allFlags)
    }
  }

  @Test func `a flag wins over a variable, and that over the file`() throws {
    var parsed = try ParsedFlags(["--port", "1"], flags: flags)
    let variables = [
      "MLXSERVE_PORT": "2", "MLXSERVE_HOST": "::1", "MLXSERVE_MODEL": "a\nb", "MLXSERVE_API_KEY": "k",
    ]
    try parsed.fill(ConfigurationFile.environment(flags) { variables[$0] }, flags: flags)
    try parsed.fill(
      parse("port = 3\nhost = ::\nmax-body = 7\nstrict-params = true\nno-ui = false\ntext = other"),
      flags: flags)
    #expect(parsed[.port] == 1)
    #expect(parsed.source(of: "port") == .commandLine)
    #expect(parsed[.host] == "::1")
    #expect(parsed.source(of: "host") == .variable("MLXSERVE_HOST"))
    #expect(parsed.texts(.model) == ["a", "b"])
    #expect(parsed[.maxBody] == 7)
    #expect(parsed.source(of: "max-body") == .file("f", line: 3))
    #expect(parsed[.strictParams])
    #expect(!parsed[.noUi])
    // Of another command, and of another reader.
    #expect(!parsed.isSet(.text))
    #expect(!parsed.isSet(.apiKey))
  }

  @Test func `a variable that nothing reads is named with what was meant`() {
    let given = [
      ("MLXSERVE_PROT", "80"), ("MLXSERVE_MODLE", "x"), ("MLXSERVE_API_KEYS", "k"),
      ("MLXSERVE_CACHE_DIR", "x"),
      ("MLXSERVE_PORT", "80"), ("MLXSERVE_API_KEY", "k"), ("MLXSERVE_CACHE", "/x"), ("MLXSERVE_CONFIG", "/x"),
      ("MLXSERVE_URL", "http://h"), ("MLXSERVE_SHARED", "/x"), ("MLXSERVE_GIRAFFE", "1"), ("MLX_PROT", "1"),
      ("HOME", "/"),
    ]
    let unread = ConfigurationFile.unread(given.map { (name: $0, value: $1) }, flags: Command.allFlags)
    #expect(
      unread.map(\.name) == ["MLXSERVE_PROT", "MLXSERVE_MODLE", "MLXSERVE_API_KEYS", "MLXSERVE_GIRAFFE"])
    #expect(unread.map(\.meant) == ["MLXSERVE_PORT", "MLXSERVE_MODEL", "MLXSERVE_API_KEY", nil])
  }

  @Test func `what Kubernetes says of a service with the program's name is no setting`() throws {
    let given = [
      ("MLXSERVE_PORT", "tcp://10.0.0.1:80"), ("MLXSERVE_PORT_80_TCP", "tcp://10.0.0.1:80"),
      ("MLXSERVE_PORT_80_TCP_ADDR", "10.0.0.1"), ("MLXSERVE_PORT_80_TCP_PORT", "80"),
      ("MLXSERVE_PORT_80_TCP_PROTO", "tcp"), ("MLXSERVE_SERVICE_HOST", "10.0.0.1"),
      ("MLXSERVE_SERVICE_PORT", "80"), ("MLXSERVE_SERVICE_PORT_HTTP", "80"),
    ]
    #expect(
      ConfigurationFile.unread(given.map { (name: $0, value: $1) }, flags: Command.allFlags).map(\.name) == []
    )
    let variables = Dictionary(uniqueKeysWithValues: given)
    #expect(try ConfigurationFile.environment(flags) { variables[$0] } == [])
  }

  @Test func `a bad value says where it stands`() throws {
    var parsed = try ParsedFlags([], flags: flags)
    #expect(
      throws: UsageError.badSetting(
        place: "f:1", problem: "port 'x': expected a whole number from 0 to 65535")
    ) { try parsed.fill(parse("port = x"), flags: flags) }
    #expect(throws: UsageError.badSetting(place: "f:2", problem: "port is given twice")) {
      try parsed.fill(parse("port = 1\nport = 2"), flags: flags)
    }
  }

  @Test func `shells and the manual page know every command and flag`() {
    for text in Shell.allCases.map({ Completions.text(for: $0) }) + [ManualPage.text] {
      for command in Command.all {
        #expect(text.contains(command.name))
        for flag in command.groups.flatMap(\.flags) {
          let found = [flag.name, flag.name.split(separator: "-").joined(separator: "\\-")].contains {
            text.contains($0)
          }
          #expect(found, "\(flag.name)")
        }
      }
    }
  }

  @Test func `progress fits into any width`() {
    for width in [20, 40, 80, 200] {
      let line = DownloadDisplay.line(
        "model-00001-of-00002.safetensors", done: 52, total: 100, tail: "2.3/4.5 GB  84 MB/s  0:27",
        width: width)
      #expect(line.count <= width, "\(line)")
      #expect(line.contains("52 %"))
    }
    #expect(DownloadDisplay.sizes(2_300_000_000, 4_500_000_000) == "2.3/4.5 GB")
    #expect(DownloadDisplay.clock(27) == "0:27")
    #expect(DownloadDisplay.clock(3723) == "1:02:03")
  }

  @Test func `names that are nearly right have neighbours`() {
    #expect(
      ModelLocator.nearest(to: "qwen3:4", among: ["qwen3:4b", "gemma3:1b", "qwen3:8b"]).first == "qwen3:4b")
    #expect(ModelLocator.nearest(to: "zzzzzzzzzzzz", among: ["qwen3:4b"]).isEmpty)
  }
}
