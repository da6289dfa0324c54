// A table as lines of text, for lists on a terminal.

/// Columns for a terminal.
enum Table {
  /// The header and the rows, each column as wide as its widest text; the last one is broken where it does not fit.
  ///
  /// - Parameters:
  ///   - width: of the lines; nil for any.
  ///   - dispensable: columns that go where there is no room for them, the first of these first.
  static func lines(
    _ header: [String], _ rows: [[String]], width: Int? = nil, dispensable: [Int] = []
  ) -> [String] {
    let all = [header] + rows
    let widths = header.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
    var shown = Array(header.indices)
    for column in dispensable {
      guard let width, shown.reduce(-2, { $0 + widths[$1] + 2 }) > width else { break }
      shown.removeAll { $0 == column }
    }
    return all.map { row in
      var line = ""
      for column in shown.dropLast() {
        line += row[column] + String(repeating: " ", count: widths[column] - row[column].count + 2)
      }
      guard let last = shown.last else { return line }
      guard let width, line.count + row[last].count > width, !row[last].isEmpty else {
        return line + row[last]
      }
      return Paragraph.wrapped(row[last], after: line, column: line.count, width: width)
    }
  }
}
