// Whether and how long the model thinks: five fields of different origin that say the same things.

import JSON

/// The most tokens of a thought, and the field that says so, for errors.
package struct ThinkingBudget: Sendable, Equatable {
  package var tokens: Int
  package var field: String

  package init(tokens: Int, field: String) {
    self.tokens = tokens
    self.field = field
  }
}

/// What the fields about thinking say together.
package struct ThinkingOptions: Sendable, Equatable {
  /// Nil leaves it to the template.
  package var isOn: Bool?
  /// `minimal` to `max`, when given and not `none`.
  package var effort: String?
  package var budget: ThinkingBudget?
  package var showsReasoning = true
}

extension ThinkingOptions {
  private static let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]

  /// `thinking` decides first, then `reasoning_effort` and `reasoning`, then `chat_template_kwargs`, then whether
  /// there is a budget.
  ///
  /// - Parameter unknown: receives members of `reasoning` that nobody knows.
  init(_ fields: inout Fields, templateArguments: JSONObject, unknown: inout [String]) throws(APIError) {
    var budgets: [ThinkingBudget] = []
    func add(_ tokens: Int?, _ field: String) {
      if let tokens { budgets.append(ThinkingBudget(tokens: tokens, field: field)) }
    }
    add(try fields.integer("thinking_budget", in: 0...Int.max), "thinking_budget")

    switch fields.value("thinking") {
    case nil: break
    case .bool(let flag)?: isOn = flag
    case .object?:
      guard var thinking = try fields.fields("thinking") else { break }
      isOn = try thinking.word("type", of: ["enabled", "disabled", "adaptive"]).map { $0 != "disabled" }
      add(try thinking.integer("budget_tokens", in: 0...Int.max), "thinking.budget_tokens")
    case let value?: throw .wrongType("thinking", expected: "a boolean or an object", found: value)
    }

    var level = try fields.word("reasoning_effort", of: Self.efforts)
    var isHidden = false
    if var reasoning = try fields.fields("reasoning") {
      let other = try reasoning.word("effort", of: Self.efforts)
      level = level ?? other
      add(try reasoning.integer("max_tokens", in: 0...Int.max), "reasoning.max_tokens")
      isHidden = try reasoning.bool("exclude") ?? false
      if let flag = try reasoning.bool("enabled"), level == nil { isOn = isOn ?? flag }
      // A summary is what Responses calls the shown thought; here it is always shown.
      _ = reasoning.value("summary")
      unknown += reasoning.unread.map { "reasoning." + $0 }
    }
    showsReasoning = try fields.bool("include_reasoning") ?? !isHidden
    if let level, isOn == nil { isOn = level != "none" }

    let name = "chat_template_kwargs"
    if let given = templateArguments["enable_thinking"], !given.isNull {
      guard let flag = given.boolValue else {
        throw .wrongType("\(name).enable_thinking", expected: "a boolean", found: given)
      }
      isOn = isOn ?? flag
    }
    if let given = templateArguments["thinking_budget"], !given.isNull {
      let field = "\(name).thinking_budget"
      add(try Fields.integer(given, in: 0...Int.max, name: field), field)
    }
    budget = budgets.first
    if let budget { isOn = isOn ?? (budget.tokens > 0) }
    effort = isOn == false || level == "none" ? nil : level
  }
}
