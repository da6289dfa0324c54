// What models want in front of questions and of what is found by them.
//
// The folder says it, or the model's card alone: conversions often lack the file. Without its prompt a model of these
// answers worse and nothing tells.

package import Checkpoint
import JSON

/// The prompts of one model. Usable from any thread.
package struct EmbedderPrompts: Sendable {
  private var all: [SentencePrompt]
  /// In front of texts for which no prompt is asked; empty for none.
  package private(set) var usual = ""
  /// In front of questions.
  package private(set) var query = ""
  /// In front of what is found by them.
  package private(set) var document = ""

  package init(_ prompts: [SentencePrompt]) {
    all = prompts
    query = first(Self.queryNames)
    document = first(Self.documentNames)
  }

  package init(_ sentences: SentenceFolder, _ folder: ModelFolder) {
    self.init(sentences.prompts.isEmpty ? Self.published(folder) : sentences.prompts)
    if let name = sentences.defaultPrompt { usual = self[name] ?? "" }
  }

  private static let queryNames = [
    "query", "search_query", "s2p_query", "web_search_query", "Retrieval-query",
  ]
  private static let documentNames = [
    "document", "passage", "search_document", "corpus", "Retrieval-document",
  ]

  private func first(_ names: [String]) -> String {
    for name in names { if let text = self[name] { return text } }
    return ""
  }

  /// The text of a prompt; nil when there is none of that name.
  package subscript(name: String) -> String? {
    all.first { $0.name.utf8.elementsEqual(name.utf8) }?.text
  }

  package var names: [String] { all.map(\.name) }

  /// What the cards of widely used models say, by marks in the folder's name.
  private static func published(_ folder: ModelFolder) -> [SentencePrompt] {
    let name = folder.name.lowercased()
    let type = folder.config["model_type"]?.stringValue ?? ""
    func pair(_ query: String, _ document: String = "") -> [SentencePrompt] {
      [SentencePrompt(name: "query", text: query), SentencePrompt(name: "document", text: document)]
    }
    if type == "nomic_bert" || name.contains("modernbert-embed") {
      return ["search_query", "search_document", "clustering", "classification"].map {
        SentencePrompt(name: $0, text: $0 + ": ")
      }
    }
    if name.contains("e5"), name.contains("instruct") {
      return pair("Instruct: \(webSearch)\nQuery: ")
    }
    if name.contains("e5-") { return pair("query: ", "passage: ") }
    if type == "qwen3" { return pair("Instruct: \(webSearch)\nQuery:") }
    if type.hasPrefix("gemma3") { return pair("task: search result | query: ", "title: none | text: ") }
    if name.contains("arctic-embed"), name.contains("v2") { return pair("query: ") }
    let takesSentence = ["arctic-embed", "mxbai-embed"].contains(where: name.contains)
    if takesSentence || (name.contains("bge-") && name.contains("-en")) {
      return pair("Represent this sentence for searching relevant passages: ")
    }
    return []
  }

  private static let webSearch = "Given a web search query, retrieve relevant passages that answer the query"
}
