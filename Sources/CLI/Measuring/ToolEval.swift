// `mlxserve eval --tools`: does a model call the right tools, with the right arguments, and none where none helps?

import JSON

/// One request with the calls that answer it.
struct ToolCase {
  /// What kind of case it is, to count each kind for itself.
  let category: String
  let question: String
  /// In the shape of chat completions.
  let tools: [JSONValue]
  /// In any order; none where no tool helps.
  let calls: [Expected]

  /// A call as a model made it; the arguments are JSON text.
  typealias Call = (name: String, arguments: String)

  struct Expected {
    let name: String
    /// The values that are right for each argument; null among them where it may be left out.
    let arguments: [(name: String, values: [JSONValue])]
  }

  /// - Parameter value: `{"question": …, "tools": [{"name": …, "parameters": …}], "calls": [{"name": …, "arguments": {"city":
  ///   ["Oslo", "oslo"]}}]}`, and perhaps a `category`.
  /// - Returns: nil where it is no such object, or expects a call of a tool that there is not.
  init?(_ value: JSONValue) {
    guard let question = value["question"]?.stringValue, let tools = value["tools"]?.arrayValue,
      let calls = value["calls"]?.arrayValue
    else { return nil }
    (self.question, category) = (question, value["category"]?.stringValue ?? "all")
    self.tools = tools.map { $0["function"] == nil ? ["type": "function", "function": $0] : $0 }
    let names = self.tools.compactMap { $0["function"]?["name"]?.stringValue }
    guard names.count == tools.count, !names.isEmpty else { return nil }
    var expected: [Expected] = []
    for call in calls {
      guard let name = call["name"]?.stringValue, names.contains(name) else { return nil }
      var arguments: [(name: String, values: [JSONValue])] = []
      for (argument, values) in call["arguments"]?.objectValue?.entries ?? [] {
        guard let values = values.arrayValue, !values.isEmpty else { return nil }
        arguments.append((argument, values))
      }
      expected.append(Expected(name: name, arguments: arguments))
    }
    self.calls = expected
  }

  /// Whether these are the tools that were wanted, each as often.
  func hasTools(_ made: [Call]) -> Bool {
    made.map(\.name).sorted() == calls.map(\.name).sorted()
  }

  /// Whether the arguments are right, too.
  func hasArguments(_ made: [Call]) -> Bool {
    var left = made
    for wanted in calls {
      guard let place = left.firstIndex(where: { wanted.isMet(by: $0) }) else { return false }
      left.remove(at: place)
    }
    return left.isEmpty
  }
}

extension ToolCase.Expected {
  func isMet(by call: ToolCase.Call) -> Bool {
    let text = call.arguments.utf8.isEmpty ? "{}" : call.arguments
    guard call.name == name, let given = (try? JSONValue(parsing: text))?.objectValue else { return false }
    let isKnown = given.keys.allSatisfy { key in arguments.contains { $0.name == key } }
    return isKnown
      && arguments.allSatisfy { argument in
        let value = given[argument.name] ?? .null
        return argument.values.contains { Self.isSame($0, value) }
      }
  }

  /// Numbers by their value, and texts by their words.
  private static func isSame(_ a: JSONValue, _ b: JSONValue) -> Bool {
    if let a = a.doubleValue, let b = b.doubleValue { return a == b }
    if let a = a.stringValue, let b = b.stringValue { return EvalFile.plain(a) == EvalFile.plain(b) }
    if let a = a.arrayValue, let b = b.arrayValue {
      return a.count == b.count && zip(a, b).allSatisfy(isSame)
    }
    guard let a = a.objectValue, let b = b.objectValue else { return a == b }
    return a.count == b.count
      && a.entries.allSatisfy { key, value in b[key].map { isSame(value, $0) } ?? false }
  }
}

/// What a model has called in all cases of a file.
struct ToolScores {
  private(set) var tools = ModelScores.Score()
  private(set) var arguments = ModelScores.Score()
  private var categories: [(name: String, score: ModelScores.Score)] = []

  mutating func add(_ entry: ToolCase, _ made: [ToolCase.Call]) {
    let isRight = entry.hasArguments(made)
    tools.add(entry.hasTools(made))
    arguments.add(isRight)
    let place = categories.firstIndex { $0.name == entry.category } ?? categories.endIndex
    if place == categories.endIndex { categories.append((entry.category, ModelScores.Score())) }
    categories[place].score.add(isRight)
  }

  var json: JSONValue {
    [
      "tools": tools.json, "arguments": arguments.json,
      "categories": .object(JSONObject(categories.map { ($0.name, $0.score.json) })),
    ]
  }
}
