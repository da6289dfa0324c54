// What is typed in a chat to change it, not to be answered: words after a slash.

import Sampling

/// A line that begins with a slash.
enum ChatOrder: Equatable {
  case help, leave, clear, show, tools, regenerate, undo, edit
  /// Without a name, all settings are shown.
  case set(name: String?, value: String)
  case save(String)
  case load(String)
  case read(String)
  case model(String)
  /// What cannot be done, in words.
  case wrong(String)

  /// Each with what it does.
  static let table: [(name: String, arguments: String, help: String)] = [
    ("help", "", "this list"), ("set", "[NAME VALUE]", "change a setting, or show all"),
    ("system", "TEXT", "set the system message; - removes it"),
    ("model", "NAME", "continue with another model"),
    ("show", "", "show the model, the settings and how full the context is"),
    ("tools", "", "show the tools of --mcp-config"), ("regen", "", "answer the last message again"),
    ("undo", "", "forget the last message and its answer"),
    ("edit", "", "change the last message and send it again"),
    ("read", "FILE", "start a message with a file"), ("clear", "", "start a new conversation"),
    ("save", "FILE", "write the conversation to a file"),
    ("load", "FILE", "continue the conversation in a file"), ("bye", "", "leave (so does Ctrl-D)"),
  ]
  private static let otherNames = [
    "exit": "bye", "quit": "bye", "?": "help", "reset": "clear", "new": "clear", "regenerate": "regen",
    "retry": "regen",
    "file": "read",
  ]

  /// - Returns: nil for a message to the model. Two slashes begin a message with one.
  init?(_ line: String) {
    // What people type to leave other programs.
    if ["exit", "quit", "bye"].contains(line) {
      self = .leave
      return
    }
    guard line.hasPrefix("/"), !line.hasPrefix("//"), !line.contains("\n") else { return nil }
    let words = line.dropFirst().split(separator: " ", maxSplits: 1).map(String.init)
    let typed = words.first ?? ""
    // A path may begin a message.
    guard !typed.contains("/") else { return nil }
    let rest = words.count > 1 ? String(words[1].drop { $0 == " " }) : ""
    switch Self.otherNames[typed] ?? typed {
    case "help": self = .help
    case "bye": self = .leave
    case "clear": self = .clear
    case "show": self = .show
    case "tools": self = .tools
    case "regen": self = .regenerate
    case "undo": self = .undo
    case "edit": self = .edit
    case "system": self = .set(name: "system", value: rest)
    case "model" where rest.isEmpty: self = .show
    case "model": self = .model(rest)
    case "read" where !rest.isEmpty: self = .read(rest)
    case "set":
      let parts = rest.split(separator: " ", maxSplits: 1).map(String.init)
      self = .set(name: parts.first, value: parts.count > 1 ? parts[1] : "")
    case "save" where !rest.isEmpty: self = .save(rest)
    case "load" where !rest.isEmpty: self = .load(rest)
    case "save", "load", "read": self = .wrong("/\(typed) needs the name of a file")
    default:
      let near = suggest(for: typed, among: Self.table.map(\.name) + Array(Self.otherNames.keys))
      self = .wrong(
        "there is no /\(Terminal.safe(typed))"
          + (near.map { "; did you mean /\($0)?" } ?? "; /help lists what there is"))
    }
  }
}

/// What `/set` changes.
struct ChatPreferences: Equatable {
  var sampling: SamplingOverrides = [:]
  var seed: Int?
  var maxTokens: Int?
  var system: String?
  var stops: [String] = []
  var thinks = true
  var wraps = true
  var isMarkdown = true
  var isVerbose = true
  /// The file of a JSON Schema.
  var schema: String?

  static let names =
    SamplingField.allCases.map(\.name)
    + ["seed", "max_tokens", "system", "stop", "think", "schema", "wordwrap", "markdown", "verbose"]

  /// Changes one; `-` takes it back.
  ///
  /// - Returns: what is wrong, in words.
  mutating func set(_ given: String, to value: String) -> String? {
    let name = given.replacing("-", with: "_")
    let isUnset = value == "-"
    guard Self.names.contains(name) else {
      let near = suggest(for: name, among: Self.names)
      return "there is no setting '\(Terminal.safe(given))'"
        + (near.map { "; did you mean \($0)?" } ?? "; they are \(Self.names.joined(separator: ", "))")
    }
    guard !value.isEmpty else { return "/set \(name) needs a value; - resets it" }
    switch name {
    case "think", "wordwrap", "markdown", "verbose":
      guard let truth = ConfigurationFile.truth(value) else { return "\(name) is on or off" }
      switch name {
      case "think": thinks = truth
      case "wordwrap": wraps = truth
      case "markdown": isMarkdown = truth
      default: isVerbose = truth
      }
    case "system": system = isUnset ? nil : value
    case "schema": schema = isUnset ? nil : value
    case "stop": stops = isUnset ? [] : stops + [value]
    case "seed", "max_tokens":
      let number = Int(value)
      guard isUnset || (number ?? -1) >= (name == "seed" ? 0 : 1) else { return "\(name) is a whole number" }
      if name == "seed" { seed = number } else { maxTokens = number }
    default:
      guard let field = SamplingField(rawValue: name), isUnset || Double(value) != nil else {
        return "\(name) is a number"
      }
      var changed = sampling
      changed[field] = Double(value)
      do throws(SamplingError) {
        try SamplingParameters(changed).check()
      } catch {
        return "\(error)"
      }
      if case .count = field.row.setting, let number = Double(value), Int(exactly: number) == nil {
        return "\(name) is a whole number"
      }
      sampling = changed
    }
    return nil
  }

  /// Lines of a name and a value; of sampling what holds, and who said it.
  ///
  /// - Parameters:
  ///   - usual: what holds where nothing is set here.
  ///   - source: who says that: "default", "the model's".
  func lines(beside usual: SamplingOverrides, from source: String) -> [String] {
    func words(_ flag: Bool) -> String { flag ? "on" : "off" }
    let both = usual.merging(sampling)
    let effective = SamplingParameters(both)
    var pairs = SamplingField.allCases.filter { both[$0] != nil }.map { field in
      (field.name, "\(effective.text(of: field)) (\(sampling[field] == nil ? source : "yours"))")
    }
    pairs += [
      ("seed", seed.map(String.init)), ("max_tokens", maxTokens.map(String.init)), ("system", system),
    ]
    .compactMap { name, value in value.map { (name, $0) } }
    pairs += stops.map { ("stop", $0) }
    if let schema { pairs.append(("schema", schema)) }
    pairs += [
      ("think", words(thinks)), ("wordwrap", words(wraps)), ("markdown", words(isMarkdown)),
      ("verbose", words(isVerbose)),
    ]
    return pairs.map { "  " + Terminal.column($0) + $1 }
  }
}
