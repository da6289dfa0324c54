// The manual page, in the macros of man(7), written from the table of commands and flags.

import Platform

enum ManualPage {
  static var text: String {
    let version = Version.text
    var lines = [
      ".\\\" Made by 'mlxserve man'.", ".TH MLXSERVE 1 \"\" \"mlxserve \(version)\" \"User Commands\"",
      ".SH NAME",
      "mlxserve \\- serve language models to OpenAI clients, on the CPU", ".SH SYNOPSIS",
    ]
    for command in Command.all { lines += [".PP", escaped(command.usage)] }
    lines += [
      ".SH DESCRIPTION",
      "mlxserve opens a folder with an MLX or Hugging Face model, or fetches the model from the hub, and serves it over "
        + "HTTP to clients of OpenAI's and Anthropic's APIs.",
      "Without a command it serves.", ".SH COMMANDS",
    ]
    for command in Command.all {
      lines += [".TP", ".B \(escaped(command.name))", escaped(sentence(command.summary))]
    }
    for command in Command.all where !command.groups.isEmpty {
      lines.append(".SH FLAGS OF \(escaped(command.name.uppercased()))")
      for group in command.groups {
        lines.append(".SS \(escaped(group.title))")
        for flag in group.flags {
          lines.append(".TP")
          let value = flag.placeholder.isEmpty ? "" : " \\fI\(escaped(flag.placeholder))\\fR"
          lines.append("\\fB\(escaped("--" + flag.name))\\fR\(value)")
          let usual = flag.defaultText.map { " The default is \($0)." } ?? ""
          let more = flag.isRepeatable && !flag.help.contains("repeat") ? " It may be repeated." : ""
          lines.append(escaped(sentence(flag.help) + usual + more))
        }
      }
    }
    lines.append(".SH EVERY COMMAND")
    for flag in Flags.configuration.flags {
      let value = flag.placeholder.isEmpty ? "" : " \\fI\(escaped(flag.placeholder))\\fR"
      lines += [".TP", "\\fB\(escaped("--" + flag.name))\\fR\(value)", escaped(sentence(flag.help))]
    }
    lines += [
      ".SH CONFIGURATION",
      escaped(
        "Every flag has a variable, MLXSERVE_ and its name in capitals with _ for -, and may stand in a file, as a line "
          + "'name = value'. A flag wins over its variable, the variable over the file. 'mlxserve config --show' tells "
          + "every value and where it came from. Keys are read from the variable MLXSERVE_API_KEY."),
      ".SH FILES", ".TP", ".I ~/.config/mlxserve/config", "Settings of a user.", ".TP",
      ".I /etc/mlxserve/config",
      "Settings of a machine, where the user has none.", ".TP", ".I ~/.cache/huggingface/hub",
      "Models, shared with the tools of the hub.", ".SH EXIT STATUS",
    ]
    for (code, words) in ExitCode.meanings { lines += [".TP", ".B \(code)", escaped(sentence(words))] }
    return lines.joined(separator: "\n")
  }

  /// With a capital and a full stop.
  private static func sentence(_ text: String) -> String {
    text.prefix(1).uppercased() + text.dropFirst() + (text.hasSuffix(".") ? "" : ".")
  }

  /// As text, whatever troff would make of it.
  private static func escaped(_ text: String) -> String {
    var out = ""
    for character in text {
      switch character {
      case "\\": out += "\\e"
      case "-": out += "\\-"
      case "\n": out += " "
      default: out.append(character)
      }
    }
    // A line that begins so would be a command.
    return out.hasPrefix(".") || out.hasPrefix("'") ? "\\&" + out : out
  }
}
