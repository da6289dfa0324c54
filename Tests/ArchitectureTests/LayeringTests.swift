// The architecture as a test: who may import whom, and what no source file may contain.

import Testing

/// What is no module of the package, and who may import it.
private let systemModules: [String: Set<String>] = [
  "Platform": ["Glibc", "Darwin", "Musl"],
  "KernelsAVX2": ["_Builtin_intrinsics"],
  "KernelsAVXVNNI": ["_Builtin_intrinsics"],
  "KernelsAVX512": ["_Builtin_intrinsics"],
  "KernelsAMX": ["_Builtin_intrinsics", "Builtin"],
  "KernelsNEON": ["_Builtin_intrinsics"],
  "KernelsDotprod": ["_Builtin_intrinsics"],
  "KernelsI8MM": ["_Builtin_intrinsics"],
  "KernelsShared": ["_Builtin_intrinsics"],
]

/// The folder of files that are compiled into several kernel modules, which link to them. It is no module.
private let sharedFolder = "KernelsShared"

@Suite struct LayeringTests {
  @Test func `the sources are found`() {
    #expect(SourceFile.all.count > 50)
    #expect(SourceFile.all.contains { $0.module == "mlxserve" })
  }

  @Test func `the manifest's table is read`() {
    #expect(Manifest.imports["Grammar"] == ["Tokenizers", "JSON"])
    #expect(Manifest.imports["Platform"] == [])
    #expect(Manifest.imports.count > 17)
    // Imports point downward: no module is above itself.
    for module in Manifest.imports.keys {
      var below = Manifest.imports[module] ?? []
      for _ in Manifest.imports { for name in below { below.formUnion(Manifest.imports[name] ?? []) } }
      #expect(!below.contains(module), "\(module) reaches itself")
    }
  }

  /// A row of the table of modules in `docs/architecture.md`.
  private struct ModuleRow {
    let level: Int
    let modules: [String]
    /// What the last column names: modules, and words for what is no module.
    let imports: Set<String>

    /// Nil for a line that is no such row.
    init?(_ line: String) {
      let cells = line.split(separator: "|").map { String($0.filter { $0 != "`" && $0 != " " }) }
      guard cells.count == 4, let level = Int(cells[0]) else { return nil }
      self.level = level
      modules = cells[1].split(separator: ",").map(String.init)
      imports = Set(cells[3].split(separator: ",").map(String.init))
    }
  }

  @Test func `the table of modules in the architecture is the manifest's`() throws {
    let page = try #require(DocumentPage.named("docs/architecture.md"))
    let rows = page.lines.compactMap(ModuleRow.init)
    var levels: [String: Int] = [:]
    for row in rows { for module in row.modules { levels[module] = row.level } }
    #expect(Set(levels.keys) == Set(Manifest.imports.keys))
    for row in rows {
      for module in row.modules {
        let imports = Manifest.imports[module] ?? []
        for below in imports { #expect(levels[below] ?? .max < row.level, "\(module) imports \(below)") }
        // A row may sum up modules of one kind, or all of them.
        if row.imports.contains(where: { $0.contains("everything") }) { continue }
        let kinds = row.imports.filter { $0.hasSuffix("*") }.map { $0.dropLast() }
        let summed = imports.filter { name in !kinds.contains { name.hasPrefix($0) } }
        #expect(row.imports.intersection(Manifest.imports.keys) == summed, "\(module)")
      }
    }
  }

  @Test func `every module imports only what the architecture allows`() {
    for file in SourceFile.all {
      let isShared = file.module == sharedFolder
      guard let listed = isShared ? ["KernelTypes"] : Manifest.imports[file.module] else {
        Issue.record("Sources/\(file.module) is not in the manifest's table")
        continue
      }
      let allowed = listed.union(systemModules[file.module] ?? [])
      for (number, line) in file.code {
        // Synchronization is part of the standard library.
        guard let imported = SourceFile.importedModule(line), imported != "Synchronization" else { continue }
        #expect(
          allowed.contains(imported),
          "\(file.module)/\(file.name):\(number) imports \(imported), which \(file.module) may not")
      }
    }
  }

  @Test
  func
    `a file of the shared folder is in two kernel modules at least, and nowhere a copy of it that differs`()
  {
    let shared = SourceFile.all.filter { $0.module == sharedFolder }
    #expect(!shared.isEmpty)
    for file in shared {
      let others = SourceFile.all.filter {
        $0.name == file.name && $0.module != sharedFolder && $0.module.hasPrefix("Kernels")
      }
      #expect(others.count >= 2, "\(file.name) is in \(others.map(\.module))")
      #expect(others.allSatisfy { $0.lines == file.lines }, "\(file.name)")
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

  /// The parameters of each function and initializer that a file declares, as text.
  private static func parameterLists(of file: SourceFile) -> [(line: Int, text: [Character])] {
    var lists: [(line: Int, text: [Character])] = []
    var open: (line: Int, depth: Int, text: [Character])?
    for (number, line) in file.code {
      var rest = line[...]
      if open == nil {
        let opening = ["func ", "init(", "init?("].compactMap { line.firstRange(of: $0) }.first
        // A call has as many as it likes.
        guard let opening, line[..<opening.lowerBound].last != ".",
          let start = line[opening.lowerBound...].firstIndex(of: "(")
        else { continue }
        open = (number, 0, [])
        rest = line[start...]
      }
      for character in rest {
        guard var list = open else { break }
        if "([{".contains(character) { list.depth += 1 }
        if ")]}".contains(character) { list.depth -= 1 }
        if list.depth == 0 {
          lists.append((list.line, list.text))
          open = nil
        } else {
          // Of nested lists only the brackets matter.
          if list.depth == 1 { list.text.append(character) }
          open = list
        }
      }
    }
    return lists
  }

  @Test func `no function takes more than eight parameters`() {
    var most = 0
    for file in SourceFile.all {
      for (line, text) in Self.parameterLists(of: file) {
        let count = text.split(separator: ",").filter { $0.contains(":") }.count
        most = max(most, count)
        #expect(count <= 8, "\(file.module)/\(file.name):\(line) declares \(count) parameters")
      }
    }
    #expect(most > 5, "the parameters were not found")
  }

  @Test func `threads start in Platform, and nothing uses Swift's tasks or Dispatch`() {
    for file in SourceFile.all {
      for (number, line) in file.code {
        if line.contains("pthread_create") { #expect(file.module == "Platform", "\(file.name):\(number)") }
        #expect(SourceFile.importedModule(line) != "Dispatch", "\(file.name):\(number)")
        // What Swift programs are offered is asynchronous; behind it there are threads.
        if file.module != "MLXServe", line.contains("Task {") || line.contains(" async ") {
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
