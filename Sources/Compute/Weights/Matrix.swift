// A dense weight matrix as the checkpoint stores it: rows are outputs, columns are inputs.

import KernelTypes

/// `[rows, columns]` f32, f16 or bf16 at any alignment, read in place; `WeightStack` keeps the bytes.
struct Matrix {
  let rows: Int
  let columns: Int
  let format: FloatFormat
  let rowBytes: Int
  let base: UnsafeRawPointer

  /// - Throws: `unsupportedWeights` when the dtype is no float or the bytes do not fill the shape.
  init(_ tensor: TensorView) throws(ComputeError) {
    guard let format = tensor.dtype.floatFormat else {
      throw .unsupportedWeights(
        tensor: tensor.name, reason: "dtype \(tensor.dtype.rawValue)", supported: "F32, F16, BF16")
    }
    guard tensor.shape.count == 2, let base = tensor.bytes.baseAddress, tensor.bytes.count > 0,
      tensor.bytes.count == tensor.count * tensor.dtype.size
    else {
      throw .unsupportedWeights(
        tensor: tensor.name, reason: "shape \(tensor.shape) with \(tensor.bytes.count) bytes",
        supported: "non-empty matrices")
    }
    rows = tensor.shape[0]
    columns = tensor.shape[1]
    self.format = format
    rowBytes = columns * tensor.dtype.size
    self.base = base
  }

  /// Some rows as kernels take them.
  func operand(_ rows: Range<Int>) -> FloatRows {
    FloatRows(
      base: base + rows.lowerBound * rowBytes, rowBytes: rowBytes, format: format, count: rows.count,
      columns: columns)
  }
}

extension TensorView {
  /// A 1-D f32, f16 or bf16 tensor as float32: norms' gains and layers' biases, a few kilobytes each.
  ///
  /// - Throws: `unsupportedWeights` for other dtypes.
  package func floats() throws(ComputeError) -> [Float] {
    guard let format = dtype.floatFormat else {
      throw .unsupportedWeights(
        tensor: name, reason: "dtype \(dtype.rawValue)", supported: "F32, F16, BF16")
    }
    guard let base = bytes.baseAddress else { return [] }
    return (0..<bytes.count / dtype.size).map { Reference.element(base, format, $0) }
  }
}
