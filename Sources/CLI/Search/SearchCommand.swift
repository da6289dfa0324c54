// `mlxserve search`: the index of a folder, kept true and searched on this machine.

import Hub
import Inference
import JSON
import Pipeline
import Platform
import Search
import Vectors

enum SearchCommand {
  /// Exit codes: results, none; errors are 2, as everywhere.
  private static let found: Int32 = 0
  private static let nothing: Int32 = 1

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    do {
      return try act(flags)
    } catch let error as IndexError where error.isDamage {
      throw SearchFolderError.damaged("\(error)")
    } catch SearchError.index(let error) where error.isDamage {
      throw SearchFolderError.damaged("\(error)")
    }
  }

  private static func act(_ flags: ParsedFlags) throws -> Int32 {
    if flags[.list] { return try list(flags) }
    let folder = try flags.argument("FOLDER")
    if flags[.forget] { return try forget(folder, flags) }
    let query = flags.arguments.dropFirst().joined(separator: " ")
    let isServed = [TextFlag.evaluate, .export, .import].contains { flags.isSet($0) }
    let needsQuery = !(flags[.watch] || flags[.rebuild] || isServed)
    guard !query.isEmpty || !needsQuery else {
      throw UsageError.missingArgument("QUERY")
    }
    guard let place = File.resolved(folder), File.isDirectory(place) else {
      throw UsageError.unusable(flag: "folder", reason: "'\(folder)' is not a folder")
    }
    let notes = try SearchedFolder(place, flags)
    if let source = flags[.import] {
      let count = try notes.importPassages(from: source)
      Terminal.printError(Terminal.dimmedError("\(count) documents came in"))
      return found
    }
    if let target = flags[.export] {
      try notes.export(to: target)
      return found
    }
    if let judgements = flags[.evaluate] { return try evaluate(notes, judgements, flags) }
    if flags[.watch] { return try watch(notes, flags) }
    // An index that was only to be made again.
    guard !query.isEmpty else { return found }
    return try answer(notes, query, flags) ? found : nothing
  }

  // MARK: Indexes

  private static func list(_ flags: ParsedFlags) throws -> Int32 {
    let entries = try IndexShelf(flags).entries()
    if flags[.json] {
      for entry in entries { Terminal.print(entry.json.text) }
      return found
    }
    guard !entries.isEmpty else {
      Terminal.printError("no folder is indexed")
      return found
    }
    let rows = entries.map { entry in
      [
        Size.words(entry.bytes), ListCommand.ago(Instant.wallSeconds - entry.used),
        entry.model?.split(separator: "/").last.map(String.init) ?? "-",
        (entry.folder ?? entry.home) + (entry.isGone ? " (gone)" : ""),
      ].map { Terminal.safe($0) }
    }
    for line in Table.lines(
      ["SIZE", "USED", "MODEL", "FOLDER"], rows, width: Terminal.tableWidth, dispensable: [2, 1])
    { Terminal.print(line) }
    return found
  }

  private static func forget(_ folder: String, _ flags: ParsedFlags) throws -> Int32 {
    guard let entry = try IndexShelf(flags).forget(folder) else {
      throw UsageError.unusable(
        flag: "forget",
        reason: "no index is kept of '\(folder)'; 'mlxserve search --list' shows those that are")
    }
    Terminal.printError("forgot \(Terminal.safe(entry.folder ?? folder)), \(Size.words(entry.bytes))")
    return found
  }

  static func searchQuery(_ text: String, _ flags: ParsedFlags) -> SearchQuery {
    var query = SearchQuery([text])
    query.limit = flags[.limit] ?? 5
    query.explains = !flags[.files]
    query.weights = flags[.vectorWeight].map { HybridWeights(embedding: $0, text: 1 - $0) }
    return query
  }

  /// Searches once and prints; whether there were results.
  private static func answer(_ notes: SearchedFolder, _ text: String, _ flags: ParsedFlags) throws -> Bool {
    let start = Instant.now
    let answer = try notes.search(searchQuery(text, flags))
    hint(answer, flags)
    let seconds = Instant.now.seconds(since: start)
    let printer = ResultPrinter(notes, flags)
    printer.print(answer.results)
    if !flags[.json], !flags[.files] {
      Terminal.printError(
        Terminal.dimmedError(
          "searched \(counted(notes.index.passageCount, "passage")) in \(fixed(seconds * 1e3, 0)) ms "
            + "(question \(fixed(answer.times.embed * 1e3, 0)) ms)"))
    }
    return !answer.results.isEmpty
  }

  /// What helps where the model cannot read what is asked.
  private static func hint(_ answer: SearchAnswer, _ flags: ParsedFlags) {
    guard answer.unread >= leastUnread, !flags[.json], !flags[.files] else { return }
    Terminal.printError(
      "the model does not know \(fixed(Double(answer.unread) * 100, 0)) % of the question, so its words count for more; "
        + "a multilingual model reads it, such as multilingual-e5-small: --model DIR")
  }

  /// The share of unknown tokens that is told.
  private static let leastUnread: Float = 0.3

  // MARK: As one types

  private struct Typing {
    var line: String?
    var count = 0
    var isOver = false
  }

  private static func watch(_ notes: SearchedFolder, _ flags: ParsedFlags) throws -> Int32 {
    let typing = Monitor(Typing())
    let reader = try Thread(name: "questions", stackBytes: 256 << 10) {
      while let line = readLine() {
        typing.update { typing in
          typing.line = line
          typing.count += 1
        }
      }
      typing.update { $0.isOver = true }
    }
    reader.detach()
    var (hasResults, isHinted) = (false, false)
    while true {
      let next = typing.wait { typing -> (line: String?, count: Int)? in
        guard typing.line != nil || typing.isOver else { return nil }
        defer { typing.line = nil }
        return (typing.line, typing.count)
      }
      guard let next, let line = next.line else { return hasResults ? found : nothing }
      guard line.contains(where: { !$0.isWhitespace }) else { continue }
      do throws(SearchError) {
        let answer = try notes.search(searchQuery(line, flags)) {
          typing.withLock { !$0.isOver && $0.count != next.count }
        }
        if !isHinted, answer.unread >= leastUnread {
          isHinted = true
          hint(answer, flags)
        }
        var printer = ResultPrinter(notes, flags)
        printer.query = line
        printer.print(answer.results)
        if !flags[.json] { Terminal.print("") }
        hasResults = hasResults || !answer.results.isEmpty
      } catch {
        guard error != .cancelled else { continue }
        throw error
      }
    }
  }

  // MARK: Judgements

  private static func evaluate(_ notes: SearchedFolder, _ path: String, _ flags: ParsedFlags) throws -> Int32
  {
    var evaluation = Evaluation()
    var bytes = try File.read(path, limit: 1 << 28)[...]
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes = bytes.dropFirst(3) }
    let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    for (number, line) in lines.enumerated() where line.contains(where: { $0 > 0x20 }) {
      guard let value = try? JSONValue(parsing: Array(line)), let text = value["query"]?.stringValue,
        let relevant = value["relevant"]?.objectValue
      else {
        throw UsageError.unusable(
          flag: "evaluate",
          reason: "line \(number + 1) of \(path) is no {\"query\": …, \"relevant\": {path: grade}}")
      }
      let grades = relevant.entries.reduce(into: [String: Double]()) {
        $0[$1.key] = $1.value.doubleValue ?? 0
      }
      var query = searchQuery(text, flags)
      query.limit = 50
      query.explains = false
      let start = Instant.now
      let results = try notes.search(query).results
      var seen: Set<String> = []
      let names = results.map(\.passage.document.key).filter { seen.insert($0).inserted }
      evaluation.add(names, grades, seconds: Instant.now.seconds(since: start))
    }
    Terminal.print(flags[.json] ? evaluation.json.text : evaluation.text)
    return evaluation.count > 0 ? found : nothing
  }
}

