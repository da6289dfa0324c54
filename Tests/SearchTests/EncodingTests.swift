// Files in other encodings than UTF-8: by their mark, by what they are, and by what they say.

import Platform
import Support
import Testing

@testable import Search

@Suite struct EncodingTests {
  private func read(_ bytes: [UInt8], _ name: String = "x.txt") throws -> String {
    String(decoding: try FileReader.read(bytes, name: name).text, as: UTF8.self)
  }

  private func refusal(_ bytes: [UInt8], _ name: String = "x.txt") -> String? {
    do throws(SearchError) { _ = try FileReader.read(bytes, name: name) } catch { return "\(error)" }
    return nil
  }

  /// Whether the C library has the tables that are asked for here.
  private static let converts = ["CP1252", "GB18030", "CP932", "ISO-2022-JP", "KOI8-R"].allSatisfy { name in
    (try? TextConversion.utf8([0x41], from: name)) == [0x41]
  }

  @Test(
    .enabled(if: converts),
    arguments: [
      (
        "<meta charset=\"windows-1252\"><p>", [0x63, 0x61, 0x66, 0xE9, 0x20, 0x96, 0x20, 0x35, 0x80],
        "x.html", "café – 5€"
      ),
      (
        "<META HTTP-EQUIV=Content-Type CONTENT='text/html; charset=iso-8859-1'>", [0xE9, 0x93, 0x94], "x.htm",
        "é“”"
      ),
      ("<meta charset=gb2312>", [0xD6, 0xD0, 0xCE, 0xC4], "x.html", "中文"),
      ("<meta charset=\"GBK\">", [0xC1, 0xAA, 0xCD, 0xA8], "x.html", "联通"),
      // Two letters of GBK that are a letter of UTF-8 by chance.
      ("<meta charset=gbk>", [0xC4, 0xA3], "x.html", "模"),
      ("<meta charset=Shift_JIS>", [0x93, 0xFA, 0x96, 0x7B, 0x83, 0x5C], "x.html", "日本ソ"),
      ("<?xml version=\"1.0\" encoding='koi8-r'?><a>", [0xCD, 0xC9, 0xD2], "x.xml", "мир"),
      (
        "<meta charset=iso-2022-jp>", [0x1B, 0x24, 0x42, 0x46, 0x7C, 0x4B, 0x5C, 0x1B, 0x28, 0x42], "x.html",
        "日本"
      ),
      ("# -*- coding: latin-1 -*-\n# ", [0xFC, 0x62, 0x65, 0x72], "x.py", "über"),
      ("@charset \"windows-1252\"; /* ", [0xFC], "x.css", "ü"),
      // What is UTF-8 throughout is UTF-8, whatever it says.
      (
        "<meta charset=windows-1252>", Array("naïve café über Straße".utf8), "x.html",
        "naïve café über Straße"
      ),
      ("<meta charset=utf-8>", Array("é".utf8), "x.html", "é"),
      ("<meta charset=nonsense>", Array("é".utf8), "x.html", "é"),
    ] as [(String, [UInt8], String, String)])
  func `the encoding that a file says is read`(head: String, bytes: [UInt8], name: String, text: String)
    throws
  {
    #expect(try read(Array(head.utf8) + bytes, name).contains(text), "\(text)")
  }

  /// Text in one byte a letter, by the table of Windows-1252 or of another, from 0x80 on.
  private func encoded(_ text: String, _ high: String = western) -> [UInt8] {
    let table = Array(high.unicodeScalars)
    return text.unicodeScalars.compactMap { scalar in
      if scalar.isASCII { return UInt8(scalar.value) }
      if let index = table.firstIndex(of: scalar), scalar != "\0" { return UInt8(0x80 + index) }
      return (0xA0...0xFF).contains(scalar.value) ? UInt8(scalar.value) : nil
    }
  }

  private static let western =
    "€\0‚ƒ„…†‡ˆ‰Š‹Œ\0Ž\0\0‘’“”•–—˜™š›œ\0žŸ"

