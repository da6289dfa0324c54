// Streaming detokenization: token by token to text, never half a character.

/// Turns the tokens of one response into text as they come.
///
/// All pieces together are what `Tokenizer.decode` returns, with one exception that no well-formed output has:
/// in a run of byte tokens that is valid at first and breaks later, the valid characters have already been
/// given out, while `decode` replaces the whole run.
package struct Detokenizer: Sendable {
  private let tokenizer: Tokenizer
  private let skipsSpecialTokens: Bool
  /// Whether runs of byte tokens are judged only as a whole, as the reference does for complete texts.
  private let holdsByteRuns: Bool
  private var isFirst: Bool
  /// Bytes of a character, or of a run of byte tokens, that is not complete.
  private var pending: [UInt8] = []
  private var isRunBroken = false
  /// What may still be stripped from the start of the text.
  private var leadingLeft: Int
  /// The last token, where its text depends on whether another one follows.
  private var held: [UInt8]?
  /// Complete text that waits for the next token.
  private var unsent: [UInt8] = []

  /// Text waits only up to this many bytes, so that a model that writes nothing but broken bytes still streams.
  private static let unsentLimit = 32

  init(tokenizer: Tokenizer, skipsSpecialTokens: Bool, holdsByteRuns: Bool, isContinuation: Bool = false) {
    (self.tokenizer, self.skipsSpecialTokens) = (tokenizer, skipsSpecialTokens)
    self.holdsByteRuns = holdsByteRuns
    isFirst = !isContinuation
    leadingLeft = isContinuation ? 0 : tokenizer.decoder.leading.count
  }

  /// The text that `id` completes; empty for special tokens when they are skipped, and for ids without a token.
  package mutating func push(_ id: Int32) -> String {
    guard !(skipsSpecialTokens && tokenizer.isSpecial(id)), let spelling = tokenizer.spelling(of: id) else {
      return ""
    }
    guard tokenizer.decoder.needsLookahead else { return send(join(spelling, isLast: false)) }
    defer { held = spelling }
    return held.map { send(join($0, isLast: false)) } ?? ""
  }

  /// Gives out what has come so far, unless the next token may still change how it ends. As in the reference, text
  /// does not end in U+FFFD or before an incomplete character while more tokens follow.
  private mutating func send(_ bytes: [UInt8]) -> String {
    unsent += bytes
    let endsOpen = !pending.isEmpty || unsent.suffix(3).elementsEqual("\u{FFFD}".utf8)
    guard !endsOpen || unsent.count > Self.unsentLimit else { return "" }
    defer { unsent = [] }
    return text(unsent)
  }

  /// The rest of the text: an incomplete character becomes U+FFFD.
  package mutating func finish() -> String {
    var out = unsent + (held.map { join($0, isLast: true) } ?? [])
    held = nil
    unsent = []
    endRun(into: &out)
    return text(out)
  }

  /// The bytes that can be given out after one more token.
  private mutating func join(_ spelling: [UInt8], isLast: Bool) -> [UInt8] {
    let piece = tokenizer.decoder.apply(spelling, isFirst: isFirst, isLast: isLast)
    isFirst = false
    var out: [UInt8] = []
    switch tokenizer.decoder.joining {
    case .plain: return piece
    case .byteLevel:
      pending.append(contentsOf: ByteAlphabet.bytes(of: piece))
      takeComplete(into: &out)
    case .byteFallback:
      if let byte = Self.fallbackByte(piece) {
        pushByte(byte, into: &out)
      } else {
        endRun(into: &out)
        out.append(contentsOf: piece)
      }
    }
    return out
  }

  /// The byte of a token `<0xXX>`.
  static func fallbackByte(_ spelling: [UInt8]) -> UInt8? {
    guard spelling.count == 6, spelling.starts(with: "<0x".utf8), spelling[5] == UInt8(ascii: ">") else {
      return nil
    }
    var value: UInt8 = 0
    for digit in spelling[3..<5] {
      switch digit {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): value = value << 4 | (digit - 48)
      case UInt8(ascii: "A")...UInt8(ascii: "F"): value = value << 4 | (digit - 55)
      case UInt8(ascii: "a")...UInt8(ascii: "f"): value = value << 4 | (digit - 87)
      default: return nil
      }
    }
    return value
  }

  private mutating func pushByte(_ byte: UInt8, into out: inout [UInt8]) {
    pending.append(byte)
    guard !holdsByteRuns else { return }
    switch isRunBroken ? .invalid(1) : UTF8Sequence(pending, at: 0) {
    case .complete:
      out.append(contentsOf: pending)
      pending = []
    case .incomplete: break
    case .invalid:
      isRunBroken = true
      replacePending(into: &out)
    }
  }

  /// One U+FFFD for every pending byte.
  private mutating func replacePending(into out: inout [UInt8]) {
    for _ in pending { out.append(scalar: 0xFFFD) }
    pending = []
  }

  private mutating func endRun(into out: inout [UInt8]) {
    isRunBroken = false
    guard !pending.isEmpty else { return }
    if case .byteLevel = tokenizer.decoder.joining {
      // What is left is the start of one character.
      out.append(scalar: 0xFFFD)
      pending = []
    } else if String(validating: pending, as: UTF8.self) != nil {
      out.append(contentsOf: pending)
      pending = []
    } else {
      replacePending(into: &out)
    }
  }

  /// Moves complete characters out of `pending`; what can never become one is replaced.
  private mutating func takeComplete(into out: inout [UInt8]) {
    var at = 0
    scan: while at < pending.count {
      switch UTF8Sequence(pending, at: at) {
      case .complete(let length):
        out.append(contentsOf: pending[at..<at + length])
        at += length
      case .invalid(let length):
        out.append(scalar: 0xFFFD)
        at += length
      case .incomplete: break scan
      }
    }
    pending.removeFirst(at)
  }

  private mutating func text(_ bytes: [UInt8]) -> String {
    guard leadingLeft > 0, !bytes.isEmpty else { return String(decoding: bytes, as: UTF8.self) }
    let content = tokenizer.decoder.leading.content
    var rest = bytes[...]
    while leadingLeft > 0, !content.isEmpty, rest.starts(with: content) {
      rest = rest.dropFirst(content.count)
      leadingLeft -= 1
    }
    if !rest.isEmpty { leadingLeft = 0 }
    return String(decoding: rest, as: UTF8.self)
  }
}

/// What stands at a place of a byte string (Unicode Standard, table 3-7).
enum UTF8Sequence: Equatable {
  case complete(Int)
  /// Could become a character with more bytes.
  case incomplete
  /// Never becomes one; this many bytes are replaced together (the maximal subpart).
  case invalid(Int)

  init(_ bytes: [UInt8], at start: Int) {
    let length: Int
    var second: ClosedRange<UInt8> = 0x80...0xBF
    switch bytes[start] {
    case 0..<0x80:
      self = .complete(1)
      return
    case 0xC2...0xDF: length = 2
    case 0xE0: (length, second) = (3, 0xA0...0xBF)
    case 0xED: (length, second) = (3, 0x80...0x9F)
    case 0xE1...0xEF: length = 3
    case 0xF0: (length, second) = (4, 0x90...0xBF)
    case 0xF1...0xF3: length = 4
    case 0xF4: (length, second) = (4, 0x80...0x8F)
    default:
      self = .invalid(1)
      return
    }
    for offset in 1..<length {
      guard start + offset < bytes.count else {
        self = .incomplete
        return
      }
      guard (offset == 1 ? second : 0x80...0xBF).contains(bytes[start + offset]) else {
        self = .invalid(offset)
        return
      }
    }
    self = .complete(length)
  }
}
