// Arguments against a table of flags: `--name value` or `--name=value`, most flags at most once; some commands take names.

/// The flags that were given, already checked against their kinds.
struct ParsedFlags: Sendable {
  private var values: [String: [String]] = [:]
  private var sources: [String: FlagSource] = [:]
  /// The configuration file that was read.
  var configurationPath: String?
  /// Words that belong to no flag.
  private(set) var arguments: [String] = []

  subscript(flag: Toggle) -> Bool { values[flag.name] != nil }
  subscript(flag: TextFlag) -> String? { values[flag.name]?.first }
  subscript(flag: IntegerFlag) -> Int? { values[flag.name]?.first.flatMap { Int($0) } }
  subscript(flag: DecimalFlag) -> Double? { values[flag.name]?.first.flatMap { Double($0) } }
  subscript(flag: IntegersFlag) -> [Int]? {
    values[flag.name]?.first?.split(separator: ",", omittingEmptySubsequences: false).compactMap { Int($0) }
  }

  func isSet(_ flag: TextFlag) -> Bool { values[flag.name] != nil }
  func isSet(_ flag: IntegerFlag) -> Bool { values[flag.name] != nil }
  /// Every value of a flag that may be repeated, in order.
  func texts(_ flag: TextFlag) -> [String] { values[flag.name] ?? [] }
  /// Every value of any flag as it was given, an empty text for a toggle; nil where it has none.
  func values(of name: String) -> [String]? { values[name] }

  /// The value of a flag that stands for one of a few words; nil where it is not given.
  ///
  /// - Throws: `UsageError` when the flag's table allows a word that has no meaning.
  func word<Word: RawRepresentable<String> & CaseIterable>(
    _ flag: TextFlag
  ) throws(UsageError) -> Word? {
    guard let text = self[flag] else { return nil }
    guard let word = Word(rawValue: text) else {
      let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
      throw .badValue(flag: flag.name, value: text, expected: "one of \(words)")
    }
    return word
  }

  /// The value of a flag that the command cannot do without.
  func required(_ flag: TextFlag, hint: String) throws(UsageError) -> String {
    guard let text = self[flag] else { throw .missingFlag(flag.name, hint: hint) }
    return text
  }

  /// Gives a flag a value that was not typed as one.
  mutating func set(_ flag: TextFlag, to value: String) { values[flag.name] = [value] }
  mutating func set(_ flag: IntegerFlag, to value: Int) { values[flag.name] = ["\(value)"] }
  mutating func remove(_ name: String) { values[name] = nil }

  /// Takes the first word, or all of them, for the model, unless a flag names it.
  mutating func takeModel(several: Bool) {
    guard !isSet(.model), !arguments.isEmpty else { return }
    let count = several ? arguments.count : 1
    values["model"] = Array(arguments.prefix(count))
    arguments.removeFirst(count)
  }

  /// The flag that a letter after one dash stands for, where the command has it.
  private static func flag(ofLetter letter: String, among flags: [Flag]) -> Flag? {
    let names = ["-m": ["model"], "-p": ["prompt", "port"], "-v": ["verbose"]][letter] ?? []
    return names.lazy.compactMap { name in flags.first { $0.name == name } }.first
  }

  /// Where the value of a flag came from; nil where it has none.
  func source(of name: String) -> FlagSource? { values[name] == nil ? nil : sources[name] ?? .commandLine }

  /// Takes settings of one source for flags that have no value yet. Those of other commands are passed over.
  mutating func fill(_ settings: [Setting], flags: [Flag]) throws(UsageError) {
    let taken = Set(values.keys)
    for setting in settings where !taken.contains(setting.name) {
      guard let flag = flags.first(where: { $0.name == setting.name }) else { continue }
      if case .toggle = flag.kind {
        guard ConfigurationFile.truth(setting.value) == true else { continue }
        values[flag.name] = [""]
      } else {
        if let expected = Self.expectation(of: flag.kind, notMetBy: setting.value) {
          throw .badSetting(
            place: setting.source.words, problem: "\(flag.name) '\(setting.value)': expected \(expected)")
        }
        guard values[flag.name] == nil || flag.isRepeatable else {
          throw .badSetting(place: setting.source.words, problem: "\(flag.name) is given twice")
        }
        values[flag.name, default: []].append(setting.value)
      }
      sources[flag.name] = setting.source
    }
  }

