// The programs that `mlxserve mcp install` knows, as data: where each keeps its servers of tools.

import JSON

struct MCPClient: Sendable {
  let name: String
  let title: String
  /// A file of JSON below the user's home; nil for a program that is told by a command of its own.
  var file: String?
  /// Names of the objects that lead to the servers.
  var path: [String] = []
  /// What each server has beside command and arguments.
  var more: JSONValue = [:]
  /// The words before the server's name, and those between it and the command.
  var command: (before: [String], after: [String]) = ([], [])

  #if os(macOS)
    private static let folder = "~/Library/Application Support"
  #else
    private static let folder = "~/.config"
  #endif

  static let all: [MCPClient] = [
    MCPClient(
      name: "claude-desktop", title: "Claude Desktop", file: folder + "/Claude/claude_desktop_config.json",
      path: ["mcpServers"]),
    MCPClient(
      name: "claude", title: "Claude Code", command: (["claude", "mcp", "add", "-s", "user"], ["--"])),
    MCPClient(name: "cursor", title: "Cursor", file: "~/.cursor/mcp.json", path: ["mcpServers"]),
    MCPClient(
      name: "vscode", title: "VS Code", file: folder + "/Code/User/mcp.json", path: ["servers"],
      more: ["type": "stdio"]),
    MCPClient(name: "zed", title: "Zed", file: "~/.config/zed/settings.json", path: ["context_servers"]),
    MCPClient(name: "codex", title: "Codex", command: (["codex", "mcp", "add"], ["--"])),
  ]

  /// What the file has to have.
  func settings(_ server: String, _ words: [String]) -> JSONValue {
    var own = more.objectValue ?? JSONObject()
    own["command"] = .string(words.first ?? "")
    own["args"] = .array(words.dropFirst().map { .string($0) })
    return (path + [server]).reversed().reduce(.object(own)) { inner, name in
      .object(JSONObject([(name, inner)]))
    }
  }

  /// The line to type; nil for a program that has a file.
  func line(_ server: String, _ words: [String]) -> String? {
    guard file == nil else { return nil }
    return (command.before + [server] + command.after + words).map(LaunchCommand.quoted).joined(
      separator: " ")
  }
}
