// The text of an HTML page: tags become line breaks and marks, entities become characters, scripts and styles nothing.

/// One pass without a tree: what is not closed costs nothing but its own text.
enum HTMLText {
  /// Elements whose content is no text.
  private static let hidden: Set = [
    "script", "style", "noscript", "template", "svg", "iframe", "object", "math",
  ]
  private static let blocks: Set = [
    "p", "div", "section", "article", "header", "footer", "main", "aside", "nav", "ul", "ol", "table", "tr",
    "dl",
    "dt", "dd", "blockquote", "pre", "figure", "figcaption", "form", "fieldset", "hr", "address", "details",
    "summary", "title", "h1", "h2", "h3", "h4", "h5", "h6", "li", "body", "br", "option",
  ]
  private static let limit = 10 << 20
  /// No tag that says anything has a longer name.
  private static let longestName = 16

  /// What the text of a page can take: `<h6>a`, five bytes, becomes ten.
  static func bytesToRead(_ page: [UInt8]) -> Int { min(2 * page.count, limit) + 1_024 }

  /// Paragraphs and headings as Markdown has them.
  static func text(_ page: [UInt8], _ lines: inout LineMap?) -> [UInt8] {
    var out = Output(capacity: bytesToRead(page))
    var at = 0
    var preformatted = 0
    while at < page.count, out.bytes.count < limit {
      let byte = page[at]
      if byte == UInt8(ascii: "<"), let tag = Tag(page, at) {
        at = tag.end
        if hidden.contains(tag.name), !tag.isEnd, !tag.isEmpty {
          at = end(of: tag.name, page, at)
          continue
        }
        if tag.name == "head", !tag.isEnd {
          // Only the title of the head is text.
          continue
        }
        if tag.name == "pre" { preformatted = max(0, preformatted + (tag.isEnd ? -1 : 1)) }
        apply(tag, to: &out)
      } else if byte == UInt8(ascii: "&"), let (scalars, next) = Entities.decode(page, at) {
        out.add(scalars, isPreformatted: preformatted > 0) { lines?.note(at, of: page, at: $0) }
        at = next
      } else {
        out.add([byte], isPreformatted: preformatted > 0) { lines?.note(at, of: page, at: $0) }
        at += 1
      }
    }
    return out.finish()
  }

  private static func apply(_ tag: Tag, to out: inout Output) {
    switch tag.name {
    case "td", "th": if !tag.isEnd { out.tab() }
    case "h1", "h2", "h3", "h4", "h5", "h6":
      out.newParagraph()
      if !tag.isEnd {
        let level = Int(tag.name.utf8.last ?? 0x31) - 0x30
        out.mark(String(repeating: "#", count: level) + " ")
      }
    case "li":
      out.newLine()
      if !tag.isEnd { out.mark("- ") }
    case "br", "tr", "dt", "dd", "option": out.newLine()
    default: if blocks.contains(tag.name) { out.newParagraph() }
    }
  }

  /// Where the end tag of a hidden element ends; the end of the page when there is none.
  private static func end(of name: String, _ page: [UInt8], _ start: Int) -> Int {
    var at = start
    while at < page.count {
      // Within a script, `<` is no tag unless it ends it.
      if page[at] == UInt8(ascii: "<"), at + 1 < page.count, page[at + 1] == UInt8(ascii: "/"),
        let tag = Tag(page, at)
      {
        if tag.name == name { return tag.end }
        at = tag.end
      } else {
        at += 1
      }
    }
    return page.count
  }

  /// A tag, comment or declaration.
  private struct Tag {
    var name = ""
    var isEnd = false
    var isEmpty = false
    var end: Int

    /// Nil when this `<` begins none.
    init?(_ page: [UInt8], _ start: Int) {
      var at = start + 1
      guard at < page.count else { return nil }
      if page[at] == UInt8(ascii: "!") || page[at] == UInt8(ascii: "?") {
        let isComment = page[at...].starts(with: Array("!--".utf8))
        let closing = isComment ? Array("-->".utf8) : Array(">".utf8)
        at += isComment ? 3 : 1
        while at < page.count, !page[at...].starts(with: closing) { at += 1 }
        end = min(page.count, at + closing.count)
        return
      }
      if page[at] == UInt8(ascii: "/") {
        isEnd = true
        at += 1
      }
      let first = at
      while at < page.count, Self.isNameByte(page[at]) { at += 1 }
      guard at > first else { return nil }
      if at - first <= HTMLText.longestName {
        name = String(decoding: page[first..<at], as: UTF8.self).lowercased()
      }
      var quote: UInt8?
      while at < page.count {
        let byte = page[at]
        if let open = quote {
          if byte == open { quote = nil }
        } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
          quote = byte
        } else if byte == UInt8(ascii: ">") {
          break
        }
        at += 1
      }
      isEmpty = at > first && at < page.count && page[at - 1] == UInt8(ascii: "/")
      end = min(page.count, at + 1)
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
      let lower = byte | 0x20
      return (lower >= 0x61 && lower <= 0x7A) || (byte >= 0x30 && byte <= 0x39) || byte == UInt8(ascii: "-")
    }
  }

  /// Text with its white space collapsed.
  private struct Output {
    private(set) var bytes: [UInt8] = []
    private var hasSpace = false
    private var breaks = 0
    private var isMarked = false

    init(capacity: Int) { bytes.reserveCapacity(capacity) }

    /// - Parameter note: told where what is added stands.
    mutating func add(_ text: [UInt8], isPreformatted: Bool, note: (Int) -> Void) {
      for byte in text {
        if isPreformatted || byte > 0x20 {
          flush()
          note(bytes.count)
          bytes.append(byte)
        } else {
          hasSpace = true
        }
        isMarked = false
      }
    }

    private mutating func flush() {
      if !bytes.isEmpty, !isMarked {
        if breaks > 0 {
          bytes += [UInt8](repeating: UInt8(ascii: "\n"), count: breaks)
        } else if hasSpace {
          bytes.append(UInt8(ascii: " "))
        }
      }
      (breaks, hasSpace) = (0, false)
    }

    mutating func newLine() { if !isMarked { breaks = max(breaks, 1) } }
    mutating func newParagraph() { if !isMarked { breaks = 2 } }

    mutating func tab() {
      flush()
      if let last = bytes.last, last != UInt8(ascii: "\n") { bytes.append(UInt8(ascii: "\t")) }
    }

    mutating func mark(_ text: String) {
      flush()
      bytes += Array(text.utf8)
      isMarked = true
    }

    /// The text, in its own place.
    mutating func finish() -> [UInt8] {
      guard let last = bytes.lastIndex(where: { $0 > 0x20 }) else { return [] }
      bytes.removeLast(bytes.count - 1 - last)
      bytes.append(UInt8(ascii: "\n"))
      return bytes
    }
  }
}

