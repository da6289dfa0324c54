// The architecture as a test: who may import whom, and what no source file may contain.

import Testing

/// Module → what its sources may import. The table of `docs/architecture.md`, in the same order.
private let allowedImports: [String: Set<String>] = [
  "Platform": ["Glibc", "Darwin", "Musl"],
  "JSON": [],
  "Sampling": [],
  "KernelsAVX2": ["_Builtin_intrinsics"],
  "KernelsAVX512": ["_Builtin_intrinsics"],
  "HTTP": ["Platform"],
  "Media": ["Platform"],
  "OpenAI": ["Sampling", "JSON"],
  "Jinja": ["JSON"],
  "Tokenizers": ["JSON"],
  "Compute": ["Platform", "KernelsAVX2", "KernelsAVX512", "Dispatch"],
  "Checkpoint": ["Compute", "JSON", "Platform"],
  "Grammar": ["Tokenizers", "JSON"],
  "Decoding": ["Grammar", "Tokenizers", "Sampling", "JSON"],
  "Chat": ["Grammar", "Jinja", "Tokenizers", "JSON"],
  "Models": ["Compute", "Checkpoint", "Media", "JSON", "Platform"],
  "Inference": [
    "Models", "Decoding", "Grammar", "Tokenizers", "Sampling", "Compute", "Checkpoint", "Media", "Platform",
  ],
  "Server": [
    "Inference", "Chat", "Decoding", "Grammar", "Tokenizers", "OpenAI", "Sampling", "Media", "HTTP", "JSON",
    "Platform",
  ],
  "CLI": [
    "Server", "Inference", "Chat", "Checkpoint", "Compute", "Decoding", "Tokenizers", "Sampling", "Media",
    "HTTP",
    "JSON", "Platform",
  ],
  "mlxserve": ["CLI"],
]

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
