// Help texts, laid out from the table of flags.

enum Help {
  /// Column at which the explanation of a flag starts.
  private static let column = 30
  private static let width = 100

  static func overview(_ commands: [Command]) -> String {
    var lines = [
      "mlxserve serves MLX and Hugging Face language models to OpenAI clients, on the CPU.", "",
      "Usage:",
    ]
    lines += commands.map { "  \($0.usage)" }
    lines += ["", "Commands:"]
    lines += commands.map { entry($0.name, $0.summary) }
    lines.append(entry("help COMMAND", "the flags of a command, as COMMAND --help"))
    if let serve = commands.first { lines += groups(serve.groups + [Flags.configuration]) }
    lines += ["", entry("--version", "print the version"), entry("--help", "print this")]
    return lines.joined(separator: "\n")
  }

  static func text(of command: Command) -> String {
    (["mlxserve \(command.name): \(command.summary)", "", "Usage:", "  \(command.usage)"]
      + groups(command.groups + [Flags.configuration]))
      .joined(separator: "\n")
  }

  private static func groups(_ groups: [FlagGroup]) -> [String] {
    groups.flatMap { group in
      ["", group.title + ":"]
        + group.flags.map { flag in
          let value = flag.placeholder.isEmpty ? "" : " " + flag.placeholder
          return entry(
            "--\(flag.name)\(value)", flag.help + (flag.defaultText.map { " (default: \($0))" } ?? ""))
        }
    }
  }

  /// `  name      explanation`, wrapped with a hanging indent.
  private static func entry(_ name: String, _ explanation: String) -> String {
    let head = "  " + name
    var lines: [String] = []
    var line = head + String(repeating: " ", count: max(2, column - head.count))
    for word in explanation.split(separator: " ") {
      if line.count + word.count > width && line.count > column {
        lines.append(line)
        line = String(repeating: " ", count: column)
      }
      line += (line.hasSuffix(" ") ? "" : " ") + word
    }
    return (lines + [line]).joined(separator: "\n")
  }
}
