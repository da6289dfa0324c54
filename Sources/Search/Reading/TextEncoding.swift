// The bytes of a file as UTF-8: by their mark, by what they are, by the encoding that the file says it has, or by a safe guess.

import Platform

/// How a text is encoded.
enum TextEncoding {
  /// What `decoded` takes beside the bytes.
  static func bytesToDecode(_ bytes: [UInt8]) -> Int {
    if isMarkedUTF16(bytes) || bytes.prefix(examined).contains(0) { return 4 * bytes.count }
    let isElse = (declaredName(bytes).flatMap(known) ?? utf8Name) != utf8Name || !isUTF8(bytes)
    return bytes.count
      * ((isElse ? 8 : 0) + (isMarked(bytes) ? 1 : 0) + (bytes.contains(UInt8(ascii: "\r")) ? 1 : 0))
  }

  /// UTF-8 with line ends of one byte, and the name of the encoding where it was guessed.
  static func decoded(_ bytes: [UInt8]) throws(SearchError) -> (text: [UInt8], guess: String?) {
    var guess: String?
    let text = try utf8(bytes, &guess)
    guard text.contains(UInt8(ascii: "\r")) else { return (text, guess) }
    var out: [UInt8] = []
    out.reserveCapacity(text.count)
    for (index, byte) in text.enumerated() {
      if byte == UInt8(ascii: "\r") {
        if index + 1 < text.count, text[index + 1] == UInt8(ascii: "\n") { continue }
        out.append(UInt8(ascii: "\n"))
      } else {
        out.append(byte)
      }
    }
    return (out, guess)
  }

  private static func utf8(_ bytes: [UInt8], _ guess: inout String?) throws(SearchError) -> [UInt8] {
    if isMarkedUTF16(bytes) {
      guard bytes.count % 2 == 0 else { throw .invalidFile("the file ends in the middle of a UTF-16 unit") }
      return try checked(fromUTF16(bytes.dropFirst(2), isLittle: bytes[0] == 0xFF))
    }
    let content = isMarked(bytes) ? Array(bytes.dropFirst(3)) : bytes
    if content.prefix(examined).contains(0), let isLittle = isLittleUTF16(content) {
      return try checked(fromUTF16(content[...], isLittle: isLittle))
    }
    let text = try checked(content)
    let isUTF8 = Self.isUTF8(text)
    let declared = declaredName(text)
    let name = declared.flatMap(known)
    // What is UTF-8 throughout is UTF-8, whatever it says; but a few letters may be so by chance, and some encodings have
    // seven bits.
    let letters = text.lazy.filter { $0 & 0xC0 == 0xC0 }.prefix(4).count
    if isUTF8, name == nil || name == utf8Name || letters >= 4 { return text }
    guard let declared, name != utf8Name else {
      if declared == nil, let found = GuessedEncoding.read(text) {
        guess = found.name
        return found.text
      }
      throw .invalidFile("the file is not UTF-8, and says no other encoding; save it as UTF-8")
    }
    var words = "which is not read"
    if let name {
      let read = Result { () throws(TextConversion.Failure) in try TextConversion.utf8(text, from: name) }
      switch read {
      case .success(let read): return try checked(read)
      case .failure where isUTF8: return text
      case .failure(.unknown):
        words = "which this system does not read (Debian and Ubuntu: libc-gconv-modules-extra)"
      case .failure(.malformed): words = "but it is not"
      }
    }
    throw .invalidFile("the file says that its encoding is \(declared), \(words); save it as UTF-8")
  }

