// What other modules use says what it is.

import Testing

@Suite struct DocCommentTests {
  /// Modules of which this is true.
  private static let documented: Set<String> = [
    "CLI", "Chat", "Checkpoint", "Compute", "Decoding", "Fetch", "Grammar", "HTTP", "Inference", "JSON",
    "Jinja",
    "Media",
    "Models", "Wire", "Pipeline", "Platform", "Sampling", "Server", "Tokenizers",
  ]

  /// Whether a line declares a type or a function for other modules. Requirements of the standard library's protocols
  /// (`==`, `<`, `hash`) say nothing new.
  static func declares(_ line: String) -> Bool {
    var words = line.split(separator: " ")[...]
    while words.first?.hasPrefix("@") == true { words.removeFirst() }
    guard words.popFirst() == "package" else { return false }
    let modifiers: Set<Substring> = ["static", "final", "mutating", "nonmutating", "indirect", "override"]
    while let word = words.first, modifiers.contains(word) { words.removeFirst() }
    let kinds: Set<Substring> = ["class", "struct", "enum", "protocol", "typealias", "func"]
    guard let kind = words.popFirst(), kinds.contains(kind), let name = words.first else { return false }
    return name.first?.isLetter == true && !name.hasPrefix("hash(into")
  }

  /// Whether the lines before one end in a documentation comment; attributes and conditions may stand between.
  static func isDocumented(_ index: Int, in lines: [String]) -> Bool {
    for line in lines[..<index].reversed() {
      let text = line.drop { $0 == " " }
      if text.hasPrefix("@") || text.hasPrefix("#if") { continue }
      return text.hasPrefix("///")
    }
    return false
  }

  /// Functions that a protocol of the module documents, for all types that have them: `func name(`.
  static func requirements(in lines: [String]) -> Set<String> {
    var names: Set<String> = []
    var isInside = false
    for (index, line) in lines.enumerated() {
      if declares(line), line.contains("protocol ") { isInside = true }
      if line == "}" { isInside = false }
      if isInside, let name = functionName(line), isDocumented(index, in: lines) { names.insert(name) }
    }
    return names
  }

  private static func functionName(_ line: String) -> String? {
    guard let start = line.firstRange(of: "func ") else { return nil }
    return String(line[start.upperBound...].prefix { $0 != "(" })
  }

  @Test func `package declarations are found`() {
    #expect(Self.declares("  @discardableResult package static func read(_ path: String) -> Bool {"))
    #expect(Self.declares("package final class Engine {"))
    #expect(!Self.declares("  package static func == (a: Key, b: Key) -> Bool {"))
    #expect(!Self.declares("  package let path: String"))
    #expect(!Self.declares("struct Engine {"))
    #expect(Self.isDocumented(2, in: ["/// A.", "@frozen", "package struct A {}"]))
    #expect(!Self.isDocumented(1, in: ["// A.", "package struct A {}"]))
    let model = [
      "package protocol P {", "  /// Runs.", "  func run(_ a: Int)", "  func walk()", "}", "func b()",
    ]
    #expect(Self.requirements(in: model) == ["run"])
  }

  @Test func `package types and functions have a documentation comment`() {
    for module in Self.documented {
      let files = SourceFile.all.filter { $0.module == module }
      #expect(!files.isEmpty, "there is no module \(module)")
      let required = files.reduce(into: Set<String>()) { $0.formUnion(Self.requirements(in: $1.lines)) }
      for file in files {
        for (index, line) in file.lines.enumerated() where Self.declares(line) {
          let isRequirement = Self.functionName(line).map(required.contains) ?? false
          #expect(
            isRequirement || Self.isDocumented(index, in: file.lines),
            "\(module)/\(file.name):\(index + 1) has no documentation comment: \(line)")
        }
      }
    }
  }
}
