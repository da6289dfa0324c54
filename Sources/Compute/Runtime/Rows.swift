// A view of float32 activations: rows of equal length at a fixed distance.

import KernelTypes

/// `count` rows of `columns` floats; row r starts at `base + r · stride`. Borrows its memory from a `ScratchBuffer`.
package struct Rows {
  let base: UnsafeMutablePointer<Float>
  package let count: Int
  package let columns: Int
  /// Floats between the starts of neighbouring rows.
  let stride: Int

  func row(_ index: Int) -> UnsafeMutablePointer<Float> { base + index * stride }

  /// As kernels take them.
  var activations: Activations { Activations(base: base, stride: stride, count: count) }

  /// The columns `start ..< start + count` of every row.
  package func columns(from start: Int, count columns: Int) -> Rows {
    precondition(start >= 0 && columns >= 0 && start + columns <= self.columns, "columns out of range")
    return Rows(base: base + start, count: count, columns: columns, stride: stride)
  }

  /// The rows `start ..< start + count`.
  package func rows(from start: Int, count: Int) -> Rows {
    precondition(start >= 0 && count >= 0 && start + count <= self.count, "rows out of range")
    return Rows(base: base + start * stride, count: count, columns: columns, stride: stride)
  }

  /// Copies row `index` of this view over row `target` of `other`, which has as many columns.
  package func copyRow(_ index: Int, to other: Rows, at target: Int) {
    precondition(columns == other.columns, "rows of different length")
    other.row(target).update(from: row(index), count: columns)
  }

  /// The elements of one row in place.
  package func elements(ofRow index: Int) -> UnsafeMutableBufferPointer<Float> {
    UnsafeMutableBufferPointer(start: row(index), count: columns)
  }

  /// For tests and debugging: a copy of one row.
  package func values(ofRow index: Int) -> [Float] { Array(elements(ofRow: index)) }
}
