// `mlxserve launch AGENT`: shows what an agent has to know of a running server, writes it if asked, starts the agent.

import HTTP
import JSON
import Platform

enum LaunchCommand {
  /// Agents need that much for their instructions and a few files.
  private static let comfortable = 16_384
  private static let replyLimit = 4 << 20

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    guard let name = flags.arguments.first else {
      for agent in Agent.all { Terminal.print(Terminal.column(agent.name) + agent.title) }
      return ExitCode.success
    }
    guard let agent = Agent.all.first(where: { $0.name == name }) else {
      throw AgentError.unknown(name, suggestion: suggest(for: name, among: Agent.all.map(\.name)))
    }
    let facts = try facts(flags)
    guard let home = Environment.value("HOME"), home.hasPrefix("/") else {
      throw AgentError.noServer("HOME names no folder, so that agents have no place for settings")
    }
    let files = try agent.files.map { try AgentFile($0, facts, home: home) }
    show(agent, facts, files, home: home)
    if flags[.print] { return ExitCode.success }
    guard try write(files.filter(\.isChanged), flags) else { return ExitCode.checkFailed }
    guard let program = agent.program, !flags[.noStart] else { return ExitCode.success }
    guard let path = ChildProcess.find(program) else {
      throw AgentError.notInstalled(program: program, title: agent.title)
    }
    for (name, value) in environment(of: agent, facts, home: home) { unsafe setenv(name, value, 1) }
    try replaceProcess(
      with: path, [program] + arguments(of: agent, facts) + flags.arguments.dropFirst())
  }

  // MARK: The server

  private static func facts(_ flags: ParsedFlags) throws -> AgentFacts {
    let host = ServeSetup.reachable(ServeSetup.host(flags))
    let port = flags[.port] ?? 8080
    let url = "http://\(Endpoint(address: host, port: port))"
    let key = flags[.apiKey] ?? Environment.value(ServeSetup.keyVariable)
    let reply = Probe.get(
      host: host, port: port, path: "/v1/models", key: key, limit: replyLimit, seconds: 5)
    guard let reply else {
      throw AgentError.noServer(
        "nothing answers at \(url): start 'mlxserve serve MODEL' first, or name --host and --port")
    }
    guard reply.status != 401 else {
      throw AgentError.noServer("\(url) wants a key: set MLXSERVE_API_KEY, or give --api-key")
    }
    guard reply.status == 200,
      let list = try? JSONValue(parsing: String(decoding: reply.body, as: UTF8.self)),
      let models = list["data"]?.arrayValue
    else {
      throw AgentError.noServer("\(url) answers with status \(reply.status), and not with a list of models")
    }
    var facts = try facts(url, models, wanted: flags[.model])
    if let key { facts.key = key }
    return facts
  }

  /// - Parameter models: as `/v1/models` lists them.
  static func facts(_ url: String, _ models: [JSONValue], wanted: String?) throws -> AgentFacts {
    let chats = models.filter { $0["task"]?.stringValue ?? "chat" == "chat" }
    let model = chats.first { model in
      guard let wanted else { return model["context_length"]?.intValue != nil }
      return model["id"]?.stringValue == wanted
        || model["aliases"]?.arrayValue?.contains(.string(wanted)) == true
    }
    let names = chats.compactMap { $0["id"]?.stringValue }.joined(separator: ", ")
    guard let model, let id = model["id"]?.stringValue else {
      throw AgentError.noServer(
        wanted.map { "\(url) has no model '\($0)' that talks; it has \(names)" }
          ?? "no model that talks is loaded at \(url), so that its context is unknown; name one with --model: \(names)"
      )
    }
    guard let context = model["context_length"]?.intValue, context > 0 else {
      throw AgentError.noServer(
        "'\(id)' is not loaded, so that its context is unknown: ask it something first, or load it on the page at \(url)/"
      )
    }
    return AgentFacts(url: url, model: id, context: context)
  }

  // MARK: What is shown

  static func arguments(of agent: Agent, _ facts: AgentFacts) -> [String] {
    agent.arguments.map { facts.filled($0, quotes: $0.contains("\"")) }
  }

  static func environment(of agent: Agent, _ facts: AgentFacts, home: String) -> [(
    name: String, value: String
  )] {
    agent.environment.map { name, text in
      if text.hasPrefix("~/") { return (name, home + text.dropFirst()) }
      guard text.hasPrefix("{\""), let value = try? JSONValue(parsing: text) else {
        return (name, facts.filled(text))
      }
      return (name, facts.filled(value).text)
    }
  }

  private static func show(_ agent: Agent, _ facts: AgentFacts, _ files: [AgentFile], home: String) {
    Terminal.print(
      "\(agent.title) with \(facts.model) at \(facts.url): context \(grouped(facts.context)), answers up to "
        + "\(grouped(facts.output)) tokens")
    if let note = shortage(agent, facts) { Terminal.tell(note) }
    var shown = facts
    // A key is nobody else's concern.
    if facts.key != "none" { shown.key = "$MLXSERVE_API_KEY" }
    for (name, value) in environment(of: agent, shown, home: home) {
      Terminal.print("export \(name)=\(quoted(value))")
    }
    for file in files {
      Terminal.print(file.isChanged ? "\(file.path):" : "\(file.path) is as it should be")
      if file.isChanged {
        for line in file.difference {
          Terminal.print(
            Terminal.safe(facts.key == "none" ? line : line.replacing(facts.key, with: shown.key)))
        }
      }
    }
    if let program = agent.program {
      Terminal.print(([program] + arguments(of: agent, shown).map(quoted)).joined(separator: " "))
    }
    for step in agent.steps { Terminal.print(shown.filled(step)) }
  }

  /// What is said of a context that is short for an agent; nil for one that is not.
  static func shortage(_ agent: Agent, _ facts: AgentFacts) -> String? {
    guard facts.context < comfortable else { return nil }
    let sent =
      agent.firstRequest.map { "the first request of \(agent.title) has some \(grouped($0)) tokens" }
      ?? "agents often send more than \(grouped(facts.context)) tokens at once"
    return "note: \(sent). What is longer than the model's context is refused, not cut: serve with a larger "
      + "--max-context, or a model that has room for more."
  }

  /// As a shell takes it.
  static func quoted(_ text: String) -> String {
    let isPlain = text.utf8.allSatisfy {
      (48...57).contains($0) || (65...90).contains($0) || (97...122).contains($0)
        || "-_./:,=@".utf8.contains($0)
    }
    if isPlain, !text.isEmpty { return text }
    return text == "$MLXSERVE_API_KEY" ? "\"\(text)\"" : "'" + text.replacing("'", with: #"'\''"#) + "'"
  }

  // MARK: What is done

  /// False where it was not to be.
  static func write(_ files: [AgentFile], _ flags: ParsedFlags) throws -> Bool {
    guard !files.isEmpty else { return true }
    if !flags[.write] {
      guard Terminal.inputIsTerminal, Terminal.errorIsTerminal else {
        throw UsageError.missingFlag("write", hint: "nobody can be asked here; --print only shows")
      }
      StandardStream.write("Write? [y/N] ", to: STDERR_FILENO)
      guard let answer = readLine(), ["y", "yes"].contains(answer.lowercased()) else { return false }
    }
    for file in files {
      let backup = try file.write()
      Terminal.print("wrote \(file.path)" + (backup.map { "; as it was: \($0)" } ?? ""))
    }
    return true
  }

  private static func replaceProcess(with path: String, _ words: [String]) throws -> Never {
    var pointers: [UnsafeMutablePointer<CChar>?] = unsafe words.map { unsafe strdup($0) }
    unsafe pointers.append(nil)
    unsafe execv(path, pointers)
    throw AgentError.notStarted(program: path, code: errno)
  }
}
