// Digests of the examples of FIPS 180-4, and of every way to cut a message into pieces.

import Platform
import Testing

@Suite struct SHA256Tests {
  @Test(arguments: [
    ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
  ])
  func `the examples of the standard have their digests`(message: String, expected: String) {
    #expect(SHA256.hexadecimal(SHA256.digest(Array(message.utf8))) == expected)
  }

  @Test func `a message fed in pieces of any length has the digest of the whole`() {
    let message = (0..<200).map { UInt8($0) }
    let whole = SHA256.digest(message)
    for size in 1...130 {
      var hash = SHA256()
      for start in stride(from: 0, to: message.count, by: size) {
        hash.update(Array(message[start..<min(start + size, message.count)]))
      }
      #expect(hash.finish() == whole, "pieces of \(size)")
    }
  }

  @Test func `a million letters have the digest of the standard`() {
    var hash = SHA256()
    for _ in 0..<1000 { hash.update([UInt8](repeating: 0x61, count: 1000)) }
    #expect(
      SHA256.hexadecimal(hash.finish())
        == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
  }
}

@Suite struct SHA1Tests {
  @Test(arguments: [
    ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"), ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    (
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
    ),
  ])
  func `the examples of the standard have their digests`(message: String, expected: String) {
    var hash = SHA1()
    hash.update(Array(message.utf8))
    #expect(SHA256.hexadecimal(hash.finish()) == expected)
  }

  @Test func `a million letters have the digest of the standard`() {
    var hash = SHA1()
    for _ in 0..<1000 { hash.update([UInt8](repeating: 0x61, count: 1000)) }
    #expect(SHA256.hexadecimal(hash.finish()) == "34aa973cd4c4daa4f61eeb2bdbad27316534016f")
  }

  @Test func `files have the names that Git gives them`() {
    // `printf 'hello\n' | git hash-object --stdin`
    var hash = SHA1.ofGitBlob(bytes: 6)
    hash.update(Array("hello\n".utf8))
    #expect(SHA256.hexadecimal(hash.finish()) == "ce013625030ba8dba906f756967f9e9ca394464a")
    #expect(
      SHA256.hexadecimal(SHA1.ofGitBlob(bytes: 0).finish()) == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")
  }
}
