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
    let limit = MemoryLimit.bytes / 10 * 9
    let usual = ["qwen3:8b", "qwen3:4b", "qwen3:1.7b"].compactMap { KnownModels.find($0) }
    let fitting = usual.first { $0.memoryBytes <= limit / 2 } ?? KnownModels.find("qwen3:0.6b")
    if let first = here.first {
      let more = here.count > 5 ? ", ..." : ""
      Terminal.printError("Here: " + here.prefix(5).map(\.text).joined(separator: ", ") + more)
      Terminal.printError("Serve one:     mlxserve --model \(first.text)")
      Terminal.printError("Talk to one:   mlxserve chat --model \(first.text)")
    } else {
      Terminal.printError("There is no model here yet.")
    }
    if let fitting {
      let words = here.isEmpty ? "Fetch one:     " : "Fetch another: "
      let size = Size.words(fitting.bytes)
      Terminal.printError("\(words)mlxserve pull \(fitting.name)   (\(size): \(fitting.note))")
    }
    Terminal.printError("All of them:   mlxserve models      All flags:   mlxserve --help")
    return ExitCode.usage
  }
}
