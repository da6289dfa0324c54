// Embedding look-up: rows of a weight matrix as float32.

import KernelTypes

extension ComputeContext {
  /// `out[i] = table[indices[i]]`, dequantized.
  ///
  /// - Precondition: the table is one matrix, and indices are in `0 ..< table.rows`.
  package func gather(_ indices: [Int32], of table: WeightStack, into out: Rows) {
    precondition(
      indices.count == out.count && table.columns == out.columns && table.parts.count == 1,
      "gather: shapes differ")
    let (matrix, factor) = (table.parts[0].matrix, table.parts[0].factor)
    for (row, index) in indices.enumerated() {
      let index = Int(index)
      precondition(index >= 0 && index < matrix.rows, "gather: index out of range")
      let (source, rows) = matrix.readable(index..<index + 1, exactly: true, workerScratch[0].aside)
      unpack(source, rows: rows, into: Output(base: out.row(row), stride: out.stride))
      if factor != 1 { kernels.scale(factor, out.columns, out.row(row)) }
    }
  }

  /// The elements of every row of x in another order: element i is x's element `order[i]`. The rows hold until the next call.
  ///
  /// - Precondition: the order has every column of x once.
  package func reordered(_ x: Rows, by order: [Int32]) -> Rows {
    precondition(order.count == x.columns, "reorder: shapes differ")
    let out = reorderedRows.rows(x.count, x.columns)
    forEachRow(x.count, work: x.columns) { range in
      for r in range {
        let (source, target) = (x.row(r), out.row(r))
        for (index, input) in order.enumerated() { target[index] = source[Int(input)] }
      }
    }
    return out
  }

  /// Some rows of weights, which are no blocks, as float32.
  func unpack(_ matrix: WeightMatrix, rows: Range<Int>, into y: Output) {
    switch matrix {
    case .dense(let dense):
      for (index, row) in rows.enumerated() {
        let (source, out) = (dense.rows(row..<row + 1).base, y.base + index * y.stride)
        if dense.format == .f32 {
          UnsafeMutableRawPointer(out).copyMemory(from: source, byteCount: dense.rowBytes)
        } else {
          kernels.widen(source, dense.format, dense.columns, out)
        }
      }
    case .affine(let all): kernels.unpack(all.rows(rows), y)
    case .floating(let all): kernels.unpackFloating(all.rows(rows), y)
    case .blocks: break
    }
  }
}
