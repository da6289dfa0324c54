// Answers that the tokenizer would cut otherwise than the model has written them: their tokens are remembered, so that the
// prompt of the next turn begins with the tokens that were computed.

package import Chat
package import JSON
package import Platform

/// Where an answer begins: behind a prompt of this text.
package struct AnswerPlace: Sendable, Equatable {
  /// Bytes of the prompt's text, and their SHA-256.
  fileprivate let start: Int
  fileprivate let digest: [UInt8]

  package init(after text: String) {
    let bytes = Array(text.utf8)
    (start, digest) = (bytes.count, SHA256.digest(bytes))
  }

  fileprivate init(start: Int, digest: [UInt8]) { (self.start, self.digest) = (start, digest) }
}

/// One such answer.
package struct WrittenAnswer: Sendable, Equatable {
  fileprivate let place: AnswerPlace
  package let tokens: [Int32]

  package var json: JSONValue {
    [
      "start": .int(place.start), "before": .string(SHA256.hexadecimal(place.digest)),
      "tokens": .array(tokens.map { .int(Int($0)) }),
    ]
  }

  fileprivate init(place: AnswerPlace, tokens: [Int32]) { (self.place, self.tokens) = (place, tokens) }

  /// - Returns: nil for what `json` has not written.
  package init?(_ json: JSONValue) {
    guard let start = json["start"]?.intValue, start >= 0,
      let digest = (json["before"]?.stringValue).flatMap(SHA256.digest(hexadecimal:)),
      let tokens = json["tokens"]?.arrayValue?.compactMap({ $0.intValue.flatMap(Int32.init(exactly:)) })
    else { return nil }
    self.init(place: AnswerPlace(start: start, digest: digest), tokens: tokens)
  }
}

/// The latest of one model. Usable from any thread.
package final class WrittenAnswers: Sendable {
  private struct Entry {
    let tenant: UInt64
    let answer: WrittenAnswer
    /// Of the memory that it takes.
    let loan: MemoryLoan
  }

  /// The last one found or added is the last.
  private let entries = Monitor<[Entry]>([])

  /// Answers, and tokens of all together: a megabyte.
  private static let (most, mostTokens) = (1_024, 1 << 18)
  /// Bytes of an answer beside its tokens: digest, arrays, its place in the list.
  private static let entryBytes = 256
  private let ledger: MemoryLedger

  /// - Parameter ledger: where their memory is claimed; what does not fit is tokenized when it comes back.
  package init(ledger: MemoryLedger = MemoryLedger()) { self.ledger = ledger }

  /// The same for another model, of nothing yet.
  func another() -> WrittenAnswers { WrittenAnswers(ledger: ledger) }

  /// - Parameter tenant: whose they are: others do not find them.
  package func add(_ answers: [WrittenAnswer], tenant: UInt64) {
    guard !answers.isEmpty else { return }
    entries.withLock { entries in
      entries.removeAll { $0.tenant == tenant && answers.contains($0.answer) }
      entries += answers.compactMap { answer in
        let bytes = Self.entryBytes + answer.tokens.count * MemoryLayout<Int32>.stride
        return MemoryLoan(holding: bytes, of: ledger, for: .storedResponses).map {
          Entry(tenant: tenant, answer: answer, loan: $0)
        }
      }
      var tokens = entries.reduce(0) { $0 + $1.answer.tokens.count }
      while entries.count > Self.most || tokens > Self.mostTokens {
        tokens -= entries.removeFirst().answer.tokens.count
      }
    }
  }

  /// The answers that have begun at places of a prompt, by their places.
  package func answers(in text: [UInt8], tenant: UInt64) -> [WrittenAnswer] {
    let own = entries.withLock { entries in entries.filter { $0.tenant == tenant }.map(\.answer) }
    var (hash, hashed, digest) = (SHA256(), 0, [UInt8]())
    let found = own.filter { $0.place.start <= text.count }.sorted { $0.place.start < $1.place.start }.filter
    {
      if hashed < $0.place.start || digest.isEmpty {
        hash.update(text[hashed..<$0.place.start])
        (hashed, digest) = ($0.place.start, hash.finish())
      }
      return $0.place.digest == digest
    }
    add(found, tenant: tenant)
    return found
  }
}

extension LoadedModel {
  /// The prompt of a conversation, with the tokens of answers as the model has written them.
  package func prompt(
    of conversation: Conversation, template: ChatTemplate, tenant: UInt64 = 0
  ) throws(ChatError) -> Prompt {
    try prompts.prompt(of: conversation, template: template) { text in
      written.answers(in: text, tenant: tenant).map {
        WrittenTokens(start: $0.place.start, tokens: $0.tokens)
      }
    }
  }

  /// Remembers an answer, if the tokenizer would cut it otherwise.
  ///
  /// - Parameters:
  ///   - tokens: without a token that ended it.
  ///   - prompt: the tokens before it.
  /// - Returns: what is to be kept with it; nil for nothing.
  package func remember(
    _ tokens: [Int32], after prompt: [Int32], at place: AnswerPlace, tenant: UInt64 = 0
  ) -> WrittenAnswer? {
    guard !tokens.isEmpty, !prompts.isUsual(tokens, after: prompt) else { return nil }
    let answer = WrittenAnswer(place: place, tokens: tokens)
    written.add([answer], tenant: tenant)
    return answer
  }
}
