// What can go wrong between messages and prompt.

package import Jinja

/// Failures of loading a chat template or of making a prompt with it.
package enum ChatError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The model's template cannot be loaded. Says line and column.
  case badTemplate(JinjaError)
  /// The template refuses the conversation with these words (`raise_exception`).
  case refused(String)
  /// The template fails on the conversation, or reaches a limit.
  case renderingFailed(JinjaError)
  /// A content part of this type cannot be shown to this model.
  case unsupportedPart(type: String)
  /// A message does not have the shape that chat completions define.
  case malformedMessage(index: Int, problem: String)
  /// The last message cannot be continued.
  case cannotContinue(String)

  /// In words for the client.
  package var description: String {
    switch self {
    case .badTemplate(let error):
      "\(error). Fix the model's chat template or use another one."
    case .refused(let words): words
    case .renderingFailed(let error): "\(error)"
    case .unsupportedPart(let type):
      "This model's chat template takes text only; remove the content part of type '\(type)'."
    case .malformedMessage(let index, let problem): "messages[\(index)]: \(problem)"
    case .cannotContinue(let problem): "The last message cannot be continued: \(problem)"
    }
  }
}
