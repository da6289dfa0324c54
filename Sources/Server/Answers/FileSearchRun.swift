// The searches of one answer: what the model asks for is looked up in its stores, and becomes passages with numbers.

import HTTP
import JSON
import Pipeline
import Search
import Tokenizers
import Vectors
import Wire

/// Used by one thread.
struct FileSearchRun {
  private let tool: FileSearchTool
  private let scope: RequestScope
  private let archive: Archive
  private let showsResults: Bool
  /// Searches that may still be made.
  private(set) var left: Int
  /// Passages that the model has seen, by their numbers from 1.
  private(set) var passages: [(file: String, name: String)] = []
  /// The items with their results, whatever the answer shows.
  private(set) var items: [JSONValue] = []
  /// Markers that became citations, and those of passages that there are not.
  private(set) var counts = (made: 0, invented: 0)
  private var last: FileCitation?

  private static let rounds = 4
  /// Most tokens of the passages of one search.
  private static let mostTokens = 16_000

  /// - Parameters:
  ///   - most: searches that may be made, if that is fewer than usual.
  ///   - showsResults: whether the client is shown what was found.
  /// - Returns: nil when the request has no such tool, or may not use it.
  /// - Throws: 404 and 400 for stores that cannot be searched, before anything is answered.
  init?(
    _ request: ChatRequest, _ scope: RequestScope, most: Int? = nil, showsResults: Bool
  ) throws(APIError) {
    guard let tool = request.fileSearch, request.toolChoice != .none,
      request.tools.contains(where: { $0.name == FileSearchTool.name })
    else { return nil }
    (self.tool, self.scope) = (tool, scope)
    archive = try scope.server.archive()
    self.showsResults = showsResults
    left = min(Self.rounds, most ?? Self.rounds)
    for (id, path) in tool.stores {
      do throws(APIError) {
        let store = try archive.store(id, scope.client)
        guard !store.record.isExpired(now: scope.settings.now()) else {
          throw .invalidValue(path, "the vector store has expired")
        }
      } catch {
        var error = error
        error.param = path
        throw error
      }
    }
    _ = try scope.server.models.encoder(archive.settings.embeddingModel, isBackground: false)
  }

  /// What the arguments of a call ask for.
  static func queries(_ arguments: String) -> [String] {
    guard let value = try? JSONValue(parsing: Array(arguments.utf8)) else { return [] }
    let texts = (value["queries"]?.arrayValue ?? [value["query"] ?? nil]).compactMap(\.stringValue)
    return Array(texts.filter { $0.contains { !$0.isWhitespace } }.prefix(4))
  }

  /// What one search gave.
  struct Outcome {
    /// As the answer shows it.
    var item: JSONValue
    /// As it is kept.
    var full: JSONValue
    /// What the model is told.
    var text: String
  }

  /// Searches.
  ///
  /// - Throws: when nobody waits any more.
  mutating func search(_ id: String, _ queries: [String], isUnwanted: @escaping () -> Bool)
    throws(AnswerFailure) -> Outcome
  {
    left -= 1
    var object = JSONObject([
      ("id", .string(id)), ("type", "file_search_call"), ("status", "completed"),
      ("queries", .array(queries.map(JSONValue.string))), ("results", nil),
    ])
    var results: [JSONValue] = []
    var text: String
    do throws(APIError) {
      let found = queries.isEmpty ? FoundPassages() : try self.found(queries, isUnwanted)
      let first = passages.count + 1
      var tokens = 0
      let room = min(Self.mostTokens, scope.model.contextTokens / 4)
      text = ""
      for passage in found.passages {
        var result = passage.text
        var shown = passage.fileSearchResult(result)
        var words = FileSearchMessages.passage(shown, number: first + results.count)
        // Of the best one, if it is too long for this model, the model gets the beginning.
        while results.isEmpty, result.count > 1, count(words) > room {
          result = String(result.prefix(result.count * 3 / 4))
          shown = passage.fileSearchResult(result)
          words = FileSearchMessages.passage(shown, number: first)
        }
        tokens += count(words)
        guard tokens <= room else { break }
        text += words
        results.append(shown)
        passages.append((passage.file, passage.name))
      }
      text = results.isEmpty ? FileSearchMessages.text([]) : text + FileSearchMessages.footer
      object["results"] = .array(results)
    } catch {
      if isUnwanted() { throw .clientGone }
      object["status"] = "failed"
      text = "The search failed."
    }
    let full = JSONValue.object(object)
    items.append(full)
    if !showsResults { object["results"] = .null }
    return Outcome(item: .object(object), full: full, text: text)
  }

  private func count(_ text: String) -> Int {
    scope.model.tokenizer.encode(text, addSpecialTokens: false).count
  }

  private func found(_ queries: [String], _ isUnwanted: @escaping () -> Bool) throws(APIError)
    -> FoundPassages
  {
    var stores: [Archive.Store] = []
    for (id, _) in tool.stores { stores.append(try archive.store(id, scope.client)) }
    var query = SearchQuery(queries)
    query.limit = tool.limit
    query.threshold = Float(tool.ranking.threshold)
    query.weights = tool.ranking.weights.map { HybridWeights(embedding: $0.embedding, text: $0.text) }
    let wishes = SearchWishes(
      filter: tool.filter, reranker: RerankerChoice(ranker: tool.ranking.ranker), tenant: scope.client.number)
    return try archive.search(stores, query, wishes, models: scope.server.models, isUnwanted: isUnwanted)
  }

  /// The citation of a passage by its number; nil for a file that is cited there already.
  mutating func citation(_ number: Int, at index: Int) -> FileCitation? {
    guard passages.indices.contains(number - 1) else { return nil }
    let passage = passages[number - 1]
    let citation = FileCitation(index: index, file: passage.file, name: passage.name)
    guard citation != last else { return nil }
    last = citation
    counts.made += 1
    return citation
  }

  /// Counts markers that name no passage.
  mutating func add(invented: Int) { counts.invented += invented }
}

extension FoundPassage {
  /// A result of an item in Responses.
  ///
  /// - Parameter text: the passage's, or a part of it.
  fileprivate func fileSearchResult(_ text: String) -> JSONValue {
    [
      "file_id": .string(file), "filename": .string(name), "score": .double(Double(result.score)),
      "attributes": .object(attributes), "text": .string(text), "offset": .int(offset),
    ]
  }
}