/// How well results agree with judgements: measures of the first ten, means over the questions.
struct Evaluation {
  private(set) var count = 0
  private var ndcg = 0.0
  private var recall = 0.0
  private var reciprocal = 0.0
  private var first = 0.0
  private var times: [Double] = []

  /// - Parameters:
  ///   - names: results, best first.
  ///   - grades: of what is relevant; linear gains, as trec_eval has them.
  mutating func add(_ names: [String], _ grades: [String: Double], seconds: Double) {
    let relevant = grades.filter { $0.value > 0 }
    guard !relevant.isEmpty else { return }
    func discount(_ rank: Int) -> Double { 1 / log2(Double(rank) + 2) }
    let top = names.prefix(10)
    let gain = top.enumerated().reduce(0) { $0 + (relevant[$1.element] ?? 0) * discount($1.offset) }
    let ideal = relevant.values.sorted(by: >).prefix(10).enumerated().reduce(0) {
      $0 + $1.element * discount($1.offset)
    }
    count += 1
    ndcg += gain / ideal
    recall += Double(top.count { relevant[$0] != nil }) / Double(relevant.count)
    if let rank = top.firstIndex(where: { relevant[$0] != nil }) { reciprocal += 1 / Double(rank + 1) }
    if let best = names.first, relevant[best] != nil { first += 1 }
    times.append(seconds)
  }

  private func mean(_ sum: Double) -> Double { count > 0 ? sum / Double(count) : 0 }

  private func milliseconds(_ share: Double) -> Double {
    let sorted = times.sorted()
    guard !sorted.isEmpty else { return 0 }
    return sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))] * 1e3
  }

  var text: String {
    """
    questions   \(count)
    nDCG@10     \(fixed(mean(ndcg), 4))
    recall@10   \(fixed(mean(recall), 4))
    MRR@10      \(fixed(mean(reciprocal), 4))
    P@1         \(fixed(mean(first), 4))
    time        median \(fixed(milliseconds(0.5))) ms, 99th percentile \(fixed(milliseconds(0.99))) ms
    """
  }

  var json: JSONValue {
    [
      "queries": .int(count), "ndcg10": .double(mean(ndcg)), "recall10": .double(mean(recall)),
      "mrr10": .double(mean(reciprocal)), "p1": .double(mean(first)), "p50_ms": .double(milliseconds(0.5)),
      "p99_ms": .double(milliseconds(0.99)),
    ]
  }
}
