// A subcommand as data: its words, its flags, and what runs.

/// A subcommand as data.
struct Command: Sendable {
  /// The heading that it stands under in the overview.
  enum Section: String, CaseIterable {
    case talk = "Talk and serve"
    case models = "Models"
    case search = "Search"
    case measure = "Check and measure"
    case program = "This program"
  }

  let name: String
  let section: Section
  let summary: String
  let usage: String
  let groups: [FlagGroup]
  /// Whether the first word without dashes is the model, where `--model` does not name one.
  var takesModel = false
  /// Whether words without dashes are names, or what is searched for.
  var takesNames = false
  /// The names that those can be, where they are known.
  var words: [String] = []
  let run: @Sendable (ParsedFlags) throws -> Int32

  var flags: [Flag] { groups.flatMap(\.flags) + Flags.configuration.flags }
  /// Whether the names of models that are here can be completed.
  var completesNames: Bool { takesModel || ["pull", "show", "rm", "prepare", "run"].contains(name) }
}
