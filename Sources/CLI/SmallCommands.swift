// Commands of a few lines: `version`, `health`, `completions` and `man`.

import HTTP
import JSON
import Platform

enum VersionCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    if flags[.json] {
      Terminal.print(BuildInfo.json.text)
    } else {
      for line in BuildInfo.lines { Terminal.print(line) }
    }
    return ExitCode.success
  }
}

/// For containers without a shell, in which nothing else could ask.
enum HealthCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let host = ServeSetup.reachable(ServeSetup.host(flags))
    let port = flags[.port] ?? 8080
    let status = Probe.status(host: host, port: port, path: "/ready", seconds: flags[.timeout] ?? 3)
    guard status == 200 else {
      Terminal.printError(
        "mlxserve: " + (status.map { "not ready: status \($0)" } ?? "nothing answers on \(host) port \(port)")
      )
      return ExitCode.checkFailed
    }
    Terminal.print("ready")
    return ExitCode.success
  }
}

enum CompletionsCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let name = try flags.argument("SHELL")
    guard let shell = Shell(rawValue: name) else {
      throw UsageError.unexpectedArgument("\(name), expected bash, zsh or fish")
    }
    Terminal.print(Completions.text(for: shell))
    return ExitCode.success
  }
}

enum ManCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    Terminal.print(ManualPage.text)
    return ExitCode.success
  }
}
