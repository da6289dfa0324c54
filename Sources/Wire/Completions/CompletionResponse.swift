// Legacy completions: the body, and the chunks of its streamed form, which carry the same object name.

package import JSON

/// One element of `choices` of a completion, whole or of one chunk.
package struct CompletionChoice: Sendable {
  package var index: Int
  package var text: String
  package var logprobs: LegacyLogprobs?
  /// Nil in every chunk of a stream but the last of the choice.
  package var finish: ChoiceFinish?
  /// What else is told of its tokens and its prompt's.
  package var details = TokenDetails()

  package init(index: Int, text: String, logprobs: LegacyLogprobs?, finish: ChoiceFinish?) {
    self.index = index
    self.text = text
    self.logprobs = logprobs
    self.finish = finish
  }

  var parts: JSONParts {
    .object(
      [
        ("text", .value(.string(text))), ("index", .value(.int(index))),
        ("logprobs", logprobs?.parts ?? .value(nil)),
        ("finish_reason", .value(finish.map { .string($0.rawValue) } ?? nil)),
      ] + details.members)
  }
}

/// The body of a completion, or one chunk of it: `text_completion`.
package struct CompletionResponse: Sendable {
  /// What the `usage` member of a body is.
  package enum UsageMember: Sendable, Equatable {
    case absent
    /// In a stream whose last chunk will carry the counts.
    case announced
    case counts(Usage)
  }

  package var header: AnswerHeader
  package var choices: [CompletionChoice]
  package var usage: UsageMember

  package init(header: AnswerHeader, choices: [CompletionChoice], usage: UsageMember) {
    self.header = header
    self.choices = choices
    self.usage = usage
  }

  /// The body, or the data of the event.
  package var parts: JSONParts {
    let usage: [(String, JSONParts)] =
      switch usage {
      case .absent: []
      case .announced: [("usage", .value(nil))]
      case .counts(let counts): [("usage", .value(counts.json))]
      }
    return .object(
      header.members(kind: "text_completion").map { ($0, .value($1)) }
        + [("choices", .list(count: choices.count) { choices[$0].parts })] + usage)
  }

  /// The same as one value.
  package var json: JSONValue { parts.json }
}
