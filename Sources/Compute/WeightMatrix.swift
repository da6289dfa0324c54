// The weights of a linear map or an embedding, dense or quantized.

/// `[rows, columns]`: rows are outputs of a linear map, or vocabulary entries of an embedding.
package enum WeightMatrix {
  case dense(Matrix)
  case quantized(QuantizedMatrix)

  /// - Throws: `unsupportedWeights`.
  package init(_ tensors: WeightTensors) throws(ComputeError) {
    if let quantization = tensors.quantization {
      self = .quantized(try QuantizedMatrix(tensors, quantization))
    } else {
      self = .dense(try Matrix(tensors.weight))
    }
  }

  package var rows: Int {
    switch self {
    case .dense(let matrix): matrix.rows
    case .quantized(let matrix): matrix.rows
    }
  }

  package var columns: Int {
    switch self {
    case .dense(let matrix): matrix.columns
    case .quantized(let matrix): matrix.columns
    }
  }

  /// Bytes a product with one row of activations reads.
  package var byteCount: Int {
    switch self {
    case .dense(let matrix): matrix.rows * matrix.rowBytes
    case .quantized(let matrix):
      matrix.rows * (matrix.rowBytes + (matrix.mode == .affine ? 2 : 1) * matrix.scaleRowBytes)
    }
  }
}
