// Values, objects and the text they are written as.

import JSON
import Testing

@Suite struct JSONValueTests {
  @Test(
    arguments: [
      ("", 0xCBF2_9CE4_8422_2325), ("a", 0xAF63_DC4C_8601_EC8C), ("foobar", 0x8594_4171_F739_67E8),
    ] as [(String, UInt64)])
  func `FNV-1a gives the values of its authors' test vectors`(text: String, hash: UInt64) {
    #expect(FNV1a.hash(text) == hash)
    #expect(FNV1a.hash(Array(text.utf8)) == hash)
  }

  @Test func `objects keep the order of their keys, and the last of two equal keys wins in place`() throws {
    let object = try JSONValue(parsing: "{\"b\":1,\"a\":2,\"b\":3}")
    #expect(object.text == "{\"b\":3,\"a\":2}")
  }

  @Test func `keys and strings compare by bytes, not by canonical equivalence`() throws {
    var object = JSONObject()
    object["é"] = 1
    object["e\u{301}"] = 2
    #expect(object.count == 2)
    #expect(object["é"] == 1 && object["e\u{301}"] == 2)
    #expect(JSONValue.string("é") != JSONValue.string("e\u{301}"))
    #expect(ByteKey("é") != ByteKey("e\u{301}"))
  }

  @Test func `small and large objects find, replace and remove members alike`() {
    for count in [0, 1, 11, 12, 13, 200] {
      var object = JSONObject((0..<count).map { ("k\($0)", .int($0)) })
      for at in 0..<count { #expect(object["k\(at)"] == .int(at)) }
      #expect(object["k\(count)"] == nil)
      object["k0"] = nil
      object["new"] = true
      #expect(object["k0"] == nil && object["new"] == true)
      #expect(object.count == max(1, count))
      #expect(object.keys.last == "new")
    }
  }

  @Test func `objects are equal whatever the order of their keys`() {
    #expect(["a": 1, "b": [2]] as JSONValue == ["b": [2], "a": 1])
    #expect(["a": 1] as JSONValue != ["a": 1, "b": nil])
  }

  @Test func `whole doubles count as integers, others do not`() {
    #expect(JSONValue.double(3).intValue == 3)
    #expect(JSONValue.double(3.5).intValue == nil)
    #expect(JSONValue.double(1e300).intValue == nil)
    #expect(JSONValue.bigInteger("9223372036854775808").intValue == nil)
    #expect(JSONValue.bigInteger("9223372036854775808").doubleValue == 0x1p63)
    #expect(JSONValue.int(3) == JSONValue.double(3))
  }

  @Test func `accessors give nil for other kinds`() {
    let value: JSONValue = ["s": "x", "b": true, "a": [1], "n": nil]
    #expect(value["s"]?.stringValue == "x" && value["s"]?.intValue == nil)
    #expect(value["b"]?.boolValue == true && value["b"]?.doubleValue == nil)
    #expect(value["a"]?[0] == 1 && value["a"]?[1] == nil && value["a"]?[-1] == nil && value["s"]?[0] == nil)
    #expect(value["n"]?.isNull == true && value["missing"] == nil && value["a"]?["x"] == nil)
    #expect(value.objectValue?.count == 4 && value["a"]?.arrayValue?.count == 1)
  }

  @Test func `text is compact, with only the escapes that are required`() {
    let value: JSONValue = [
      "k\"": ["é/\u{7F}", "\u{0}\u{1F}\n\r\t\u{8}\u{C}\\", -1, 1.5, 1e21, nil, false, .bigInteger("123")]
    ]
    #expect(
      value.text
        == "{\"k\\\"\":[\"é/\u{7F}\",\"\\u0000\\u001f\\n\\r\\t\\b\\f\\\\\",-1,1.5,1e+21,null,false,123]}")
    #expect(JSONValue.double(.infinity).text == "null")
  }

  @Test func `the kind of a value is named for messages`() {
    let kinds: [(JSONValue, String)] = [
      (nil, "null"), (true, "a boolean"), (1, "an integer"), (1.5, "a number"), ("x", "a string"),
      ([], "an array"),
      ([:], "an object"), (.bigInteger("1"), "an integer"),
    ]
    for (value, kind) in kinds { #expect(value.kind == kind) }
  }
}
