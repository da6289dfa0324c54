// The subcommands, their help, and the way from argv to an exit code.

import Platform

extension Command {
  /// Of all commands, each name once.
  static let allFlags: [Flag] = {
    var seen: Set<String> = []
    return all.flatMap { $0.groups.flatMap(\.flags) }.filter { seen.insert($0.name).inserted }
  }()

  static let all: [Command] = [
    Command(
      name: "serve", section: .talk, summary: "serve models to OpenAI clients (the default command)",
      usage: "mlxserve [serve] [MODEL] [--port N] [--host H] [flags]",
      groups: Flags.serving, takesModel: true, run: ServeCommand.run),
    Command(
      name: "chat", section: .talk, summary: "talk to a model in the terminal",
      usage: "mlxserve chat [MODEL] [flags]",
      groups: [Flags.model, Flags.chat, Flags.conversation, Flags.cache], takesModel: true,
      run: ChatCommand.run),
    Command(
      name: "run", section: .talk,
      summary: "answer one prompt, about standard input if there is any",
      usage: "mlxserve run MODEL [\"prompt\"] [flags]",
      groups: [Flags.model, Flags.chat, Flags.answer, Flags.cache], takesNames: true,
      run: ChatCommand.runOnce),
    Command(
      name: "ask", section: .talk,
      summary: "answer a question about documents, which are read once",
      usage: "mlxserve ask FILE... [\"question\"] [flags]",
      groups: [Flags.askedModel, Flags.documents, Flags.chat, Flags.asked, Flags.cache], takesNames: true,
      run: DocumentCommand.ask),
    Command(
      name: "read", section: .talk,
      summary: "read documents ahead, so that 'ask' answers at once",
      usage: "mlxserve read FILE... [flags]",
      groups: [Flags.askedModel, Flags.documents, Flags.read, Flags.cache], takesNames: true,
      run: DocumentCommand.read),
    Command(
      name: "transcribe", section: .talk, summary: "write down what is said in sound files",
      usage: "mlxserve transcribe FILE... [flags]",
      groups: [Flags.speechModel, Flags.transcript, Flags.cache], takesNames: true,
      run: TranscribeCommand.run),
    Command(
      name: "launch", section: .talk,
      summary: "tell a coding agent or chat program about a running server, and start it",
      usage: "mlxserve launch [AGENT] [flags] [-- ARGUMENTS of the agent]",
      groups: [Flags.launch, Flags.place], takesNames: true, words: Agent.all.map(\.name),
      run: LaunchCommand.run),
    Command(
      name: "pull", section: .models, summary: "download a model from the hub",
      usage: "mlxserve pull OWNER/NAME[@REVISION] [flags]",
      groups: [Flags.pull, Flags.cache], takesNames: true, run: PullCommand.run),
    Command(
      name: "models", section: .models,
      summary: "list the models that have short names, with sizes and speeds",
      usage: "mlxserve models [WORD...] [flags]",
      groups: [Flags.knownModels, Flags.cache], takesNames: true, run: ModelsCommand.run),
    Command(
      name: "list", section: .models, summary: "list the downloaded models",
      usage: "mlxserve list [flags]",
      groups: [Flags.list, Flags.cache], run: ListCommand.run),
    Command(
      name: "show", section: .models, summary: "show what a model is and what it needs",
      usage: "mlxserve show NAME [flags]",
      groups: [Flags.show, Flags.cache], takesNames: true, run: ShowCommand.run),
    Command(
      name: "rm", section: .models, summary: "delete models from the cache",
      usage: "mlxserve rm NAME... [flags]",
      groups: [Flags.remove, Flags.cache], takesNames: true, run: RemoveCommand.run),
    Command(
      name: "prepare", section: .models,
      summary: "store a model's weights in the order of this machine's kernels, for quick starts",
      usage: "mlxserve prepare MODEL [flags]",
      groups: [Flags.preparedModel, Flags.prepare, Flags.cache], takesModel: true, run: PrepareCommand.run),
    Command(
      name: "convert", section: .models,
      summary: "write a model in MLX's layout, quantized as asked",
      usage: "mlxserve convert MODEL --output DIR [flags]",
      groups: [Flags.convertedModel, Flags.convert, Flags.cache], takesModel: true, run: ConvertCommand.run),
    Command(
      name: "fuse", section: .models,
      summary: "write a model with an adapter added to its weights",
      usage: "mlxserve fuse MODEL --adapter DIR --output DIR [flags]",
      groups: [Flags.convertedModel, Flags.fuse, Flags.cache], takesModel: true, run: ConvertCommand.fuse),
    Command(
      name: "search", section: .search,
      summary: "search a folder of notes by meaning, with a reason for each result",
      usage: "mlxserve search FOLDER \"what you look for\" [flags]",
      groups: [Flags.search], takesNames: true, run: SearchCommand.run),
    Command(
      name: "mcp", section: .search,
      summary: "give folders of notes to assistants, as tools that search and read",
      usage: "mlxserve mcp FOLDER... [flags] | mlxserve mcp install [CLIENT FOLDER...]",
      groups: [Flags.notes], takesNames: true, words: ["install"], run: MCPCommand.run),
    Command(
      name: "embed", section: .search,
      summary: "print vectors of texts, or how similar the texts are",
      usage: "mlxserve embed MODEL [TEXT...] [flags]",
      groups: [Flags.encoder, Flags.embed, Flags.cache], takesNames: true, run: EmbedCommand.run),
    Command(
      name: "bench", section: .measure,
      summary: "measure the speed of prompts, answers and searches",
      usage: "mlxserve bench MODEL [flags]",
      groups: [Flags.model, Flags.bench, Flags.cache], takesModel: true, run: BenchCommand.run),
    Command(
      name: "perplexity", section: .measure,
      summary: "measure how well a model predicts a text, and what the fast mode costs",
      usage: "mlxserve perplexity MODEL --text FILE [flags]",
      groups: [Flags.evaluatedModel, Flags.perplexity, Flags.cache], takesModel: true,
      run: PerplexityCommand.run),
    Command(
      name: "eval", section: .measure,
      summary: "compare models by a text, questions with choices, tasks, and calls of tools",
      usage: "mlxserve eval MODEL [MODEL...] --text FILE [flags]",
      groups: [Flags.comparedModels, Flags.eval, Flags.cache], takesModel: true, run: EvalCommand.run),
    Command(
      name: "verify", section: .measure,
      summary: "check a model before you use it, or what a server has stored",
      usage: "mlxserve verify MODEL [flags]",
      groups: [Flags.evaluatedModel, Flags.verify, Flags.cache], takesModel: true, run: VerifyCommand.run),
    Command(
      name: "check", section: .measure,
      summary: "compute answers again and compare them with their receipts",
      usage: "mlxserve check RECEIPT... --model MODEL [flags]",
      groups: [Flags.check, Flags.model, Flags.cache], takesNames: true, run: CheckCommand.run),
    Command(
      name: "replay", section: .measure,
      summary: "answer the requests of a recording again, and show what differs",
      usage: "mlxserve replay RECORDING --model MODEL [flags]",
      groups: [Flags.replay, Flags.model, Flags.cache], takesNames: true, run: ReplayCommand.run),
    Command(
      name: "media", section: .measure, summary: "show how an image or an audio clip is decoded",
      usage: "mlxserve media --file FILE [flags]", groups: [Flags.media], run: MediaCommand.run),
    Command(
      name: "doctor", section: .measure,
      summary: "check what this machine has for serving, and what it lacks",
      usage: "mlxserve doctor [flags]",
      groups: [Flags.report, Flags.doctor, Flags.place, Flags.cache], run: DoctorCommand.run),
    Command(
      name: "config", section: .program,
      summary: "show the settings of serve, and where each came from",
      usage: "mlxserve config [--show] [flags of serve]",
      groups: [Flags.config] + Flags.serving, run: ConfigCommand.run),
    Command(
      name: "health", section: .program, summary: "ask a server on this machine whether it is ready",
      usage: "mlxserve health [--host H] [--port N]",
      groups: [Flags.place, Flags.health], run: HealthCommand.run),
    Command(
      name: "version", section: .program, summary: "print the version, the build and the kernels",
      usage: "mlxserve version [--json]", groups: [Flags.report], run: VersionCommand.run),
    Command(
      name: "completions", section: .program, summary: "print completions for bash, zsh or fish",
      usage: "mlxserve completions SHELL", groups: [], takesNames: true, run: CompletionsCommand.run),
    Command(
      name: "man", section: .program, summary: "print the manual page", usage: "mlxserve man", groups: [],
      run: ManCommand.run),
  ]
}

