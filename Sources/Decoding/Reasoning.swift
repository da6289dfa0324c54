// The reasoning before an answer: how it is opened, closed, and cut short.

package import Tokenizers

extension Guide {
  /// Markers are single tokens in most vocabularies; in some they are ordinary text, which a model may split into
  /// tokens in several ways, so they are found in the decoded text.
  package struct Reasoning: Sendable {
    /// Most tokens of the reasoning, its markers not counted; nil has no bound.
    package var budget: Int?
    /// Whether the prompt ends inside reasoning.
    package var startsInside: Bool
    /// What it was made from.
    let texts: (open: String, close: String, lead: String, separator: String)
    /// Between the closing marker and the answer.
    let separator: [Int32]

    private let tokenizer: Tokenizer
    private let open: Marker
    private let close: Marker
    /// Before a closing marker that is forced.
    private let lead: [Int32]

    private struct Marker: Sendable {
      let bytes: [UInt8]
      /// The token that it is; nil for ordinary text.
      let token: Int32?
      /// How it is tokenised, alone and at the end of a line.
      let spellings: [[Int32]]

      init(_ text: String, _ tokenizer: Tokenizer) {
        bytes = Array(text.utf8)
        let alone = tokenizer.encode(text, addSpecialTokens: false)
        token = alone.count == 1 ? alone.first : nil
        let spellings = [alone, tokenizer.encode(text + "\n", addSpecialTokens: false)]
        self.spellings = token == nil ? spellings : [alone]
      }
    }

    /// - Parameters:
    ///   - open: the marker that the model writes before reasoning.
    ///   - close: the marker after it.
    ///   - lead: text between the reasoning and `close`.
    ///   - separator: text between `close` and the answer.
    package init(
      tokenizer: Tokenizer, open: String, close: String, lead: String, separator: String, budget: Int?,
      startsInside: Bool
    ) {
      self.tokenizer = tokenizer
      texts = (open, close, lead, separator)
      self.open = Marker(open, tokenizer)
      self.close = Marker(close, tokenizer)
      self.lead = tokenizer.encode(lead, addSpecialTokens: false)
      self.separator = tokenizer.encode(separator, addSpecialTokens: false)
      (self.budget, self.startsInside) = (budget, startsInside)
    }
  }
}

extension Guide.Reasoning {
  enum Opening: Equatable {
    case none
    /// This many bytes of the marker have come.
    case partial(Int)
    /// The marker is complete; the bytes after it belong to the reasoning.
    case complete([UInt8])
  }

  // MARK: Opening

  /// The tokens that begin the marker, or continue it after its first `matched` bytes.
  func openings(after matched: Int) -> [Int32] {
    var tokens: [Int32] = []
    for spelling in open.spellings {
      var bytes = 0
      for token in spelling {
        if bytes == matched {
          tokens.append(token)
          break
        }
        bytes += tokenizer.bytes(of: token).count
      }
    }
    return tokens
  }

  /// What a token after the first `matched` bytes of the marker makes of it.
  func open(_ token: Int32, after matched: Int) -> Opening {
    if token == open.token { return .complete([]) }
    let bytes = tokenizer.bytes(of: token)
    let rest = open.bytes.dropFirst(matched)
    if bytes.starts(with: rest) { return .complete(Array(bytes.dropFirst(rest.count))) }
    if rest.starts(with: bytes) { return .partial(matched + bytes.count) }
    // White space before reasoning is as good as none.
    return matched == 0 && Self.isSpace(bytes) ? .partial(0) : .none
  }

  // MARK: Closing

  /// Whether the closing marker is ordinary text and not a token.
  var isClosedByText: Bool { close.token == nil }

  /// The closing marker's bytes.
  var closingMarker: [UInt8] { close.bytes }

  /// Takes a token of the reasoning. When it completes the closing marker, the bytes after the marker; else nil.
  func close(_ token: Int32, after tail: inout [UInt8]) -> [UInt8]? {
    if token == close.token { return [] }
    tail += tokenizer.bytes(of: token)
    if close.token == nil, let end = Self.end(of: close.bytes, in: tail) { return Array(tail[end...]) }
    tail.removeFirst(max(0, tail.count - close.bytes.count - 4))
    return nil
  }

  /// Whether the reasoning ends with the beginning of its closing marker.
  func mayBeClosing(_ tail: [UInt8]) -> Bool {
    (1..<close.bytes.count).contains { tail.suffix($0).elementsEqual(close.bytes.prefix($0)) }
  }

  /// Whether a token could complete the closing marker and go on with text of the answer.
  func closesWithText(_ token: Int32) -> Bool {
    let bytes = tokenizer.bytes(of: token)
    return close.bytes.indices.contains { start in
      let end = close.bytes.count - start
      return bytes.count > end && bytes.starts(with: close.bytes[start...])
        && !Self.isSpace(Array(bytes[end...]))
    }
  }

  /// The tokens that close reasoning which ends with `tail`, as the template would have written them.
  func ending(after tail: [UInt8]) -> [Int32] {
    let marker = close.token.map { [$0] } ?? close.spellings.first ?? []
    return (tail.last == UInt8(ascii: "\n") ? [] : lead) + marker + separator
  }

  /// How many tokens reasoning that ends with `tail` may take beyond its budget.
  func patience(after tail: [UInt8]) -> Int {
    if isClosedByText, mayBeClosing(tail) { return close.bytes.count }
    return Self.endsInsideCharacter(tail) ? 3 : 0
  }

  // MARK: Bytes

  private static func endsInsideCharacter(_ tail: [UInt8]) -> Bool {
    guard let start = tail.suffix(4).lastIndex(where: { $0 & 0xC0 != 0x80 }) else { return false }
    let length =
      switch tail[start] {
      case 0xC0..<0xE0: 2
      case 0xE0..<0xF0: 3
      case 0xF0...: 4
      default: 1
      }
    return tail.count - start < length
  }

  private static func isSpace(_ bytes: [UInt8]) -> Bool {
    !bytes.isEmpty && bytes.allSatisfy { $0 == 0x20 || (0x09...0x0D).contains($0) }
  }

  /// Where the first occurrence of a marker ends.
  private static func end(of marker: [UInt8], in bytes: [UInt8]) -> Int? {
    guard marker.count <= bytes.count else { return nil }
    for start in 0...(bytes.count - marker.count)
    where bytes[start..<start + marker.count].elementsEqual(marker) { return start + marker.count }
    return nil
  }
}
