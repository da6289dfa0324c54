// The word that somebody meant, by its distance from what was typed.

/// The candidate nearest to what was typed, if it is near enough to be meant.
func suggest(for typed: String, among candidates: [String]) -> String? {
  let nearest = candidates.map { ($0, editDistance(typed, $0)) }.min { $0.1 < $1.1 }
  guard let nearest, nearest.1 <= max(1, typed.utf8.count / 3) else { return nil }
  return nearest.0
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn one word into the other, in bytes.
/// O(n · m); command-line words are short.
func editDistance(_ a: String, _ b: String) -> Int {
  let a = Array(a.utf8.prefix(64))
  let b = Array(b.utf8.prefix(64))
  var rows = [Array(0...b.count)]
  for i in a.indices {
    var row = [i + 1]
    for j in b.indices {
      var least = min(rows[i][j] + (a[i] == b[j] ? 0 : 1), rows[i][j + 1] + 1, row[j] + 1)
      if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { least = min(least, rows[i - 1][j - 1] + 1) }
      row.append(least)
    }
    rows.append(row)
  }
  return rows[a.count][b.count]
}
