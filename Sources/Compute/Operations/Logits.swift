// The output of a step: one row of unnormalised log-probabilities per requested position.

/// `rows` × `columns` float32, in the order of the batch. Owned by the engine thread.
package struct Logits {
  private let buffer = ScratchBuffer()
  package private(set) var rows = 0
  /// The vocabulary size of the model that wrote last.
  package private(set) var columns = 0

  package init() {}

  /// Makes room for a step's results and returns the rows to write.
  package mutating func resize(rows: Int, columns: Int) -> Rows {
    (self.rows, self.columns) = (rows, columns)
    return buffer.rows(rows, columns)
  }

  /// Row `index` in place; its memory is the next step's.
  package func row(_ index: Int) -> UnsafeMutableBufferPointer<Float> {
    precondition(index >= 0 && index < rows, "logits row out of range")
    return buffer.rows(rows, columns).elements(ofRow: index)
  }

  /// A copy of row `index`.
  package func values(ofRow index: Int) -> [Float] { Array(row(index)) }
}
