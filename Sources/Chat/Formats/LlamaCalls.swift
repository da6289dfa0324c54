// Llama 3: a JSON object with `name` and `parameters` as the whole reply, possibly after `<|python_tag|>`.

import JSON

struct LlamaCalls: CallSyntax {
  let tools: ToolSchemas
  let openings = [
    CallOpening("<|python_tag|>", onlyAtBeginning: true),
    CallOpening("{", kept: 1, onlyAtBeginning: true),
  ]
  let quotes = CallQuotes.json
  let shape = CallShape.objects

  /// One or more objects, separated by semicolons, commas or whitespace. Because nothing else marks a call,
  /// the names must be those of the request's tools.
  func calls(in body: [UInt8]) -> [ToolCall]? {
    guard var reader = try? JSONReader(body) else { return nil }
    var calls: [ToolCall] = []
    var at = 0
    while at < body.count {
      if Bytes.isSpace(body[at])
        || (!calls.isEmpty && (body[at] == UInt8(ascii: ";") || body[at] == UInt8(ascii: ",")))
      {
        at += 1
        continue
      }
      guard body[at] == UInt8(ascii: "{") else { return nil }
      reader.move(to: at)
      guard let object = try? reader.skipValue(), let found = ToolCallText.calls(in: Array(body[object])),
        found.allSatisfy({ tools.contains($0.name) })
      else { return nil }
      calls += found
      at = object.upperBound
    }
    return calls
  }

  /// The most white space between a call's brace and its first key for which the text is read again.
  private static let maxSpace = 256

  /// A call's object begins with one of a few keys: other JSON is content at once.
  func isHopeless(_ body: ArraySlice<UInt8>) -> Bool {
    guard let first = body.first else { return false }
    if first != UInt8(ascii: "{") { return true }
    let inside = body.dropFirst()
    let space = inside.prefix(Self.maxSpace + 1).prefix { Bytes.isSpace($0) }.count
    // There may be no end of it: then the end of the reply decides.
    if space > Self.maxSpace { return false }
    let key = inside.dropFirst(space)
    if key.isEmpty { return false }
    return !["\"name\"", "\"parameters\"", "\"arguments\"", "\"type\"", "\"function\"", "\"id\""].contains {
      key.starts(with: $0.utf8) || $0.utf8.starts(with: key)
    }
  }
}
