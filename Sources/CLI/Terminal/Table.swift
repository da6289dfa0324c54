// A table as lines of text, for lists on a terminal.

/// Columns for a terminal.
enum Table {
  /// The header and the rows, each column as wide as its widest text.
  static func lines(_ header: [String], _ rows: [[String]]) -> [String] {
    let all = [header] + rows
    let widths = header.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
    return all.map { row in
      var line = ""
      for (column, text) in row.enumerated() {
        line +=
          column == row.count - 1
          ? text : text + String(repeating: " ", count: widths[column] - text.count + 2)
      }
      return line
    }
  }
}
