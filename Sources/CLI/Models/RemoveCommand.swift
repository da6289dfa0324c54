// `mlxserve rm`: takes models out of the cache, after saying what goes.

import Hub
import Platform

enum RemoveCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let settings = try flags.hubSettings()
    let cache = HubCache(root: settings.cache)
    _ = try flags.argument("NAME")
    let removals = try flags.arguments.map { name in
      try CacheRemoval(try ModelLocator.reference(name, settings), in: cache)
    }
    for removal in removals { Terminal.tell("removes \(removal.words), \(Size.words(removal.bytes))") }
    if !flags[.yes] {
      guard isatty(STDIN_FILENO) == 1, Terminal.errorIsTerminal else {
        throw UsageError.missingFlag("yes", hint: "nobody can be asked here")
      }
      StandardStream.write("Remove? [y/N] ", to: STDERR_FILENO)
      guard let answer = readLine(), ["y", "yes"].contains(answer.lowercased()) else {
        return ExitCode.checkFailed
      }
    }
    for removal in removals { try removal.run() }
    Terminal.print("freed \(Size.words(removals.map(\.bytes).sumOfSizes))")
    return ExitCode.success
  }
}
