// The rooms inside the large modules: files of a folder use only their own folder and those below it.

import Testing

/// Module → its folders, lowest first. Files beside the folders are above all of them.
private let folders: [(module: String, order: [String])] = [
  (
    "CLI",
    [
      "Program", "Terminal", "Flags", "Models", "Search", "Chat", "Serve", "Agents", "Measuring",
      "Checking", "Converting",
    ]
  ),
  ("Compute", ["Runtime", "Kernels", "Weights", "Cache", "Operations"]),
  ("Grammar", ["Lexical", "Recogniser", "Schema", "Rules", "Patterns", "Masks"]),
  ("HTTP", ["Sockets", "Message", "WebSocket", "Serving"]),
  ("Inference", ["Cache", "Scheduling", "Engine", "Embedding", "Speech"]),
  ("Jinja", ["Syntax", "Python", "Runtime"]),
  ("Models", ["Blocks", "Encoders", "Families"]),
  (
    "Wire",
    [
      "Reading", "Shared", "VectorStores", "Chat", "Completions", "Messages", "Ollama", "Llama", "Batches",
      "Responses",
    ]
  ),
  ("Platform", ["System", "Digests", "Files", "Threads", "Machine", "Process"]),
  (
    "Server",
    [
      "Page", "Errors", "Metrics", "Store", "Fleet", "Archive", "Media", "Context", "Door", "Answers", "Chat",
      "Completions", "Embeddings", "TEI", "Rerank", "Transcriptions", "Llama", "Messages", "Ollama",
      "VectorStores", "MCP",
      "Batches", "Responses",
      "Document", "Operations",
    ]
  ),
  ("Search", ["Reading", "Splitting", "Indexing", "Ranking"]),
  ("Tokenizers", ["Unicode", "Splitting", "Vocabulary", "Steps", "Models"]),
  ("Vectors", ["Scan", "Words", "Storage"]),
]

/// Modules with a folder and no order: the formats of `Chat` and of `Checkpoint` and what reads with them use each other.
private let unordered: Set = ["Chat", "Checkpoint"]

@Suite struct FolderTests {
  /// The names of one file: what it declares for others, and every word that may be another's name.
  private struct Names {
    let file: SourceFile
    var declared: Set<Substring> = []
    var words: Set<Substring> = []

    init(_ file: SourceFile) {
      self.file = file
      for (_, line) in file.code {
        let code = Self.withoutLiterals(line)
        // It names a module.
        if code.hasPrefix("import ") || code.hasPrefix("package import ") { continue }
        if let name = Self.declaration(in: code) { declared.insert(name) }
        words.formUnion(Self.words(of: code))
      }
    }

    /// The type, function or value that a line declares at the file's top, unless it is private.
    static func declaration(in line: Substring) -> Substring? {
      guard let first = line.first, first.isLetter || first == "@" else { return nil }
      let kinds: Set<Substring> = [
        "class", "struct", "enum", "protocol", "typealias", "func", "let", "var",
      ]
      var tokens = line.split(separator: " ")[...]
      while let token = tokens.popFirst(), token != "private", token != "fileprivate", token != "extension" {
        guard kinds.contains(token) else { continue }
        return tokens.first?.prefix { $0.isLetter || $0.isNumber || $0 == "_" }
      }
      return nil
    }

    /// What stands between quotes and after `//` names nothing.
    static func withoutLiterals(_ line: String) -> Substring {
      var kept = ""
      var isInside = false
      var previous: Character = " "
      for character in line {
        if character == "\"" && previous != "\\" { isInside.toggle() }
        if !isInside && character == "/" && previous == "/" { break }
        if !isInside { kept.append(character) }
        previous = character
      }
      return kept[...]
    }

    /// Words that do not follow a dot: members are their type's affair.
    static func words(of code: Substring) -> [Substring] {
      var words: [Substring] = []
      var rest = code
      var isMember = false
      while let first = rest.first {
        let word = rest.prefix { $0.isLetter || $0.isNumber || $0 == "_" }
        if word.isEmpty {
          isMember = first == "."
          rest = rest.dropFirst()
        } else {
          if !isMember { words.append(word) }
          isMember = false
          rest = rest.dropFirst(word.count)
        }
      }
      return words
    }
  }

  @Test func `declarations and uses are found`() {
    #expect(Names.declaration(in: "package final class Engine {") == "Engine")
    #expect(Names.declaration(in: "@frozen package struct Rows<T> {") == "Rows")
    #expect(Names.declaration(in: "func prefetch(_ a: Int) {") == "prefetch")
    #expect(Names.declaration(in: "private struct Own {") == nil)
    #expect(Names.declaration(in: "extension Engine {") == nil)
    #expect(Names.declaration(in: "  let inner = 1") == nil)
    #expect(Names.words(of: Names.withoutLiterals("a.b(C, \"D\") // E")) == ["a", "C"])
  }

  @Test func `every folder of the table exists, and every folder is in the table`() {
    for (module, order) in folders {
      let found = Set(SourceFile.all.filter { $0.module == module }.compactMap(\.folder))
      #expect(found == Set(order), "the folders of \(module)")
    }
    let listed = Set(folders.map(\.module))
    for file in SourceFile.all where file.folder != nil && !unordered.contains(file.module) {
      #expect(listed.contains(file.module), "\(file.module)/\(file.folder ?? "") is in no order")
    }
  }

  @Test func `files use their own folder and those below it`() {
    for (module, order) in folders {
      let files = SourceFile.all.filter { $0.module == module }.map(Names.init)
      var owners: [Substring: [Int]] = [:]
      for (index, names) in files.enumerated() {
        for name in names.declared { owners[name, default: []].append(index) }
      }
      func level(_ file: SourceFile) -> Int {
        file.folder.flatMap { order.firstIndex(of: $0) } ?? order.count
      }
      for names in files {
        for word in names.words {
          guard let owner = owners[word], owner.count == 1, let index = owner.first else { continue }
          let other = files[index].file
          #expect(
            level(other) <= level(names.file),
            "\(module)/\(names.file.folder ?? "")/\(names.file.name) uses \(word) of \(other.folder ?? "")/\(other.name)"
          )
        }
      }
    }
  }
}
