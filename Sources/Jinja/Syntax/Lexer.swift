// Template source to tokens, with Jinja's whitespace control.
//
// The rules (jinja2 with trim_blocks and lstrip_blocks): one newline after `%}` and `#}` is dropped;
// blanks between the start of a line and `{%` or `{#` are dropped; `-` inside a delimiter drops all
// whitespace on its side, `+` keeps it; one newline at the very end of the source is dropped. Newlines
// are normalised to `\n` first.

struct Lexer {
  private let bytes: [UInt8]
  private var at = 0
  private var tokens: [Token] = []
  /// Whether what was consumed last ended with a newline: `lstrip_blocks` then applies from here.
  private var isLineStart = true
  let lines: LineMap

  init(source: String) {
    var normal: [UInt8] = []
    normal.reserveCapacity(source.utf8.count)
    var previous: UInt8 = 0
    for byte in source.utf8 {
      if byte == 0x0D {
        normal.append(0x0A)
      } else if !(byte == 0x0A && previous == 0x0D) {
        normal.append(byte)
      }
      previous = byte
    }
    if normal.last == 0x0A { normal.removeLast() }
    bytes = normal
    lines = LineMap(normal)
  }

  private func failure(_ offset: Int, _ problem: String) -> JinjaError {
    .syntax(at: lines.position(of: offset), problem: problem)
  }

  private func byte(_ index: Int) -> UInt8? { index < bytes.count ? bytes[index] : nil }

  mutating func tokenize() throws(JinjaError) -> [Token] {
    while at < bytes.count {
      guard let tag = nextTag() else {
        emitText(at, bytes.count)
        at = bytes.count
        break
      }
      let kind = bytes[tag + 1]
      let sign = byte(tag + 2)
      let hasSign = sign == UInt8(ascii: "-") || sign == UInt8(ascii: "+")
      emitText(at, textEnd(before: tag, sign: sign, isOutput: kind == UInt8(ascii: "{")))
      at = tag + (hasSign ? 3 : 2)
      switch kind {
      case UInt8(ascii: "#"): try skipComment(from: tag)
      case UInt8(ascii: "%"):
        if !(try lexRaw(from: tag)) {
          tokens.append(Token(kind: .blockBegin, offset: tag))
          try lexInside(close: UInt8(ascii: "%"), end: .blockEnd)
        }
      default:
        tokens.append(Token(kind: .outputBegin, offset: tag))
        try lexInside(close: UInt8(ascii: "}"), end: .outputEnd)
      }
    }
    tokens.append(Token(kind: .end, offset: bytes.count))
    return tokens
  }

  // MARK: Text and delimiters

  private func nextTag() -> Int? {
    var index = at
    while index + 1 < bytes.count {
      if bytes[index] == UInt8(ascii: "{") {
        switch bytes[index + 1] {
        case UInt8(ascii: "{"), UInt8(ascii: "%"), UInt8(ascii: "#"): return index
        default: break
        }
      }
      index += 1
    }
    return nil
  }

  /// Where the text before a tag ends after whitespace control.
  private func textEnd(before tag: Int, sign: UInt8?, isOutput: Bool) -> Int {
    if sign == UInt8(ascii: "-") {
      var end = tag
      while end > at {
        let length = Whitespace.length(in: bytes, before: end)
        if length == 0 { break }
        end -= length
      }
      return max(end, at)
    }
    if isOutput || sign == UInt8(ascii: "+") { return tag }
    let lineStart = bytes[at..<tag].lastIndex(of: 0x0A).map { $0 + 1 } ?? at
    guard lineStart > at || isLineStart else { return tag }
    var index = lineStart
    while index < tag {
      let length = Whitespace.length(in: bytes, at: index)
      if length == 0 { return tag }
      index += length
    }
    return lineStart
  }

  private mutating func emitText(_ start: Int, _ end: Int) {
    guard start < end else { return }
    tokens.append(Token(kind: .text(String(decoding: bytes[start..<end], as: UTF8.self)), offset: start))
  }

  private mutating func skipWhitespace() {
    while at < bytes.count {
      let length = Whitespace.length(in: bytes, at: at)
      if length == 0 { return }
      at += length
    }
  }

  /// Consumes what a closing delimiter drops after itself; `at` stands after the delimiter.
  private mutating func finishTag(sign: UInt8?, trimsNewline: Bool) {
    if sign == UInt8(ascii: "-") {
      skipWhitespace()
    } else if trimsNewline, sign != UInt8(ascii: "+"), byte(at) == 0x0A {
      at += 1
    }
    isLineStart = bytes[at - 1] == 0x0A
  }

  private mutating func skipComment(from tag: Int) throws(JinjaError) {
    var index = at
    while index + 1 < bytes.count,
      !(bytes[index] == UInt8(ascii: "#") && bytes[index + 1] == UInt8(ascii: "}"))
    {
      index += 1
    }
    guard index + 1 < bytes.count else { throw failure(tag, "the comment is not closed with '#}'") }
    let sign = index > at ? bytes[index - 1] : nil
    at = index + 2
    finishTag(sign: sign, trimsNewline: true)
  }

