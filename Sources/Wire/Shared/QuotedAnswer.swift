// An answer with the passages of documents that it rests on, each as it stands there: what a model is asked, and its answer read.

package import JSON

/// A text that a question is about.
package struct AskedDocument: Sendable {
  /// Nil for one without.
  package let name: String?
  package let text: String

  package init(name: String?, text: String) { (self.name, self.text) = (name, text) }

  /// What a model is shown of it. The server's wires show the same of a file of that name.
  package var shown: String { InputFile.text(text, named: name) }
}

/// An answer and its passages, as far as those are in the documents.
package struct QuotedAnswer: Sendable {
  /// A passage, letter by letter.
  package struct Quote: Sendable {
    package let text: String
    /// Which of the documents.
    package let index: Int
    package let document: AskedDocument
    /// Bytes before it.
    package let offset: Int

    /// From 1.
    package var line: Int { 1 + document.text.utf8.prefix(offset).count { $0 == 0x0A } }
  }

  package let quotes: [Quote]
  package let answer: String

  /// What an answer has to be, its two members in any order.
  package static func schema(_ documents: [AskedDocument]) -> JSONValue {
    let longest = documents.reduce(1) { max($0, $1.text.unicodeScalars.count) }
    let quote: JSONValue = [
      "type": "string", "x-quote-of": .array(documents.map { .string($0.text) }),
      "minLength": .int(min(16, longest)),
      "maxLength": 400,
    ]
    return [
      "type": "object", "required": ["quotes", "answer"],
      "properties": [
        "quotes": ["type": "array", "items": quote, "minItems": 1, "maxItems": 3],
        "answer": ["type": "string", "minLength": 1, "maxLength": 1000],
      ],
    ]
  }

  /// What a model is shown of a question about documents.
  package static func prompt(_ question: String, about documents: [AskedDocument]) -> String {
    documents.map(\.shown).joined(separator: "\n") + "\n" + question
  }

  /// - Returns: nil where the text was cut before it was whole.
  package init?(_ text: String, from documents: [AskedDocument]) {
    guard let value = try? JSONValue(parsing: text), let answer = value["answer"]?.stringValue else {
      return nil
    }
    self.answer = answer
    quotes = (value["quotes"]?.arrayValue ?? []).compactMap { quote in
      for (index, document) in documents.enumerated() {
        guard let text = quote.stringValue, let range = document.text.utf8.firstRange(of: text.utf8) else {
          continue
        }
        let offset = document.text.utf8.distance(from: document.text.utf8.startIndex, to: range.lowerBound)
        return Quote(text: text, index: index, document: document, offset: offset)
      }
      return nil
    }
  }
}
