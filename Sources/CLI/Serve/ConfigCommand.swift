// `mlxserve config`: the value that every flag of `serve` has, and where it came from.

import JSON
import Platform

enum ConfigCommand {
  /// Flags whose values nobody should see.
  private static let secrets: Set<String> = ["api-key"]

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let served = Flags.serving.flatMap(\.flags)
    var rows: [[String]] = []
    var values: [JSONValue] = []
    for flag in served {
      let isToggle = if case .toggle = flag.kind { true } else { false }
      guard let given = flags.values(of: flag.name) else {
        if flag.name == "api-key", Environment.value(ServeSetup.keyVariable) != nil {
          rows.append([flag.name, "***", ServeSetup.keyVariable])
          continue
        }
        rows.append([flag.name, isToggle ? "false" : flag.defaultText ?? "-", "default"])
        continue
      }
      let source = flags.source(of: flag.name)?.words ?? "flag"
      for value in given {
        let shown = secrets.contains(flag.name) ? "***" : isToggle ? "true" : value
        rows.append([flag.name, shown, source])
        values.append(["name": .string(flag.name), "value": .string(shown), "source": .string(source)])
      }
    }
    if flags[.json] {
      Terminal.print(JSONValue.array(values).text)
      return ExitCode.success
    }
    let isShort = !flags[.show]
    let shown = isShort ? rows.filter { $0[2] != "default" } : rows
    for line in Table.lines(["FLAG", "VALUE", "FROM"], shown) { Terminal.print(Terminal.safe(line)) }
    if isShort { Terminal.printError("\nEverything else has its default; --show lists that too.") }
    return ExitCode.success
  }
}