/// The entry point of the executable.
package enum CommandLineTool {
  /// Runs the tool and ends the process with one of the codes of `ExitCode`.
  package static func runAndExit(_ arguments: [String]) -> Never {
    Machine.returnFreedMemory()
    StandardStream.openMissing()
    Signals.ignorePipe()
    Signals.reportFaults(version: Version.text)
    // The runtime finds them there; a server needs it for other reasons too.
    guard !arguments.isEmpty else {
      Terminal.printError("mlxserve: cannot read the arguments: mount /proc (mount -t proc proc /proc)")
      exit(ExitCode.usage)
    }
    exit(run(Array(arguments.dropFirst())))
  }

  static func run(_ arguments: [String]) -> Int32 {
    var command: Command?
    do {
      return try dispatch(arguments, &command)
    } catch let error as UsageError {
      Terminal.tell(
        "mlxserve: \(words(of: error))\nTry 'mlxserve \(command.map { $0.name + " " } ?? "")--help'.")
      return 2
    } catch {
      Terminal.tell("mlxserve: \(words(of: error))")
      return ExitCode.of(error)
    }
  }

  /// An error, which may name what somebody else has named.
  private static func words(of error: any Error) -> String { Terminal.safe("\(error)", keepsLines: true) }

  /// - Parameter command: set once it is known, also where what follows is wrong.
  private static func dispatch(_ arguments: [String], _ command: inout Command?) throws -> Int32 {
    var rest = arguments[...]
    if let first = rest.first, !first.hasPrefix("-") {
      rest = rest.dropFirst()
      if first == "help" {
        let name = rest.first { !$0.hasPrefix("-") }
        return printHelp(for: try name.map { try find($0) }, isWhole: rest.contains("--all"))
      }
      command = try find(first)
    }
    if rest.contains("--help") || rest.contains("-h") {
      return printHelp(for: command, isWhole: rest.contains("--all"))
    }
    let chosen = command ?? Command.all[0]
    if rest.contains("--version") || (rest.contains("-v") && !chosen.flags.contains { $0.name == "verbose" })
    {
      for line in BuildInfo.lines { Terminal.print(line) }
      return 0
    }
    var given = try ParsedFlags(
      rest, flags: chosen.flags, takesArguments: chosen.takesNames || chosen.takesModel)
    if chosen.takesModel {
      given.takeModel(several: chosen.flags.contains { $0.name == "model" && $0.isRepeatable })
    }
    if !chosen.takesNames, let word = given.arguments.first { throw UsageError.unexpectedArgument(word) }
    let flags = try withSettings(given, of: chosen)
    if rest.isEmpty && command == nil && !flags.isSet(.model) && !flags.isSet(.modelsDir)
      && !flags[.allowPull]
    {
      return try FirstRun.greet(flags)
    }
    return try chosen.run(flags)
  }

  /// Words of other programs for what these commands do.
  private static let otherNames = [
    "ls": "list", "ps": "list", "get": "pull", "download": "pull", "delete": "rm", "remove": "rm",
    "start": "serve",
    "server": "serve", "generate": "run", "prompt": "run", "info": "show", "benchmark": "bench",
    "settings": "config", "status": "health", "quantize": "convert", "evaluate": "eval",
  ]

  private static func find(_ name: String) throws(UsageError) -> Command {
    if let command = Command.all.first(where: { $0.name == (name == "ls" ? "list" : name) }) {
      return command
    }
    throw .unknownCommand(
      Terminal.safe(name),
      // What users of other servers type first.
      suggestion: File.isDirectory(name)
        ? "serve \(Terminal.safe(name))"
        : otherNames[name] ?? suggest(for: name, among: Command.all.map(\.name) + ["help"]))
  }

  /// With what the environment and the configuration file say.
  private static func withSettings(_ given: ParsedFlags, of command: Command) throws -> ParsedFlags {
    var flags = given
    tellUnreadVariables(asJSON: flags[.jsonLog])
    try flags.fill(try ConfigurationFile.environment(command.flags), flags: command.flags)
    guard !flags[.noConfig],
      let file = try ConfigurationFile.find(flags[.config], flags: Command.allFlags)
    else {
      return flags
    }
    flags.configurationPath = file.path
    try flags.fill(file.settings, flags: command.flags)
    return flags
  }

  /// A mistyped variable would be a setting that is silently not there.
  private static func tellUnreadVariables(asJSON: Bool) {
    for (name, meant) in ConfigurationFile.unread(Environment.all, flags: Command.allFlags) {
      let advice =
        meant.map { "did you mean \($0)?" } ?? "'mlxserve --help' lists the flags; each has a variable"
      if asJSON {
        Log.configure(level: .info, json: true)
        Log.warning("a variable means nothing", ["variable": name, "advice": advice])
      } else {
        Terminal.tell("mlxserve: the variable \(Terminal.safe(name)) means nothing; \(advice)")
      }
    }
  }

  private static func printHelp(for command: Command?, isWhole: Bool) -> Int32 {
    Terminal.print(
      command.map { Help.text(of: $0, isWhole: isWhole) } ?? Help.overview(Command.all, isWhole: isWhole))
    return 0
  }
}
