// What linear maps are multiplied with, summed up: how much an error in each of their columns counts.

/// Sums of squares of the inputs of products. Used by the thread that computes.
package final class InputRecorder {
  private var sums: [String: (squares: [Float], rows: Int)] = [:]

  package init() {}

  func add(_ x: Rows, of names: [String]) {
    guard let first = names.first else { return }
    // Maps of a stack have the same inputs.
    var entry = sums[first] ?? ([Float](repeating: 0, count: x.columns), 0)
    sums[first] = nil
    guard entry.squares.count == x.columns else { return }
    for row in 0..<x.count {
      let values = x.row(row)
      for column in 0..<x.columns { entry.squares[column] += values[column] * values[column] }
    }
    entry.rows += x.count
    sums[first] = entry
    for name in names.dropFirst() where sums[name]?.rows != entry.rows { sums[name] = entry }
  }

  /// Mean squares of the inputs of each map, by the name of its tensor of weights.
  package var meanSquares: [String: [Float]] {
    sums.mapValues { entry in entry.squares.map { $0 / Float(max(1, entry.rows)) } }
  }
}
