// A file as text: which kinds are read, and how each becomes what is indexed.

package import Platform

/// How a text is cut: by what makes its structure.
package enum TextKind: String, Sendable, CaseIterable {
  case plain, markdown, code
  /// A record per line: rows of a table, values of JSON.
  case records
}

/// The text of a file.
package struct SourceText: Sendable, Equatable {
  /// UTF-8.
  package var text: [UInt8]
  package var kind: TextKind
  /// The encoding that it was taken to be in, where the file neither is UTF-8 nor says what it is.
  package var guessedEncoding: String?

  package init(_ text: [UInt8], kind: TextKind) {
    (self.text, self.kind) = (text, kind)
  }
}

/// Reads files of the kinds that hold text.
package enum FileReader {
  /// Most bytes of text that one file may become.
  package static let limit = 64 << 20

  private static let plain: Set = ["txt", "text", "log", "tex", "rst", "org", "adoc", "srt", "vtt", ""]
  private static let markdown: Set = ["md", "markdown", "mdx"]
  private static let html: Set = ["html", "htm", "xhtml"]
  private static let lines: Set = ["jsonl", "ndjson"]
  private static let tables: Set = ["csv", "tsv"]
  private static let code: Set = [
    "swift", "py", "js", "mjs", "ts", "tsx", "jsx", "c", "h", "cc", "cpp", "hpp", "m", "mm", "rs", "go",
    "java",
    "kt", "rb", "php", "cs", "sh", "bash", "zsh", "sql", "lua", "pl", "r", "scala", "toml", "yaml", "yml",
    "ini",
    "cfg", "conf", "xml", "proto", "css", "scss", "vue", "svelte", "make", "cmake", "gradle", "dockerfile",
  ]

  /// The lowercased ending of a name, without its dot.
  package static func ending(of name: String) -> String {
    guard let dot = name.utf8.lastIndex(of: UInt8(ascii: ".")), dot != name.utf8.startIndex else { return "" }
    return String(name[name.utf8.index(after: dot)...]).lowercased()
  }

  /// Whether a name promises something that is read.
  package static func reads(_ name: String) -> Bool {
    let ending = ending(of: name)
    return plain.union(markdown).union(html).union(lines).union(tables).union(code).union(["json", "pdf"])
      .contains(ending)
  }

  /// Whether the text of a file of that name is made out of it, so that its lines are others than the file's.
  static func isMadeText(_ name: String) -> Bool {
    let ending = ending(of: name)
    return html.union(lines).union(tables).contains(ending) || ending == "json"
  }

  /// The text of a file.
  ///
  /// Beside the file's bytes it takes, and claims before, for each byte of the file: 1 where line ends have two bytes, 1
  /// where a mark of the order of bytes stands in front, 4 for UTF-16, 8 for other encodings than UTF-8; 2 for the text of a
  /// page, 10 MiB at most; 8 for the fields of a table, 6.4 MiB at most; 4 for the longest line of JSON lines, and for JSON;
  /// and what tables and JSON become, exactly.
  ///
  /// - Parameters:
  ///   - reserve: told the bytes that are needed next; false where they are not to be had.
  ///   - ledger: where the memory of another program is claimed that reads for us; nil for nowhere.
  ///   - isUnwanted: asked while it does.
  /// - Throws: `unsupportedFile` or `invalidFile`, with what to do; `noMemory`.
  package static func read(
    _ bytes: [UInt8], name: String, reserve: (Int) -> Bool = { _ in true }, ledger: MemoryLedger? = nil,
    isUnwanted: () -> Bool = { false }
  ) throws(SearchError) -> SourceText {
    var lines: LineMap?
    return try read(bytes, name, &lines, reserve, ledger, isUnwanted)
  }

  /// The text of a PDF with the number of each page before it, as whoever reads it whole needs to name pages; as it is
  /// where it has one page.
  package static func numberingPages(_ text: [UInt8]) -> [UInt8] {
    // Each page ends with a form feed.
    let pages = text.split(separator: 0x0C, omittingEmptySubsequences: false)
    let last = pages.last?.contains { $0 > 0x20 } == true ? pages.count : pages.count - 1
    guard last > 1 else { return text.filter { $0 != 0x0C } }
    return pages.prefix(last).enumerated().flatMap { Array("[Page \($0 + 1)]\n".utf8) + $1 }
  }

  /// The text of a file, with the lines of the file that it came from; nil where they are those of the text.
  static func readWithLines(
    _ bytes: [UInt8], name: String
  ) throws(SearchError) -> (source: SourceText, lines: LineMap?) {
    var lines: LineMap? = LineMap()
    let source = try read(bytes, name, &lines, { _ in true }, nil, { false })
    return (source, lines)
  }

  /// - Parameter lines: nil where nobody asks; made nil where the text has the lines of the file.
  private static func read(
    _ bytes: [UInt8], _ name: String, _ lines: inout LineMap?, _ reserve: (Int) -> Bool,
    _ ledger: MemoryLedger?, _ isUnwanted: () -> Bool
  ) throws(SearchError) -> SourceText {
    func take(_ bytes: Int) throws(SearchError) {
      guard reserve(bytes) else { throw .noMemory(bytes: bytes) }
    }
    let ending = ending(of: name)
    if ending == "pdf" || bytes.starts(with: Array("%PDF-".utf8)) {
      lines = nil
      return SourceText(try PDFText.read(bytes, reserve, ledger, isUnwanted), kind: .plain)
    }
    guard !bytes.isEmpty else { throw .invalidFile("the file is empty") }
    try take(TextEncoding.bytesToDecode(bytes))
    let (text, guess) = try TextEncoding.decoded(bytes)
    guard text.contains(where: { $0 > 0x20 }) else { throw .invalidFile("the file holds only white space") }
    var source = try read(text, ending, &lines, reserve)
    source.guessedEncoding = guess
    return source
  }

  /// - Parameter text: UTF-8.
  private static func read(
    _ text: [UInt8], _ ending: String, _ lines: inout LineMap?, _ reserve: (Int) -> Bool
  ) throws(SearchError) -> SourceText {
    func take(_ bytes: Int) throws(SearchError) {
      guard reserve(bytes) else { throw .noMemory(bytes: bytes) }
    }
    switch ending {
    case _ where html.contains(ending):
      try take(HTMLText.bytesToRead(text))
      let found = HTMLText.text(text, &lines)
      guard !found.isEmpty else { throw .invalidFile("the page has no text") }
      return SourceText(found, kind: .markdown)
    case "json":
      try take(4 * text.count)
      if let found = try RecordText.json(text, &lines, reserve) { return SourceText(found, kind: .records) }
      lines = nil
      return SourceText(text, kind: .records)
    case _ where Self.lines.contains(ending):
      try take(4 * LineRanges(text).reduce(0) { max($0, $1.count) })
      return SourceText(try RecordText.jsonLines(text, &lines, reserve), kind: .records)
    case _ where tables.contains(ending):
      try take(RecordText.bytesToRead(table: text))
      let separator = ending == "csv" ? UInt8(ascii: ",") : UInt8(ascii: "\t")
      return SourceText(
        try RecordText.table(text, separator: separator, &lines, reserve), kind: .records)
    default: lines = nil
    }
    if markdown.contains(ending) { return SourceText(text, kind: .markdown) }
    if code.contains(ending) { return SourceText(text, kind: .code) }
    if plain.contains(ending) { return SourceText(text, kind: .plain) }
    throw .unsupportedFile(
      "files of the kind '.\(ending)' are not read; text, Markdown, HTML, JSON, CSV, source code and PDF are")
  }
}

