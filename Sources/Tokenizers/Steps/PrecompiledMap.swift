// SentencePiece's compiled normalisation rules: a double-array trie of replacements (XLM-R, T5).

import JSON

/// The `precompiled_charsmap` of a tokenizer.
struct PrecompiledMap: Sendable {
  /// Units of the trie: a label, an offset to the children, or a value.
  private var units: [UInt32] = []
  /// Replacements, each ended by a NUL.
  private var replacements: [UInt8] = []

  /// Bytes of the longest replacement.
  var longestReplacement: Int { replacements.split(separator: 0).reduce(0) { max($0, $1.count) } }

  /// - Parameter base64: little-endian byte count of the trie, the trie, the replacements. Nil when malformed.
  init?(base64: String) {
    guard let bytes = Base64.decode(base64), bytes.count >= 4 else { return nil }
    func word(_ at: Int) -> UInt32 { (0..<4).reduce(0) { $0 | UInt32(bytes[at + $1]) << UInt32(8 * $1) } }
    let size = Int(word(0))
    guard size % 4 == 0, size > 0, size <= bytes.count - 4 else { return nil }
    units = stride(from: 4, to: 4 + size, by: 4).map(word)
    replacements = Array(bytes[(4 + size)...])
    guard String(validating: replacements, as: UTF8.self) != nil else { return nil }
  }

  /// The replacement of the shortest rule that `text` starts with; that is the reference's choice, too.
  private func replacement(_ text: some Sequence<UInt8>) -> ArraySlice<UInt8>? {
    guard var node = units.first.map(Self.offset) else { return nil }
    for byte in text {
      node ^= Int(byte)
      guard byte != 0, node < units.count, units[node] & 0x8000_00FF == UInt32(byte) else { return nil }
      let hasValue = units[node] >> 8 & 1 == 1
      node ^= Self.offset(units[node])
      if hasValue {
        guard node < units.count else { return nil }
        let start = Int(units[node] & 0x7FFF_FFFF)
        guard start < replacements.count else { return nil }
        let end = replacements[start...].firstIndex(of: 0) ?? replacements.count
        return replacements[start..<end]
      }
    }
    return nil
  }

  private static func offset(_ unit: UInt32) -> Int {
    Int(unit >> 10) << Int((unit & 1 << 9) >> 6)
  }

  /// Replaces short grapheme clusters as a whole where a rule matches, and single scalars otherwise.
  func apply(_ bytes: [UInt8], _ range: Range<Int>) -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(range.count)
    // Rules are written for what a reader sees as one character: the only place where clusters matter.
    for cluster in String(decoding: bytes[range], as: UTF8.self) {
      let text = cluster.utf8
      if text.count < 6, let new = replacement(text) {
        out.append(contentsOf: new)
        continue
      }
      for scalar in cluster.unicodeScalars {
        let part = UTF8.encode(scalar).map(Array.init) ?? []
        out.append(contentsOf: replacement(part) ?? part[...])
      }
    }
    return out
  }
}
