// Names as people type them, and those that are refused.

import Testing

@testable import Hub

@Suite struct RepositoryNameTests {
  @Test(
    arguments: [
      ("owner/name", "owner/name", nil), ("gpt2", "gpt2", nil), ("owner/name@v1", "owner/name", "v1"),
      ("owner/name:refs/pr/1", "owner/name", "refs/pr/1"), ("hf://owner/Na.me_1", "owner/Na.me_1", nil),
      ("https://hub.example/owner/name", "owner/name", nil), ("hub.example/owner/name", "owner/name", nil),
      ("https://HUB.example/owner/name/", "owner/name", nil), ("owner/name:latest", "owner/name", nil),
      ("https://hub.example/owner/name/tree/main", "owner/name", "main"),
      ("https://hub.example/owner/name/blob/abc/config.json?x=1", "owner/name", "abc"),
    ] as [(String, String, String?)])
  func `a reference is read`(text: String, name: String, revision: String?) throws {
    let reference = try ModelReference(text, host: "hub.example")
    #expect(reference.repository.text == name)
    #expect(reference.revision == revision)
  }

  @Test(arguments: [
    "", "/", "a/", "/a", "a/b/c", "a b", "a/b--c", "a/..", "../a", "a/.b", "a/b.", "-a/b", "a/b-", "a/b.git",
    "ä/b",
    "a/b:Q4_K_M", "a/b:iq2_xs", "a/b:F16", "a/b\n", "a/b@", "a/b@../c", "a/b@x y",
    "https://other.example/a/b", "https://hub.example/a",
    "a/" + String(repeating: "x", count: 95),
  ])
  func `what is no name is refused`(text: String) {
    #expect(throws: HubError.self) { try ModelReference(text, host: "hub.example") }
  }

  @Test func `a folder of the cache has a name, and its name a folder`() throws {
    #expect(try RepositoryName("owner/na-me").folder == "models--owner--na-me")
    #expect(RepositoryName(folder: "models--owner--na-me")?.text == "owner/na-me")
    #expect(RepositoryName(folder: "models--gpt2")?.text == "gpt2")
    #expect(RepositoryName(folder: "datasets--owner--name") == nil)
    #expect(RepositoryName(folder: "models--a--b--c") == nil)
  }

  @Test(arguments: [
    "../x", "/etc/x", "a/../../x", "C:\\x", "C:x", "\\\\h\\s", "a\u{0}b", "a\nb", "a//b", "a/./b", "",
    String(repeating: "x", count: 256),
  ])
  func `a path that leads elsewhere is refused`(path: String) {
    #expect(!RepositoryFile.isSafe(path))
  }

  @Test(arguments: ["a", "a/b.c", "ordner mit leerzeichen/größe#?%41.json", "..a", "a..", "東京"])
  func `a path inside is taken`(path: String) { #expect(RepositoryFile.isSafe(path)) }
}
