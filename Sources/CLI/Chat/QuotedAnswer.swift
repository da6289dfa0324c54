// `mlxserve ask --quotes`: an answer with the passages of the documents that it rests on, each as it stands there.

import JSON
import Wire

/// A file that a question is about.
struct AskedDocument {
  /// Nil for standard input.
  let name: String?
  let text: String

  /// What a model is shown of it. The server's wires show the same of a file of that name.
  var shown: String { InputFile.text(text, named: name) }
}

struct QuotedAnswer {
  struct Quote {
    let text: String
    let document: AskedDocument
    /// Bytes before it.
    let offset: Int

    /// From 1.
    var line: Int { 1 + document.text.utf8.prefix(offset).count { $0 == 0x0A } }

    /// Where it stands, in words: the page of a PDF, or the line.
    var place: String {
      let before = String(decoding: document.text.utf8.prefix(offset), as: UTF8.self)
      let page = before.split(separator: "\n").last { $0.hasPrefix("[Page ") && $0.hasSuffix("]") }
      let words = page.map { "page " + $0.dropFirst(6).dropLast() } ?? "line \(line)"
      return document.name.map { "\(Terminal.safe($0)), \(words)" } ?? words
    }
  }

  let quotes: [Quote]
  let answer: String

  /// What an answer has to be, its two members in any order.
  static func schema(_ documents: [AskedDocument]) -> JSONValue {
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

  /// - Returns: nil where the text was cut before it was whole.
  init?(_ text: String, from documents: [AskedDocument]) {
    guard let value = try? JSONValue(parsing: text), let answer = value["answer"]?.stringValue else {
      return nil
    }
    self.answer = answer
    quotes = (value["quotes"]?.arrayValue ?? []).compactMap { quote in
      for document in documents {
        guard let text = quote.stringValue, let range = document.text.utf8.firstRange(of: text.utf8) else {
          continue
        }
        let offset = document.text.utf8.distance(from: document.text.utf8.startIndex, to: range.lowerBound)
        return Quote(text: text, document: document, offset: offset)
      }
      return nil
    }
  }

  var json: JSONValue {
    [
      "quotes": .array(
        quotes.map { quote in
          [
            "text": .string(quote.text), "file": quote.document.name.map { .string($0) } ?? .null,
            "offset": .int(quote.offset), "line": .int(quote.line),
          ]
        }),
      "answer": .string(answer),
    ]
  }

  /// Passages with their places, then the answer; lines of a document become those of the terminal.
  var lines: [String] {
    let passages = quotes.flatMap { quote in
      let words = quote.text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
      return ["> " + Terminal.safe(words), Terminal.dimmed("  " + quote.place), ""]
    }
    return passages + [Terminal.safe(answer, keepsLines: true)]
  }
}
