// Character classes and normalisation.

import Support
import Testing

@testable import Tokenizers

private func scalars(_ text: String, _ form: UnicodeNormalization.Form) -> [UInt32] {
  let bytes = Array(text.utf8)
  let out = UnicodeNormalization.tables.normalized(bytes, 0..<bytes.count, to: form) ?? bytes
  return String(decoding: out, as: UTF8.self).unicodeScalars.map(\.value)
}

@Test func `composition joins marks to their starter`() {
  #expect(scalars("e\u{301}", .nfc) == [0xE9])
  #expect(scalars("\u{1112}\u{1161}\u{11AB}", .nfc) == [0xD55C])
  #expect(scalars("\u{212B}", .nfc) == [0xC5])
  // Blocked by a mark of the same class.
  #expect(scalars("a\u{346}\u{301}", .nfc) == [0x61, 0x346, 0x301])
  #expect(scalars("a\u{301}\u{327}", .nfc) == [0xE1, 0x327])
  // Excluded from composition.
  #expect(scalars("\u{958}", .nfc) == [0x915, 0x93C])
}

@Test func `marks are put in the order of their classes`() {
  #expect(scalars("q\u{307}\u{323}", .nfd) == [0x71, 0x323, 0x307])
  #expect(scalars("q\u{323}\u{307}", .nfd) == [0x71, 0x323, 0x307])
  #expect(scalars("\u{301}\u{301}", .nfc) == [0x301, 0x301])
}

@Test func `compatibility forms spell characters out`() {
  #expect(scalars("ﬁ½", .nfkc) == [0x66, 0x69, 0x31, 0x2044, 0x32])
  #expect(scalars("ﬁ", .nfc) == [0xFB01])
  #expect(scalars("\u{AC01}", .nfkd) == [0x1100, 0x1161, 0x11A8])
}

@Test func `text that is normalised already is recognised without work`() {
  for text in ["plain", "Grüße", "漢字 かな 한국어", "नमस्ते", ""] {
    let bytes = Array(text.utf8)
    #expect(UnicodeNormalization.tables.normalized(bytes, 0..<bytes.count, to: .nfc) == nil, "\(text)")
  }
}

@Test func `a megabyte of marks is ordered in reasonable time`() {
  let text = String(repeating: "\u{301}\u{323}", count: 250_000)
  var count = 0
  let seconds = threadSeconds { count = scalars(text, .nfc).count }
  #expect(count == 500_000 && seconds < 3)
}

@Test func `classes follow the general category`() {
  #expect(CharacterClass.of(0x41) == .upper)
  #expect(CharacterClass.of(0x1C5) == .upper)
  #expect(CharacterClass.of(0x17F) == .lower)
  #expect(CharacterClass.of(0x4E00) == .caseless)
  #expect(CharacterClass.of(0x301) == .nonspacingMark)
  #expect(CharacterClass.of(0x903) == .mark)
  #expect(CharacterClass.of(0xBD) == .number)
  #expect(CharacterClass.of(0x3000) == .space)
  #expect(CharacterClass.of(0x200B) == .control)
  #expect(CharacterClass.of(0x2014) == .punctuation)
  #expect(CharacterClass.of(0x1F600) == .symbol)
  #expect(CharacterClass.of(0x10FFFF) == [])
}

@Test func `every scalar survives its own encoder and decoder`() {
  for value in stride(from: UInt32(0), through: 0x10FFFF, by: 7) where Unicode.Scalar(value) != nil {
    var bytes: [UInt8] = []
    bytes.append(scalar: value)
    #expect(decodeScalar(bytes, at: 0) == (value, bytes.count))
  }
}

@Test func `categories are those of every scalar, also in planes that are not looked at one by one`() {
  var place: [Unicode.GeneralCategory: Int] = [:]
  var differing: [UInt32] = []
  for range in ScalarSet.all.ranges {
    for value in range {
      guard let category = Unicode.Scalar(value)?.properties.generalCategory else { continue }
      let ranges = RegexClasses.byCategory[category] ?? []
      var at = place[category, default: 0]
      while at < ranges.count, ranges[at].upperBound < value { at += 1 }
      place[category] = at
      if at == ranges.count || ranges[at].lowerBound > value { differing.append(value) }
    }
  }
  #expect(differing.isEmpty)
  #expect(RegexClasses.byCategory.values.joined().reduce(0) { $0 + $1.count } == 0x11_0000 - 0x800)
}
