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
    #expect(client(ring, "sk-4")?.number == client(ring, "sk-1")?.number)
    // The first bytes of its SHA-256 stand for a key without a name.
    #expect(client(ring, "sk:2")?.name == "key-8193ebc7")
    #expect(client(ring, "alice: sk-1") == nil)
    #expect(client(ring, "# who") == nil)
  }

  @Test func `the mark of an editor before UTF-8 is no part of a key, and UTF-16 is refused by name`() throws
  {
    for text in ["sk-1\n", "alice: sk-1\r\n", "# keys\nsk-1"] {
      let file = KeyFile("\u{FEFF}" + text)
      let ring = try KeyRing(file: file.path)
      #expect(ring.count == 1 && client(ring, "sk-1") != nil && client(ring, "\u{FEFF}sk-1") == nil)
    }
    let named = KeyFile("\u{FEFF}alice: sk-1")
    #expect(client(try KeyRing(file: named.path), "sk-1")?.name == "alice")
    // Without its mark, which is no UTF-8, but with its zeros.
    let wide = KeyFile("s\0k\0-\0" + "1\0\n\0")
    let error = try #require(throws: KeyError.self) { try KeyRing(file: wide.path) }
    #expect(error.description.hasSuffix("line 1: this is not UTF-8 text: save the file as UTF-8"))
  }

  @Test func `a role stands after the name, and old files mean what they meant`() throws {
    let oldFile = KeyFile("alice: sk-1\nsk-2")
    let old = try KeyRing(file: oldFile.path)
    #expect(client(old, "sk-1")?.isAdmin == true && client(old, "sk-2")?.isAdmin == true)
    let file = KeyFile("ops admin: sk-1\nalice: sk-2\nsk-3\nbob user: sk-4\nops: sk-5")
    let ring = try KeyRing(file: file.path)
    #expect(
      ["sk-1", "sk-2", "sk-3", "sk-4", "sk-5"].map { client(ring, $0)?.isAdmin } == [
        true, false, false, false, false,
      ])
    #expect(client(ring, "sk-1")?.name == "ops" && client(ring, "sk-4")?.name == "bob")
    #expect(client(ring, "sk-1")?.number == client(ring, "sk-5")?.number)
    #expect(client(ring, "sk-1")?.key != client(ring, "sk-5")?.key)
    let userFile = KeyFile("bob user: sk-1\nalice: sk-2")
    let users = try KeyRing(file: userFile.path)
    #expect(client(users, "sk-1")?.isAdmin == false && client(users, "sk-2")?.isAdmin == true)
  }

  @Test func `who starts the server is an admin, whatever a file says`() throws {
    var ring = KeyRing()
    try ring.add("mine", source: "--api-key")
    let file = KeyFile("ops admin: sk-1\nalice: sk-2")
    ring.add(try KeyRing(file: file.path))
    #expect(client(ring, "mine")?.isAdmin == true && client(ring, "sk-2")?.isAdmin == false)
    #expect(ring.numbers.count == 3)
  }

  @Test func `a word that is no role is refused, and what has a space is no name`() {
    let file = KeyFile("ops root: sk-1")
    let wrong = #expect(throws: KeyError.self) { try KeyRing(file: file.path) }
    #expect(wrong?.description.contains("line 1: after the name stands no role") == true)
    for text in ["ops admin : sk-1", "ops  admin user: sk-1", "ops admin:sk-1"] {
      let file = KeyFile(text)
      #expect(throws: KeyError.self) { try KeyRing(file: file.path) }
    }
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

  @Test func `what runs by a key ends when the key goes, becomes another client's, or may do less`() throws {
    let file = KeyFile("a admin: 1\nb: 2\nc: 3\nd: 4\ne: 5\n")
    let newer = KeyFile("a user: 1\nb: 2\nx: 3\nd admin: 4\n")
    let (old, new) = (try KeyRing(file: file.path), try KeyRing(file: newer.path))
    func numbers(_ keys: String...) -> Set<UInt64> { Set(keys.compactMap { client(old, $0)?.key }) }
    #expect(old.numbers(endedBy: new) == numbers("1", "3", "5") && numbers("1", "3", "5").count == 3)
    #expect(old.numbers(endedBy: old).isEmpty)
    // Where the first admin is named, the others are none any more.
    let plainFile = KeyFile("a: 1\nb: 2\nc: 3\nd: 4\ne: 5\n")
    let plain = try KeyRing(file: plainFile.path)
    #expect(plain.numbers(endedBy: old) == numbers("2", "3", "4", "5"))
  }

  @Test func `an empty key is refused with its source`() {
    var ring = KeyRing()
    let error = #expect(throws: KeyError.self) { try ring.add("", source: "MLXSERVE_API_KEY") }
    #expect(error?.description == "the key of MLXSERVE_API_KEY has 0 bytes; it needs 1 to 1024")
  }
}
