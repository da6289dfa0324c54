// What `mlxserve` alone says: what is here, what would fit, and what to type.

import Hub
import Platform

enum FirstRun {
  /// - Returns: the exit code: nothing was served.
  static func greet(_ flags: ParsedFlags) throws -> Int32 {
    let settings = try flags.hubSettings()
    let cache = HubCache(root: settings.cache)
    let here = cache.repositories().filter { name in
      cache.commit(of: ModelReference(name)).map { cache.state(name, commit: $0) == .whole } ?? false
    }
    let fitting = KnownModels.fitting(memory: MemoryLimit.bytes)
    if here.isEmpty {
      let words = fitting.map { " \($0.name) (\(Size.words($0.bytes))) suits this machine." } ?? ""
      Terminal.tell("There is no model here yet.\(words)")
    } else {
      let more = here.count > 5 ? ", ..." : ""
      Terminal.tell("Here: " + here.prefix(5).map(\.text).joined(separator: ", ") + more)
    }
    if let fitting {
      Terminal.printError("\(here.isEmpty ? "Fetch it:    " : "Fetch one:   ")mlxserve pull \(fitting.name)")
    }
    if let name = here.first?.text ?? fitting?.name {
      Terminal.printError("Talk to it:  mlxserve run \(name)")
      Terminal.printError("Serve it:    mlxserve --model \(name)")
    }
    Terminal.printError("All models:  mlxserve models")
    Terminal.printError("All flags:   mlxserve --help")
    return ExitCode.usage
  }
}
