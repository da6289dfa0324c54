// Agents as data: what each is told, what that does to files that are there, and what the pages say of them.

import JSON
import Platform
import Support
import Testing

@testable import CLI

struct AgentTests {
  private let facts = AgentFacts(url: "http://127.0.0.1:8080", model: "qwen3", context: 32_768)

  private func agent(_ name: String) throws -> Agent { try #require(Agent.all.first { $0.name == name }) }

  private func environment(_ name: String) throws -> [String: String] {
    Dictionary(
      uniqueKeysWithValues: LaunchCommand.environment(of: try agent(name), facts, home: "/home/a").map {
        ($0, $1)
      })
  }

  @Test func `every agent has a name of its own, and something that it is told`() {
    let names = [
      "claude", "codex", "opencode", "cline", "zed", "continue", "aider", "vscode", "goose", "home-assistant",
      "open-webui",
    ]
    #expect(Agent.all.map(\.name) == names)
    for agent in Agent.all {
      let told =
        agent.environment.map(\.value) + agent.arguments + agent.steps + agent.files.map(\.content)
      let text = facts.filled(told.joined(separator: "\n"))
      #expect(text.contains("127.0.0.1:8080") && text.contains("qwen3"), "\(agent.name)")
      for word in ["{url}", "{v1}", "{model}", "{key}", "{context}", "{input}", "{output}"] {
        #expect(!text.contains(word), "\(agent.name) \(word)")
      }
      #expect(agent.program != nil || !agent.steps.isEmpty || !agent.files.isEmpty)
    }
  }

  @Test func `a short context is said with what the agent needs`() throws {
    let short = AgentFacts(url: "http://127.0.0.1:8080", model: "smol", context: 8_192)
    let claude = try #require(LaunchCommand.shortage(agent("claude"), short))
    #expect(claude.hasPrefix("note: the first request of Claude Code has some 11,700 tokens."))
    let zed = try #require(LaunchCommand.shortage(agent("zed"), short))
    #expect(zed.hasPrefix("note: agents often send more than 8,192 tokens at once."))
    #expect(try LaunchCommand.shortage(agent("claude"), facts) == nil)
  }

  @Test func `programs get limits and patience`() throws {
    let claude = try environment("claude")
    #expect(claude["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8080" && claude["ANTHROPIC_MODEL"] == "qwen3")
    #expect(claude["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "32768" && claude["API_TIMEOUT_MS"] == "3600000")
    #expect(
      claude["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "8192" && claude["CLAUDE_CODE_ATTRIBUTION_HEADER"] == "0")
    let codex = LaunchCommand.arguments(of: try agent("codex"), facts)
    #expect(codex.contains("model_context_window=32768"))
    #expect(
      codex.contains(
        #"model_providers.mlxserve={name="mlxserve", base_url="http://127.0.0.1:8080/v1", "#
          + #"env_key="MLXSERVE_API_KEY", wire_api="responses", stream_idle_timeout_ms=3600000}"#))
    let opencode = try JSONValue(parsing: environment("opencode")["OPENCODE_CONFIG_CONTENT"] ?? "")
    #expect(opencode["model"] == "mlxserve/qwen3")
    let provider = opencode["provider"]?["mlxserve"]
    #expect(provider?["models"]?["qwen3"]?["limit"]?["context"] == 32_768)
    #expect(
      provider?["options"]?["apiKey"] == "{env:MLXSERVE_API_KEY}" && provider?["options"]?["timeout"] == false
    )
    #expect(
      try environment("aider")["AIDER_MODEL_SETTINGS_FILE"]
        == "/home/a/.config/mlxserve/aider.model.settings.yml")
    #expect(AgentFacts(url: "", model: "", context: 2_048).output == 512)
  }

  @Test func `a model's name cannot leave the quotes around it`() throws {
    var odd = facts
    odd.model = "a\"b\\c"
    #expect(odd.filled("model: \"{model}\"", quotes: true) == #"model: "a\"b\\c""#)
    #expect(odd.filled(["{model}": "{context}"] as JSONValue) == ["a\"b\\c": 32_768])
    #expect(LaunchCommand.quoted("it's") == #"'it'\''s'"# && LaunchCommand.quoted("a-b_1.2/c") == "a-b_1.2/c")
    #expect(
      LaunchCommand.quoted("") == "''" && LaunchCommand.quoted("$MLXSERVE_API_KEY") == "\"$MLXSERVE_API_KEY\""
    )
  }

  // MARK: Files