  /// `{% raw %}...{% endraw %}`; `at` stands after the opening delimiter. False when the tag is another.
  private mutating func lexRaw(from tag: Int) throws(JinjaError) -> Bool {
    let start = at
    skipWhitespace()
    guard matches("raw", at: at) else {
      at = start
      return false
    }
    at += 3
    skipWhitespace()
    var sign: UInt8?
    if byte(at) == UInt8(ascii: "-") {
      sign = UInt8(ascii: "-")
      at += 1
    }
    guard matches("%}", at: at) else {
      at = start
      return false
    }
    at += 2
    finishTag(sign: sign, trimsNewline: false)

    var index = at
    while index + 1 < bytes.count {
      if matches("{%", at: index), let (openSign, after, closeSign) = endRaw(at: index) {
        emitText(at, textEnd(before: index, sign: openSign, isOutput: false))
        at = after
        finishTag(sign: closeSign, trimsNewline: true)
        return true
      }
      index += 1
    }
    throw failure(tag, "the raw block is not closed with '{% endraw %}'")
  }

  private func endRaw(at index: Int) -> (UInt8?, after: Int, UInt8?)? {
    func sign(_ index: Int) -> UInt8? {
      byte(index).flatMap { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "+") ? $0 : nil }
    }
    func blanks(_ start: Int) -> Int {
      var end = start
      while end < bytes.count {
        let length = Whitespace.length(in: bytes, at: end)
        if length == 0 { break }
        end += length
      }
      return end
    }
    let open = sign(index + 2)
    var next = blanks(index + (open == nil ? 2 : 3))
    guard matches("endraw", at: next) else { return nil }
    next = blanks(next + 6)
    let close = sign(next)
    if close != nil { next += 1 }
    guard matches("%}", at: next) else { return nil }
    return (open, next + 2, close)
  }

  private func matches(_ word: StaticString, at index: Int) -> Bool {
    let count = word.utf8CodeUnitCount
    return index + count <= bytes.count
      && bytes[index..<index + count].elementsEqual(word.description.utf8)
  }

  // MARK: Inside a tag

  /// Tokens up to and including the closing delimiter `close` + `}`.
  private mutating func lexInside(close: UInt8, end: Token.Kind) throws(JinjaError) {
    var open: [Symbol] = []
    while true {
      skipWhitespace()
      guard let current = byte(at) else { return }
      if open.isEmpty {
        let hasSign =
          current == UInt8(ascii: "-") || (current == UInt8(ascii: "+") && close == UInt8(ascii: "%"))
        let delimiter = hasSign ? at + 1 : at
        if byte(delimiter) == close, byte(delimiter + 1) == UInt8(ascii: "}") {
          tokens.append(Token(kind: end, offset: at))
          at = delimiter + 2
          finishTag(sign: hasSign ? current : nil, trimsNewline: close == UInt8(ascii: "%"))
          return
        }
      }
      let offset = at
      switch current {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"):
        tokens.append(Token(kind: .name(lexName()), offset: offset))
      case UInt8(ascii: "0")...UInt8(ascii: "9"):
        tokens.append(Token(kind: try lexNumber(), offset: offset))
      case UInt8(ascii: "'"), UInt8(ascii: "\""):
        tokens.append(Token(kind: .string(try lexString(quote: current)), offset: offset))
      default:
        let symbol = try lexSymbol()
        try balance(symbol, &open, offset)
        tokens.append(Token(kind: .symbol(symbol), offset: offset))
      }
    }
  }

  private func balance(_ symbol: Symbol, _ open: inout [Symbol], _ offset: Int) throws(JinjaError) {
    switch symbol {
    case .openBrace: open.append(.closeBrace)
    case .openParen: open.append(.closeParen)
    case .openBracket: open.append(.closeBracket)
    case .closeBrace, .closeParen, .closeBracket:
      guard open.popLast() == symbol else { throw failure(offset, "unexpected '\(symbol.rawValue)'") }
    default: break
    }
  }

  private mutating func lexName() -> String {
    let start = at
    while let current = byte(at), Self.isWord(current) { at += 1 }
    return String(decoding: bytes[start..<at], as: UTF8.self)
  }

  private static func isWord(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
      true
    default: false
    }
  }

  private mutating func lexSymbol() throws(JinjaError) -> Symbol {
    if at + 2 <= bytes.count, let two = Symbol(rawValue: String(decoding: bytes[at..<at + 2], as: UTF8.self))
    {
      at += 2
      return two
    }
    guard let one = Symbol(rawValue: String(decoding: bytes[at..<at + 1], as: UTF8.self)) else {
      throw failure(at, "unexpected character")
    }
    at += 1
    return one
  }

  /// Decimal integers and floats with `_` between digits; `0x`, `0o` and `0b` integers.
  private mutating func lexNumber() throws(JinjaError) -> Token.Kind {
    let start = at
    var radix = 10
    if bytes[at] == UInt8(ascii: "0"), let mark = byte(at + 1) {
      switch mark | 0x20 {
      case UInt8(ascii: "x"): radix = 16
      case UInt8(ascii: "o"): radix = 8
      case UInt8(ascii: "b"): radix = 2
      default: break
      }
    }
    if radix != 10 {
      at += 2
      let digits = lexDigits(hexadecimal: true)
      guard let value = Int(digits, radix: radix) else { throw failure(start, "malformed integer") }
      return .int(value)
    }
    var text = lexDigits()
    var isFloat = false
    if byte(at) == UInt8(ascii: "."), let next = byte(at + 1), Self.isDigit(next) {
      isFloat = true
      at += 1
      text += "." + lexDigits()
    }
    if let mark = byte(at), mark | 0x20 == UInt8(ascii: "e") {
      var digit = at + 1
      if byte(digit) == UInt8(ascii: "+") || byte(digit) == UInt8(ascii: "-") { digit += 1 }
      if let first = byte(digit), Self.isDigit(first) {
        isFloat = true
        text += String(decoding: bytes[at..<digit], as: UTF8.self)
        at = digit
        text += lexDigits()
      }
    }
    if isFloat {
      guard let value = Double(text), value.isFinite else { throw failure(start, "malformed number") }
      return .double(value)
    }
    guard let value = Int(text) else { throw failure(start, "the integer does not fit 64 bits") }
    return .int(value)
  }

  private static func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }

  private mutating func lexDigits(hexadecimal: Bool = false) -> String {
    let start = at
    while let current = byte(at) {
      let letter = current | 0x20
      let isHex = hexadecimal && letter >= UInt8(ascii: "a") && letter <= UInt8(ascii: "f")
      guard Self.isDigit(current) || current == UInt8(ascii: "_") || isHex else { break }
      at += 1
    }
    return String(decoding: bytes[start..<at].filter { $0 != UInt8(ascii: "_") }, as: UTF8.self)
  }

  private mutating func lexString(quote: UInt8) throws(JinjaError) -> String {
    let start = at
    at += 1
    var out: [UInt8] = []
    while let current = byte(at) {
      at += 1
      if current == quote {
        guard let text = String(validating: out, as: UTF8.self) else {
          throw failure(start, "the string is not valid UTF-8")
        }
        return text
      }
      if current == UInt8(ascii: "\\") { try lexEscape(into: &out) } else { out.append(current) }
    }
    throw failure(start, "the string is not closed")
  }

  /// A Python string escape; unknown ones keep their backslash.
  private mutating func lexEscape(into out: inout [UInt8]) throws(JinjaError) {
    let start = at - 1
    guard let mark = byte(at) else { return }
    at += 1
    switch mark {
    case 0x0A: break
    case UInt8(ascii: "n"): out.append(0x0A)
    case UInt8(ascii: "t"): out.append(0x09)
    case UInt8(ascii: "r"): out.append(0x0D)
    case UInt8(ascii: "a"): out.append(0x07)
    case UInt8(ascii: "b"): out.append(0x08)
    case UInt8(ascii: "f"): out.append(0x0C)
    case UInt8(ascii: "v"): out.append(0x0B)
    case UInt8(ascii: "\\"), UInt8(ascii: "'"), UInt8(ascii: "\""): out.append(mark)
    case UInt8(ascii: "x"): try lexCodePoint(digits: 2, from: start, into: &out)
    case UInt8(ascii: "u"): try lexCodePoint(digits: 4, from: start, into: &out)
    case UInt8(ascii: "U"): try lexCodePoint(digits: 8, from: start, into: &out)
    case UInt8(ascii: "0")...UInt8(ascii: "7"):
      var value = UInt32(mark - 48)
      var count = 1
      while count < 3, let next = byte(at), next >= 48, next <= 55 {
        value = value * 8 + UInt32(next - 48)
        at += 1
        count += 1
      }
      if let scalar = Unicode.Scalar(value) { out.append(contentsOf: String(scalar).utf8) }
    default: out += [UInt8(ascii: "\\"), mark]
    }
  }

  private mutating func lexCodePoint(digits: Int, from start: Int, into out: inout [UInt8]) throws(JinjaError)
  {
    var value: UInt32 = 0
    for _ in 0..<digits {
      guard let digit = byte(at), let nibble = Hexadecimal.value(of: digit) else {
        throw failure(start, "malformed escape in a string")
      }
      value = value << 4 | UInt32(nibble)
      at += 1
    }
    guard let scalar = Unicode.Scalar(value) else { throw failure(start, "the escape names no character") }
    out.append(contentsOf: String(scalar).utf8)
  }
}

enum Hexadecimal {
  static func value(of byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - 48
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - 87
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - 55
    default: nil
    }
  }
}
