// Ed25519 and its hash beside the vectors of RFC 8032 and FIPS 180-4, and signatures that are none.

import Support
import Testing

@testable import Platform

@Suite struct Ed25519Tests {
  /// Secret, public key, message and signature of tests 1, 2, 3 and SHA(abc) of section 7.1, in hexadecimal digits.
  @Test(arguments: [
    (
      "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
      "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
      "",
      "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        + "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    ),
    (
      "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
      "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
      "72",
      "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        + "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    ),
    (
      "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
      "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
      "af82",
      "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        + "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    ),
    (
      "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
      "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
      "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
      "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
        + "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"
    ),
  ])
  func `the vectors of the standard`(seed: String, key: String, message: String, signature: String) throws {
    let signer = try #require(Ed25519(seed: bytes(seed)))
    #expect(signer.publicKey == bytes(key))
    #expect(signer.signature(of: bytes(message)) == bytes(signature))
    #expect(Ed25519.isValid(bytes(signature), of: bytes(message), key: bytes(key)))
  }

  @Test func `a signature holds for its message and its key alone, in one form`() throws {
    var random = SeededGenerator(seed: 3)
    for _ in 0..<12 {
      let seed = (0..<32).map { _ in UInt8.random(in: 0...255, using: &random) }
      let signer = try #require(Ed25519(seed: seed))
      let message = Array("one of \(seed)".utf8)
      let signature = signer.signature(of: message)
      #expect(Ed25519.isValid(signature, of: message, key: signer.publicKey))
      #expect(!Ed25519.isValid(signature, of: message + [0], key: signer.publicKey))
      var other = signature
      other[Int.random(in: 0..<64, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      #expect(!Ed25519.isValid(other, of: message, key: signer.publicKey))
      var key = signer.publicKey
      key[Int.random(in: 0..<32, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      #expect(!Ed25519.isValid(signature, of: message, key: key))
      // The answer plus the order is the same modulo the order.
      let order = bytes("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
      var (sum, carry) = (signature, 0)
      for index in 0..<32 {
        let byte = Int(sum[32 + index]) + Int(order[index]) + carry
        (sum[32 + index], carry) = (UInt8(byte & 255), byte >> 8)
      }
      #expect(!Ed25519.isValid(sum, of: message, key: signer.publicKey))
    }
    #expect(Ed25519(seed: [1, 2]) == nil)
    #expect(!Ed25519.isValid([], of: [], key: []))
  }

  /// Lengths around the ends of blocks: digests of as many letters 'a', beside those of another program.
  @Test(arguments: [
    (
      0,
      "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"
    ),
    (
      3,
      "d6f644b19812e97b5d871658d6d3400ecd4787faeb9b8990c1e7608288664be77257104a58d033bcf1a0e0945ff06468ebe53e2dff36e248424c7273117dac09"
    ),
    (
      111,
      "fa9121c7b32b9e01733d034cfc78cbf67f926c7ed83e82200ef86818196921760b4beff48404df811b953828274461673c68d04e297b0eb7b2b4d60fc6b566a2"
    ),
    (
      112,
      "c01d080efd492776a1c43bd23dd99d0a2e626d481e16782e75d54c2503b5dc32bd05f0f1ba33e568b88fd2d970929b719ecbb152f58f130a407c8830604b70ca"
    ),
    (
      127,
      "828613968b501dc00a97e08c73b118aa8876c26b8aac93df128502ab360f91bab50a51e088769a5c1eff4782ace147dce3642554199876374291f5d921629502"
    ),
    (
      128,
      "b73d1929aa615934e61a871596b3f3b33359f42b8175602e89f7e06e5f658a243667807ed300314b95cacdd579f3e33abdfbe351909519a846d465c59582f321"
    ),
    (
      1000,
      "67ba5535a46e3f86dbfbed8cbbaf0125c76ed549ff8b0b9e03e0c88cf90fa634fa7b12b47d77b694de488ace8d9a65967dc96df599727d3292a8d9d447709c97"
    ),
  ])
  func `digests of SHA-512`(count: Int, expected: String) {
    #expect(SHA256.hexadecimal(SHA512.digest([UInt8](repeating: 0x61, count: count))) == expected)
  }

  private func bytes(_ hexadecimal: String) -> [UInt8] {
    let digits = hexadecimal.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
  }
}
