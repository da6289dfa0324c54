// What a request says: messages, tools and arguments for the template.

package import JSON

/// The input of a chat template, in the shapes of the chat completions API.
package struct Conversation: Sendable {
  /// Message objects: `role`, `content` (text, parts or null), `tool_calls`, `tool_call_id`, ...
  package var messages: [JSONValue]
  /// `{"type": "function", "function": {"name", "description", "parameters"}}` each.
  package var tools: [JSONValue]
  /// Further variables for the template, such as `enable_thinking`; they cannot replace the standard ones.
  package var templateArguments: JSONObject
  /// Whether the prompt ends with the opening of the assistant's turn.
  package var addGenerationPrompt: Bool
  /// Whether the model is to go on with the last message, which is the assistant's.
  package var continueFinalMessage: Bool
  /// Whether earlier answers count as text from outside, which cannot spell special tokens.
  package var isHistoryStrict: Bool

  package init(
    messages: [JSONValue], tools: [JSONValue] = [], templateArguments: JSONObject = JSONObject(),
    addGenerationPrompt: Bool = true, continueFinalMessage: Bool = false, isHistoryStrict: Bool = false
  ) {
    (self.messages, self.tools, self.templateArguments) = (messages, tools, templateArguments)
    (self.addGenerationPrompt, self.continueFinalMessage) = (addGenerationPrompt, continueFinalMessage)
    self.isHistoryStrict = isHistoryStrict
  }
}
