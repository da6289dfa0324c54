// The tests that docs/develop/reliability.csv names are there: a promise whose test has gone is shown by nothing.

import Platform
import Support
import Testing

@Suite struct NamedTestsTests {
  /// Texts of the tests by their path below `Tests`.
  private static let sources: [String: String] = {
    var found: [String: String] = [:]
    func collect(_ path: String) {
      for name in (try? File.names(in: TestData.root + "/Tests" + path)) ?? [] {
        let place = path + "/" + name
        if File.isDirectory(TestData.root + "/Tests" + place) {
          collect(place)
        } else if name.hasSuffix(".swift") || name.hasSuffix(".py"),
          let bytes = try? File.read(TestData.root + "/Tests" + place, limit: 1 << 24)
        {
          found[place] = String(decoding: bytes, as: UTF8.self)
        }
      }
    }
    collect("")
    return found
  }()

  /// What stands between two marks of a kind.
  private static func marked(_ line: String, _ mark: Character) -> [Substring] {
    line.split(separator: mark, omittingEmptySubsequences: false).enumerated().filter { $0.offset % 2 == 1 }
      .map(\.element)
  }

  private static func isSuite(_ name: Substring, below folder: String = "") -> Bool {
    sources.contains { path, text in
      path.hasPrefix(folder)
        && ["struct ", "class ", "enum "].contains {
          text.contains("\($0)\(name) {") || text.contains("\($0)\(name):")
        }
    }
  }

  /// Whether a name in code is that of a test that is there, or none of a test at all.
  private static func isThere(_ name: Substring) -> Bool {
    let parts = name.split(whereSeparator: { $0 == "/" || $0 == "." })
    guard let first = parts.first, let last = parts.last else { return true }
    if first.hasSuffix("Tests"), first != "Tests", first.allSatisfy({ $0.isLetter || $0.isNumber }) {
      let isFolder = File.isDirectory(TestData.root + "/Tests/\(first)")
      guard parts.count > 1 else { return isFolder || isSuite(first) }
      return isFolder && (sources["/\(first)/\(last).swift"] != nil || isSuite(last, below: "/\(first)/"))
    }
    let isShortened = last.hasSuffix("…")
    let function = last.filter { $0 != "…" }
    if first.hasSuffix("_test"), first.allSatisfy({ $0.isLetter || $0.isNumber || $0 == "_" }) {
      let files = sources.filter { $0.key.hasSuffix("/\(first).py") }
      return files.values.contains {
        parts.count == 1 || $0.contains("def \(function)" + (isShortened ? "" : "("))
      }
    }
    guard parts.count == 1, last.hasPrefix("test_") else { return true }
    return sources.values.contains { $0.contains("def \(function)" + (isShortened ? "" : "(")) }
  }

  @Test func `names are told apart`() {
    #expect(Self.isThere("ArchitectureTests/NamedTestsTests") && Self.isThere("NamedTestsTests"))
    #expect(!Self.isThere("ArchitectureTests/NoTests") && !Self.isThere("ServerTests/NamedTestsTests"))
    #expect(Self.isThere("limits_test.test_strangers…") && !Self.isThere("limits_test.test_none_such"))
    #expect(!Self.isThere("none_such_test") && Self.isThere("make fuzz") && Self.isThere("store: false"))
    #expect(Self.marked("a *b c* and `d`", "*") == ["b c"])
  }

  @Test func `every test that the list of promises names is there`() throws {
    let table = "docs/develop/reliability.csv"
    let bytes = try File.read(TestData.root + "/" + table, limit: 1 << 20)
    var count = 0
    for (index, line) in String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(
      String.init
    ).enumerated() {
      for name in Self.marked(line, "`") {
        count += 1
        #expect(
          Self.isThere(name), "\(table):\(index + 1) names \(name), which is not there")
      }
      // Titles of tests.
      for title in Self.marked(
        line.split(separator: "`", omittingEmptySubsequences: false).enumerated()
          .filter { $0.offset % 2 == 0 }.map { String($0.element) }.joined(), "*") where title.contains(" ")
      {
        let isShortened = title.hasSuffix("…")
        let words = title.filter { $0 != "…" }
        #expect(
          Self.sources.values.contains { $0.contains("func `\(words)" + (isShortened ? "" : "`(")) },
          "\(table):\(index + 1) names *\(title)*, which is not there")
      }
    }
    #expect(count > 150)
  }
}
