// What programs are told of notes, and the URIs of notes.

import JSON
import Platform
import Testing

@testable import CLI

struct MCPClientTests {
  private let words = ["/usr/bin/mlxserve", "mcp", "/home/a b/notes"]

  @Test func `every program has a file or a command, and a name of its own`() throws {
    #expect(Set(MCPClient.all.map(\.name)).count == MCPClient.all.count)
    for client in MCPClient.all {
      #expect((client.file == nil) == (client.line("notes", words) != nil), "\(client.name)")
      #expect(client.file?.hasPrefix("~/") ?? true)
    }
    let code = try #require(MCPClient.all.first { $0.name == "claude" })
    #expect(
      code.line("notes", words)
        == "claude mcp add -s user notes -- /usr/bin/mlxserve mcp '/home/a b/notes'")
  }

  @Test func `settings stand where a program looks for them`() throws {
    let expected: [String: JSONValue] = [
      "cursor": ["mcpServers": ["n": ["command": "/usr/bin/mlxserve", "args": ["mcp", "/home/a b/notes"]]]],
      "vscode": [
        "servers": [
          "n": ["type": "stdio", "command": "/usr/bin/mlxserve", "args": ["mcp", "/home/a b/notes"]]
        ]
      ],
      "zed": [
        "context_servers": ["n": ["command": "/usr/bin/mlxserve", "args": ["mcp", "/home/a b/notes"]]]
      ],
    ]
    for (name, settings) in expected {
      let client = try #require(MCPClient.all.first { $0.name == name })
      #expect(client.settings("n", words) == settings, "\(name)")
    }
  }

  @Test func `settings that are no plain JSON stay as they are`() throws {
    let home = "/tmp/mlxserve-mcp-\(UInt64.random(in: 0 ... .max))"
    try File.makeFolders(home + "/.cursor")
    defer { try? File.removeAll(home) }
    let path = home + "/.cursor/mcp.json"
    for text in ["{} // mine", "\u{FF}"] {
      try File.replace(path, with: text == "\u{FF}" ? [0xFF] : Array(text.utf8))
      #expect(throws: AgentError.self) { try AgentFile("~/.cursor/mcp.json", ["a": 1], home: home) }
    }
    try File.replace(path, with: Array(#"{"b": 2}"#.utf8))
    let file = try AgentFile("~/.cursor/mcp.json", ["a": 1], home: home)
    #expect(file.isChanged && file.after == "{\n  \"b\": 2,\n  \"a\": 1\n}\n")
  }

  @Test func `a path is a URI whatever is in it`() {
    #expect(FolderNotes.uri("/home/a b/ü#?.md") == "file:///home/a%20b/%C3%BC%23%3F.md")
    #expect(FolderNotes.uri("/x/~-_.\u{1}") == "file:///x/~-_.%01")
  }
}
