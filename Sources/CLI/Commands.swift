// The subcommands, their help, and the way from argv to an exit code.

import Platform

/// A subcommand as data.
struct Command: Sendable {
  let name: String
  let summary: String
  let usage: String
  let groups: [FlagGroup]
  let run: @Sendable (ParsedFlags) throws -> Int32

  var flags: [Flag] { groups.flatMap(\.flags) }

  static let all: [Command] = [
    Command(
      name: "serve", summary: "serve models to OpenAI clients (the default command)",
      usage: "mlxserve --model DIR [--port N] [--host H] [flags]",
      groups: [
        Flags.servedModels, Flags.serve, Flags.encoders, Flags.access, Flags.limits, Flags.logging,
        Flags.testing,
      ],
      run: ServeCommand.run),
    Command(
      name: "chat", summary: "talk to a model in the terminal",
      usage: "mlxserve chat --model DIR [flags]",
      groups: [Flags.model, Flags.chat], run: ChatCommand.run),
    Command(
      name: "bench", summary: "measure prefill and decode speed",
      usage: "mlxserve bench --model DIR [flags]",
      groups: [Flags.model, Flags.bench], run: BenchCommand.run),
    Command(
      name: "perplexity", summary: "measure how well a model predicts a text, and what fast mode costs",
      usage: "mlxserve perplexity --model DIR --text FILE [flags]",
      groups: [Flags.evaluatedModel, Flags.perplexity], run: PerplexityCommand.run),
    Command(
      name: "verify", summary: "check a model folder before it is used, and what a server has stored",
      usage: "mlxserve verify --model DIR [flags]",
      groups: [Flags.evaluatedModel, Flags.verify], run: VerifyCommand.run),
    Command(
      name: "media", summary: "show what the decoders make of an image or an audio clip",
      usage: "mlxserve media --file FILE [flags]", groups: [Flags.media], run: MediaCommand.run),
  ]
}

/// The entry point of the executable.
package enum CommandLineTool {
  package static let version = "0.1.0"

  /// Runs the tool and ends the process: 0 success, 1 what `verify` looked at cannot be used, 2 an error, told in a line, 3 a
  /// model file that was cut while mapped.
  package static func runAndExit(_ arguments: [String]) -> Never {
    Machine.returnFreedMemory()
    StandardStream.openMissing()
    Signals.ignorePipe()
    Signals.reportFaults(version: version)
    exit(run(Array(arguments.dropFirst())))
  }

  static func run(_ arguments: [String]) -> Int32 {
    do {
      return try dispatch(arguments)
    } catch let error as UsageError {
      Terminal.printError("mlxserve: \(error)\nTry 'mlxserve --help'.")
      return 2
    } catch {
      Terminal.printError("mlxserve: \(error)")
      return 2
    }
  }

  private static func dispatch(_ arguments: [String]) throws -> Int32 {
    var rest = arguments[...]
    var command: Command?
    if let first = rest.first, !first.hasPrefix("-") {
      rest = rest.dropFirst()
      if first == "help" {
        return printHelp(for: rest.first.flatMap { name in Command.all.first { $0.name == name } })
      }
      command = Command.all.first { $0.name == first }
      guard command != nil else {
        throw UsageError.unknownCommand(
          first,
          // What users of other servers type first.
          suggestion: File.isDirectory(first)
            ? "serve --model \(first)" : suggest(for: first, among: Command.all.map(\.name) + ["help"]))
      }
    }
    if rest.contains("--help") || rest.contains("-h") { return printHelp(for: command) }
    if rest.contains("--version") {
      Terminal.print("mlxserve \(version)")
      return 0
    }
    if rest.isEmpty && command == nil {
      Terminal.printError(Help.overview(Command.all))
      return 2
    }
    let chosen = command ?? Command.all[0]
    return try chosen.run(ParsedFlags(rest, flags: chosen.flags))
  }

  private static func printHelp(for command: Command?) -> Int32 {
    Terminal.print(command.map { Help.text(of: $0) } ?? Help.overview(Command.all))
    return 0
  }
}
