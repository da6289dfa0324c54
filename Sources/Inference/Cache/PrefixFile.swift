// One block of keys and values as a file: a header that says what it is, and the bytes, both with checksums.

import Compute
import Platform

/// Little-endian: magic, own name (32 bytes), parent's name (32), tokens (32 × 4), length and checksum of the
/// payload (8, 8), checksum of all that (8); then the payload.
struct PrefixFile: Equatable {
  let name: String
  let parent: String
  let tokens: [Int32]
  let payloadBytes: Int
  let payloadChecksum: UInt64

  /// The version is part of it: other formats are foreign files.
  private static let magic = Array("mlxskv01".utf8)
  static let headerBytes = 8 + 32 + 32 + 4 * KVCache.blockTokens + 8 + 8 + 8
  static let ending = ".kv"

  /// The whole file; nil when a name is none or the tokens are not a block's.
  static func encode(name: String, parent: String, tokens: [Int32], payload: [UInt8]) -> [UInt8]? {
    guard let own = SHA256.digest(hexadecimal: name), let before = SHA256.digest(hexadecimal: parent),
      tokens.count == KVCache.blockTokens
    else {
      return nil
    }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(headerBytes + payload.count)
    bytes += magic + own + before
    for token in tokens { append(UInt64(UInt32(bitPattern: token)), count: 4, to: &bytes) }
    append(UInt64(payload.count), count: 8, to: &bytes)
    append(Checksum.of(payload), count: 8, to: &bytes)
    append(Checksum.of(bytes), count: 8, to: &bytes)
    bytes += payload
    return bytes
  }

  /// Reads the header; nil when it is damaged or of another format.
  init?(header bytes: [UInt8]) {
    guard bytes.count >= Self.headerBytes, bytes.starts(with: Self.magic) else { return nil }
    let sum = Self.headerBytes - 8
    guard Self.number(bytes, at: sum, count: 8) == Checksum.of(Array(bytes[..<sum])) else { return nil }
    name = SHA256.hexadecimal(Array(bytes[8..<40]))
    parent = SHA256.hexadecimal(Array(bytes[40..<72]))
    tokens = (0..<KVCache.blockTokens).map {
      Int32(truncatingIfNeeded: Self.number(bytes, at: 72 + 4 * $0, count: 4))
    }
    guard let length = Int(exactly: Self.number(bytes, at: sum - 16, count: 8)) else { return nil }
    payloadBytes = length
    payloadChecksum = Self.number(bytes, at: sum - 8, count: 8)
  }

  /// The payload of the whole file; nil when it is damaged.
  func payload(of file: [UInt8]) -> ArraySlice<UInt8>? {
    let payload = file.dropFirst(Self.headerBytes)
    return payload.count == payloadBytes && Checksum.of(payload) == payloadChecksum ? payload : nil
  }

  private static func append(_ number: UInt64, count: Int, to bytes: inout [UInt8]) {
    for index in 0..<count { bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(8 * index))) }
  }

  private static func number(_ bytes: [UInt8], at start: Int, count: Int) -> UInt64 {
    (0..<count).reduce(0) { $0 | UInt64(bytes[start + $1]) << UInt64(8 * $1) }
  }
}
