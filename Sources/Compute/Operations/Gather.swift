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
    let matrix = table.parts[0].matrix
    for (row, index) in indices.enumerated() {
      let index = Int(index)
      precondition(index >= 0 && index < matrix.rows, "gather: index out of range")
      unpack(matrix, row: index, into: out.row(row))
    }
  }

  /// One row of weights as float32.
  func unpack(_ matrix: WeightStorage, row: Int, into out: UnsafeMutablePointer<Float>) {
    switch matrix {
    case .dense(let dense):
      let source = dense.base + row * dense.rowBytes
      if dense.format == .f32 {
        UnsafeMutableRawPointer(out).copyMemory(from: source, byteCount: dense.rowBytes)
      } else {
        kernels.widen(source, dense.format, dense.columns, out)
      }
    case .quantized(let packed):
      if let mode = packed.mode.floating {
        kernels.unpackFloating(packed.operand(row..<row + 1, in: mode), out)
      } else {
        kernels.unpack(packed.operand(row..<row + 1), out)
      }
    }
  }
}
