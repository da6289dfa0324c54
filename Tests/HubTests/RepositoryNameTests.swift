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

  @Test func `a quantization is a part of a name, and no revision`() throws {
    for (text, quantization) in [
      ("a/b:Q4_K_M", "Q4_K_M"), ("a/b:iq2_xs", "IQ2_XS"), ("hf.co/a/b:F16", "F16"),
    ] {
      let reference = try ModelReference(text, host: "huggingface.co")
      #expect(reference.quantization == quantization && reference.revision == nil, "\(text)")
      #expect(reference.repository.text == "a/b")
    }
    #expect(try ModelReference("a/b:q", host: "hub.example").revision == "q")
  }

  @Test func `a quantization's files are those of one model`() throws {
    let repository = try RepositoryName("a/b")
    let paths = [
      "m-Q4_K_M.gguf", "m.Q8_0.gguf", "UD/m-UD-Q2_K_XL-00002-of-00002.gguf",
      "UD/m-UD-Q2_K_XL-00001-of-00002.gguf", "mmproj-m-F16.gguf", "imatrix.gguf", "README.md", "x-BF16.gguf",
      "y-BF16.gguf",
    ]
    #expect(QuantizedFiles.tags(of: paths) == ["BF16", "Q2_K_XL", "Q4_K_M", "Q8_0"])
    #expect(try QuantizedFiles.files("q8_0", of: paths, repository) == ["m.Q8_0.gguf"])
    #expect(
      try QuantizedFiles.files("Q2_K_XL", of: paths, repository)
        == ["UD/m-UD-Q2_K_XL-00001-of-00002.gguf", "UD/m-UD-Q2_K_XL-00002-of-00002.gguf"])
    #expect(throws: HubError.self) { try QuantizedFiles.files("BF16", of: paths, repository) }
    #expect(throws: HubError.self) { try QuantizedFiles.files("Q6_K", of: paths, repository) }
  }

  @Test(arguments: [
    "", "/", "a/", "/a", "a/b/c", "a b", "a/b--c", "a/..", "../a", "a/.b", "a/b.", "-a/b", "a/b-", "a/b.git",
    "ä/b",
    "a/b\n", "a/b@", "a/b@../c", "a/b@x y",
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
