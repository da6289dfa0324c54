// Links between pages lead to what exists, and the map of the documentation names every page.

import Platform
import Testing

@Suite struct LinkTests {
  /// The targets of Markdown links and images in a line, those to other sites left out: `](target)`.
  private static func targets(in line: String) -> [String] {
    var found: [String] = []
    var rest = line[...]
    while let start = rest.firstRange(of: "](") {
      rest = rest[start.upperBound...]
      let target = rest.prefix { $0 != ")" }
      if !target.contains("://") { found.append(String(target)) }
    }
    return found
  }

  /// A path without its `.` and `..`: `docs/deploy/../api.md` is `docs/api.md`.
  private static func resolved(_ path: String) -> String {
    var parts: [Substring] = []
    for part in path.split(separator: "/") {
      if part == ".." { _ = parts.popLast() } else if part != "." { parts.append(part) }
    }
    return parts.joined(separator: "/")
  }

  /// A page and the part of a link after `#`, both nil where there is none; a link inside the page names the page itself.
  private static func place(_ target: String, from page: DocumentPage) -> (path: String, anchor: String?) {
    let parts = target.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
    let folder = page.name.split(separator: "/").dropLast().joined(separator: "/")
    let path = parts[0].isEmpty ? page.name : resolved(folder + "/" + parts[0])
    return (path, parts.count > 1 ? String(parts[1]) : nil)
  }

  /// The anchor of a heading as hosts of repositories make it: lowercase, blanks as hyphens, no punctuation.
  private static func anchor(ofHeading line: String) -> String? {
    guard line.hasPrefix("#") else { return nil }
    let title = line.drop { $0 == "#" }.drop { $0 == " " }.lowercased()
    return String(title.compactMap { $0 == " " ? "-" : $0.isLetter || $0.isNumber || $0 == "-" ? $0 : nil })
  }

  @Test func `links and anchors are read`() {
    #expect(
      Self.targets(in: "[a](b.md#c) and ![d](../e.svg), [f](https://g.example)") == ["b.md#c", "../e.svg"])
    #expect(Self.resolved("docs/deploy/../api.md") == "docs/api.md")
    #expect(Self.anchor(ofHeading: "## Hosts and web pages, 2nd") == "hosts-and-web-pages-2nd")
  }

  @Test func `every link of a page leads to a file, and to a heading where it names one`() {
    var count = 0
    for page in DocumentPage.all + DocumentPage.decisions {
      for (index, line) in page.lines.enumerated() {
        for target in Self.targets(in: line) {
          count += 1
          let (path, anchor) = Self.place(target, from: page)
          let exists = DocumentPage.exists(path)
          #expect(exists, "\(page.name):\(index + 1) links to \(target), which does not exist")
          guard exists, let anchor else { continue }
          let headings = DocumentPage.named(path)?.lines.compactMap(Self.anchor(ofHeading:)) ?? []
          #expect(
            headings.contains(anchor),
            "\(page.name):\(index + 1) links to \(target), and no heading is so named")
        }
      }
    }
    #expect(count > 100)
  }

  @Test func `the map of the documentation names every page, and the index every decision`() throws {
    let map = try #require(DocumentPage.named("docs/README.md"))
    let index = try #require(DocumentPage.named("docs/decisions/README.md"))
    func linked(from page: DocumentPage) -> Set<String> {
      Set(page.lines.flatMap(Self.targets(in:)).map { Self.place($0, from: page).path })
    }
    for page in DocumentPage.all where page.name != map.name {
      #expect(linked(from: map).contains(page.name), "\(map.name) does not name \(page.name)")
    }
    for decision in DocumentPage.decisions where decision.name != index.name {
      #expect(linked(from: index).contains(decision.name), "\(index.name) does not name \(decision.name)")
    }
  }
}