  private func inHome(_ path: String, _ text: String?, _ body: (String) throws -> Void) throws {
    var template = Array("/tmp/mlxserve-agents-XXXXXX".utf8CString)
    let made = template.withUnsafeMutableBufferPointer { $0.baseAddress.flatMap(mkdtemp) }
    let home = String(cString: try #require(made))
    defer { try? File.removeAll(home) }
    if let text {
      try File.makeFolders(File.parent(of: home + path))
      try File.replace(home + path, with: Array(text.utf8), mode: 0o640)
    }
    try body(home)
  }

  private func text(_ path: String) throws -> String {
    String(decoding: try File.read(path, limit: 1 << 20), as: UTF8.self)
  }

  @Test func `settings go into what a file has, which is kept beside it`() throws {
    let path = "/.config/zed/settings.json"
    let present = #"""
      {
        "theme": "One Dark",
        "agent": {"default_model": {"provider": "zed.dev", "model": "x"}, "dock": "left"}
      }

      """#
    try inHome(path, present) { home in
      let file = try AgentFile(try agent("zed").files[0], facts, home: home)
      #expect(file.isChanged && file.before == present)
      let after = try JSONValue(parsing: file.after)
      #expect(after["theme"] == "One Dark" && after["agent"]?["dock"] == "left")
      #expect(after["agent"]?["default_model"] == ["provider": "mlxserve", "model": "qwen3"])
      let models = after["language_models"]?["openai_compatible"]?["mlxserve"]?["available_models"]
      #expect(models?[0]?["max_tokens"] == 32_768 && models?[0]?["max_output_tokens"] == 8_192)
      #expect(
        file.difference.contains(
          #"-   "agent": {"default_model": {"provider": "zed.dev", "model": "x"}, "dock": "left"}"#))
      #expect(
        file.difference.first == "  {" && file.difference.last == "  }"
          && file.difference.contains(#"    "theme": "One Dark","#))
      #expect(try text(home + path) == present, "nothing is written yet")
      let backup = try file.write()
      #expect(backup == home + path + ".before-mlxserve-1")
      #expect(try text(backup ?? "") == present && text(home + path) == file.after)
      // Once more there is nothing to do.
      #expect(try !AgentFile(try agent("zed").files[0], facts, home: home).isChanged)
      var status = stat()
      #expect(stat(home + path, &status) == 0 && status.st_mode & 0o777 == 0o640)
    }
  }

  @Test func `a file that is not there is written whole, for its owner alone`() throws {
    try inHome("/", nil) { home in
      let file = try AgentFile(try agent("continue").files[0], facts, home: home)
      #expect(file.before == nil && file.difference.first == "+ name: mlxserve")
      #expect(file.after.contains("contextLength: 32768\n      maxTokens: 8192\n"))
      #expect(try file.write() == nil)
      var status = stat()
      #expect(stat(file.path, &status) == 0 && status.st_mode & 0o777 == 0o600)
    }
  }

  @Test func `what cannot be merged stays as it is, and is said`() throws {
    for (name, path, present) in [
      ("zed", "/.config/zed/settings.json", "// mine\n{\"theme\": \"x\"}\n"),
      ("continue", "/.continue/config.yaml", "name: mine\n"),
    ] {
      try inHome(path, present) { home in
        #expect(throws: AgentError.self) { try AgentFile(try agent(name).files[0], facts, home: home) }
        let now = try text(home + path)
        #expect(now == present)
      }
    }
  }

  @Test func `objects of a list are known by their names`() {
    let merged = AgentFile.merged(
      [["name": "a", "x": 1], ["name": "b"]], [["name": "b", "y": 2], ["name": "c"]])
    #expect(merged == [["name": "a", "x": 1], ["name": "b", "y": 2], ["name": "c"]])
  }

  // MARK: The server

  @Test func `the model is the first that talks and is loaded, or the one that is named`() throws {
    let models: [JSONValue] = [
      ["id": "embedder", "task": "embed", "context_length": 512],
      ["id": "cold", "task": nil, "context_length": nil],
      ["id": "warm", "task": "chat", "context_length": 4_096, "aliases": ["w"]],
    ]
    func chosen(_ wanted: String?) throws -> String {
      try LaunchCommand.facts("http://h:1", models, wanted: wanted).model
    }
    #expect(try chosen(nil) == "warm" && chosen("w") == "warm")
    for wanted in ["cold", "embedder", "nobody"] { #expect(throws: AgentError.self) { try chosen(wanted) } }
    #expect(throws: AgentError.self) { try LaunchCommand.facts("http://h:1", [], wanted: nil) }
  }

  // MARK: Pages

  @Test func `docs/agents/README.md has the table of agents`() throws {
    let page = try text(TestData.root + "/docs/agents/README.md")
    let rows = page.split(separator: "\n").filter { $0.hasPrefix("| `") }.map { row in
      row.split(separator: "|").map { $0.trimming(" ") }
    }
    #expect(rows.map { $0[0] } == Agent.all.map { "`\($0.name)`" })
    #expect(rows.map { String($0[1].split(separator: "]")[0].drop { $0 == "[" }) } == Agent.all.map(\.title))
    #expect(rows.map { $0[2] } == Agent.all.map { $0.program.map { "`\($0)`" } ?? "–" })
    for agent in Agent.all {
      for file in agent.files { #expect(page.contains("`\(file.path)`"), "\(file.path)") }
    }
  }
}

extension Substring {
  fileprivate func trimming(_ character: Character) -> String {
    String(drop { $0 == character }.reversed().drop { $0 == character }.reversed())
  }
}
