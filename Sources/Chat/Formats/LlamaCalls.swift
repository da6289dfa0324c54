// Llama 3: a JSON object with `name` and `parameters` as the whole reply, possibly behind `<|python_tag|>`.

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
      let end = JSONScanner(body).end(of: at)
      guard let found = ToolCallText.calls(in: Array(body[at..<end])),
        found.allSatisfy({ tools.contains($0.name) })
      else { return nil }
      calls += found
      at = end
    }
    return calls
  }

  /// A call's object begins with one of a few keys: other JSON is content at once.
  func isHopeless(_ body: ArraySlice<UInt8>) -> Bool {
    let text = body.drop { Bytes.isSpace($0) }
    guard let first = text.first else { return false }
    if first != UInt8(ascii: "{") { return true }
    let key = text.dropFirst().drop { Bytes.isSpace($0) }
    if key.isEmpty { return false }
    return !["\"name\"", "\"parameters\"", "\"arguments\"", "\"type\"", "\"function\"", "\"id\""].contains {
      key.starts(with: $0.utf8) || $0.utf8.starts(with: key)
    }
  }
}