/// Character references of HTML: the numbers, and the names that pages use.
enum Entities {
  /// What a reference stands for, as UTF-8, and where it ends; nil for a plain `&`.
  static func decode(_ page: [UInt8], _ start: Int) -> ([UInt8], Int)? {
    var at = start + 1
    var name: [UInt8] = []
    while at < page.count, name.count < 32, page[at] != UInt8(ascii: ";") {
      let lower = page[at] | 0x20
      guard (lower >= 0x61 && lower <= 0x7A) || (page[at] >= 0x30 && page[at] <= 0x39) || page[at] == 0x23
      else {
        break
      }
      name.append(page[at])
      at += 1
    }
    guard at < page.count, page[at] == UInt8(ascii: ";"), !name.isEmpty else { return nil }
    let word = String(decoding: name, as: UTF8.self)
    if word.hasPrefix("#") {
      let digits = word.dropFirst()
      let value =
        digits.lowercased().hasPrefix("x") ? UInt32(digits.dropFirst(), radix: 16) : UInt32(digits, radix: 10)
      guard let value, value > 0, let scalar = Unicode.Scalar(value) else {
        return (Array("\u{FFFD}".utf8), at + 1)
      }
      return (Array(String(Character(scalar)).utf8), at + 1)
    }
    return names[word].map { (Array($0.utf8), at + 1) }
  }

  private static let names: [String: String] = {
    var names = ["amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'", "nbsp": " "]
    // Latin-1 from U+00A1 on, in order (HTML 4, section 24.2).
    let latin = """
      iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para \
      middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave \
      Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute \
      Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave \
      iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml
      """
    for (index, name) in latin.split(whereSeparator: { $0 == " " || $0 == "\n" }).enumerated() {
      if let scalar = Unicode.Scalar(0xA1 + UInt32(index)) { names[String(name)] = String(Character(scalar)) }
    }
    let others: [String: UInt32] = [
      "OElig": 0x152, "oelig": 0x153, "Scaron": 0x160, "scaron": 0x161, "Yuml": 0x178, "fnof": 0x192,
      "circ": 0x2C6,
      "tilde": 0x2DC, "ensp": 0x20, "emsp": 0x20, "thinsp": 0x20, "zwnj": 0x200C, "zwj": 0x200D,
      "ndash": 0x2013,
      "mdash": 0x2014, "lsquo": 0x2018, "rsquo": 0x2019, "sbquo": 0x201A, "ldquo": 0x201C, "rdquo": 0x201D,
      "bdquo": 0x201E, "dagger": 0x2020, "Dagger": 0x2021, "bull": 0x2022, "hellip": 0x2026, "permil": 0x2030,
      "prime": 0x2032, "Prime": 0x2033, "lsaquo": 0x2039, "rsaquo": 0x203A, "euro": 0x20AC, "trade": 0x2122,
      "larr": 0x2190, "uarr": 0x2191, "rarr": 0x2192, "darr": 0x2193, "harr": 0x2194, "rArr": 0x21D2,
      "hArr": 0x21D4,
      "forall": 0x2200, "part": 0x2202, "exist": 0x2203, "empty": 0x2205, "nabla": 0x2207, "isin": 0x2208,
      "notin": 0x2209, "prod": 0x220F, "sum": 0x2211, "minus": 0x2212, "radic": 0x221A, "infin": 0x221E,
      "and": 0x2227,
      "or": 0x2228, "cap": 0x2229, "cup": 0x222A, "int": 0x222B, "asymp": 0x2248, "ne": 0x2260,
      "equiv": 0x2261,
      "le": 0x2264, "ge": 0x2265, "sub": 0x2282, "sup": 0x2283, "Delta": 0x394, "Omega": 0x3A9,
      "alpha": 0x3B1,
      "beta": 0x3B2, "gamma": 0x3B3, "delta": 0x3B4, "epsilon": 0x3B5, "lambda": 0x3BB, "mu": 0x3BC,
      "pi": 0x3C0,
      "sigma": 0x3C3, "tau": 0x3C4, "phi": 0x3C6, "omega": 0x3C9, "theta": 0x3B8,
    ]
    for (name, value) in others {
      if let scalar = Unicode.Scalar(value) { names[name] = String(Character(scalar)) }
    }
    return names
  }()
}
