// What shells complete, written from the table of commands and flags: bash, zsh and fish.

enum Shell: String, CaseIterable { case bash, zsh, fish }

enum Completions {
  static func text(for shell: Shell) -> String {
    switch shell {
    case .bash: bash
    case .zsh: zsh
    case .fish: fish
    }
  }

  /// What the value of a flag is.
  private enum Value {
    case none, file, folder, model, other
    case words([String])
  }

  private static func value(of flag: Flag) -> Value {
    switch flag.kind {
    case .toggle: return .none
    case .choice(let words): return .words(words)
    case .text where flag.name == "model" || flag.name == "preload": return .model
    case .text where flag.placeholder == "DIR": return .folder
    case .text where ["FILE", "OUT", "PATH"].contains(flag.placeholder): return .file
    case .text, .integer, .decimal, .integers: return .other
    }
  }

  /// Names of models that are here, one a line.
  private static let listing = "mlxserve list --names 2>/dev/null"

  private static var commands: [Command] { Command.all }
  private static func flags(_ command: Command) -> [Flag] { command.flags }

  // MARK: bash

  private static var bash: String {
    var lines = [
      "# bash completion for mlxserve; made by 'mlxserve completions bash'.", "_mlxserve() {",
      "  local cur prev command word", "  COMPREPLY=()", "  cur=${COMP_WORDS[COMP_CWORD]}",
      "  prev=${COMP_WORDS[COMP_CWORD-1]}", "  command=serve",
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do", "    case $word in",
      "      \(commands.map(\.name).joined(separator: "|"))) command=$word; break ;;", "    esac", "  done",
      "  case $command:$prev in",
    ]
    for command in commands {
      for flag in flags(command) {
        let pattern = "    \(command.name):--\(flag.name))"
        switch value(of: flag) {
        case .none: continue
        case .file: lines.append("\(pattern) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;")
        case .folder: lines.append("\(pattern) COMPREPLY=($(compgen -d -- \"$cur\")); return ;;")
        case .model:
          lines.append("\(pattern) COMPREPLY=($(compgen -d -W \"$(\(listing))\" -- \"$cur\")); return ;;")
        case .words(let words):
          lines.append(
            "\(pattern) COMPREPLY=($(compgen -W '\(words.joined(separator: " "))' -- \"$cur\")); return ;;")
        case .other: lines.append("\(pattern) return ;;")
        }
      }
    }
    lines += ["  esac", "  case $command in"]
    for command in commands {
      let names = flags(command).map { "--" + $0.name }.joined(separator: " ")
      let more = command.completesNames ? " $(\(listing))" : command.words.map { " " + $0 }.joined()
      lines.append("    \(command.name)) words=\"\(names) --help\(more)\" ;;")
    }
    lines += [
      "  esac",
      "  if [[ $COMP_CWORD -eq 1 ]]; then words=\"$words \(commands.map(\.name).joined(separator: " ")) help\"; fi",
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))", "}", "complete -F _mlxserve mlxserve",
    ]
    return lines.joined(separator: "\n").replacing(
      "local cur prev command word", with: "local cur prev command word words")
  }

  // MARK: zsh

  private static func zshQuoted(_ text: String) -> String {
    var out = ""
    for character in text {
      switch character {
      case "'": out += "'\\''"
      case "[", "]", ":": out += "\\\(character)"
      default: out.append(character)
      }
    }
    return out
  }

  private static var zsh: String {
    var lines = [
      "#compdef mlxserve", "# zsh completion for mlxserve; made by 'mlxserve completions zsh'.",
      "_mlxserve_models() { local -a found; found=(${(f)\"$(\(listing))\"}); compadd -a found; _files -/ }",
      "_mlxserve() {", "  local command=serve", "  local -a commands",
      "  commands=(",
    ]
    lines += commands.map { "    '\($0.name):\(zshQuoted($0.summary))'" }
    lines += [
      "  )",
      "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then _describe command commands; return; fi",
      // What is left is a command's flags and names: its own name would be taken for one.
      "  if (( CURRENT > 2 )) && [[ -n ${commands[(r)$words[2]:*]} ]]; then command=$words[2]; words[2]=(); (( CURRENT-- )); fi",
      "  case $command in",
    ]
    for command in commands {
      lines.append("    \(command.name))")
      lines.append("      _arguments \\")
      for flag in flags(command) {
        let star = flag.isRepeatable ? "*" : ""
        let head = "\(star)--\(flag.name)\(zshValue(flag))"
        lines.append("        '\(head)' \\")
      }
      lines.append("        '--help[print the flags of the command]'")
      if command.completesNames { lines[lines.count - 1] += " '*:model:_mlxserve_models'" }
      if !command.words.isEmpty {
        lines[lines.count - 1] += " '*:name:(\(command.words.joined(separator: " ")))'"
      }
      lines.append("      ;;")
    }
    lines += [
      "  esac", "}",
      "if [ \"$funcstack[1]\" = _mlxserve ]; then _mlxserve \"$@\"; else compdef _mlxserve mlxserve; fi",
    ]
    return lines.joined(separator: "\n")
  }

  private static func zshValue(_ flag: Flag) -> String {
    let help = "[\(zshQuoted(flag.help))]"
    let name = zshQuoted(flag.placeholder)
    switch value(of: flag) {
    case .none: return help
    case .file: return "\(help):\(name):_files"
    case .folder: return "\(help):\(name):_files -/"
    case .model: return "\(help):\(name):_mlxserve_models"
    case .words(let words): return "\(help):\(name):(\(words.joined(separator: " ")))"
    case .other: return "\(help):\(name): "
    }
  }

  // MARK: fish

  private static func fishQuoted(_ text: String) -> String {
    "'" + text.map { $0 == "'" || $0 == "\\" ? "\\\($0)" : String($0) }.joined() + "'"
  }

  private static var fish: String {
    let names = commands.map(\.name).joined(separator: " ")
    var lines = [
      "# fish completion for mlxserve; made by 'mlxserve completions fish'.", "complete -c mlxserve -f",
    ]
    for command in commands {
      lines.append(
        "complete -c mlxserve -n 'not __fish_seen_subcommand_from \(names)' -a \(command.name) -d \(fishQuoted(command.summary))"
      )
    }
    for command in commands {
      // Flags without a command are those of the first.
      let seen =
        command.name == commands.first?.name
        ? "__fish_seen_subcommand_from \(command.name); or not __fish_seen_subcommand_from \(names)"
        : "__fish_seen_subcommand_from \(command.name)"
      for flag in flags(command) {
        let value: String =
          switch value(of: flag) {
          case .none: ""
          case .file: " -r -F"
          case .folder: " -x -a '(__fish_complete_directories)'"
          case .model: " -x -a '(\(listing)) (__fish_complete_directories)'"
          case .words(let words): " -x -a '\(words.joined(separator: " "))'"
          case .other: " -x"
          }
        lines.append("complete -c mlxserve -n '\(seen)' -l \(flag.name)\(value) -d \(fishQuoted(flag.help))")
      }
      if command.completesNames || !command.words.isEmpty {
        let words = command.completesNames ? "(\(listing))" : command.words.joined(separator: " ")
        lines.append("complete -c mlxserve -n '\(seen)' -a '\(words)'")
      }
    }
    return lines.joined(separator: "\n")
  }
}
