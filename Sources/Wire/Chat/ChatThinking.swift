// The fields of a chat request about thinking.

import JSON

extension ThinkingOptions {
  /// `thinking` decides first, then `reasoning_effort` and `reasoning`, then `chat_template_kwargs`, then whether
  /// there is a budget.
  ///
  /// - Parameter unknown: receives members of `reasoning` that nobody knows.
  init(chat fields: inout Fields, templateArguments: JSONObject, unknown: inout [String]) throws(APIError) {
    self.init()
    try readSwitches(&fields)
    var level = try fields.word("reasoning_effort", of: Self.efforts)
    var isHidden = false
    if var reasoning = try fields.fields("reasoning") {
      let other = try reasoning.word("effort", of: Self.efforts)
      level = level ?? other
      propose(
        budget: try reasoning.integer("max_tokens", in: 0...Int.max), field: reasoning.name(of: "max_tokens"))
      isHidden = try reasoning.bool("exclude") ?? false
      if let flag = try reasoning.bool("enabled"), level == nil { propose(isOn: flag) }
      // A summary is what Responses calls the shown reasoning; here it is always shown.
      _ = reasoning.value("summary")
      unknown += reasoning.unread.map { "reasoning." + $0 }
    }
    showsReasoning = try fields.bool("include_reasoning") ?? !isHidden
    try settle(level: level, templateArguments: templateArguments)
  }
}
