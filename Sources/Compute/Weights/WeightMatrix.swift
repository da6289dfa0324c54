// The weights of a linear map or an embedding, dense or quantized.

/// `[rows, columns]`: rows are outputs of a linear map, or vocabulary entries of an embedding.
package struct WeightMatrix {
  let storage: WeightStorage
  /// Keep the bytes that `storage` points to.
  let owners: [AnyObject]

  /// - Throws: `unsupportedWeights`.
  package init(_ tensors: WeightTensors) throws(ComputeError) {
    if let quantization = tensors.quantization {
      storage = .quantized(try QuantizedMatrix(tensors, quantization))
      owners = [tensors.weight, tensors.scales, tensors.biases].compactMap { $0?.owner }
    } else {
      self = try WeightMatrix(dense: tensors.weight)
    }
  }

  /// - Throws: `unsupportedWeights` when the dtype is no float or the bytes do not fill the shape.
  package init(dense tensor: TensorView) throws(ComputeError) {
    storage = .dense(try Matrix(tensor))
    owners = [tensor.owner]
  }

  package var rows: Int { storage.rows }
  package var columns: Int { storage.columns }
  package var byteCount: Int { storage.byteCount }
}

/// A matrix without what keeps its bytes. Tiles copy it freely: if a copy counted references, all kernel threads would
/// write to the same counters for each of some thousand tiles of a decode step.
enum WeightStorage {
  case dense(Matrix)
  case quantized(QuantizedMatrix)

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
