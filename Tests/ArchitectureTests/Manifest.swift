// The table of modules and their imports, read from Package.swift.

import Platform
import Support
import Testing

/// What the manifest lets each module import.
enum Manifest {
  /// Module → modules that it may import. The manifest is read as text: its tables are lists of string literals.
  static let imports: [String: Set<String>] = {
    guard let bytes = try? File.read(TestData.root + "/Package.swift", limit: 1 << 20) else { return [:] }
    let text = String(decoding: bytes, as: UTF8.self)
    let kernels = literals(after: "let kernelModules = [", to: "]", in: text).filter {
      $0.hasPrefix("Kernels")
    }
    let belowKernels = literals(after: "let kernelTargets", to: "\n}", in: text)
    var table: [String: Set<String>] = ["mlxserve": ["CLI"]]
    for operands in belowKernels { table[operands] = [] }
    for kernel in kernels { table[kernel] = Set(belowKernels) }
    for entry in entries(of: "let modules: [(name: String, imports: [String])] = [", in: text) {
      guard let name = strings(in: entry).first else { continue }
      let listed = Set(strings(in: entry).dropFirst())
      table[name] = entry.contains("builtKernels") ? listed.union(kernels) : listed
    }
    return table
  }()

  /// Folder of `Sources` → most lines of Swift in it.
  static let budgets: [String: Int] = {
    guard let bytes = try? File.read(TestData.root + "/Package.swift", limit: 1 << 20) else { return [:] }
    let text = String(decoding: bytes, as: UTF8.self)
    guard let start = text.firstRange(of: "let budgets = [")?.upperBound,
      let end = text[start...].firstRange(of: "]")?.lowerBound
    else { return [:] }
    var budgets: [String: Int] = [:]
    for entry in text[start..<end].split(separator: ",") {
      let parts = entry.split(separator: ":").map {
        $0.filter { !$0.isWhitespace && $0 != "\"" && $0 != "_" }
      }
      if parts.count == 2, let lines = Int(parts[1]) { budgets[parts[0]] = lines }
    }
    return budgets
  }()

  /// The parenthesised entries of a list.
  private static func entries(of opening: String, in text: String) -> [Substring] {
    guard let start = text.firstRange(of: opening)?.upperBound else { return [] }
    var entries: [Substring] = []
    var depth = 0
    var begin = start
    for index in text[start...].indices {
      switch text[index] {
      case "(":
        if depth == 0 { begin = index }
        depth += 1
      case ")":
        depth -= 1
        if depth == 0 { entries.append(text[begin...index]) }
      case "]" where depth == 0: return entries
      default: break
      }
    }
    return entries
  }

  private static func literals(after opening: String, to end: String, in text: String) -> [String] {
    guard let start = text.firstRange(of: opening)?.upperBound,
      let stop = text[start...].firstRange(of: end)?.lowerBound
    else { return [] }
    return strings(in: text[start..<stop])
  }

  /// The string literals of a piece of the manifest, none of which holds a quote.
  private static func strings(in text: Substring) -> [String] {
    text.split(separator: "\"", omittingEmptySubsequences: false).enumerated().compactMap {
      $0.offset % 2 == 1 ? String($0.element) : nil
    }
  }
}
