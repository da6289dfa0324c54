// The parser against the public suites, and what it promises beyond them.

import JSON
import Platform
import Support
import Testing

private func failure(_ text: String) -> JSONError? { failure(Array(text.utf8)) }

private func failure(_ bytes: [UInt8]) -> JSONError? {
  do throws(JSONError) {
    _ = try JSONValue(parsing: bytes)
    return nil
  } catch {
    return error
  }
}

@Suite(.enabled(if: TestData.shared != nil, "the shared data is not beside the package"))
struct JSONSuiteTests {
  static var folder: String { (TestData.shared ?? "") + "/json" }

  /// Implementation-defined cases that are accepted; all others are refused.
  static let accepted: Set<String> = [
    "i_number_double_huge_neg_exp.json", "i_number_real_underflow.json", "i_number_too_big_neg_int.json",
    "i_number_too_big_pos_int.json", "i_number_very_big_negative_int.json",
    "i_object_key_lone_2nd_surrogate.json",
    "i_string_1st_surrogate_but_2nd_missing.json", "i_string_1st_valid_surrogate_2nd_invalid.json",
    "i_string_incomplete_surrogate_and_escape_valid.json", "i_string_incomplete_surrogate_pair.json",
    "i_string_incomplete_surrogates_escape_valid.json", "i_string_invalid_lonely_surrogate.json",
    "i_string_invalid_surrogate.json", "i_string_inverted_surrogates_U+1D11E.json",
    "i_string_lone_second_surrogate.json",
  ]

  @Test func `JSONTestSuite is accepted and refused as it asks`() throws {
    let folder = Self.folder + "/JSONTestSuite/test_parsing"
    var counts = ["y": 0, "n": 0, "i": 0]
    for name in try File.names(in: folder) {
      let error = failure(try TestData.bytes(folder + "/" + name))
      let kind = String(name.prefix(1))
      counts[kind, default: 0] += 1
      switch kind {
      case "y": #expect(error == nil, "\(name)")
      case "n": #expect(error != nil, "\(name)")
      default:
        #expect(
          (error == nil) == Self.accepted.contains(name), "\(name): \(error.map { "\($0)" } ?? "accepted")")
      }
    }
    #expect(counts == ["y": 95, "n": 188, "i": 35])
  }

  @Test func `the transform set survives or is refused, never silently altered`() throws {
    let folder = Self.folder + "/JSONTestSuite/test_transform"
    let expected: [String: String] = [
      "number_-9223372036854775808.json": "[-9223372036854775808]",
      "number_-9223372036854775809.json": "[-9223372036854775809]",
      "number_1.0.json": "[1.0]", "number_1.000000000000000005.json": "[1.0]",
      "number_1000000000000000.json": "[1000000000000000]",
      "number_10000000000000000999.json": "[10000000000000000999]", "number_1e-999.json": "[0.0]",
      "number_1e6.json": "[1000000.0]", "number_9223372036854775807.json": "[9223372036854775807]",
      "number_9223372036854775808.json": "[9223372036854775808]",
      "object_key_nfc_nfd.json": "{\"é\":\"NFC\",\"e\u{301}\":\"NFD\"}",
      "object_key_nfd_nfc.json": "{\"e\u{301}\":\"NFD\",\"é\":\"NFC\"}",
      "object_same_key_different_values.json": "{\"a\":2}", "object_same_key_same_value.json": "{\"a\":1}",
      "object_same_key_unclear_values.json": "{\"a\":0}",
      "string_1_escaped_invalid_codepoint.json": "[\"\u{FFFD}\"]",
      "string_1_invalid_codepoint.json": "refused",
      "string_2_escaped_invalid_codepoints.json": "[\"\u{FFFD}\u{FFFD}\"]",
      "string_2_invalid_codepoints.json": "refused",
      "string_3_escaped_invalid_codepoints.json": "[\"\u{FFFD}\u{FFFD}\u{FFFD}\"]",
      "string_3_invalid_codepoints.json": "refused", "string_with_escaped_NULL.json": "[\"A\\u0000B\"]",
    ]
    let names = try File.names(in: folder)
    #expect(names.count == 22)
    for name in names {
      let text = (try? JSONValue(parsing: TestData.bytes(folder + "/" + name)))?.text ?? "refused"
      guard let wanted = expected[name] else {
        Issue.record("\(name) is not expected")
        continue
      }
      #expect(Array(text.utf8) == Array(wanted.utf8), "\(name): \(text)")
    }
  }

  @Test func `numbers are read to the last bit`() throws {
    var checked = 0
    for folder in ["data", "more-test-cases"] {
      for file in try File.names(in: Self.folder + "/parse-number-fxx/" + folder) where file.hasSuffix(".txt")
      {
        for line in try TestData.bytes(Self.folder + "/parse-number-fxx/\(folder)/\(file)").split(
          separator: 0x0A)
        {
          let fields = line.split(separator: 0x20)
          guard fields.count == 4, let bits = UInt64(String(decoding: fields[2], as: UTF8.self), radix: 16),
            Double(bitPattern: bits).isFinite
          else { continue }
          // Numbers in forms that JSON has not (`.5`, `1.`, `+1`, `01`) are refused, and not counted.
          guard let value = try? JSONValue(parsing: Array(fields[3])) else { continue }
          checked += 1
          switch value {
          case .double(let double):
            #expect(double.bitPattern == bits, "\(String(decoding: fields[3], as: UTF8.self))")
          case .int, .bigInteger:
            // -0 is the integer 0.
            #expect(
              value.doubleValue == Double(bitPattern: bits), "\(String(decoding: fields[3], as: UTF8.self))")
          default: Issue.record("not a number")
          }
        }
      }
    }
    #expect(checked > 40_000)
  }
}

