// `mlxserve mcp FOLDER...`: notes as tools of assistants, over standard input and output; and what assistants have to be told.

import MCP
import Platform
import Search

enum MCPCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    guard flags.arguments.first != "install" else { return try install(flags) }
    Log.configure(level: .warning, json: false)
    let notes = FolderNotes(try folders(flags.arguments, flags), flags)
    if Terminal.inputIsTerminal {
      Terminal.tell(
        "mlxserve: a program speaks here, not a person: 'mlxserve mcp install CLIENT FOLDER' tells it how")
    }
    // Before anybody asks: the first indexing takes time.
    notes.update()
    let server = LineServer(NoteServer(notes)) { StandardStream.write($0, to: STDOUT_FILENO) }
    server.run {
      while true { if let bytes = TerminalMode.take() { return bytes } }
    }
    notes.stop()
    return ExitCode.success
  }

  /// Resolved, each once.
  private static func folders(_ names: [String], _ flags: ParsedFlags) throws -> [String] {
    guard !names.isEmpty else { throw UsageError.missingArgument("NOTES") }
    var folders: [String] = []
    for name in names {
      guard let folder = File.resolved(name), File.isDirectory(folder) else {
        throw UsageError.unusable(flag: "folder", reason: "'\(name)' is not a folder")
      }
      let isKnown = try SearchedFolder.modelIsKnown(folder, flags)
      guard isKnown || flags.isSet(.model) else { throw SearchFolderError.noModel }
      if !folders.contains(folder) { folders.append(folder) }
    }
    return folders
  }

  // MARK: Install

  private static func install(_ flags: ParsedFlags) throws -> Int32 {
    let words = flags.arguments.dropFirst()
    guard let name = words.first else {
      for client in MCPClient.all { Terminal.print(Terminal.column(client.name) + client.title) }
      return ExitCode.success
    }
    guard let client = MCPClient.all.first(where: { $0.name == name }) else {
      throw UsageError.badValue(
        flag: "install", value: Terminal.safe(name),
        expected: "one of " + MCPClient.all.map(\.name).joined(separator: ", "))
    }
    let command = try self.command(try folders(Array(words.dropFirst()), flags), flags)
    let server = flags[.name] ?? "notes"
    if let line = client.line(server, command) {
      Terminal.print(line)
      return ExitCode.success
    }
    guard let home = Environment.value("HOME"), home.hasPrefix("/"), let path = client.file else {
      throw AgentError.noServer("HOME names no folder, so that programs have no place for settings")
    }
    let file = try AgentFile(path, client.settings(server, command), home: home)
    Terminal.print(file.isChanged ? "\(file.path):" : "\(file.path) is as it should be")
    guard file.isChanged else { return ExitCode.success }
    for line in file.difference { Terminal.print(Terminal.safe(line)) }
    // Nobody can be asked in a pipe: there it is only shown.
    guard !flags[.print],
      flags[.write] || (Terminal.inputIsTerminal && Terminal.errorIsTerminal)
    else { return ExitCode.success }
    guard try LaunchCommand.write([file], flags) else { return ExitCode.checkFailed }
    Terminal.print("Start \(client.title) again: it reads its settings once.")
    return ExitCode.success
  }

  /// Where this program is, by the name that stays when it is updated.
  private static var program: String {
    let named = CommandLine.arguments.first.flatMap {
      $0.contains("/") ? File.resolved($0) : ChildProcess.find($0)
    }
    guard let own = File.resolved("/proc/self/exe") ?? named else { return "mlxserve" }
    guard let found = ChildProcess.find("mlxserve"), File.resolved(found) == own else { return own }
    return found
  }

  /// What a program starts: this one by its path, since programs have another PATH than shells.
  private static func command(_ folders: [String], _ flags: ParsedFlags) throws -> [String] {
    var words = [program, "mcp"] + folders
    for flag in [TextFlag.model, .answerModel, .rerank, .indexDir] {
      guard let value = flags[flag] else { continue }
      // A path holds from any folder.
      words += ["--" + flag.name, File.exists(value) ? File.resolved(value) ?? value : value]
    }
    if let threads = flags[.threads] { words += ["--threads", "\(threads)"] }
    for flag in [Toggle.allFiles, .allowWrite] where flags[flag] { words.append("--" + flag.name) }
    return words
  }
}