  @Test(
    .enabled(if: converts),
    arguments: [
      "Für die Straße nach Köln brauchen wir 5 € — „schöne Grüße“ an Jürgen’s Mutter.\nÖl, Äpfel, Übung…\nEr sagte: »Über«.",
      "L’été dernier, où nous étions à Béziers, ça coûtait 3 € de l’heure.\nŒuvre, cœur, naïve, déjà créée, « raté\u{A0}».",
      "¿Dónde está el baño? ¡Mañana! Señor Muñoz, 25 años, corazón.", "Não há pão; amanhã, corações e mãos.",
      "Räksmörgås på ön, blåbär och älgar.", "It’s “fine” — don’t worry…", "für", "20 °C", "à",
    ])
  func `old notes in Windows-1252 are read, and it is said`(text: String) throws {
    for name in ["x.txt", "x.md"] {
      let source = try FileReader.read(encoded(text), name: name)
      #expect(String(decoding: source.text, as: UTF8.self) == text)
      #expect(source.guessedEncoding == "Windows-1252")
    }
    let table = try FileReader.read(encoded("Name;Ort\r\nJürgen;Köln"), name: "x.csv")
    #expect(String(decoding: table.text, as: UTF8.self).contains("Jürgen;Köln"))
    #expect(try FileReader.read(Array(text.utf8), name: "x.txt").guessedEncoding == nil)
  }

  @Test(
    .enabled(if: converts),
    arguments: [
      (
        "Shift-JIS",
        [
          0x96, 0xBE, 0x93, 0xFA, 0x82, 0xCC, 0x93, 0x56, 0x8B, 0x43, 0x82, 0xCD, 0x89, 0x4A, 0x82, 0xC5,
          0x82, 0xB7,
        ], "明日の天気は雨です"
      ),
      (
        "EUC-JP",
        [
          0xCC, 0xC0, 0xC6, 0xFC, 0xA4, 0xCE, 0xC5, 0xB7, 0xB5, 0xA4, 0xA4, 0xCF, 0xB1, 0xAB, 0xA4, 0xC7,
          0xA4, 0xB9,
        ], "明日の天気は雨です"
      ),
      (
        "GBK", [0xCE, 0xD2, 0xB5, 0xC4, 0xB3, 0xB5, 0xB2, 0xBB, 0xD4, 0xDA, 0xD5, 0xE2, 0xC0, 0xEF], "我的车不在这里"
      ),
      (
        "Big5", [0xA7, 0xDA, 0xAA, 0xBA, 0xA8, 0xAE, 0xA4, 0xA3, 0xA6, 0x62, 0xB3, 0x6F, 0xB8, 0xCC],
        "我的車不在這裡"
      ),
      (
        "EUC-KR",
        [
          0xB3, 0xBB, 0xC0, 0xCF, 0xC0, 0xBA, 0x20, 0xBA, 0xF1, 0xB0, 0xA1, 0x20, 0xBF, 0xC2, 0xB4, 0xD9,
          0xB0,
          0xED, 0x20, 0xC7, 0xD1, 0xB4, 0xD9,
        ], "내일은 비가 온다고 한다"
      ),
    ] as [(String, [UInt8], String)])
  func `what has the usual letters of a language is read in its encoding`(
    name: String, bytes: [UInt8], text: String
  ) throws {
    let source = try FileReader.read(bytes, name: "x.txt")
    #expect(String(decoding: source.text, as: UTF8.self) == text && source.guessedEncoding == name)
  }

  @Test(.enabled(if: converts)) func `Cyrillic notes are read in their encoding`() throws {
    let text = "Завтра купить молоко и хлеб, позвонить маме в восемь."
    // Windows-1251 from А to я; lowercase of KOI8-R from 0xC0 on.
    let windows = text.unicodeScalars.map {
      UInt8(truncatingIfNeeded: $0.value < 0x80 ? $0.value : $0.value - 0x350)
    }
    let order = Array("юабцдефгхийклмнопярстужвьызшэщчъ".unicodeScalars)
    let lower = text.lowercased()
    let koi = lower.unicodeScalars.compactMap { scalar in
      scalar.isASCII ? UInt8(scalar.value) : order.firstIndex(of: scalar).map { UInt8(0xC0 + $0) }
    }
    for (bytes, name, expected) in [(windows, "Windows-1251", text), (koi, "KOI8-R", lower)] {
      let source = try FileReader.read(bytes, name: "x.txt")
      #expect(String(decoding: source.text, as: UTF8.self) == expected && source.guessedEncoding == name)
    }
  }

