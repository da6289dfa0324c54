// The tables of docs/api.md: what the readers of bodies note of their fields.

package import Wire

extension App {
  /// The rows about a body's fields: name, treatment, example and words; none for one that no route reads.
  package func fieldRows(of name: String) throws(APIError) -> [String] {
    guard let body = operations.flatMap(\.bodies).first(where: { $0.name == name }) else { return [] }
    let notes = try FieldNotes(limits: RequestLimits(), of: body.read)
    return notes.notes.map { note in
      let words = note.words.text.isEmpty ? "" : note.words.text + " "
      return "| `\(note.name)` | \(note.words.treatment) | `\(notes.example(of: note))` | \(words)|"
    }
  }
}
