// One flag of the command line as data: parsing, help and suggestions all read the same table.

import Compute

/// A flag such as `--port N`.
struct Flag: Sendable {
  enum Kind: Sendable {
    /// Present or absent.
    case toggle
    case text
    case integer(ClosedRange<Int>)
    case decimal(ClosedRange<Double>)
    /// Comma-separated integers.
    case integers(ClosedRange<Int>)
    case choice([String])
  }

  /// Without the leading dashes.
  let name: String
  let kind: Kind
  /// What stands for the value in help, such as `DIR`.
  let placeholder: String
  /// In words or as a value; shown in help only, the commands hold the real one.
  let defaultText: String?
  let help: String
  /// Whether it may be given several times.
  let isRepeatable: Bool

  private init(
    named name: some FlagName, _ kind: Kind, _ placeholder: String, _ defaultText: String?, _ help: String,
    isRepeatable: Bool = false
  ) {
    (self.name, self.kind, self.placeholder) = (name.name, kind, placeholder)
    (self.defaultText, self.help, self.isRepeatable) = (defaultText, help, isRepeatable)
  }

  init(_ name: Toggle, _ help: String) { self.init(named: name, .toggle, "", nil, help) }

  init(
    _ name: TextFlag, _ placeholder: String, default usual: String? = nil, _ help: String,
    isRepeatable: Bool = false
  ) {
    self.init(named: name, .text, placeholder, usual, help, isRepeatable: isRepeatable)
  }

  init(
    _ name: TextFlag, _ placeholder: String, choices: [String], default usual: String? = nil, _ help: String,
    isRepeatable: Bool = false
  ) {
    self.init(named: name, .choice(choices), placeholder, usual, help, isRepeatable: isRepeatable)
  }

  /// One of the words of a type; `ParsedFlags.word` reads it.
  init<Word: RawRepresentable<String> & CaseIterable>(
    _ name: TextFlag, _ placeholder: String, _: Word.Type, default usual: String? = nil, _ help: String,
    isRepeatable: Bool = false
  ) {
    self.init(
      name, placeholder, choices: Word.allCases.map(\.rawValue), default: usual, help,
      isRepeatable: isRepeatable)
  }

  init(
    _ name: IntegerFlag, _ placeholder: String, _ range: ClosedRange<Int>, default usual: String? = nil,
    _ help: String
  ) {
    self.init(named: name, .integer(range), placeholder, usual, help)
  }

  init(
    _ name: DecimalFlag, _ placeholder: String, _ range: ClosedRange<Double>, default usual: String? = nil,
    _ help: String
  ) {
    self.init(named: name, .decimal(range), placeholder, usual, help)
  }

  init(
    _ name: IntegersFlag, _ placeholder: String, _ range: ClosedRange<Int>, default usual: String? = nil,
    _ help: String
  ) {
    self.init(named: name, .integers(range), placeholder, usual, help)
  }
}

/// Where weights are while the model runs.
enum WeightPlace: String, CaseIterable { case auto, mapped }

/// What is done beside plain decoding.
enum Speculation: String, CaseIterable { case lookup, off }

/// Whose computed prompts a request may use.
enum PrefixScope: String, CaseIterable { case shared, tenant }

/// What a transcript is written as; also the ending of its file.
enum TranscriptFormat: String, CaseIterable { case txt, srt, vtt, json }

/// How a conversion stores weights: the modes of MLX.
enum ModeName: String, CaseIterable { case affine, mxfp4, mxfp8, nvfp4 }

/// The types that a conversion casts floats to, by their names in config.json.
enum FloatName: String, CaseIterable {
  case float16, bfloat16, float32

  var dtype: DType {
    switch self {
    case .float16: .f16
    case .bfloat16: .bf16
    case .float32: .f32
    }
  }
}

/// A titled group of flags in a command's help.
struct FlagGroup: Sendable {
  let title: String
  let flags: [Flag]

  init(_ title: String, of flags: [Flag]) { (self.title, self.flags) = (title, flags) }

  init(_ title: String, _ flags: Flag...) { self.init(title, of: flags) }
}

/// What the user typed wrong; the exit code is 2.
enum UsageError: Error, Equatable, CustomStringConvertible {
  case unknownFlag(String, suggestion: String?)
  case unknownCommand(String, suggestion: String?)
  case missingValue(flag: String, placeholder: String)
  case unwantedValue(flag: String)
  case badValue(flag: String, value: String, expected: String)
  case unexpectedArgument(String)
  case missingFlag(String, hint: String)
  case missingArgument(String)
  case repeatedFlag(String)
  case notHere(String)
  /// None is named; the ones that could be meant.
  case noModel(here: [String])
  /// In a file or a variable.
  case badSetting(place: String, problem: String)
  case unusable(flag: String, reason: String)

  var description: String {
    switch self {
    case .unknownFlag(let flag, let suggestion): "unknown flag '\(flag)'" + didYouMean(suggestion)
    case .unknownCommand(let name, let suggestion): "unknown command '\(name)'" + didYouMean(suggestion)
    case .missingValue(let flag, let placeholder): "--\(flag) needs a value: --\(flag) \(placeholder)"
    case .unwantedValue(let flag): "--\(flag) takes no value"
    case .badValue(let flag, let value, let expected): "--\(flag) '\(value)': expected \(expected)"
    case .unexpectedArgument(let argument): "unexpected argument '\(argument)'"
    case .missingFlag(let flag, let hint): "--\(flag) is required: \(hint)"
    case .badSetting(let place, let problem): "\(place): \(problem)"
    case .missingArgument("PROMPT"): "there is no prompt: give one after the model, or by standard input"
    case .notHere(let name):
      "\(name) is not on this machine: 'mlxserve pull \(name)' downloads it, 'mlxserve show \(name) --remote' asks the hub"
    case .noModel(let here):
      here.isEmpty
        ? "there is no model here yet: name one, such as qwen3:0.6b, which is then downloaded"
        : "name a model: " + here.prefix(9).joined(separator: ", ") + (here.count > 9 ? ", ..." : "")
    case .missingArgument("RECEIPT"): "name a file that holds receipts: an answer, a receipt, or a recording"
    case .missingArgument("SHELL"): "name a shell: bash, zsh or fish"
    case .missingArgument("FOLDER"):
      "name a folder and say what to look for: mlxserve search ~/notes \"what I look for\""
    case .missingArgument("QUERY"):
      "say what to look for: mlxserve search ~/notes \"what I look for\""
    case .missingArgument("NOTES"): "name a folder of notes: mlxserve mcp ~/notes"
    case .missingArgument("FILE"): "name a file: mlxserve ask FILE \"question\", mlxserve read FILE..."
    case .missingArgument("QUESTION"): "there is no question: give one after the file, or by standard input"
    case .missingArgument: "name a model: a folder, a short name such as qwen3:0.6b, or OWNER/NAME"
    case .repeatedFlag(let flag): "--\(flag) is given twice"
    case .unusable(let flag, let reason): "--\(flag) \(reason)"
    }
  }

  private func didYouMean(_ suggestion: String?) -> String {
    suggestion.map { "; did you mean '\($0)'?" } ?? ""
  }
}
