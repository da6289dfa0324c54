// `mlxserve models`: the models that have a short name, with what they need, searched by words.

import Hub
import JSON
import Platform

enum ModelsCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let cache = HubCache(root: try flags.hubSettings().cache)
    let here = Set(cache.repositories().map(\.text))
    let found = KnownModels.search(flags.arguments)
    let limit = MemoryLimit.bytes / 10 * 9
    if flags[.json] {
      let rows = found.map { model -> JSONValue in
        [
          "name": .string(model.name), "aliases": .array(model.aliases.map(JSONValue.string)),
          "repository": .string(model.repository), "bytes": .int(model.bytes),
          "memory_bytes": .int(model.memoryBytes), "fits": .bool(model.memoryBytes <= limit),
          "tokens_per_second": model.isForSearch ? nil : .double(model.tokensPerSecond(ModelSpeed.bandwidth)),
          "here": .bool(here.contains(model.repository)), "note": .string(model.note),
        ]
      }
      Terminal.print(JSONValue.array(rows).text)
      return ExitCode.success
    }
    guard !found.isEmpty else {
      Terminal.printError("no known model has these words; any OWNER/NAME on the hub can be pulled")
      return ExitCode.success
    }
    let rows = found.map { model in
      [
        model.name, Size.words(model.bytes), Size.words(model.memoryBytes),
        model.isForSearch ? "" : ModelSpeed.speed(model),
        here.contains(model.repository) ? "here" : model.memoryBytes <= limit ? "fits" : "too large",
        model.note,
      ]
    }
    let header = ["NAME", "SIZE", "MEMORY", "TOK/S", "", ""]
    for line in Table.lines(header, rows, width: Terminal.tableWidth, dispensable: [2, 1]) {
      Terminal.print(line)
    }
    Terminal.tell(
      "\nSizes are about right; MEMORY is with a few thousand tokens of context, TOK/S what this machine's memory allows. "
        + "'mlxserve pull NAME' fetches one."
    )
    return ExitCode.success
  }
}
