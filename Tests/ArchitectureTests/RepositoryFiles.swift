// The sources and the documentation of this package as lines of text.

import Platform
import Support

private func textLines(of bytes: [UInt8]) -> [String] {
  bytes.split(separator: 10, omittingEmptySubsequences: false).map { String(decoding: $0, as: UTF8.self) }
}

/// One file of `Sources`, split into lines.
struct SourceFile {
  let module: String
  let name: String
  let lines: [String]

  static let all: [SourceFile] = {
    var files: [SourceFile] = []
    func collect(_ folder: String, module: String) {
      for name in (try? File.names(in: folder)) ?? [] {
        let path = folder + "/" + name
        if File.isDirectory(path) {
          collect(path, module: module)
        } else if name.hasSuffix(".swift"), let bytes = try? File.read(path, limit: 1 << 24) {
          files.append(SourceFile(module: module, name: name, lines: textLines(of: bytes)))
        }
      }
    }
    let sources = TestData.root + "/Sources"
    for module in (try? File.names(in: sources)) ?? [] { collect(sources + "/" + module, module: module) }
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

/// One page that describes the package as it is: the README or a file of `docs`. Records of decisions tell of the past.
struct DocumentPage {
  let name: String
  let lines: [String]

  static let all: [DocumentPage] = {
    let docs = ((try? File.names(in: TestData.root + "/docs")) ?? []).map { "docs/" + $0 }
    return (["README.md"] + docs.filter { $0.hasSuffix(".md") }).compactMap { name in
      guard let bytes = try? File.read(TestData.root + "/" + name, limit: 1 << 24) else { return nil }
      return DocumentPage(name: name, lines: textLines(of: bytes))
    }
  }()
}
