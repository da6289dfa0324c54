// Tools of other servers in a conversation of the terminal: who is asked before a call, and what the model gets to read.

import JSON
import MCP
import Platform
import Wire

/// Used by one thread.
struct ChatTools {
  private struct Function {
    let entry: ToolServers.Entry
    let session: any ToolServer
    let tool: RemoteTool
  }
  private let servers: ToolServers
  private var functions: [ByteKey: Function] = [:]
  /// As a model is told of them.
  private(set) var list: [JSONValue] = []
  /// What `/tools` shows.
  private(set) var lines: [String] = []
  /// Functions that nobody is asked about any more.
  private var allowed: Set<String> = []
  /// Whether Ctrl-C has been pressed while a tool works.
  let isStopped = Monitor(false)

  /// Calls of one answer.
  static let most = 16
  private static let listSeconds = 20.0

  /// Reads the file, and asks its servers what they have.
  init?(_ flags: ParsedFlags) throws(UsageError) {
    guard let servers = try flags.toolServers(MemoryLedger(limit: .max)) else { return nil }
    self.servers = servers
    for entry in servers.entries { add(entry) }
  }

  private mutating func add(_ entry: ToolServers.Entry) {
    let session = entry.server
    let tools: [RemoteTool]
    do throws(ToolFault) {
      tools = try session.tools(ToolWait(seconds: Self.listSeconds) { false })
    } catch {
      lines.append("\(entry.label) has no tools: \(Terminal.safe("\(error)"))")
      return
    }
    lines.append("\(entry.label): \(counted(tools.count, "tool"))")
    for tool in tools {
      var name = MCPTool.functionName(tool.name)
      if functions[ByteKey(name)] != nil { name = "\(entry.label)__\(name)" }
      guard functions[ByteKey(name)] == nil else { continue }
      functions[ByteKey(name)] = Function(entry: entry, session: session, tool: tool)
      if entry.unasked.contains(tool.name) { allowed.insert(name) }
      list.append([
        "type": "function",
        "function": [
          "name": .string(name), "description": .string(tool.description), "parameters": tool.schema,
        ],
      ])
      let first = tool.description.split(separator: "\n").first.map { ": " + $0.prefix(100) } ?? ""
      lines.append("  \(Terminal.safe(name + first))")
    }
  }

  func has(_ name: String) -> Bool { functions[ByteKey(name)] != nil }

  /// Makes a call that the user allows.
  ///
  /// - Parameter asks: whether there is somebody to ask.
  /// - Returns: what the model reads.
  mutating func result(of name: String, _ arguments: String, asks: Bool) -> String {
    guard let function = functions[ByteKey(name)] else { return "Error: there is no such tool" }
    if !allowed.contains(name) {
      guard asks else {
        return "The call was not made: nobody can be asked, and 'alwaysAllow' does not name the tool."
      }
      // What was typed before the question answers none.
      _ = TerminalMode.take(seconds: 0)
      Terminal.write(Terminal.dimmed("\(function.entry.label): call it? [y]es, [n]o, [a]lways: "))
      let key = key()
      Terminal.write("\n")
      switch key {
      case "y": break
      case "a": allowed.insert(name)
      default: return "The user refused this call."
      }
    }
    guard let value = try? JSONValue(parsing: arguments.isEmpty ? "{}" : arguments), value.objectValue != nil
    else { return "Error: the arguments are no object" }
    isStopped.withLock { $0 = false }
    do throws(ToolFault) {
      let wait = ToolWait(seconds: function.entry.seconds) { [isStopped] in isStopped.withLock { $0 } }
      let output = try function.session.call(function.tool.name, value, wait)
      return output.failure == nil ? output.text : "Error: " + output.text
    } catch {
      return "Error: \(error)"
    }
  }

  /// The key that answers; nil at the end of the input, and for Ctrl-C.
  private func key() -> Character? {
    isStopped.withLock { $0 = false }
    while !isStopped.withLock({ $0 }) {
      guard let bytes = TerminalMode.take(seconds: 0.1) else { continue }
      return bytes.first.map { Character(Unicode.Scalar($0)) }
    }
    return nil
  }
}

extension ParsedFlags {
  /// The servers of `--mcp-config`, of a chat or of a server; nil for none.
  func toolServers(_ ledger: MemoryLedger) throws(UsageError) -> ToolServers? {
    guard let path = self[.mcpConfig] else { return nil }
    do {
      return try ToolServers(File.read(path, limit: 1 << 20), curl: ChildProcess.find("curl"), ledger: ledger)
    } catch {
      throw .unusable(flag: "mcp-config", reason: "\(path): \(error)")
    }
  }
}
