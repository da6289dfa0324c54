// What can go wrong between a request and its tokens.

package enum InferenceError: Error, Sendable, Equatable, CustomStringConvertible {
  case emptyPrompt
  case tokenOutOfRange(token: Int32, vocabularySize: Int)
  /// Counts are tokens; the limit holds for prompt and answer together.
  case promptTooLong(tokens: Int, limit: Int)
  /// An image or a sound that the model cannot take, or not there.
  case unusableMedia(String)
  case queueFull(limit: Int)
  /// The engine finishes what runs and takes nothing new.
  case draining
  /// The engine cannot start with these settings.
  case contextTooLarge(requested: Int, modelLimit: Int)
  case memoryTooSmall(neededBytes: Int, availableBytes: Int, context: Int, largestContext: Int)
  case modelLoading(String)
  /// A text to be evaluated needs one token to predict and one before it.
  case textTooShort(tokens: Int)
  /// A window of an evaluation; limits are tokens.
  case badWindow(tokens: Int, least: Int, most: Int)
  /// A comparison of the compute modes where there is only one.
  case noFastMode(compute: String)
  /// The model does not give a finite likelihood to a token of the text.
  case brokenLogits(position: Int)

  package var description: String {
    switch self {
    case .emptyPrompt: "the prompt has no tokens"
    case .tokenOutOfRange(let token, let size):
      "token id \(token) is outside the model's vocabulary of \(size) tokens"
    case .promptTooLong(let tokens, let limit):
      "the prompt has \(tokens) tokens, but the context holds \(limit) and the answer needs at least one; "
        + "shorten the prompt or start the server with a larger --max-context"
    case .unusableMedia(let problem): problem
    case .queueFull(let limit):
      "\(limit) requests are waiting already (--queue-limit \(limit)); try again later"
    case .draining: "the server is shutting down"
    case .contextTooLarge(let requested, let limit):
      "--max-context \(requested) is more than the \(limit) tokens this model was made for "
        + "(config.json max_position_embeddings)"
    case .memoryTooSmall(let needed, let available, let context, let largest):
      "a context of \(context) tokens needs \(needed >> 20) MiB of KV cache, but only \(available >> 20) MiB "
        + "of memory are free for it; use --max-context \(largest) or less"
    case .modelLoading(let problem): problem
    case .textTooShort(let tokens):
      "the text has \(tokens) token\(tokens == 1 ? "" : "s"), and perplexity needs at least 2"
    case .badWindow(let tokens, let least, let most):
      "--context \(tokens) does not fit this model: it takes from \(least) to \(most) tokens"
    case .noFastMode(let compute):
      "there is nothing to compare: \(compute) has no integer kernels, so fast mode computes as exact mode does"
    case .brokenLogits(let position):
      "the model gives token \(position) of the text no finite likelihood: its logits are not numbers, "
        + "or call the token impossible"
    }
  }
}
