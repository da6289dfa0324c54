// The tables of docs/api.md against what the readers of bodies note; `make api-page` writes them.

import Platform
import Server
import Support
import Testing

struct FieldTableTests {
  /// Headings with the body whose fields the table below them has.
  private static let tables = [
    ("Chat completions", "ChatRequest"), ("Completions", "CompletionRequest"),
    ("Responses", "ResponsesRequest"), ("Messages", "MessagesRequest"), ("Embeddings", "EmbeddingsRequest"),
    ("Rerank", "RerankRequest"), ("Tokens and prompts", "TokenizeRequest"),
  ]

  @Test func `the tables of docs/api.md are what the readers note`() throws {
    let path = TestData.root + "/docs/api.md"
    let page = String(decoding: try File.read(path, limit: 1 << 20), as: UTF8.self)
    let app = makeApp(FakeService("x"))
    var written: [String] = []
    var heading = ""
    var count = 0
    for line in page.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
      if line.hasPrefix("## ") { heading = String(line.dropFirst(3)) }
      let isRow = written.last?.hasPrefix("|") == true && line.hasPrefix("| `") && !written.isEmpty
      let body = Self.tables.first { $0.0 == heading }?.1
      if line == "|---|---|---|---|", let body {
        written.append(line)
        let rows = try app.fieldRows(of: body)
        #expect(rows.count > 12, "\(body)")
        written += rows
        count += 1
      } else if !(isRow && body != nil) {
        written.append(line)
      }
    }
    #expect(count == Self.tables.count)
    let text = written.joined(separator: "\n")
    if Environment.value("MLXSERVE_WRITE_PAGES") != nil { try File.replace(path, with: Array(text.utf8)) }
    #expect(page == text, "make api-page writes it")
  }
}