  @Test func `bytes that are no text are not guessed`() {
    var random = SeededGenerator(seed: 49)
    for size in [64, 100, 256, 1_000, 5_000] {
      for _ in 0..<100 {
        let bytes = (0..<size).map { _ in UInt8.random(in: 1...255, using: &random) }
        #expect(refusal(bytes) != nil)
        // Without control characters, as packed data in which a program has replaced them.
        #expect(refusal(bytes.map { $0 < 0x20 ? $0 | 0xA0 : $0 }) != nil)
      }
    }
    let inputs: [[UInt8]] = [
      // Letters of UTF-8 beside a byte that is none, DOS, Mac, Greek, Polish, and a control character.
      Array("Für die Straße nach Köln".utf8) + [0xE9], [0x66, 0x81, 0x72, 0x20, 0x4B, 0x94, 0x6C, 0x6E],
      Array("M".utf8) + [0x8A] + Array("rz, f".utf8) + [0x9F] + Array("r, L".utf8) + [
        0x8A, 0x6E, 0x67, 0x65,
      ],
      [0xC1, 0xFD, 0xF1, 0xE9, 0xEF, 0x20, 0xED, 0xE1, 0x20, 0xE1, 0xE3, 0xEF, 0xF1, 0xDC, 0xF3, 0xF9],
      [0x5A, 0x61, 0xBF, 0xF3, 0xB3, 0xE6, 0x20, 0x67, 0xEA, 0x9C, 0x6C, 0xB9],
      [0x63, 0x61, 0x66, 0xE9, 0x01],
    ]
    for input in inputs { #expect(refusal(input)?.contains("says no other encoding") == true, "\(input)") }
  }

  @Test func `what is neither UTF-8 nor says what it is is refused with the reason`() {
    #expect(refusal([0x63, 0xE9, 0xE9, 0xE9])?.contains("says no other encoding") == true)
    #expect(refusal(Array("<meta charset=utf-8>".utf8) + [0xE9], "x.html")?.contains("not UTF-8") == true)
    let told = refusal(Array("<meta charset=no-such-set>".utf8) + [0xE9], "x.html")
    #expect(told?.contains("no-such-set, which is not read") == true)
    guard Self.converts else { return }
    let broken = refusal(Array("<meta charset=shift_jis>".utf8) + [0x93, 0x20, 0xFF], "x.html")
    #expect(broken?.contains("its encoding is shift_jis, but it is not") == true)
  }

  @Test(arguments: [
    "Plain words\nin two lines", "naïve café, 5 €\n", "中文的笔记\n第二行", "日本語のメモ。\n", "Заметки\nна русском",
    "한국어 노트\n", "emoji 😀😀\n",
    "a\r\nb",
  ])
  func `UTF-16 is known without a mark`(text: String) throws {
    let expected = text.replacing("\r\n", with: "\n")
    for isLittle in [true, false] {
      let bytes = text.utf16.flatMap {
        isLittle ? [UInt8($0 & 255), UInt8($0 >> 8)] : [UInt8($0 >> 8), UInt8($0 & 255)]
      }
      #expect(try read(bytes) == expected)
      let mark: [UInt8] = isLittle ? [0xFF, 0xFE] : [0xFE, 0xFF]
      #expect(try read(mark + bytes) == expected)
    }
  }

  @Test func `what is no text stays binary`() {
    let inputs: [[UInt8]] = [
      [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, 0x49, 0x48, 0x44, 0x52],
      [0x7F, 0x45, 0x4C, 0x46, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0], [0x61, 0, 0x62],
      [0x61, 0, 0, 0x62],
      Array("text\0text".utf8) + [0], (0..<512).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 11) },
    ]
    for input in inputs {
      #expect(refusal(input) == "the file is binary, not text", "\(input.prefix(16))")
    }
  }
}
