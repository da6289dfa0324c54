// A subcommand as data: its words, its flags, and what runs.

/// A subcommand as data.
struct Command: Sendable {
  let name: String
  let summary: String
  let usage: String
  let groups: [FlagGroup]
  /// Whether words without dashes are names, or what is searched for.
  var takesNames = false
  let run: @Sendable (ParsedFlags) throws -> Int32

  var flags: [Flag] { groups.flatMap(\.flags) + Flags.configuration.flags }
  /// Whether the names of models that are here can be completed.
  var completesNames: Bool { ["pull", "show", "rm", "prepare", "chat", "run"].contains(name) }
}
