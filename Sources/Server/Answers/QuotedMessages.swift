// `{"from": "messages"}` as the source of quotes: the texts that the model has been given, in place of a copy of them.

import JSON
import Wire

struct QuotedMessages {
  /// As templates read them.
  let messages: [JSONValue]

  /// Of users, tools and the system: what the model has said itself is no source. Of a search of files, its passages.
  var texts: [String] {
    messages.filter { $0["role"] != "assistant" }.flatMap { message -> [String] in
      if let passages = message[FileSearchMessages.quotable]?.arrayValue {
        return passages.compactMap(\.stringValue)
      }
      let parts = message["content"]?.arrayValue?.map { $0["text"] } ?? [message["content"]]
      return parts.compactMap { $0?.stringValue }
    }
  }

  /// The schema with these texts wherever its quotes come from the messages. Most schemas quote nothing, and stay as they are.
  func resolve(_ schema: JSONValue) -> JSONValue {
    Self.quotes(schema) ? Self.replaced(schema, by: .array(texts.map { .string($0) })) : schema
  }

  private static func isSource(_ name: String, _ value: JSONValue) -> Bool {
    name == "x-quote-of" && value == QuoteSource.messagesValue
  }

  private static func quotes(_ schema: JSONValue) -> Bool {
    switch schema {
    case .array(let items): items.contains(where: quotes)
    case .object(let members): members.entries.contains { isSource($0.key, $0.value) || quotes($0.value) }
    default: false
    }
  }

  private static func replaced(_ schema: JSONValue, by texts: JSONValue) -> JSONValue {
    switch schema {
    case .array(let items): .array(items.map { replaced($0, by: texts) })
    case .object(let members):
      .object(
        JSONObject(
          members.entries.map { name, value in
            (name, isSource(name, value) ? texts : replaced(value, by: texts))
          }))
    default: schema
    }
  }
}
