// Files in other encodings than UTF-8: by their mark, by what they are, and by what they say.

import Platform
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

  @Test func `what is neither UTF-8 nor says what it is is refused with the reason`() {
    #expect(refusal([0x63, 0xE9])?.contains("says no other encoding") == true)
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
