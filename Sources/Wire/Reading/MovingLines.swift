// Lines of known clients that change with every request: nothing behind them would be found in the prefix cache.

import JSON

/// A rule for the lines of one client.
package enum MovingLines: String, CaseIterable, Sendable {
  /// `x-anthropic-billing-header: ...; cch=...;`, which is meant for its provider: left out.
  case claudeCode = "claude-code"
  /// The time of day, as Home Assistant and what is built on it write it: put behind everything else.
  case homeAssistant = "home-assistant"
  /// The block `<info-msg>` with the time, which stands before another message in each request: put behind everything else.
  case goose

  /// How the lines begin, and how the last one of a block ends; `0` is any digit.
  private var forms: [(begin: String, end: String?)] {
    switch self {
    case .claudeCode: [("x-anthropic-billing-header:", nil)]
    case .homeAssistant:
      [
        ("Current time is 00:00:00. Today's date is 0000-00-00.", nil),
        ("Current Time: 0000-00-00 00:00:00", nil), ("- Current Time: 0000-00-00 00:00:00", nil),
        ("The current time and date is 00:00 ", nil),
      ]
    case .goose: [("<info-msg>", "</info-msg>")]
    }
  }

  private var isLeftOut: Bool { self == .claudeCode }

  private func concerns(_ role: JSONValue?) -> Bool {
    self == .goose ? role == "user" : role == "system" || role == "developer"
  }

  /// Applies the rule to a conversation.
  ///
  /// - Returns: whether there was such a line.
  func apply(to messages: inout [JSONValue]) -> Bool {
    guard let last = messages.lastIndex(where: { $0["role"] == "user" || $0["role"] == "tool" }) else {
      return false
    }
    var taken: [String] = []
    var changed = messages
    for index in messages.indices where concerns(messages[index]["role"]) {
      guard let content = messages[index]["content"], let rest = self.rest(of: content, &taken),
        var object = messages[index].objectValue
      else { continue }
      object["content"] = rest
      changed[index] = .object(object)
    }
    guard !taken.isEmpty else { return false }
    if !isLeftOut, var object = changed[last].objectValue {
      let text = "\n\n" + taken.joined(separator: "\n")
      switch object["content"] {
      case .array(let parts)?: object["content"] = .array(parts + [["type": "text", "text": .string(text)]])
      case let content: object["content"] = .string((content?.stringValue ?? "") + text)
      }
      changed[last] = .object(object)
    }
    changed.removeAll { concerns($0["role"]) && ($0["content"] == "" || $0["content"] == []) }
    messages = changed
    return true
  }

  /// A content without the lines; nil where it has none.
  private func rest(of content: JSONValue, _ taken: inout [String]) -> JSONValue? {
    if let text = content.stringValue { return rest(of: text, &taken).map(JSONValue.string) }
    guard let parts = content.arrayValue else { return nil }
    let before = taken.count
    let rest = parts.compactMap { part -> JSONValue? in
      guard let text = part["text"]?.stringValue, let rest = self.rest(of: text, &taken),
        var object = part.objectValue
      else { return part }
      object["text"] = .string(rest)
      return rest.utf8.isEmpty ? nil : .object(object)
    }
    return taken.count > before ? .array(rest) : nil
  }

  private func rest(of text: String, _ taken: inout [String]) -> String? {
    let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    var kept: [Substring.UTF8View] = []
    var isFound = false
    var index = 0
    while index < lines.count {
      defer { index += 1 }
      guard let form = forms.first(where: { Self.begins(lines[index], as: $0.begin) }) else {
        kept.append(lines[index])
        continue
      }
      var block = [lines[index]]
      if let end = form.end {
        guard let last = lines[index...].firstIndex(where: { $0.ends(with: end) }) else {
          kept.append(lines[index])
          continue
        }
        block = Array(lines[index...last])
        index = last
      }
      taken.append(block.map { String(Substring($0)) }.joined(separator: "\n"))
      isFound = true
    }
    return isFound ? kept.map { String(Substring($0)) }.joined(separator: "\n") : nil
  }

  private static func begins(_ line: Substring.UTF8View, as form: String) -> Bool {
    var rest = line[...]
    for expected in form.utf8 {
      guard let byte = rest.popFirst() else { return false }
      let isDigit = expected == UInt8(ascii: "0") && (0x30...0x39).contains(byte)
      guard isDigit || byte == expected else { return false }
    }
    return true
  }
}

extension Substring.UTF8View {
  fileprivate func ends(with text: String) -> Bool { suffix(text.utf8.count).elementsEqual(text.utf8) }
}
