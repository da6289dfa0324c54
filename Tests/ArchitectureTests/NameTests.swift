// Names that text uses for code and for flags must be those that exist.

import Testing

@Suite struct NameTests {
  // MARK: Files

  /// A name such as `Module/File` or `Module/File.function` in a page.
  private struct FileName {
    let module: String
    let file: String
    /// Nil where there is none, or the ending of the file.
    let member: String?

    /// Nil for what is in backticks and is no such name, such as a path below another folder.
    init?(_ code: Substring) {
      let parts = code.split(separator: "/", omittingEmptySubsequences: false)
      guard parts.count == 2, SourceFile.all.contains(where: { $0.module == parts[0] }) else { return nil }
      let names = parts[1].split(separator: ".", omittingEmptySubsequences: false)
      guard let file = names.first, file.first?.isUppercase == true,
        file.allSatisfy({ $0.isLetter || $0.isNumber })
      else { return nil }
      module = String(parts[0])
      self.file = String(file)
      let member = names.dropFirst().first.map { String($0.prefix { $0.isLetter || $0.isNumber }) }
      self.member = member == "swift" ? nil : member
    }
  }

  @Test func `files and functions that the documentation names exist`() {
    var count = 0
    for page in DocumentPage.all {
      for (index, line) in page.lines.enumerated() {
        // What stands outside of backticks is more than a name.
        for code in line.split(separator: "`") {
          guard let name = FileName(code) else { continue }
          count += 1
          let place = "\(page.name):\(index + 1) names '\(code)'"
          guard
            let source = SourceFile.all.first(where: {
              $0.module == name.module && $0.name == name.file + ".swift"
            })
          else {
            Issue.record("\(place), and there is no Sources/\(name.module)/\(name.file).swift")
            continue
          }
          if let member = name.member {
            let declarations = ["func ", "var ", "let ", "case "].map { $0 + member }
            #expect(
              source.code.contains { line in declarations.contains { line.text.contains($0) } },
              "\(place), and that file declares no '\(member)'")
          }
        }
      }
    }
    #expect(count > 40)
  }

  // MARK: Folders

  /// The folders of each module.
  private static let folders: [String: Set<String>] = {
    var folders: [String: Set<String>] = [:]
    for file in SourceFile.all {
      if let folder = file.folder { folders[file.module, default: []].insert(folder) }
    }
    return folders
  }()

  @Test func `the architecture names every folder of every module`() throws {
    let page = try #require(DocumentPage.named("docs/architecture.md"))
    let rows = page.lines.drop { $0 != "## Folders" }.dropFirst().prefix { !$0.hasPrefix("## ") }
    var named: [String: Set<String>] = [:]
    for row in rows where row.hasPrefix("| `") {
      let names = row.split(separator: "`").map(String.init)
      named[names[1]] = Set(names.dropFirst(2).filter { $0.hasSuffix("/") }.map { String($0.dropLast()) })
    }
    #expect(named == Self.folders)
  }

  // MARK: Flags

  /// Those that every command takes.
  private static let common: Set<String> = ["help", "version"]

  /// Flags of `curl`, which `Fetch/Fetcher` starts.
  private static let curl: Set<String> = [
    "connect-timeout", "connect-to", "disable", "fail", "globoff", "header", "max-filesize", "max-redirs",
    "max-time", "noproxy", "proto", "resolve", "silent", "speed-limit", "speed-time", "url", "user-agent",
    "write-out",
  ]

  /// Those that `FlagNames.swift` lists as cases, as they are typed.
  private static let registered: Set<String> = {
    let file = SourceFile.all.first { $0.module == "CLI" && $0.name == "FlagNames.swift" }
    let text = (file?.code ?? []).map(\.1).joined(separator: " ")
    let lists = text.matches(of: /case ([A-Za-z`, ]+) }/).map(\.1)
    return Set(
      lists.flatMap { $0.matches(of: /[A-Za-z]+/) }.map { name in
        name.output.reduce(into: "") { $0 += $1.isUppercase ? "-" + $1.lowercased() : String($1) }
      })
  }()

  /// The words after two dashes in a line.
  private static func flags(in line: String) -> [String] {
    var found: [String] = []
    var rest = line[...]
    while let dashes = rest.firstRange(of: "--") {
      let isInside = rest[..<dashes.lowerBound].last.map { $0.isLetter || $0 == "-" } ?? false
      rest = rest[dashes.upperBound...]
      let word = rest.prefix { $0.isLowercase || $0.isNumber || $0 == "-" }
      if !isInside, word.first?.isLowercase == true { found.append(String(word)) }
    }
    return found
  }

  @Test func `flags that messages name exist`() {
    #expect(Self.registered.isSuperset(of: ["model", "port", "max-body", "compare", "no-checksums"]))
    #expect(Self.flags(in: "\"--a-b 1\", \"--[c] a--d ---e --x2\"") == ["a-b", "x2"])
    for file in SourceFile.all {
      let others = file.name == "Fetcher.swift" ? Self.curl : []
      for (number, line) in file.code {
        for flag in Self.flags(in: line) {
          #expect(
            Self.registered.contains(flag) || Self.common.contains(flag) || others.contains(flag),
            "\(file.module)/\(file.name):\(number) names --\(flag), which is no flag")
        }
      }
    }
  }
}
