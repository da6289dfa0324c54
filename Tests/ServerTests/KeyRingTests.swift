// Keys: what a file may hold, whose a key is, and what errors do not tell.

import HTTP
import Server
import Testing

@Suite struct KeyRingTests {
  private func client(_ ring: KeyRing, _ key: String) -> ClientIdentity? { ring.client(presenting: key.utf8) }

  @Test func `a file holds keys, names, comments and empty lines`() throws {
    let file = KeyFile("# who\n\nalice: sk-1\r\n  sk:2  \nbob:\tsk-3\nalice: sk-4")
    let ring = try KeyRing(file: file.path)
    #expect(ring.count == 4)
    #expect(client(ring, "sk-1")?.name == "alice")
    #expect(client(ring, "sk-3")?.name == "bob")
    #expect(client(ring, "sk-4") == client(ring, "sk-1"))
    // The first bytes of its SHA-256 stand for a key without a name.
    #expect(client(ring, "sk:2")?.name == "key-8193ebc7")
    #expect(client(ring, "alice: sk-1") == nil)
    #expect(client(ring, "# who") == nil)
  }

  @Test func `keys are compared byte by byte, as a whole`() throws {
    var ring = KeyRing()
    try ring.add("secret-\u{E9}", source: "--api-key")
    #expect(client(ring, "secret-\u{E9}") != nil)
    for wrong in [
      "secret-e\u{301}", "secret-", "secret-\u{E9}x", "SECRET-\u{E9}", "", "secret-\u{E9}\0", "xecret-\u{E9}",
    ] {
      #expect(client(ring, wrong) == nil, "\(wrong)")
    }
  }

  @Test func `clients have numbers of their own, and nobody's is 0`() throws {
    let file = KeyFile("a: 1\nb: 2\n3\n4")
    let ring = try KeyRing(file: file.path)
    let numbers = ["1", "2", "3", "4"].compactMap { client(ring, $0)?.number }
    #expect(Set(numbers).count == 4)
    #expect(!numbers.contains(0))
  }

  @Test(arguments: [
    ("good\nsome key\n", "line 2: the key has a space or a control character in it"),
    ("name: a b\n", "line 1: the key has a space or a control character in it"),
    ("name: \n", "line 1: the key"), ("a\u{1}b", "line 1: the key has a space or a control"),
    ("# nothing\n", "holds no key"), ("", "holds no key"),
    (String(repeating: "k", count: 1025), "line 1: the key has 1025 bytes; it needs 1 to 1024"),
  ])
  func `a file that is no key file is refused without showing what it holds`(text: String, words: String) {
    let file = KeyFile(text)
    let error = #expect(throws: KeyError.self) { try KeyRing(file: file.path) }
    let message = error?.description ?? ""
    #expect(message.contains(words), "\(message)")
    #expect(!message.contains("some key") && !message.contains("kkkk"))
  }

  @Test func `an empty key is refused with its source`() {
    var ring = KeyRing()
    let error = #expect(throws: KeyError.self) { try ring.add("", source: "MLXSERVE_API_KEY") }
    #expect(error?.description == "the key of MLXSERVE_API_KEY has 0 bytes; it needs 1 to 1024")
  }
}
