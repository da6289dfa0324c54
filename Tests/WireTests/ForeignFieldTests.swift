// The words of other servers that are refused, and the page that lists them.

import Platform
import Support
import Testing

@testable import Wire

struct ForeignFieldTests {
  @Test func `docs/api.md lists every word that is refused`() throws {
    let page = String(decoding: try File.read(TestData.root + "/docs/api.md", limit: 1 << 20), as: UTF8.self)
    for name in ForeignFields.names { #expect(page.contains("`\(name)`"), "\(name)") }
  }
}
