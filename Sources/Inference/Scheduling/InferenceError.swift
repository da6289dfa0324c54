// What can go wrong between a request and its tokens.

import Platform

/// Why an engine did not start, a request was not taken, or an answer was given up. `Server` maps them to HTTP.
package enum InferenceError: Error, Sendable, Equatable, CustomStringConvertible {
  case emptyPrompt
  case tokenOutOfRange(token: Int32, vocabularySize: Int)
  /// Counts are tokens; the limit holds for prompt and answer together.
  case promptTooLong(tokens: Int, limit: Int)
  /// The model makes vectors or scores.
  case cannotGenerate
  /// A text that is encoded as a whole.
  case textTooLong(tokens: Int, limit: Int)
  /// An image or an audio clip that the model cannot take, or not there.
  case unusableMedia(String)
  /// An adapter that the engine has not loaded.
  case unknownAdapter
  /// The queue is full: these run and these wait; a place is likely to be free after `retryAfter` seconds.
  case queueFull(limit: Int, running: Int = 0, waiting: Int = 0, retryAfter: Int = 1)
  /// The engine finishes what runs and takes nothing new.
  case draining
  /// The engine cannot start with these settings.
  case contextTooLarge(requested: Int, modelLimit: Int)
  case memoryTooSmall(neededBytes: Int, availableBytes: Int, context: Int, largestContext: Int)
  case modelLoading(String)
  /// The model's weights and a first stretch of context are more than is left of the memory's limit.
  case modelTooLarge(weightBytes: Int, cacheBytes: Int, context: Int, leftBytes: Int, limitBytes: Int)
  /// A sequence cannot grow, and nobody else has memory to give.
  case outOfMemory(tokens: Int, bytesPerToken: Int, leftBytes: Int, limitBytes: Int)
  /// A text to be evaluated needs one token to predict and one before it.
  case textTooShort(tokens: Int)
  /// A window of an evaluation; limits are tokens.
  case badWindow(tokens: Int, least: Int, most: Int)
  /// A comparison of the compute modes where there is only one.
  case noFastMode(compute: String)
  /// Models that are to predict the same tokens, and how many each has.
  case vocabulariesDiffer(first: String, other: String, sizes: Int, Int)
  /// The model does not give a finite likelihood to a token of the text.
  case brokenLogits(position: Int)
  /// The model's output after that many tokens holds something that is not a number, or infinity.
  case unusableLogits(tokens: Int)

  package var description: String {
    switch self {
    case .emptyPrompt: "the prompt has no tokens"
    case .tokenOutOfRange(let token, let size):
      "token id \(token) is outside the model's vocabulary of \(size) tokens"
    case .promptTooLong(let tokens, let limit):
      "the prompt has \(tokens) tokens, but the context holds \(limit) and the answer needs at least one; "
        + "shorten the prompt or start the server with a larger --max-context"
    case .cannotGenerate: "the model makes vectors or scores of texts, and cannot go on with them"
    case .textTooLong(let tokens, let limit):
      "the text has \(tokens) tokens, and the model takes \(limit); shorten it, or have it truncated"
    case .unusableMedia(let problem): problem
    case .unknownAdapter: "the adapter is not loaded"
    case .queueFull(let limit, let running, let waiting, let retryAfter):
      "\(running) running, \(waiting) waiting (--queue-limit \(limit)); "
        + "try again in \(retryAfter) second\(retryAfter == 1 ? "" : "s")"
    case .draining: "the server is shutting down"
    case .contextTooLarge(let requested, let limit):
      "--max-context \(requested) is more than the \(limit) tokens this model was made for "
        + "(config.json max_position_embeddings)"
    case .memoryTooSmall(let needed, let available, let context, let largest):
      "a context of \(context) tokens needs \(needed >> 20) MiB of KV cache, but only \(available >> 20) MiB "
        + "of memory are free for it; use --max-context \(largest) or less"
    case .modelLoading(let problem): problem
    case .modelTooLarge(let weights, let cache, let context, let left, let limit):
      "needs \(MemoryLimit.words(weights)) of weights and \(MemoryLimit.words(cache)) for \(context) tokens of keys and "
        + "values, and \(MemoryLimit.words(left)) are left of --memory \(MemoryLimit.words(limit))"
    case .outOfMemory(let tokens, let perToken, let left, let limit):
      "no memory is left for more than \(tokens) tokens of context at \(MemoryLimit.words(perToken)) each: "
        + "\(MemoryLimit.words(left)) are left of --memory \(MemoryLimit.words(limit)); try again later, or with less"
    case .textTooShort(let tokens):
      "the text has \(tokens) token\(tokens == 1 ? "" : "s"), and perplexity needs at least 2"
    case .badWindow(let tokens, let least, let most):
      "--context \(tokens) does not fit this model: it takes from \(least) to \(most) tokens"
    case .noFastMode(let compute):
      "there is nothing to compare: \(compute) has no integer kernels, so fast mode computes as exact mode does"
    case .vocabulariesDiffer(let first, let other, let count, let otherCount):
      "\(first) has \(count) tokens and \(other) \(otherCount): only models of one vocabulary can be compared"
    case .brokenLogits(let position):
      "the model gives token \(position) of the text no finite likelihood: its logits are not numbers, "
        + "or call the token impossible"
    case .unusableLogits(let tokens):
      "the model's output after \(tokens) tokens is not a number: its weights are damaged, or an activation "
        + "grew beyond what its format can hold"
    }
  }
}
