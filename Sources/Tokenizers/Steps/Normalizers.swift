// Normalizers: rewrite a text segment before it is cut into pieces.

/// One step of normalisation.
enum Normalizer: Sendable {
  case unicode(UnicodeNormalization.Form)
  case lowercase
  /// Removes all marks; meant to follow a decomposition.
  case stripAccents
  case strip(left: Bool, right: Bool)
  case replace(TextPattern, content: [UInt8])
  /// Not on empty text.
  case prepend([UInt8])
  case bert(cleansText: Bool, spacesIdeographs: Bool, stripsAccents: Bool, lowercases: Bool)
  case nmt
  case precompiled(PrecompiledMap)
  /// Bytes to their spellings in the byte-level alphabet.
  case spellBytes

  /// The new text, or nil when this step leaves it as it is.
  func apply(_ bytes: [UInt8], _ range: Range<Int>) -> [UInt8]? {
    switch self {
    case .unicode(let form): UnicodeNormalization.tables.normalized(bytes, range, to: form)
    case .lowercase: Self.lowercased(bytes, range)
    case .stripAccents:
      Self.mapScalars(bytes, range) { scalar, out in
        if CharacterClass.of(scalar).isDisjoint(with: .mark) { out.append(scalar: scalar) }
      }
    case .strip(let left, let right): Self.stripped(bytes, range, left, right)
    case .replace(let pattern, let content): Self.replaced(bytes, range, pattern, content)
    case .prepend(let prefix): range.isEmpty ? nil : prefix + bytes[range]
    case .bert(let cleans, let spaces, let strips, let lowers):
      Self.bertNormalized(bytes, range, cleans, spaces, strips, lowers)
    case .nmt: Self.mapScalars(bytes, range, Self.nmtScalar)
    case .precompiled(let map): map.apply(bytes, range)
    case .spellBytes: Self.spelled(bytes, range)
    }
  }

  private static func spelled(_ bytes: [UInt8], _ range: Range<Int>) -> [UInt8] {
    var out: [UInt8] = []
    ByteAlphabet.spell(bytes, range, into: &out)
    return out
  }

  private static func mapScalars(
    _ bytes: [UInt8], _ range: Range<Int>, _ body: (UInt32, inout [UInt8]) -> Void
  ) -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(range.count)
    var at = range.lowerBound
    while at < range.upperBound {
      let (scalar, length) = decodeScalar(bytes, at: at)
      body(scalar, &out)
      at += length
    }
    return out
  }

  private static func lowercased(_ bytes: [UInt8], _ range: Range<Int>) -> [UInt8] {
    mapScalars(bytes, range) { scalar, out in
      if scalar < 0x80 {
        out.append(scalar: 65...90 ~= scalar ? scalar + 32 : scalar)
      } else if let properties = Unicode.Scalar(scalar)?.properties {
        out.append(contentsOf: properties.lowercaseMapping.utf8)
      }
    }
  }

  private static func replaced(
    _ bytes: [UInt8], _ range: Range<Int>, _ pattern: TextPattern, _ content: [UInt8]
  ) -> [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(range.count + range.count / 4)
    pattern.forEachPart(bytes, range) { part, isMatch in
      if isMatch { out.append(contentsOf: content) } else { out.append(contentsOf: bytes[part]) }
    }
    return out
  }

  private static func stripped(_ bytes: [UInt8], _ range: Range<Int>, _ left: Bool, _ right: Bool) -> [UInt8]
  {
    let text = ScannedText(bytes: bytes, end: range.upperBound)
    let start = left ? text.run(of: .space, from: range.lowerBound) : range.lowerBound
    var end = range.upperBound
    while right, end > start {
      let last = bytes.scalarStart(before: end, from: start)
      guard text.next(last).cls == .space else { break }
      end = last
    }
    return Array(bytes[start..<end])
  }

  private static func nmtScalar(_ scalar: UInt32, _ out: inout [UInt8]) {
    switch scalar {
    case 0x01...0x08, 0x0B, 0x0E...0x1F, 0x7F, 0x8F, 0x9F: return
    case 0x09, 0x0A, 0x0C, 0x0D, 0x1680, 0x200B...0x200F, 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD:
      out.append(0x20)
    default: out.append(scalar: scalar)
    }
  }

  private static func bertNormalized(
    _ bytes: [UInt8], _ range: Range<Int>, _ cleans: Bool, _ spaces: Bool, _ strips: Bool, _ lowers: Bool
  ) -> [UInt8] {
    var text = mapScalars(bytes, range) { scalar, out in
      let cls = CharacterClass.of(scalar)
      // Vertical tab, form feed and next line are white space, but go as controls.
      if cleans, cls == .control || scalar == 0x0B || scalar == 0x0C || scalar == 0x85 { return }
      if cleans, cls == .space { return out.append(0x20) }
      if spaces, isIdeograph(scalar) {
        out.append(0x20)
        out.append(scalar: scalar)
        out.append(0x20)
      } else {
        out.append(scalar: scalar)
      }
    }
    if strips {
      text = UnicodeNormalization.tables.normalized(text, 0..<text.count, to: .nfd) ?? text
      text = mapScalars(text, 0..<text.count) { scalar, out in
        if CharacterClass.of(scalar) != .nonspacingMark { out.append(scalar: scalar) }
      }
    }
    return lowers ? lowercased(text, 0..<text.count) : text
  }

  private static func isIdeograph(_ scalar: UInt32) -> Bool {
    switch scalar {
    case 0x4E00...0x9FFF, 0x3400...0x4DBF, 0x20000...0x2A6DF, 0x2A700...0x2B73F, 0x2B740...0x2B81F,
      0x2B920...0x2CEAF, 0xF900...0xFAFF, 0x2F800...0x2FA1F:
      true
    default: false
    }
  }
}
