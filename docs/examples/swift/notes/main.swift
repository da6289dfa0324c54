// Searches notes by meaning and words, and says why: notes-example MODEL_FOLDER NOTES_FOLDER INDEX_FOLDER, a line each
// question. The model is one for embeddings, such as all-MiniLM-L6-v2.

import Foundation
import MLXServe

let words = CommandLine.arguments
guard words.count == 4 else {
  print("usage: notes-example MODEL_FOLDER NOTES_FOLDER INDEX_FOLDER")
  exit(2)
}
do {
  let model = try await Model.load(folder: words[1])
  let notes = try model.notes(in: words[2], index: words[3])
  let update = try await notes.update()
  print("\(update.read) files were read, \(update.removed) are gone.")
  for (path, reason) in update.skipped { print("left out: \(path): \(reason)") }
  while let question = readLine() {
    for note in try await notes.search(question) {
      print("\(Int(note.score * 100)) %  \(note.path)  \(note.why)")
      print("      \(note.sentence ?? String(note.text.prefix(200)))")
    }
  }
  model.unload()
} catch {
  print("notes-example: \(error)")
  exit(1)
}
