// Where the model's reasoning is written: clients disagree about the name.

package import JSON

/// The member of `message` and `delta` that holds reasoning text.
package enum ReasoningField: String, Sendable, CaseIterable {
  /// DeepSeek's name, the default.
  case reasoningContent = "reasoning_content"
  /// The name of OpenRouter and newer servers.
  case reasoning
  case both

  /// The members that hold a text of reasoning.
  package func members(_ text: String) -> [(String, JSONValue)] {
    switch self {
    case .reasoningContent: [("reasoning_content", .string(text))]
    case .reasoning: [("reasoning", .string(text))]
    case .both: [("reasoning_content", .string(text)), ("reasoning", .string(text))]
    }
  }
}
