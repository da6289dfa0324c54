// The pull reader reads what the tree parser reads, and refuses what it refuses.

import JSON
import Support
import Testing

/// The document rebuilt through the reader's own steps.
private func tree(_ reader: inout JSONReader) throws(JSONError) -> JSONValue {
  if reader.isAtArray() {
    var elements: [JSONValue] = []
    try reader.enterArray()
    while try reader.nextElement() { elements.append(try tree(&reader)) }
    return .array(elements)
  }
  var inside = reader
  guard (try? inside.enterObject()) != nil else { return try reader.readValue() }
  reader = inside
  var members = JSONObject()
  var key: [UInt8] = []
  while try reader.nextKey(into: &key) { members[String(decoding: key, as: UTF8.self)] = try tree(&reader) }
  return .object(members)
}

private func read(_ text: [UInt8]) throws(JSONError) -> JSONValue {
  var reader = try JSONReader(text)
  let value = try tree(&reader)
  try reader.finish()
  return value
}

@Test func `values are read one by one`() throws {
  var reader = try JSONReader(
    Array(
      #" { "vocab" : {"a":0, "\u00e9\n":12} , "merges":[["a","b"],"x"], "skip": {"q":[1,{"]":2}]}, "n":null}"#
        .utf8))
  var key: [UInt8] = []
  var text: [UInt8] = []
  try reader.enterObject()
  #expect(try reader.nextKey(into: &key) && key == Array("vocab".utf8))
  try reader.enterObject()
  #expect(try reader.nextKey(into: &key) && reader.readInt() == 0)
  #expect(try reader.nextKey(into: &key) && key == Array("\u{E9}\n".utf8) && reader.readInt() == 12)
  #expect(try !reader.nextKey(into: &key))
  #expect(try reader.nextKey(into: &key))
  try reader.enterArray()
  #expect(try reader.nextElement() && reader.isAtArray())
  #expect(try reader.readValue() == ["a", "b"])
  #expect(try reader.nextElement() && !reader.isAtArray())
  try reader.readString(into: &text)
  #expect(text == [0x78])
  #expect(try !reader.nextElement())
  #expect(try reader.nextKey(into: &key))
  try reader.skipValue()
  #expect(try reader.nextKey(into: &key) && reader.readValue().isNull)
  #expect(try !reader.nextKey(into: &key))
  try reader.finish()
}

@Test func `a value can be read again from its position`() throws {
  var reader = try JSONReader(Array(#"[{"a":1},2]"#.utf8))
  try reader.enterArray()
  _ = try reader.nextElement()
  let position = reader.position
  try reader.skipValue()
  reader.move(to: position)
  #expect(try reader.readValue() == ["a": 1])
}

@Test(arguments: [
  "[1,]", "[,1]", "{,}", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, "[1 2]", "[1", #"{"a":1"#, "[01]", "[+1]",
  "[1.]", #"["a]"#,
  #"["\x"]"#, "[\"\u{1}\"]", "nul", "[nulll]", "[]]", "", " ", "{1:2}", "[truefalse]",
])
func `what is not JSON is refused`(_ text: String) {
  #expect(throws: JSONError.self) { try read(Array(text.utf8)) }
}

@Test func `bytes that are not UTF-8 are refused`() {
  #expect(throws: JSONError.self) { try JSONReader([0x22, 0xFF, 0x22]) }
}

@Test func `seeded mutations give the tree parser's answer`() throws {
  let source = Array(
    #"{"a":[1,-2,3.5,1e3,"x\ty",null,true,false,{}],"é":{"b":[[],[0]]},"n":12345678901}"#.utf8)
  var random = SeededGenerator(seed: 5)
  var valid = 0
  for _ in 0..<10_000 {
    let text = mutated(source, using: &random)
    let expected = try? JSONValue(parsing: text)
    let found = try? read(text)
    #expect(found == expected, "\(String(decoding: text, as: UTF8.self))")
    if found != nil { valid += 1 }
  }
  #expect(valid > 100)
}
