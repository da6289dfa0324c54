// Help texts, laid out from the table of flags: what people need first, and the rest with `--all`.

enum Help {
  /// Column at which an explanation starts.
  private static let column = 30
  private static let commandColumn = 15
  /// A command with more flags than this shows the usual ones alone, unless all are asked for.
  private static let most = 16

  /// Flags that people need, in the order in which they are shown.
  private static let usual = [
    "model", "prompt", "language", "format", "output", "beside", "bits", "recipe", "text", "choices", "tasks",
    "svg", "file", "system",
    "temperature", "max-tokens", "continue", "no-thinking",
    "schema",
    "tools", "mcp-config", "quotes", "port",
    "host", "models-dir", "allow-pull", "api-key-file", "memory", "threads", "max-context", "state-dir",
    "embedding-model", "limit", "files", "watch", "rerank", "rebuild", "list", "verbose", "include", "to",
    "dry-run",
    "prompt-tokens", "depth", "index", "show", "compare", "no-ui", "json",
  ]

  /// One screen: the commands, and how to learn more.
  static func overview(_ commands: [Command], isWhole: Bool) -> String {
    var lines = ["mlxserve runs language models on the CPU and serves them to OpenAI clients.", ""]
    lines += ["Usage: mlxserve [COMMAND] [MODEL] [FLAGS]"]
    for section in Command.Section.allCases {
      lines += ["", section.rawValue + ":"]
      lines += commands.filter { $0.section == section }.map { entry($0.name, $0.summary, commandColumn) }
    }
    lines += ["", "Help:"]
    lines.append(entry("COMMAND --help", "its usual flags; with --all every flag", commandColumn))
    if isWhole, let serve = commands.first { lines += groups(serve.groups + [Flags.configuration]) }
    return wrapped(lines)
  }

  static func text(of command: Command, isWhole: Bool) -> String {
    let all = command.groups + [Flags.configuration]
    var lines = ["mlxserve \(command.name): \(command.summary)", "", "Usage: \(command.usage)"]
    let flags = command.flags
    if isWhole || flags.count <= most {
      lines += groups(all)
    } else {
      let shown = usual.compactMap { name in flags.first { $0.name == name } }
      lines += ["", "Flags:"] + shown.map(entry)
      lines += ["", "\(flags.count - shown.count) more: mlxserve \(command.name) --help --all"]
    }
    return wrapped(lines)
  }

  private static func wrapped(_ lines: [String]) -> String {
    lines.map { line in
      line.contains("\n") || line.hasPrefix("  ")
        ? line : Paragraph.wrapped(line, after: "", column: 2, width: Terminal.textWidth)
    }.joined(separator: "\n")
  }

  private static func groups(_ groups: [FlagGroup]) -> [String] {
    groups.flatMap { ["", $0.title + ":"] + $0.flags.map(entry) }
  }

  private static func entry(_ flag: Flag) -> String {
    let value = flag.placeholder.isEmpty ? "" : " " + flag.placeholder
    let usual = flag.defaultText.map { " (default: \($0))" } ?? ""
    return entry("--\(flag.name)\(value)", flag.help + usual, column)
  }

  /// `  name      explanation`, wrapped with a hanging indent.
  private static func entry(_ name: String, _ explanation: String, _ column: Int) -> String {
    Paragraph.wrapped(explanation, after: "  " + name, column: column, width: Terminal.textWidth)
  }
}