@Suite struct JSONParserTests {
  @Test func `all kinds of values are read, whitespace between them ignored`() throws {
    let value = try JSONValue(
      parsing: " \r\n\t{ \"a\" : [ null , true,false , -1 , 1.5e1 , \"x\\n\" , {} , [] ] } ")
    #expect(value == ["a": [nil, true, false, -1, 15.0, "x\n", [:], []]])
  }

  @Test func `the words of Python's json for what is not finite are taken where they are allowed`() throws {
    let text = Array(#"{"limit": [0.0, Infinity], "low": -Infinity, "none": NaN, "one": -1}"#.utf8)
    let value = try JSONValue(parsing: text, allowsNonFinite: true)
    #expect(value["limit"]?[1]?.doubleValue == .infinity && value["low"]?.doubleValue == -.infinity)
    #expect(value["none"]?.doubleValue?.isNaN == true && value["one"] == -1)
    #expect(throws: JSONError.self) { try JSONValue(parsing: text) }
    for wrong in ["Inf", "-Inf", "Infinit", "nan"] {
      #expect(throws: JSONError.self) { try JSONValue(parsing: Array(wrong.utf8), allowsNonFinite: true) }
    }
  }

  @Test(arguments: [
    ("", 0, "the document ends where a value should stand"), ("[1,]", 3, "expected a value"),
    ("[1", 2, "expected ',' or ']'"),
    ("{\"a\"}", 4, "expected ':' after the key"), ("{a:1}", 1, "expected a key in double quotes"),
    ("{\"a\":1,}", 7, "expected a key in double quotes"), ("{} {}", 3, "text after the end of the document"),
    ("01", 0, "malformed number"), ("1.", 2, "a number needs digits after the point"),
    ("1e", 2, "a number needs digits in its exponent"),
    ("1e400", 0, "the number is too large for a double"), ("+1", 0, "expected a value"),
    (".5", 0, "expected a value"),
    ("NaN", 0, "expected a value"), ("-Infinity", 0, "malformed number"),
    ("0x10", 1, "text after the end of the document"),
    ("\"a", 2, "the string does not end"), ("\"\\x\"", 1, "unknown escape"),
    ("\"\\u12G4\"", 1, "\\u needs four hexadecimal digits"),
    ("\"\u{1}\"", 1, "control characters in strings must be escaped"), ("nul", 0, "expected a value"),
    ("// x\n1", 0, "expected a value"), ("\u{FEFF}1", 0, "expected a value"),
  ])
  func `a document that breaks the grammar is refused with the place`(
    text: String, offset: Int, problem: String
  ) {
    #expect(failure(text) == .syntax(offset: offset, problem: problem))
  }

  @Test(
    arguments: [
      [0x22, 0xFF, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22],
      [0x22, 0xF4, 0x90, 0x80, 0x80, 0x22],
      [0x22, 0xE2, 0x82, 0x22], [0x22, 0x80, 0x22], [0x22, 0x5C, 0x6E, 0xC3, 0x22],
    ] as [[UInt8]])
  func `bytes that are not UTF-8 are refused`(bytes: [UInt8]) {
    #expect(failure(bytes) == .syntax(offset: 0, problem: "the string is not valid UTF-8"))
  }

  @Test func `escapes are decoded; a lone surrogate becomes the replacement character`() throws {
    #expect(
      try JSONValue(parsing: #""\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00\u0000""#)
        == "\"\\/\u{8}\u{C}\n\r\tAé😀\u{0}")
    #expect(try JSONValue(parsing: #""\ud83d""#) == "\u{FFFD}")
    #expect(try JSONValue(parsing: #""\ude00x""#) == "\u{FFFD}x")
    #expect(try JSONValue(parsing: #""\ud83d\u0041""#) == "\u{FFFD}A")
    #expect(try JSONValue(parsing: #""\ud83d\ud83d\ude00""#) == "\u{FFFD}😀")
    #expect(try JSONValue(parsing: #""\ud83d\n""#) == "\u{FFFD}\n")
    #expect(failure(#""\ud83d\u12""#) != nil)
  }

  @Test func `nesting is bounded, and the bound fits the stack of a connection`() throws {
    func nested(_ depth: Int) -> String {
      String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    }
    let thread = try Thread(name: "small-stack", stackBytes: 512 << 10) {
      #expect(failure(nested(128)) == nil)
      #expect(failure(nested(129)) == .tooDeep(offset: 128, limit: 128))
      #expect(failure(String(repeating: "{\"a\":", count: 1_000_000)) == .tooDeep(offset: 640, limit: 128))
      #expect(failure(String(repeating: "[", count: 1_000_000)) == .tooDeep(offset: 128, limit: 128))
    }
    thread.join()
  }

  @Test func `the number of values is bounded, containers and what is in them`() throws {
    let bytes = Array(#"{"a":[1,2],"b":[[]]}"#.utf8)
    #expect(try JSONValue(parsing: bytes, maxValues: 6) == ["a": [1, 2], "b": [[]]])
    #expect(throws: JSONError.tooMany(offset: 16, limit: 5)) { try JSONValue(parsing: bytes, maxValues: 5) }
    #expect(JSONError.tooMany(offset: 16, limit: 5).description == "JSON of more than 5 values at byte 16")
  }

  @Test func `huge numbers are exact, refused or rounded in linear time`() throws {
    let digits = String(repeating: "9", count: 100)
    #expect(try JSONValue(parsing: digits) == .bigInteger(digits))
    #expect(
      failure(String(repeating: "9", count: 1_000_000))?.description
        == "invalid JSON at byte 0: an integer of more than 4096 digits")
    #expect(try JSONValue(parsing: "0." + String(repeating: "1", count: 1_000_000)).doubleValue == 1.0 / 9)
    #expect(failure("1e" + String(repeating: "9", count: 100_000)) != nil)
    #expect(try JSONValue(parsing: "1e-" + String(repeating: "9", count: 1000)) == 0.0)
    #expect(try JSONValue(parsing: "-0") == 0)
    #expect(try JSONValue(parsing: "-0.0").text == "-0.0")
  }

  @Test func `many keys and long strings are read in linear time`() throws {
    let keys = "{" + (0..<100_000).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}"
    #expect(try JSONValue(parsing: keys)["k99999"] == 99999)
    let text = "\"" + String(repeating: "\\u0041", count: 700_000) + "\""
    #expect(try JSONValue(parsing: text).stringValue?.utf8.count == 700_000)
  }

  @Test func `every cut of a document is refused`() throws {
    let bytes = Array(Self.document.utf8)
    for end in bytes.indices { #expect(failure(Array(bytes[..<end])) != nil, "cut at \(end)") }
    #expect(failure(bytes) == nil)
  }

  static let document = """
    {"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"Gr\\u00fc\\ud83d\\ude00 é \\"x\\""}]}],\
    "temperature":0.5e-1,"max_tokens":-12,"stop":[],"stream":false,"user":null,"big":123456789012345678901234567890}
    """

  @Test func `mutated documents are read or refused, and what is read survives writing`() {
    var random = SeededGenerator(seed: 42)
    var read = 0
    for _ in 0..<20_000 {
      let bytes = mutated(Array(Self.document.utf8), using: &random)
      guard let value = try? JSONValue(parsing: bytes) else { continue }
      read += 1
      #expect((try? JSONValue(parsing: value.bytes)) == value, "\(String(decoding: bytes, as: UTF8.self))")
    }
    #expect(read > 1000)
  }
}