  /// The first word that belongs to no flag.
  ///
  /// - Parameter placeholder: what it stands for in the usage.
  func argument(_ placeholder: String) throws(UsageError) -> String {
    guard let first = arguments.first else { throw .missingArgument(placeholder) }
    return first
  }

  /// - Parameter takesArguments: whether words without dashes are taken, and all words after `--`.
  /// - Throws: `UsageError` for anything that is not in `flags` or not of its kind.
  init(_ arguments: some Sequence<String>, flags: [Flag], takesArguments: Bool = false) throws(UsageError) {
    var rest = Array(arguments)[...]
    while let argument = rest.popFirst() {
      if takesArguments, argument == "--" {
        self.arguments += rest
        return
      }
      // A dash alone is standard input.
      if takesArguments, !argument.hasPrefix("-") || argument.utf8.count == 1 {
        self.arguments.append(argument)
        continue
      }
      let short = Self.flag(ofLetter: argument, among: flags)
      guard short != nil || (argument.hasPrefix("--") && argument.utf8.count > 2) else {
        throw argument.hasPrefix("-") && argument.utf8.count > 1
          ? .unknownFlag(argument, suggestion: Self.suggestion(for: argument, among: flags))
          : .unexpectedArgument(argument)
      }
      let parts = argument.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      let name = short?.name ?? String(parts.first ?? "")
      guard let flag = flags.first(where: { $0.name == name }) else {
        throw .unknownFlag("--\(name)", suggestion: Self.suggestion(for: "--\(name)", among: flags))
      }
      guard values[name] == nil || flag.isRepeatable else { throw .repeatedFlag(name) }
      if case .toggle = flag.kind {
        guard parts.count == 1 else { throw .unwantedValue(flag: name) }
        values[name] = [""]
        continue
      }
      guard let value = parts.count == 2 ? String(parts[1]) : rest.popFirst() else {
        throw .missingValue(flag: name, placeholder: flag.placeholder)
      }
      if let expected = Self.expectation(of: flag.kind, notMetBy: value) {
        throw .badValue(flag: name, value: value, expected: expected)
      }
      values[name, default: []].append(value)
    }
  }

  private static func suggestion(for typed: String, among flags: [Flag]) -> String? {
    suggest(for: typed, among: flags.map { "--" + $0.name } + ["--help", "--version"])
  }

  /// What the kind wants, when `value` is not it; nil when it is.
  private static func expectation(of kind: Flag.Kind, notMetBy value: String) -> String? {
    switch kind {
    case .toggle: return nil
    case .text: return value.isEmpty ? "some text" : nil
    case .integer(let range):
      if let number = Int(value), range.contains(number) { return nil }
      return "a whole number " + words(range.lowerBound, range.upperBound, isOpen: range.upperBound == .max)
    case .decimal(let range):
      if let number = Double(value), range.contains(number) { return nil }
      return "a number " + words(range.lowerBound, range.upperBound, isOpen: range.upperBound == .infinity)
    case .integers(let range):
      let parts = value.split(separator: ",", omittingEmptySubsequences: false)
      if parts.allSatisfy({ Int($0).map(range.contains) ?? false }) { return nil }
      return "whole numbers with commas between them, each "
        + words(range.lowerBound, range.upperBound, isOpen: range.upperBound == .max)
    case .choice(let choices):
      return choices.contains(value) ? nil : "one of " + choices.joined(separator: ", ")
    }
  }

  private static func words<Number>(_ low: Number, _ high: Number, isOpen: Bool) -> String {
    isOpen ? "of at least \(low)" : "from \(low) to \(high)"
  }
}
