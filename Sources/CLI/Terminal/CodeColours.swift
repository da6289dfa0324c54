// The colours of code in an answer: comments, strings, numbers and the words that most languages share.

/// Colours a fenced block that comes in pieces, none of which cuts a word in two. What it does not know stays plain.
struct CodeColours {
  private enum Place: Equatable {
    case code
    /// To the end of the line.
    case comment, plain
    /// To the quote, or the end of the line.
    case string(Character)
    /// To these characters, over as many lines as it takes.
    case until(String)
  }

  /// What begins a comment, and whether `/* */` does.
  private struct Language {
    var comment: String?
    var hasBlocks = false
    var quotes = "\"'"
    /// Of the language's own words; their case means nothing where they shout.
    var words = CodeColours.words
  }

  private let language: Language?
  private let isDiff: Bool
  private var place = Place.code
  private var isEscaped = false
  /// The line has begun.
  private var isInLine = false

  private static let keyword = "35"
  private static let string = "32"
  private static let number = "33"
  private static let comment = "90"
  private static let off = "\u{1B}[39m"

  /// - Parameter name: behind the fence, such as `python`; an unknown one has no colours.
  init(_ name: some StringProtocol) {
    let name = name.lowercased()
    isDiff = name == "diff" || name == "patch"
    language = Self.languages.first { $0.names.contains(name) }?.language
  }

  private static let languages: [(names: Set<String>, language: Language)] = [
    (
      [
        "python", "py", "ruby", "rb", "sh", "bash", "zsh", "shell", "console", "fish", "yaml", "yml", "toml",
        "make",
        "makefile", "dockerfile", "r", "perl", "elixir", "nix", "cmake", "julia", "jl", "powershell", "ps1",
      ], Language(comment: "#")
    ),
    (
      [
        "swift", "c", "cpp", "c++", "h", "objc", "java", "kotlin", "scala", "js", "javascript", "jsx", "ts",
        "typescript",
        "tsx", "go", "csharp", "cs", "c#", "dart", "php", "zig", "css", "scss", "glsl", "proto",
      ], Language(comment: "//", hasBlocks: true)
    ),
    // A single quote is a lifetime's.
    (["rust", "rs"], Language(comment: "//", hasBlocks: true, quotes: "\"")),
    (["sql", "lua", "haskell", "hs", "ada", "elm"], Language(comment: "--", words: words.union(queryWords))),
    (["lisp", "clojure", "clj", "scheme", "ini", "asm", "nasm"], Language(comment: ";")),
    (["json", "jsonc", "json5", "graphql"], Language(comment: nil)),
  ]

  private static let longQuotes = ["\"\"\"", "'''", "`"]

  private static let words: Set<String> = [
    "abstract", "and", "as", "assert", "async", "await", "begin", "bool", "break", "case", "catch", "char",
    "class",
    "const", "continue", "def", "default", "defer", "del", "do", "done", "double", "elif", "else", "end",
    "enum", "esac",
    "except", "export", "extends", "extension", "false", "False", "fi", "final", "finally", "float", "fn",
    "for", "foreach",
    "from", "fun", "func", "function", "global", "guard", "if", "impl", "implements", "import", "in", "init",
    "int",
    "interface", "is", "lambda", "let", "local", "long", "loop", "match", "mod", "module", "mut", "namespace",
    "new", "nil",
    "none", "None", "not", "null", "or", "override", "package", "pass", "private", "protected", "protocol",
    "pub", "public",
    "raise", "repeat", "require", "return", "self", "short", "static", "struct", "super", "switch",
    "template", "then",
    "this", "throw", "throws", "trait", "true", "True", "try", "type", "typedef", "typename", "union",
    "unless", "unsafe",
    "unsigned", "until", "use", "using", "val", "var", "virtual", "void", "when", "where", "while", "with",
    "yield",
  ]

  private static let queryWords: Set<String> = [
    "add", "all", "alter", "between", "by", "count", "create", "delete", "desc", "distinct", "drop", "exists",
    "foreign",
    "group", "having", "index", "inner", "insert", "into", "join", "key", "left", "like", "limit", "on",
    "order", "outer",
    "primary", "references", "right", "select", "set", "table", "update", "values", "view",
  ]

  /// A part of a line, with its colours.
  mutating func feed(_ text: String) -> String {
    guard !text.isEmpty else { return "" }
    defer { isInLine = true }
    if isDiff { return diff(text) }
    guard let language else { return text }
    let characters = Array(text)
    var (out, index) = ("", 0)
    func begins(_ mark: String, at index: Int) -> Bool { characters[index...].starts(with: mark) }
    while index < characters.count {
      let character = characters[index]
      switch place {
      case .comment, .plain:
        out.append(character)
      case .until(let end):
        out.append(character)
        if begins(end, at: index) {
          out += end.dropFirst() + Self.off
          index += end.count - 1
          place = .code
        }
      case .string(let quote):
        out.append(character)
        if isEscaped {
          isEscaped = false
        } else if character == "\\" {
          isEscaped = true
        } else if character == quote {
          out += Self.off
          place = .code
        }
      case .code:
        if let mark = language.comment, begins(mark, at: index),
          // `$#`, `a#b` and `http://` are none.
          index == 0 || !(characters[index - 1].isLetter || "$:{".contains(characters[index - 1]))
        {
          out += "\u{1B}[\(Self.comment)m" + String(character)
          place = .comment
        } else if language.hasBlocks, begins("/*", at: index) {
          out += "\u{1B}[\(Self.comment)m/*"
          index += 1
          place = .until("*/")
        } else if let quotes = Self.longQuotes.first(where: { begins($0, at: index) }) {
          out += "\u{1B}[\(Self.string)m" + quotes
          index += quotes.count - 1
          place = .until(quotes)
        } else if language.quotes.contains(character),
          character != "'" || index == 0 || !Self.isWord(characters[index - 1])
        {
          out += "\u{1B}[\(Self.string)m" + String(character)
          place = .string(character)
        } else if Self.isWord(character) {
          let end = characters[index...].firstIndex { !Self.isWord($0) } ?? characters.count
          let word = String(characters[index..<end])
          out += coloured(word, language)
          index = end - 1
        } else {
          out.append(character)
        }
      }
      index += 1
    }
    return out
  }

  /// Ends the line's colours; what has an end of its own goes on in the next.
  mutating func endLine() -> String {
    defer { (isInLine, isEscaped) = (false, false) }
    switch place {
    case .code, .until: return ""
    case .string, .comment, .plain:
      place = .code
      return Self.off
    }
  }

  /// Ends all colours, in the middle of whatever it is.
  mutating func end() -> String {
    defer { place = .code }
    return place == .code ? "" : Self.off
  }

  private static func isWord(_ character: Character) -> Bool {
    character.isLetter || character.isNumber || character == "_"
  }

  private func coloured(_ word: String, _ language: Language) -> String {
    if word.first?.isNumber == true { return "\u{1B}[\(Self.number)m\(word)\(Self.off)" }
    let isKeyword =
      language.words.contains(word)
      // SQL is mostly written in capitals.
      || language.comment == "--" && word == word.uppercased() && language.words.contains(word.lowercased())
    return isKeyword ? "\u{1B}[\(Self.keyword)m\(word)\(Self.off)" : word
  }

  private mutating func diff(_ text: String) -> String {
    guard !isInLine, let first = text.first, let code = ["+": Self.string, "-": "31", "@": "36"][first] else {
      return text
    }
    place = .plain
    return "\u{1B}[\(code)m\(text)"
  }
}
