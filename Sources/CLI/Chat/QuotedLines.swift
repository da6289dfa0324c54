// `mlxserve ask --quotes`: an answer and its passages as a person or a program reads them.

import JSON
import Wire

extension QuotedAnswer.Quote {
  /// Where it stands, in words: the page of a PDF, or the line.
  var place: String {
    let before = String(decoding: document.text.utf8.prefix(offset), as: UTF8.self)
    let page = before.split(separator: "\n").last { $0.hasPrefix("[Page ") && $0.hasSuffix("]") }
    let words = page.map { "page " + $0.dropFirst(6).dropLast() } ?? "line \(line)"
    return document.name.map { "\(Terminal.safe($0)), \(words)" } ?? words
  }
}

extension QuotedAnswer {
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
