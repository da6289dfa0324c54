// Shorthands of these tests: parse a body, report what was refused.

import JSON
import Support
import Wire

/// The chat request of a JSON text, for a vocabulary of 1000 tokens.
func chat(_ text: String, limits: RequestLimits = RequestLimits()) throws -> ChatRequest {
  try ChatRequest(JSONValue(parsing: text), limits: limits, vocabularySize: 1000)
}

/// A chat body with one user message and the given extra members.
func chatBody(_ extra: String) -> String {
  #"{"model":"m","messages":[{"role":"user","content":"hi"}]"# + (extra.isEmpty ? "" : ",\(extra)") + "}"
}

func completion(_ text: String) throws -> CompletionRequest {
  try CompletionRequest(JSONValue(parsing: text), limits: RequestLimits(), vocabularySize: 1000)
}

/// `code param` of the error that `body` throws; `accepted` when it throws none.
func refusal(_ body: () throws -> Any) -> String {
  do {
    _ = try body()
    return "accepted"
  } catch let error as APIError {
    return "\(error.code ?? "null") \(error.param ?? "null")"
  } catch {
    return "\(error)"
  }
}

func chatRefusal(_ extra: String) -> String { refusal { try chat(chatBody(extra)) } }

func messagesRefusal(_ messages: String) -> String {
  refusal { try chat(#"{"model":"m","messages":\#(messages)}"#) }
}