  private static func isMarkedUTF16(_ bytes: [UInt8]) -> Bool {
    bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF])
  }

  private static func isMarked(_ bytes: [UInt8]) -> Bool { bytes.starts(with: [0xEF, 0xBB, 0xBF]) }

  /// Without a copy as a string.
  private static func isUTF8(_ bytes: [UInt8]) -> Bool {
    var decoder = UTF8()
    var iterator = bytes.makeIterator()
    while true {
      switch decoder.decode(&iterator) {
      case .scalarValue: continue
      case .emptyInput: return true
      case .error: return false
      }
    }
  }

  /// Bytes at the beginning by which a file is judged.
  private static let examined = 8_192

  private static func checked(_ text: [UInt8]) throws(SearchError) -> [UInt8] {
    guard !text.prefix(examined).contains(0) else {
      throw .unsupportedFile("the file is binary, not text")
    }
    return text
  }

  // MARK: UTF-16

  private static func unit(_ first: UInt8, _ second: UInt8, isLittle: Bool) -> UInt16 {
    isLittle ? UInt16(second) << 8 | UInt16(first) : UInt16(first) << 8 | UInt16(second)
  }

  private static func fromUTF16(_ bytes: ArraySlice<UInt8>, isLittle: Bool) -> [UInt8] {
    let units = stride(from: bytes.startIndex, to: bytes.endIndex - 1, by: 2).map {
      unit(bytes[$0], bytes[$0 + 1], isLittle: isLittle)
    }
    return Array(String(decoding: units, as: UTF16.self).utf8)
  }

  /// Whether bytes without a mark are UTF-16 with the lower byte first, or false for the other order; nil when they are no
  /// text in either. Nine of ten units are then such as people write.
  private static func isLittleUTF16(_ bytes: [UInt8]) -> Bool? {
    guard bytes.count % 2 == 0 else { return nil }
    let count = min(bytes.count, examined) / 2
    func usual(isLittle: Bool) -> Int {
      var usual = 0
      for index in 0..<count {
        switch unit(bytes[2 * index], bytes[2 * index + 1], isLittle: isLittle) {
        case 0..<9, 0xFFFE, 0xFFFF: return 0
        case 9, 10, 12, 13, 0x20..<0x7F, 0xA0..<0x500, 0x590..<0x700, 0x900..<0xC00, 0xE00..<0xE80,
          0x1E00..<0x2000, 0x2010..<0x2050, 0x20A0..<0x20C0, 0x3000..<0x3100, 0x4E00..<0xA000,
          0xAC00..<0xD7A4, 0xD800..<0xE000, 0xFF00..<0xFFF0:
          usual += 1
        default: break
        }
      }
      return usual
    }
    let (little, big) = (usual(isLittle: true), usual(isLittle: false))
    guard max(little, big) * 10 >= count * 9, little != big else { return nil }
    return little > big
  }

  // MARK: Declarations

  /// What a page, an XML text or a source says of its encoding in its first lines, in lower case.
  static func declaredName(_ text: [UInt8]) -> String? {
    let head = text.prefix(2_048).map { $0 | ((0x41...0x5A).contains($0) ? 0x20 : 0) }
    for mark in ["charset", "encoding", "coding"] {
      guard let range = head.firstRange(of: Array(mark.utf8)) else { continue }
      // `charset="gbk"`, `coding: latin-1`, `@charset "gbk"`.
      let value = head[range.upperBound...].prefix(64).drop { [0x20, 0x22, 0x27, 0x3A, 0x3D].contains($0) }
      let name = value.prefix {
        (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || [0x2D, 0x2E, 0x5F].contains($0)
      }
      guard value.startIndex > range.upperBound, !name.isEmpty else { continue }
      return String(decoding: name, as: UTF8.self)
    }
    return nil
  }

  private static let utf8Name = "UTF-8"

  /// What iconv calls an encoding that browsers know, too; nil for others, whose readers in the C library few people try.
  ///
  /// Names mean what they mean to browsers: a page that says Latin-1 has the letters of Windows, too.
  private static func known(_ name: String) -> String? {
    switch name {
    case "utf-8", "utf8", "unicode-1-1-utf-8": return utf8Name
    case "iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "latin-1", "l1", "us-ascii", "ascii", "x-cp1252":
      return "CP1252"
    case "gb2312", "gbk", "gb_2312-80", "x-gbk", "cp936", "gb18030": return "GB18030"
    case "shift_jis", "shift-jis", "sjis", "x-sjis", "ms_kanji", "windows-31j", "cp932": return "CP932"
    case "euc-jp", "x-euc-jp": return "EUC-JP"
    case "iso-2022-jp": return "ISO-2022-JP"
    case "euc-kr", "ks_c_5601-1987", "korean", "windows-949", "cp949": return "CP949"
    case "big5", "big5-hkscs", "x-x-big5": return "BIG5-HKSCS"
    case "koi8-r", "koi8-u": return name.uppercased()
    case "macintosh", "x-mac-roman": return "MACINTOSH"
    case "ibm866", "cp866", "866": return "CP866"
    default: break
    }
    func number(_ prefix: String) -> Int? {
      name.hasPrefix(prefix) ? Int(name.dropFirst(prefix.count)) : nil
    }
    if let page = number("windows-") ?? number("cp"), (1250...1258).contains(page) { return "CP\(page)" }
    if let part = number("iso-8859-") ?? number("iso8859-"), (2...16).contains(part), part != 12 {
      return "ISO-8859-\(part)"
    }
    return nil
  }
}
