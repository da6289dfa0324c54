// Which histories a template takes, found out by preparing and rendering small ones with what is known so far.

import JSON
import Jinja

/// A conversation of one letter a message: `S` system, `D` developer, `U` user, `A` assistant, `E` an empty answer, `C` a
/// call, `X` a call with text before it, `T` the result of the last call.
private struct History {
  private(set) var messages: [JSONValue] = []
  /// What the prompt must show, each once and in this order.
  private(set) var words: [String] = []
  private(set) var hasCalls = false
  private var calls = 0

  init(_ letters: String) {
    for letter in letters { messages.append(message(letter)) }
  }

  private mutating func word() -> JSONValue {
    words.append("probe-\(words.count).")
    return .string(words.last ?? "")
  }

  private mutating func message(_ letter: Character) -> JSONValue {
    switch letter {
    case "S": return ["role": "system", "content": word()]
    case "D": return ["role": "developer", "content": word()]
    case "A": return ["role": "assistant", "content": word()]
    case "E": return ["role": "assistant", "content": ""]
    case "C", "X":
      hasCalls = true
      calls += 1
      return [
        "role": "assistant", "content": letter == "X" ? word() : .null,
        "tool_calls": [
          [
            "id": .string("call_\(calls)"), "type": "function",
            "function": ["name": "probe_tool", "arguments": ["probe_key": word()]],
          ]
        ],
      ]
    case "T":
      return [
        "role": "tool", "tool_call_id": .string("call_\(calls)"), "name": "probe_tool", "content": word(),
      ]
    default: return ["role": "user", "content": word()]
    }
  }
}

extension TemplateCapabilities {
  /// Finds out what has to be done to histories, one thing after the other: each is tried with what was found before.
  mutating func probeHistories(_ probe: TemplateProbe) {
    let probe = probe.with(tools)
    func takes(_ histories: String...) -> Bool {
      histories.allSatisfy { letters in
        let history = History(letters)
        return prompt(of: history, probe).map { Self.shows(history.words, in: $0) } ?? false
      }
    }
    func renders(_ letters: String) -> Bool { prompt(of: History(letters), probe) != nil }
    joinsUsers = renders("UAU") && !renders("UU")
    joinsAnswers = renders("UAU") && !renders("UAAU")
    guard takes("U") else { return }
    takesDeveloperRole = takesDeveloperRole && takes("DU")
    if !takes("USASU") { rolesAnywhere.remove("system") }
    if takesDeveloperRole, !takes("UDADU") { rolesAnywhere.remove("developer") }
    takesSeveralSystemTexts = takes("SSU") && (!takesDeveloperRole || takes("SDU", "DSU"))
    takesCalls = takes("UC")
    takesResults = takes("UCT")
    for history in ["A", "AU", "UEU", "S", "UCTU", "CTU"] { passOver(history, probe) }
    takesTextBesideCalls = !takes("UCT") || takes("UXT")
    takesSystemAlone = takes("S")
    takesSystemBehindUser = !takes("SU") || takes("SUA")
    needsUserFirst = takes("UCTU") && !takes("CTU")
  }

  private func prompt(of history: History, _ probe: TemplateProbe) -> String? {
    try? prompt(of: history, probe, passing: passedChecks)
  }

  /// Passes over the checks that refuse a history of which the template prints everything as it should.
  private mutating func passOver(_ letters: String, _ probe: TemplateProbe) {
    let history = History(letters)
    var passed = passedChecks
    for _ in 0..<8 {
      do throws(JinjaError) {
        let text = try prompt(of: history, probe, passing: passed)
        if Self.shows(history.words, in: text) { passedChecks = passed }
        return
      } catch {
        guard case .raised(let place, _) = error, passed.insert(place).inserted else { return }
      }
    }
  }

  private func prompt(of history: History, _ probe: TemplateProbe, passing passed: Set<JinjaPosition>)
    throws(JinjaError) -> String
  {
    let preparation = MessagePreparation(
      capabilities: self, reasoning: OutputFormat.Reasoning.think.markers)
    let conversation = Conversation(
      messages: history.messages, tools: history.hasCalls && tools != .none ? [Self.probeTool] : [],
      addGenerationPrompt: false)
    let prepared = preparation.join((try? preparation.prepare(conversation)) ?? conversation)
    return try probe.text(prepared.messages, tools: prepared.tools, passing: passed)
  }

  private static func shows(_ words: [String], in text: String) -> Bool {
    let bytes = Array(text.utf8)
    var end = 0
    for word in words {
      guard let place = Bytes.find(word, in: bytes[...]), place >= end,
        Bytes.find(word, in: bytes[...], from: place + 1) == nil
      else { return false }
      end = place + word.utf8.count
    }
    return true
  }
}
