// Help texts, laid out from the table of flags.

enum Help {
  /// Column at which the explanation of a flag starts.
  private static let column = 30

  static func overview(_ commands: [Command]) -> String {
    var lines = [
      "mlxserve serves MLX and Hugging Face language models to OpenAI clients, on the CPU.", "",
      "Usage:",
    ]
    lines += commands.map { Paragraph.wrapped("  " + $0.usage, column: 6, width: Terminal.textWidth) }
    lines += ["", "Commands:"]
    lines += commands.map { entry($0.name, $0.summary) }
    lines.append(entry("help COMMAND", "the flags of a command, as COMMAND --help"))
    if let serve = commands.first { lines += groups(serve.groups + [Flags.configuration]) }
    lines += ["", entry("--version", "print the version"), entry("--help", "print this")]
    return lines.joined(separator: "\n")
  }

  static func text(of command: Command) -> String {
    ([
      Paragraph.wrapped(
        "mlxserve \(command.name): \(command.summary)", column: 2, width: Terminal.textWidth), "", "Usage:",
      Paragraph.wrapped("  " + command.usage, column: 6, width: Terminal.textWidth),
    ]
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
    Paragraph.wrapped(explanation, after: "  " + name, column: column, width: Terminal.textWidth)
  }
}
