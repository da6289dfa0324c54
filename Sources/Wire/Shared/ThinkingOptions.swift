// Whether and how long the model thinks: fields of different origin that say the same things.

import JSON

/// The most tokens of reasoning, and the field that says so, for errors.
package struct ThinkingBudget: Sendable, Equatable {
  package var tokens: Int
  package var field: String

  package init(tokens: Int, field: String) {
    self.tokens = tokens
    self.field = field
  }
}

/// What the fields about thinking say together. A wire reads its own fields in order of precedence, then calls `settle`.
package struct ThinkingOptions {
  /// Nil leaves it to the template.
  private(set) var isOn: Bool?
  /// `minimal` to `max`, when given and not `none`.
  private(set) var effort: String?
  private(set) var budget: ThinkingBudget?
  var showsReasoning = true

  static let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]

  /// Names of a budget in a body, with its least value: this server's, vLLM's and two of llama-server's, where -1 is no
  /// budget.
  static let budgets: [(name: String, least: Int)] = [
    ("thinking_budget", 0), ("thinking_token_budget", 0), ("thinking_budget_tokens", -1),
    ("reasoning_budget_tokens", -1),
  ]

  /// What is said first counts.
  mutating func propose(isOn flag: Bool?) { isOn = isOn ?? flag }

  /// What is said first counts.
  mutating func propose(budget tokens: Int?, field: String) {
    guard let tokens, tokens >= 0 else { return }
    budget = budget ?? ThinkingBudget(tokens: tokens, field: field)
  }

  /// Reads `thinking_budget` and `thinking`, which chat and Responses share.
  mutating func readSwitches(_ fields: inout Fields) throws(APIError) {
    for (name, least) in Self.budgets {
      let words = least < 0 ? "the same, under llama-server's; -1 is no budget" : "most tokens of reasoning"
      propose(budget: try fields.integer(name, in: least...Int.max, "\(words)", like: "64"), field: name)
    }
    let shape = #"""
      {"type": "object", "properties": {"type": {"enum": ["enabled", "disabled", "adaptive"]},
        "budget_tokens": {"type": "integer", "minimum": 0}}}
      """#
    switch fields.value(
      "thinking", Shape.any(Shape.boolean, shape),
      "a boolean, or `{\"type\":\"enabled\",\"budget_tokens\":64}` or `{\"type\":\"disabled\"}`; wins over `reasoning_effort`",
      like: "false")
    {
    case nil: break
    case .bool(let flag)?: propose(isOn: flag)
    case .object?:
      guard var thinking = try fields.fields("thinking") else { break }
      propose(
        isOn: try thinking.word("type", of: ["enabled", "disabled", "adaptive"]).map { $0 != "disabled" })
      propose(
        budget: try thinking.integer("budget_tokens", in: 0...Int.max),
        field: thinking.name(of: "budget_tokens"))
    case let value?: throw .wrongType("thinking", expected: "a boolean or an object", found: value)
    }
  }

  /// The level of effort counts after the switches, then the variables of the template, then whether there is a budget.
  ///
  /// - Parameter level: one of `efforts`.
  mutating func settle(level: String?, templateArguments: JSONObject = JSONObject()) throws(APIError) {
    propose(isOn: level.map { $0 != "none" })
    let name = "chat_template_kwargs"
    if let given = templateArguments["enable_thinking"], !given.isNull {
      guard let flag = given.boolValue else {
        throw .wrongType("\(name).enable_thinking", expected: "a boolean", found: given)
      }
      propose(isOn: flag)
    }
    if let given = templateArguments["thinking_budget"], !given.isNull {
      let field = "\(name).thinking_budget"
      propose(budget: try Fields.integer(given, in: 0...Int.max, name: field), field: field)
    }
    propose(isOn: budget.map { $0.tokens > 0 })
    effort = isOn == false || level == "none" ? nil : level
  }
}
