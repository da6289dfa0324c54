// A few notes in memory, and lines from a client that is not there.

import JSON
import MCP
import Platform

/// Finds notes whose text has the question in it.
struct FakeNotes: NoteSource {
  var texts: [(name: String, text: String)] = [
    ("alps.md", "# Alps\nBring wax.\nBring goggles.\n"), ("tarts.md", "The queen made tarts.\n"),
  ]
  var answers = true
  /// Closed, no search ends but by being unwanted.
  var isOpen = Monitor(true)
  /// Searches that have begun.
  let begun = Monitor(0)

  func folders(_: MCPWork) -> [String] { ["notes"] }

  private func note(_ name: String, _ text: String) -> Note {
    Note(name: name, title: name, uri: "file:///notes/" + name, folder: "notes", bytes: text.utf8.count)
  }

  func notes(_: MCPWork) -> [Note] { texts.map { note($0.name, $0.text) } }

  func text(of note: Note, _: MCPWork) throws(NoteError) -> String {
    guard let text = texts.first(where: { $0.name == note.name })?.text else { throw .failed("gone") }
    return text
  }

  func search(
    _ question: String, in _: String?, limit: Int, _ work: MCPWork
  ) throws(NoteError) -> [NotePassage] {
    begun.update { $0 += 1 }
    work.tell(MCPProgress(1, of: 2, "searching"))
    while isOpen.wait(until: Instant.now.adding(seconds: 0.01), { $0 ? true : nil }) == nil {
      if work.isUnwanted() { throw .cancelled }
    }
    return texts.filter { $0.text.contains(question) }.prefix(limit).map { name, text in
      NotePassage(
        note: note(name, text), text: text, place: .line(2), score: 0.5, sentence: "Bring wax.",
        why: "matched word")
    }
  }

  func answer(_ question: String, in _: String?, _: MCPWork) throws(NoteError) -> NoteAnswer {
    guard let (name, text) = texts.first else { throw .failed("no notes") }
    return NoteAnswer(
      text: "Wax.", quotes: [.init(note: note(name, text), text: "Bring wax.", place: .line(2))])
  }
}

extension NoteServer {
  /// The result of a method, or the error.
  func ask(_ method: String, _ params: JSONValue = [:]) throws(MCPError) -> JSONValue {
    try result(
      of: MCPMessage(["jsonrpc": "2.0", "id": 1, "method": .string(method), "params": params]), MCPWork())
  }

  func call(_ tool: String, _ arguments: JSONValue) throws(MCPError) -> JSONValue {
    try ask("tools/call", ["name": .string(tool), "arguments": arguments])
  }
}
