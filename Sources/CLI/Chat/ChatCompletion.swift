// What Tab completes in a chat: orders, settings, models and files.

import Platform

enum ChatCompletion {
  /// - Parameters:
  ///   - text: before the cursor.
  ///   - models: names of models that are here.
  static func completions(of text: String, models: () -> [String]) -> LineEditor.TabCompletions {
    let word = String(text.split(separator: " ", omittingEmptySubsequences: false).last ?? "")
    func among(_ names: [String]) -> LineEditor.TabCompletions {
      LineEditor.TabCompletions(word: word, candidates: names.filter { $0.hasPrefix(word) }.sorted())
    }
    let words = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
    switch words.first {
    case let first? where words.count == 1 && first.hasPrefix("/") && !first.dropFirst().contains("/"):
      return among(ChatOrder.table.map { "/" + $0.name })
    case "/set" where words.count == 2: return among(ChatPreferences.names)
    case "/model" where words.count == 2: return among(models())
    case "/load", "/save", "/read": return LineEditor.TabCompletions(word: word, candidates: files(word))
    default:
      guard word.hasPrefix("@") else { return LineEditor.TabCompletions(word: word, candidates: []) }
      let path = String(word.dropFirst((word.hasPrefix("@notes:") ? "@notes:" : "@").count))
      return LineEditor.TabCompletions(word: path, candidates: files(path))
    }
  }

  private static let most = 100

  /// Paths that begin so; folders end with a slash.
  private static func files(_ path: String) -> [String] {
    let end = path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex
    let (folder, name) = (String(path[..<end]), path[end...])
    var place = folder.isEmpty ? "." : folder
    if place.hasPrefix("~/"), let home = Environment.value("HOME") { place = home + place.dropFirst() }
    let names = ((try? File.names(in: place)) ?? []).filter {
      $0.hasPrefix(name) && (!$0.hasPrefix(".") || !name.isEmpty)
    }
    return names.sorted().prefix(most).map { folder + $0 + (File.isDirectory(place + "/" + $0) ? "/" : "") }
  }
}
