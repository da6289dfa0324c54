// Notes as assistants get them: what a source of notes has to be able to do.

import JSON
import Platform

/// A note without its text.
package struct Note: Sendable, Equatable {
  /// By which tools name it: a path in its folder, or the id of a file.
  package var name: String
  /// What people call it.
  package var title: String
  package var uri: String
  /// Of the folder or store that has it.
  package var folder: String
  package var bytes: Int

  package init(name: String, title: String, uri: String, folder: String, bytes: Int) {
    (self.name, self.title, self.uri, self.folder, self.bytes) = (name, title, uri, folder, bytes)
  }
}

/// Where in a note something stands, from 1.
package enum NotePlace: Sendable, Equatable {
  case line(Int)
  case page(Int)

  var words: String {
    switch self {
    case .line(let number): ":\(number)"
    case .page(let number): ", page \(number)"
    }
  }

  var member: (String, JSONValue) {
    switch self {
    case .line(let number): ("line", .int(number))
    case .page(let number): ("page", .int(number))
    }
  }
}

/// A passage that a search has found.
package struct NotePassage: Sendable {
  package var note: Note
  package var text: String
  /// Of its best sentence, or of its beginning.
  package var place: NotePlace?
  package var score: Double
  /// The sentence that answers best.
  package var sentence: String?
  /// Why it was found, in words.
  package var why: String

  package init(
    note: Note, text: String, place: NotePlace?, score: Double, sentence: String?, why: String
  ) {
    (self.note, self.text, self.place) = (note, text, place)
    (self.score, self.sentence, self.why) = (score, sentence, why)
  }
}

/// An answer, and what stands in the notes for it, word by word.
package struct NoteAnswer: Sendable {
  package struct Quote: Sendable {
    package var note: Note
    package var text: String
    package var place: NotePlace?

    package init(note: Note, text: String, place: NotePlace?) {
      (self.note, self.text, self.place) = (note, text, place)
    }
  }

  package var text: String
  package var quotes: [Quote]

  package init(text: String, quotes: [Quote]) { (self.text, self.quotes) = (text, quotes) }
}

/// Why there is no answer, as the one who asks reads it.
package enum NoteError: Error, Equatable, Sendable {
  case failed(String)
  /// Nobody waits any more.
  case cancelled
}

/// A request that is being worked on. Used by one thread.
package struct MCPWork {
  /// Whether nobody waits any more; asked many times a second.
  package let isUnwanted: () -> Bool
  /// Told how far it is.
  package let tell: (MCPProgress) -> Void

  /// How often the same words are told, seconds.
  private static let secondsBetween = 0.1

  /// - Parameter tell: gets progress that always grows, and not more often than somebody reads.
  package init(
    isUnwanted: @escaping () -> Bool = { false }, tell: @escaping (MCPProgress) -> Void = { _ in }
  ) {
    self.isUnwanted = isUnwanted
    var (last, next) = (MCPProgress(0, ""), Instant.now)
    self.tell = { progress in
      let now = Instant.now
      // Each phase has words of its own; numbers in them are the same phase.
      guard now >= next || !progress.words.hasPrefix(last.words.prefix { !$0.isNumber }) || last.words.isEmpty
      else { return }
      var progress = progress
      if progress.done <= last.done { progress.done = last.done + 1 }
      (last, next) = (progress, now.adding(seconds: Self.secondsBetween))
      tell(progress)
    }
  }
}

/// Folders or stores of notes. Nothing of it changes what stands in a note.
package protocol NoteSource: Sendable {
  /// Names of the folders or stores.
  func folders(_ work: MCPWork) throws(NoteError) -> [String]
  /// Whether questions can be answered, not only searched for.
  var answers: Bool { get }
  /// All notes, in a lasting order.
  func notes(_ work: MCPWork) throws(NoteError) -> [Note]
  /// The text of one of `notes`.
  func text(of note: Note, _ work: MCPWork) throws(NoteError) -> String
  /// - Parameter folder: one of `folders`; nil for all.
  func search(
    _ question: String, in folder: String?, limit: Int, _ work: MCPWork
  ) throws(NoteError) -> [NotePassage]
  func answer(_ question: String, in folder: String?, _ work: MCPWork) throws(NoteError) -> NoteAnswer
  /// Whether notes can be added.
  var writes: Bool { get }
  /// Makes a note, or adds to the end of one.
  ///
  /// - Parameter appends: whether the note may be there.
  func write(_ text: String, to name: String, appends: Bool, _ work: MCPWork) throws(NoteError) -> Note
}

extension NoteSource {
  package var writes: Bool { false }

  package func write(_: String, to _: String, appends _: Bool, _: MCPWork) throws(NoteError) -> Note {
    throw .failed("notes can only be read here")
  }
}
