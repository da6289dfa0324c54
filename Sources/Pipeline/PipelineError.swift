// Why a folder gives no model, and why a conversation has no answer.

package import Chat
package import Grammar
package import Inference

/// An error of this module.
package enum PipelineError: Error, CustomStringConvertible {
  case noTokenizer(folder: String)
  /// The model makes vectors or scores.
  case cannotGenerate(model: String)
  case noTemplate(model: String)
  /// The template has no place for tools.
  case noTools(model: String)
  /// An entry of the list of tools is none.
  case badTool(index: Int)
  /// The conversation cannot be shown to the model.
  case prompt(ChatError)
  case engine(InferenceError)
  /// What the answer must look like cannot be enforced.
  case rules(RulesError)
  /// A receipt that cannot be checked.
  case receipt(String)

  package var description: String {
    switch self {
    case .noTokenizer(let folder):
      "\(folder) has no tokenizer.json: text cannot be turned into tokens. Convert the model's tokenizer, "
        + "or use 'mlxserve bench', which needs none"
    case .cannotGenerate(let model):
      "\(model) makes vectors or scores of texts and writes none: serve it, and use /v1/embeddings or /v1/rerank"
    case .noTemplate(let model):
      "\(model) has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json): "
        + "it is a base model; serve it and use /v1/completions"
    case .noTools(let model): "the chat template of \(model) has no tools; leave them out"
    case .badTool(let index):
      "tools[\(index)] is not a tool: write {\"type\": \"function\", \"function\": {\"name\": ..., \"parameters\": ...}}"
    case .prompt(let error): "\(error)"
    case .engine(let error): "\(error)"
    case .rules(let error): "\(error)"
    case .receipt(let problem): problem
    }
  }
}

/// Why the rules of an answer cannot be enforced.
package enum RulesError: Error, Sendable, CustomStringConvertible {
  /// The pattern of the content, alone or together with the calls.
  case content(GrammarError)
  /// All tools together.
  case tools(GrammarError)
  /// One tool, whose schema is a promise.
  case tool(index: Int, GrammarError)

  package var description: String {
    switch self {
    case .content(let error): "the schema cannot be enforced: \(error)"
    case .tools(let error): "the tools cannot be enforced: \(error)"
    case .tool(let index, let error): "the schema of tools[\(index)] cannot be enforced: \(error)"
    }
  }
}
