// The architecture as a test: who may import whom, and what no source file may contain.

import Platform
import Support
import Testing

/// Module → what its sources may import. The table of `docs/architecture.md`, in the same order.
private let allowedImports: [String: Set<String>] = [
  "Platform": ["Glibc", "Darwin", "Musl"],
  "JSON": [],
  "KernelsAVX2": ["_Builtin_intrinsics"],
  "KernelsAVX512": ["_Builtin_intrinsics"],
  "HTTP": ["Platform"],
  "Media": ["Platform"],
  "OpenAI": ["JSON"],
  "Jinja": ["JSON"],
  "Tokenizers": ["JSON"],
  "Compute": ["Platform", "KernelsAVX2", "KernelsAVX512", "Dispatch"],
  "Checkpoint": ["Compute", "JSON", "Platform"],
  "Grammar": ["Tokenizers", "JSON"],
  "Decoding": ["Grammar", "Tokenizers", "JSON"],
  "Chat": ["Grammar", "Jinja", "Tokenizers", "JSON"],
  "Models": ["Compute", "Checkpoint", "Media", "JSON", "Platform"],
  "Inference": ["Models", "Decoding", "Grammar", "Tokenizers", "Compute", "Checkpoint", "Media", "Platform"],
  "Server": [
    "Inference", "Chat", "Decoding", "Grammar", "Tokenizers", "OpenAI", "Media", "HTTP", "JSON", "Platform",
  ],
  "CLI": [
    "Server", "Inference", "Chat", "Checkpoint", "Compute", "Decoding", "Tokenizers", "Media", "HTTP", "JSON",
    "Platform",
  ],
  "mlxserve": ["CLI"],
]

/// One file of `Sources`, split into lines.
private struct SourceFile {
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
          let lines = bytes.split(separator: 10, omittingEmptySubsequences: false)
          files.append(
            SourceFile(module: module, name: name, lines: lines.map { String(decoding: $0, as: UTF8.self) }))
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

@Suite struct LayeringTests {
  @Test func `the sources are found`() {
    #expect(SourceFile.all.count > 50)
    #expect(SourceFile.all.contains { $0.module == "mlxserve" })
  }

  @Test func `every module imports only what the architecture allows`() {
    for file in SourceFile.all {
      guard let allowed = allowedImports[file.module] else {
        Issue.record("Sources/\(file.module) is not in the table of allowed imports")
        continue
      }
      for (number, line) in file.code {
        // Synchronization is part of the standard library.
        guard let imported = SourceFile.importedModule(line), imported != "Synchronization" else { continue }
        #expect(
          allowed.contains(imported),
          "\(file.module)/\(file.name):\(number) imports \(imported), which \(file.module) may not")
      }
    }
  }

  @Test func `no source can end the process on bad input`() {
    let banned = ["try!", "as!", "fatalError(", "nonisolated(unsafe)", "[unowned"]
    for file in SourceFile.all {
      for (number, line) in file.code {
        for word in banned where line.contains(word) {
          Issue.record("\(file.module)/\(file.name):\(number) contains \(word)")
        }
      }
    }
  }

  @Test func `threads start in Platform and Dispatch stays in the worker pool`() {
    for file in SourceFile.all {
      for (number, line) in file.code {
        if line.contains("pthread_create") { #expect(file.module == "Platform", "\(file.name):\(number)") }
        if SourceFile.importedModule(line) == "Dispatch" {
          #expect(file.name == "WorkerPool.swift", "\(file.name):\(number)")
        }
        if line.contains("Task {") || line.contains(" async ") {
          Issue.record("\(file.module)/\(file.name):\(number) uses Swift concurrency tasks")
        }
      }
    }
  }

  @Test func `every file opens with a sentence that says what it is`() {
    for file in SourceFile.all {
      let first = file.lines.first ?? ""
      #expect(first.hasPrefix("// ") && first.count > 20, "\(file.module)/\(file.name) opens with '\(first)'")
    }
  }
}
