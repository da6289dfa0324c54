// The sources and the documentation of this package as lines of text.

import Platform
import Support

private func textLines(of bytes: [UInt8]) -> [String] {
  bytes.split(separator: 10, omittingEmptySubsequences: false).map { String(decoding: $0, as: UTF8.self) }
}

/// One file of `Sources`, split into lines.
struct SourceFile {
  let module: String
  /// The folder inside the module; nil for files beside the folders.
  let folder: String?
  let name: String
  let lines: [String]

  static let all: [SourceFile] = {
    var files: [SourceFile] = []
    func collect(_ path: String, module: String, folder: String?) {
      for name in (try? File.names(in: path)) ?? [] {
        let path = path + "/" + name
        if File.isDirectory(path) {
          collect(path, module: module, folder: folder ?? name)
        } else if name.hasSuffix(".swift"), let bytes = try? File.read(path, limit: 1 << 24) {
          files.append(SourceFile(module: module, folder: folder, name: name, lines: textLines(of: bytes)))
        }
      }
    }
    let sources = TestData.root + "/Sources"
    for module in (try? File.names(in: sources)) ?? [] {
      collect(sources + "/" + module, module: module, folder: nil)
    }
    return files
  }()

  /// The module that a line imports, submodules cut off; nil when it is no import.
  static func importedModule(_ line: String) -> String? {
    var words = line.split(separator: " ").map(String.init)
    let modifiers: Set = [
      "@_exported", "@testable", "public", "package", "internal", "private", "fileprivate",
    ]
    while let first = words.first, modifiers.contains(first) { words.removeFirst() }
    guard words.first == "import", words.count >= 2 else { return nil }
    let kinds: Set = ["struct", "class", "enum", "protocol", "func", "var", "let", "typealias"]
    let name = kinds.contains(words[1]) && words.count > 2 ? words[2] : words[1]
    return name.split(separator: ".").first.map(String.init)
  }

  /// Lines of code without comments, with their numbers.
  var code: [(number: Int, text: String)] {
    lines.enumerated().compactMap { index, line in
      let trimmed = line.drop { $0 == " " }
      return trimmed.hasPrefix("//") ? nil : (index + 1, line)
    }
  }
}

/// One page of the documentation: the README or a file of `docs`.
struct DocumentPage {
  let name: String
  let lines: [String]

  /// Pages that describe the package as it is.
  static let all =
    [DocumentPage(at: "README.md")].compactMap(\.self) + pages(in: "docs").filter { !$0.isDecision }
  /// Records of decisions, and their index: they tell of the past.
  static let decisions = pages(in: "docs").filter(\.isDecision)

  private var isDecision: Bool { name.hasPrefix("docs/decisions/") }

  /// Nil when there is no such file.
  private init?(at name: String) {
    guard let bytes = try? File.read(TestData.root + "/" + name, limit: 1 << 24) else { return nil }
    self.name = name
    lines = textLines(of: bytes)
  }

  private static func pages(in folder: String) -> [DocumentPage] {
    let names = (try? File.names(in: TestData.root + "/" + folder)) ?? []
    return names.sorted().flatMap { name in
      let path = folder + "/" + name
      if File.isDirectory(TestData.root + "/" + path) { return pages(in: path) }
      return name.hasSuffix(".md") ? [DocumentPage(at: path)].compactMap(\.self) : []
    }
  }

  static func named(_ name: String) -> DocumentPage? { DocumentPage(at: name) }

  /// Whether there is a file or a folder of this path in the repository.
  static func exists(_ path: String) -> Bool { File.exists(TestData.root + "/" + path) }
}
