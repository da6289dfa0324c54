// `{"from": "messages"}` as the source of quotes: the texts that the model has been given, in place of a copy of them.

import JSON
import Wire

struct QuotedMessages {
  /// Of users, tools and the system: what the model has said itself is no source.
  let texts: [String]

  /// - Parameter messages: as templates read them.
  init(_ messages: [JSONValue]) {
    texts = messages.filter { $0["role"] != "assistant" }.flatMap { message -> [String] in
      let parts = message["content"]?.arrayValue?.map { $0["text"] } ?? [message["content"]]
      return parts.compactMap { $0?.stringValue }
    }
  }

  /// The schema with these texts wherever its quotes come from the messages.
  func resolve(_ schema: JSONValue) -> JSONValue {
    switch schema {
    case .array(let items): return .array(items.map(resolve))
    case .object(let members):
      return .object(
        JSONObject(
          members.entries.map { name, value in
            name == "x-quote-of" && value == QuoteSource.messagesValue
              ? (name, .array(texts.map { .string($0) })) : (name, resolve(value))
          }))
    default: return schema
    }
  }
}