/// PDF by the program that knows it.
private enum PDFText {
  static func read(
    _ bytes: [UInt8], _ reserve: (Int) -> Bool, _ ledger: MemoryLedger?, _ isUnwanted: () -> Bool
  ) throws(SearchError) -> [UInt8] {
    guard let program = ChildProcess.find("pdftotext") else {
      throw .unsupportedFile(
        "PDF is read by pdftotext, which is not installed (Debian and Ubuntu: poppler-utils; macOS: poppler)")
    }
    let bounds = bounds(of: bytes.count, ledger)
    let ending: ChildProcess.Ending
    var output: [UInt8] = []
    // What is needed of it when there is no room for more text.
    var missing: Int?
    do throws(PlatformError) {
      let file = try NamelessFile(bytes)
      defer { withExtendedLifetime(file) {} }
      // Four times as long, beside what else this machine computes.
      ending = try ChildProcess.stream(
        program, ["-q", "-enc", "UTF-8", "-layout", ChildProcess.ownInput, "-"],
        input: .file(file.descriptor),
        bounds: bounds, until: Instant.now.adding(seconds: Double(4 * bounds.seconds)), isUnwanted: isUnwanted
      ) { more in
        guard more.count <= FileReader.limit - output.count else { return false }
        // Three times: as it grows, it is there twice, and one time has room for twice as much.
        missing = reserve(3 * more.count) ? nil : 3 * more.count
        output += missing == nil ? more : []
        return missing == nil
      }
    } catch .file(_, program, ENOMEM) {
      throw .noMemory(bytes: bounds.memory)
    } catch {
      throw .invalidFile("the PDF cannot be read: \(error)")
    }
    if let missing { throw .noMemory(bytes: missing) }
    switch ending {
    case .exited(0): break
    case .unwanted: throw .cancelled
    case .tooMuchOutput: throw .invalidFile("the PDF has more than \(FileReader.limit >> 20) MiB of text")
    // It could not have the memory, or has not come to an end in its time; nil where a signal has told it so.
    case .late, .exited(nil), .exited(99):
      throw .invalidFile(
        "pdftotext was ended or gave up: for a PDF of this size it may take \(bounds.memory >> 20) MiB of memory and "
          + "\(bounds.seconds) seconds, and this one needs more or is damaged; print it to a new PDF, or send its text"
      )
    case .exited: throw .invalidFile("pdftotext cannot read the file: is it a PDF, and without a password?")
    }
    guard output.contains(where: { $0 > 0x20 }) else {
      throw .invalidFile("the PDF has no text; pages that are pictures need OCR first")
    }
    return output
  }

  /// 4,000 pages of text in 15 MB take 8 MiB and 2.5 seconds; 188 bytes that promise thirty million objects take 1.1 GiB
  /// where nothing bounds them.
  private static func bounds(of bytes: Int, _ ledger: MemoryLedger?) -> ChildProcess.Bounds {
    ChildProcess.Bounds(
      memory: min(512 << 20, (32 << 20) + 8 * bytes), seconds: min(60, 5 + bytes / (512 << 10)),
      ledger: ledger)
  }
}
