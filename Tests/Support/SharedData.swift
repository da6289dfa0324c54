// Where tests find data: `Fixtures/` of this package, and the optional `../shared/data` beside it.

import Platform

/// Paths of test data. Tests that need the shared data skip with a clear word where it is absent.
package enum TestData {
  /// The package root, found from this file's own path.
  package static let root: String = {
    var parts = #filePath.split(separator: "/", omittingEmptySubsequences: false)
    parts.removeLast(3)
    return parts.joined(separator: "/")
  }()

  package static var fixtures: String { root + "/Fixtures" }

  /// The shared data folder, or nil. `MLXSERVE_SHARED` overrides the default place.
  package static let shared: String? = {
    let place = getenv("MLXSERVE_SHARED").map { String(cString: $0) } ?? root + "/../shared"
    return File.isDirectory(place + "/data") ? place + "/data" : nil
  }()

  /// Whether tests that only print measurements run.
  package static let isMeasuring = getenv("MLXSERVE_MEASURE") != nil

  /// A file of the shared data as bytes.
  package static func bytes(_ path: String, limit: Int = 1 << 28) throws -> [UInt8] {
    try File.read(path, limit: limit)
  }
}

/// A seeded generator for mutation tests (SplitMix64): a failure is reproduced from its seed.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  package init(seed: UInt64) { state = seed }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

/// One seeded mutation of `input`: bytes flipped, inserted, removed, duplicated or cut.
package func mutated(_ input: [UInt8], using random: inout SeededGenerator) -> [UInt8] {
  var bytes = input
  for _ in 0..<Int.random(in: 1...4, using: &random) {
    let at = bytes.isEmpty ? 0 : Int.random(in: 0..<bytes.count, using: &random)
    switch Int.random(in: 0..<6, using: &random) {
    case 0 where !bytes.isEmpty: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
    case 1 where !bytes.isEmpty: bytes[at] = UInt8.random(in: 0...255, using: &random)
    case 2: bytes.insert(UInt8.random(in: 0...255, using: &random), at: at)
    case 3 where !bytes.isEmpty: bytes.remove(at: at)
    case 4 where !bytes.isEmpty:
      let end = min(bytes.count, at + Int.random(in: 1...16, using: &random))
      bytes.insert(contentsOf: bytes[at..<end], at: at)
    default: bytes.removeLast(bytes.count - at)
    }
  }
  return bytes
}
