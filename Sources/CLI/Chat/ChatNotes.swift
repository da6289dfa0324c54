// Notes that a message of a conversation asks: `@notes:folder question`.

import MCP
import Pipeline
import Platform
import Search

/// The folders that were asked, each with its index. Used by one thread.
struct ChatNotes {
  private let flags: ParsedFlags
  private var known: [[String]: FolderNotes] = [:]
  /// Whether Ctrl-C has been pressed while notes are asked.
  let isStopped = Monitor(false)

  init(_ flags: ParsedFlags) {
    // The model that makes vectors is the one of the index; here the flag names the one that talks.
    var flags = flags
    flags.remove("model")
    self.flags = flags
  }

  struct Problem: Error, CustomStringConvertible {
    let description: String
  }

  /// An answer of the model that talks, with the passages that it rests on.
  ///
  /// - Parameter folders: resolved paths.
  mutating func answer(
    _ question: String, in folders: [String], by model: LoadedModel
  ) throws -> NoteAnswer {
    for folder in folders where try !SearchedFolder.modelIsKnown(folder, flags) {
      let name = Terminal.safe(folder)
      throw Problem(
        description:
          "\(name) is not indexed yet: mlxserve search '\(name)' QUESTION --model minilm does it once")
    }
    let notes = known[folders] ?? FolderNotes(folders, flags)
    known[folders] = notes
    isStopped.withLock { $0 = false }
    let work = MCPWork { [isStopped] in isStopped.withLock { $0 } }
    do throws(NoteError) {
      return try notes.answer(question, work) { model }
    } catch {
      guard case .failed(let words) = error else { throw Problem(description: "stopped") }
      throw Problem(description: words)
    }
  }
}
