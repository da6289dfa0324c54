// Calls in notations of brackets and quotes in which an answer ended: they are read with what is open closed.

extension CallSyntax {
  /// The calls of a text that was cut; the last one has its arguments as JSON, as far as they came.
  ///
  /// - Parameters:
  ///   - quotes: around strings.
  ///   - outside: brackets that stand around the arguments of the last call and are none of theirs.
  func closedCalls(in text: [UInt8], quotes: [String], outside: Int) -> [ToolCall]? {
    for (text, added) in CutText.closed(text, quotes: quotes.map { Array($0.utf8) }) {
      guard var calls = calls(in: text), let last = calls.popLast() else { continue }
      // What was added is a quote or bracket each in JSON, too.
      let own = max(0, added - outside)
      let arguments = Bytes.text(last.arguments.utf8.dropLast(own))
      return calls + [ToolCall(name: last.name, arguments: arguments, isCut: own > 0)]
    }
    return nil
  }
}

private enum CutText {
  /// Most members that are left out.
  private static let tries = 3

  /// The text closed, and how many signs that took: with all that came, then without what came of the last members.
  static func closed(_ text: [UInt8], quotes: [[UInt8]]) -> [(text: [UInt8], added: Int)] {
    var open: [UInt8] = []
    var quote: [UInt8]?
    var members: [(end: Int, open: [UInt8])] = []
    var at = 0
    while at < text.count {
      let rest = text[at...]
      if let end = quote {
        if rest.starts(with: end) { quote = nil }
        // Where quotes are words nothing is escaped.
        at += quote == nil ? end.count : end.count == 1 && text[at] == UInt8(ascii: "\\") ? 2 : 1
        continue
      }
      if let begun = quotes.first(where: { rest.starts(with: $0) }) {
        quote = begun
        at += begun.count
        continue
      }
      var end = at
      switch text[at] {
      case UInt8(ascii: "{"): open.append(UInt8(ascii: "}"))
      case UInt8(ascii: "["): open.append(UInt8(ascii: "]"))
      case UInt8(ascii: "("): open.append(UInt8(ascii: ")"))
      case UInt8(ascii: "}"), UInt8(ascii: "]"), UInt8(ascii: ")"): _ = open.popLast()
      default: break
      }
      if Array("{[()]}".utf8).contains(text[at]) { end += 1 }
      if end > at || text[at] == UInt8(ascii: ",") { members = members.suffix(tries - 1) + [(end, open)] }
      at += 1
    }
    var whole = (text: text, added: open.count)
    if let quote {
      // An escape, or the end of the string, has begun.
      whole.text.removeLast(at > text.count ? 1 : Bytes.heldBack(of: text[...], before: quote))
      whole = (whole.text + quote, open.count + 1)
    }
    whole.text += open.reversed()
    return [whole] + members.reversed().map { (text[..<$0.end] + $0.open.reversed(), $0.open.count) }
  }
}
