// One matrix of weights, dense or quantized, without what keeps its bytes.

/// `[rows, columns]`: rows are outputs of a linear map, or vocabulary entries of an embedding. Tiles copy it freely: if a copy
/// counted references, all kernel threads would write to the same counters for each of some thousand tiles of a decode step.
enum WeightStorage {
  case dense(Matrix)
  case quantized(QuantizedMatrix)

  /// - Throws: `unsupportedWeights`.
  init(_ tensors: WeightTensors) throws(ComputeError) {
    if let quantization = tensors.quantization {
      self = .quantized(try QuantizedMatrix(tensors, quantization))
    } else {
      self = .dense(try Matrix(tensors.weight))
    }
  }

  var rows: Int {
    switch self {
    case .dense(let matrix): matrix.rows
    case .quantized(let matrix): matrix.rows
    }
  }

  var columns: Int {
    switch self {
    case .dense(let matrix): matrix.columns
    case .quantized(let matrix): matrix.columns
    }
  }

  /// Bytes a product with one row of activations reads.
  var byteCount: Int {
    switch self {
    case .dense(let matrix): matrix.rows * matrix.rowBytes
    case .quantized(let matrix):
      matrix.rows * (matrix.rowBytes + (matrix.mode == .affine ? 2 : 1) * matrix.scaleRowBytes)
    }
  }
}
