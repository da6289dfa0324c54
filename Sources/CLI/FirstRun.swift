// What `mlxserve` alone says: what is here, what would fit, and what to type.

import Hub
import Platform

enum FirstRun {
  /// - Returns: the exit code: nothing was served.
  static func greet(_ flags: ParsedFlags) throws -> Int32 {
    let settings = try flags.hubSettings()
    let here = ModelLocator.here(settings).map(\.name)
    let fitting = ModelSpeed.fitting
    if here.isEmpty {
      let words = fitting.map { " \(ModelSpeed.words($0)) suits this machine." } ?? ""
      Terminal.tell("There is no model here yet.\(words)")
    } else {
      let more = here.count > 5 ? ", ..." : ""
      Terminal.tell("Here: " + here.prefix(5).joined(separator: ", ") + more)
    }
    if let fitting {
      Terminal.printError("\(here.isEmpty ? "Fetch it:    " : "Fetch one:   ")mlxserve pull \(fitting.name)")
    }
    if let name = here.first ?? fitting?.name {
      Terminal.printError("Talk to it:  mlxserve run \(name)")
      Terminal.printError("Serve it:    mlxserve serve \(name)")
    }
    Terminal.printError("All models:  mlxserve models")
    Terminal.printError("Help:        mlxserve --help")
    return ExitCode.usage
  }
}
