// What is put into an index: a document, cut into passages, each with the keys of its vectors.

import Platform

/// Names a vector by what it was made of: the first half of a SHA-256.
package struct RowKey: Hashable, Sendable, Comparable {
  package var high: UInt64
  package var low: UInt64

  package init(high: UInt64, low: UInt64) {
    (self.high, self.low) = (high, low)
  }

  /// The key of a text, as it was given to the model.
  package init(of text: [UInt8]) {
    let digest = SHA256.digest(text)
    self.init(high: Self.word(digest, 0), low: Self.word(digest, 8))
  }

  package static func < (a: RowKey, b: RowKey) -> Bool { (a.high, a.low) < (b.high, b.low) }

  /// 32 hexadecimal digits.
  package var text: String {
    [high, low].map { word in
      let digits = String(word, radix: 16)
      return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }.joined()
  }

  /// Nil unless there are 32 hexadecimal digits.
  package init?(text: String) {
    let digits = Array(text.utf8)
    guard digits.count == 32, let high = UInt64(String(decoding: digits[..<16], as: UTF8.self), radix: 16),
      let low = UInt64(String(decoding: digits[16...], as: UTF8.self), radix: 16)
    else { return nil }
    self.init(high: high, low: low)
  }

  private static func word(_ bytes: [UInt8], _ at: Int) -> UInt64 {
    bytes[at..<at + 8].reduce(0) { $0 << 8 | UInt64($1) }
  }
}

/// A part of a document, which is what a search finds.
package struct Passage: Sendable, Equatable {
  /// UTF-8.
  package var text: [UInt8]
  /// The headings above it, UTF-8; empty when there are none.
  package var heading: [UInt8]
  /// Where the text stands in the document's text, bytes.
  package var range: Range<Int>
  /// Its vectors, at least one.
  package var rows: [RowKey]

  package init(text: [UInt8], heading: [UInt8] = [], range: Range<Int>, rows: [RowKey]) {
    (self.text, self.heading, self.range) = (text, heading, range)
    self.rows = rows
  }
}

/// A document to be put into an index.
package struct NewDocument: Sendable {
  /// Its name; a document of the same name is replaced.
  package var key: String
  /// What its owner wants to know of it.
  package var info: [UInt8]
  /// Words that all its passages have beside their own, UTF-8.
  package var name: [UInt8]
  package var passages: [Passage]
  /// Whether the last row of its first passage is a vector of its name.
  package var hasNameRow: Bool

  package init(
    key: String, info: [UInt8], name: [UInt8] = [], passages: [Passage], hasNameRow: Bool = false
  ) {
    (self.key, self.info, self.name) = (key, info, name)
    (self.passages, self.hasNameRow) = (passages, hasNameRow)
  }
}

/// A document whose vectors are at hand, as a segment takes it.
struct SourceDocument {
  var key: String
  var info: [UInt8]
  /// Counts documents in the order in which they were put in.
  var serial: UInt64
  var name: [UInt8]
  var passages: [Passage]
  var hasNameRow: Bool
  /// The rows of all passages, one after another.
  var vectors: UnsafeBufferPointer<Float>
}
