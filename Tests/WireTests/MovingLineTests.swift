// Lines of known clients that change with every request.

import JSON
import Testing
import Wire

/// The messages of a chat request as JSON texts, and what the header names.
private func settled(_ messages: String, keeping kept: Set<MovingLines> = []) throws -> [String] {
  var limits = RequestLimits()
  limits.keptLines = kept
  let request = try chat(#"{"model":"m","messages":\#(messages)}"#, limits: limits)
  return request.messages.map(\.text) + request.dropped
}

private let hi = #"{"role":"user","content":"hi"}"#

struct MovingLineTests {
  @Test func `Claude Code's header for billing is left out, as a block and as a line`() throws {
    let line = "x-anthropic-billing-header: cc_version=2.1.77.3a3; cc_entrypoint=cli; cch=0ab1f;"
    let blocks =
      #"{"role":"system","content":[{"type":"text","text":"\#(line)"},{"type":"text","text":"You are Claude."}]}"#
    #expect(
      try settled("[\(blocks),\(hi)]") == [
        #"{"role":"system","content":[{"type":"text","text":"You are Claude."}]}"#, hi, "moving=claude-code",
      ])
    #expect(
      try settled(#"[{"role":"system","content":"\#(line)\nYou are Claude."},\#(hi)]"#) == [
        #"{"role":"system","content":"You are Claude."}"#, hi, "moving=claude-code",
      ])
    // Alone it leaves no message, a user may speak of it, and a rule can be switched off.
    #expect(
      try settled(#"[{"role":"system","content":"\#(line)"},\#(hi)]"#) == [hi, "moving=claude-code"])
    let asked = #"{"role":"user","content":"\#(line)"}"#
    #expect(try settled("[\(asked)]") == [asked])
    #expect(try settled("[\(blocks),\(hi)]", keeping: [.claudeCode]) == [blocks, hi])
  }

  @Test(arguments: [
    "Current time is 08:01:17. Today's date is 2026-11-29.", "Current Time: 2026-11-29 08:01:17.123456+01:00",
    "- Current Time: 2026-11-29 08:01:17.5+01:00",
    "The current time and date is 08:01 AM on November 29, 2026",
  ])
  func `the time of day goes behind the last message`(line: String) throws {
    let system = #"{"role":"system","content":"\#(line)\nYou are an assistant."}"#
    let rest = #"{"role":"system","content":"You are an assistant."}"#
    #expect(
      try settled("[\(system),\(hi)]") == [
        rest, #"{"role":"user","content":"hi\n\n\#(line)"}"#, "moving=home-assistant",
      ])
    let parts = #"{"role":"user","content":[{"type":"text","text":"hi"}]}"#
    #expect(
      try settled("[\(system),\(parts)]")[1]
        == #"{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"\n\n\#(line)"}]}"#)
    // There is nothing behind which it could stand.
    #expect(try settled("[\(system)]") == [system])
  }

  @Test(arguments: ["Current time is late.", "Current Time: now", "See: Current Time: 2026-11-29 08:01:17"])
  func `other lines stay`(line: String) throws {
    let system = #"{"role":"system","content":"\#(line)"}"#
    #expect(try settled("[\(system),\(hi)]") == [system, hi])
  }

  @Test func `Goose's block goes from the message in which it stands behind the last one`() throws {
    let block = #"<info-msg>\nIt is currently 2026-11-29 08:01:17\n</info-msg>"#
    let answer = #"{"role":"assistant","content":"Hello!"}"#
    #expect(
      try settled(
        #"[{"role":"user","content":"hi\n\#(block)"},\#(answer),{"role":"user","content":"Go on."}]"#)
        == [
          hi, answer, #"{"role":"user","content":"Go on.\n\n\#(block)"}"#, "moving=goose",
        ])
    let open = #"{"role":"user","content":"<info-msg>\nnever closed"}"#
    #expect(try settled("[\(open)]") == [open])
  }
}
