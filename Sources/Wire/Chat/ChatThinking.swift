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
    var level = try fields.word(
      "reasoning_effort", of: Self.efforts,
      "`none` switches thinking off, others on; a budget where the template has no levels"
    )
    var isHidden = false
    _ = fields.value(
      "reasoning",
      #"""
      {"type": "object", "properties": {"effort": \#(Shape.words(Self.efforts)),
        "max_tokens": {"type": "integer", "minimum": 0}, "enabled": {"type": "boolean"},
        "exclude": {"type": "boolean"}, "summary": {"type": "string"}}}
      """#,
      "`effort` (`reasoning_effort` wins), `max_tokens` (a budget), `enabled`, `exclude` (hides it)",
      like: #"{"effort":"low"}"#)
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
    showsReasoning =
      try fields.bool(
        "include_reasoning", "false hides the reasoning; it is still counted", like: "false") ?? !isHidden
    try settle(level: level, templateArguments: templateArguments)
  }
}
