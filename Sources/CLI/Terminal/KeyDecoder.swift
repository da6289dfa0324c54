// From the bytes that a terminal sends to keys: text, control keys, escape sequences and pasted text.

/// What somebody has done on the keyboard.
enum Key: Equatable {
  case text(String)
  /// Text that came at once, however many lines it has.
  case paste(String)
  case enter
  /// Another line of the same text.
  case newLine
  case backspace, delete
  case left, right, up, down, home, end
  case wordLeft, wordRight
  case deleteWord, deleteToStart, deleteToEnd
  case yank, redraw
  /// Tab, and Ctrl-R.
  case complete, search
  case interrupt, endOfInput, suspend
}

/// Takes bytes as they come, in pieces of any size.
struct KeyDecoder {
  private var bytes: [UInt8] = []
  /// Where the end of a paste is looked for; nil outside of one. A long one comes in many pieces.
  private var pasteSearch: Int?

  private static let pasteEnd = Array("\u{1B}[201~".utf8)

  /// The keys that are complete now.
  mutating func feed(_ new: [UInt8]) -> [Key] {
    bytes += new
    var keys: [Key] = []
    while let (key, count) = next() {
      bytes.removeFirst(count)
      if let key { keys.append(key) }
    }
    return keys
  }

  /// Whether something has begun that the next byte decides.
  var isWaiting: Bool { !bytes.isEmpty && pasteSearch == nil }

  /// No more came for a while: an escape was the key of that name, and means nothing here.
  mutating func expire() { if pasteSearch == nil { bytes = [] } }

  /// A key and its bytes; nil where more are needed.
  private mutating func next() -> (Key?, Int)? {
    if let start = pasteSearch { return takePaste(from: start) }
    guard let first = bytes.first else { return nil }
    if first == 0x1B { return escape() }
    if first < 0x20 || first == 0x7F { return (Self.control(first), 1) }
    return text()
  }

  // MARK: Text

  /// As many whole characters of UTF-8 as there are.
  private func text() -> (Key?, Int)? {
    var end = 0
    while end < bytes.count, bytes[end] >= 0x20, bytes[end] != 0x7F {
      let length = Self.length(bytes[end])
      guard end + length <= bytes.count else { break }
      end += length
    }
    guard end > 0 else { return nil }
    return (.text(String(decoding: bytes[..<end], as: UTF8.self)), end)
  }

  private static func length(_ lead: UInt8) -> Int {
    switch lead {
    case 0xC2...0xDF: 2
    case 0xE0...0xEF: 3
    case 0xF0...0xF4: 4
    default: 1
    }
  }

  private mutating func takePaste(from start: Int) -> (Key?, Int)? {
    let last = bytes.count - Self.pasteEnd.count
    guard let end = (start...max(start, last)).first(where: { bytes[$0...].starts(with: Self.pasteEnd) })
    else {
      pasteSearch = max(start, last + 1)
      return nil
    }
    pasteSearch = nil
    // Lines end with carriage returns in many terminals.
    let text = String(decoding: bytes[..<end], as: UTF8.self)
    let lines = text.replacing("\r\n", with: "\n").replacing("\r", with: "\n")
    return (.paste(lines), end + Self.pasteEnd.count)
  }

  // MARK: Control keys

  private static func control(_ byte: UInt8) -> Key? {
    switch byte {
    case 0x01: .home
    case 0x02: .left
    case 0x03: .interrupt
    case 0x04: .endOfInput
    case 0x05: .end
    case 0x06: .right
    case 0x08, 0x7F: .backspace
    case 0x09: .complete
    case 0x0A: .newLine
    case 0x0B: .deleteToEnd
    case 0x0C: .redraw
    case 0x0D: .enter
    case 0x0E: .down
    case 0x10: .up
    case 0x12: .search
    case 0x15: .deleteToStart
    case 0x17: .deleteWord
    case 0x19: .yank
    case 0x1A: .suspend
    default: nil
    }
  }

  private mutating func escape() -> (Key?, Int)? {
    guard bytes.count >= 2 else { return nil }
    switch bytes[1] {
    case UInt8(ascii: "["): return sequence()
    case UInt8(ascii: "O"):
      guard bytes.count >= 3 else { return nil }
      return (Self.named(bytes[2], isWord: false), 3)
    case UInt8(ascii: "b"): return (.wordLeft, 2)
    case UInt8(ascii: "f"): return (.wordRight, 2)
    case 0x0D, 0x0A: return (.newLine, 2)
    case 0x7F, 0x08: return (.deleteWord, 2)
    default: return (nil, 2)
    }
  }

  /// `ESC [`, numbers, and a letter that says what it is.
  private mutating func sequence() -> (Key?, Int)? {
    guard let end = bytes.indices.dropFirst(2).first(where: { (0x40...0x7E).contains(bytes[$0]) }) else {
      // Nobody sends one as long as this.
      return bytes.count > 32 ? (nil, bytes.count) : nil
    }
    let numbers = bytes[2..<end].split(separator: UInt8(ascii: ";")).map {
      Int(String(decoding: $0, as: UTF8.self)) ?? 0
    }
    let count = end + 1
    guard bytes[end] == UInt8(ascii: "~") else {
      // Shift, Alt and Ctrl are numbers from 2.
      return (Self.named(bytes[end], isWord: (numbers.dropFirst().first ?? 1) > 2), count)
    }
    switch numbers.first {
    case 1, 7: return (.home, count)
    case 3: return (.delete, count)
    case 4, 8: return (.end, count)
    case 200:
      pasteSearch = 0
      return (nil, count)
    default: return (nil, count)
    }
  }

  private static func named(_ letter: UInt8, isWord: Bool) -> Key? {
    switch letter {
    case UInt8(ascii: "A"): .up
    case UInt8(ascii: "B"): .down
    case UInt8(ascii: "C"): isWord ? .wordRight : .right
    case UInt8(ascii: "D"): isWord ? .wordLeft : .left
    case UInt8(ascii: "F"): .end
    case UInt8(ascii: "H"): .home
    default: nil
    }
  }
}
