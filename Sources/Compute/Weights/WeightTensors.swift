// The tensors that make up one matrix of weights: elements, scales, biases, and the bias of its layer.

/// The tensors of one linear map or embedding as the checkpoint stores them, shapes already checked.
package struct WeightTensors: Sendable {
  /// Dense: `[rows, columns]` f32, f16 or bf16. Quantized: U32 `[rows, columns · bits / 32]`. Blocks: U8 `[rows, bytes]`.
  package let weight: TensorView
  /// Quantized only: `[rows, columns / groupSize]`.
  package let scales: TensorView?
  /// Affine only: as `scales`.
  package let biases: TensorView?
  /// The additive bias of the layer itself, `[rows]`.
  package let bias: TensorView?
  package let quantization: Quantization?
  /// What elements are indices of, sixteen floats: in the mode `table` alone.
  package var table: TensorView?
  /// What every weight is multiplied with besides.
  package var factor: Float = 1
  /// The type of a GGUF file's blocks, where `weight` has their bytes.
  package var blocks: BlockFormat?
  /// Rows of a head whose halves stand in the file as pairs of neighbours; 0 where no rows have to be put in order.
  package var headRows = 0
  /// Where not nil, element i of a row belongs to input `order[i]`. All inputs are there once.
  package var order: [Int32]?
  /// The first of its outputs among those of the map in the checkpoint that it was cut from.
  package private(set) var firstRow = 0
  /// Outputs.
  package let rows: Int
  /// Inputs.
  package let columns: Int

  package init(
    weight: TensorView, scales: TensorView? = nil, biases: TensorView? = nil, bias: TensorView? = nil,
    quantization: Quantization? = nil, rows: Int, columns: Int
  ) {
    (self.weight, self.scales, self.biases) = (weight, scales, biases)
    (self.bias, self.quantization, self.rows) = (bias, quantization, rows)
    self.columns = columns
  }

  /// A dense matrix.
  ///
  /// - Precondition: the tensor has two dimensions.
  package init(dense tensor: TensorView) {
    precondition(tensor.shape.count == 2, "weights: not a matrix")
    self.init(weight: tensor, rows: tensor.shape[0], columns: tensor.shape[1])
  }

  /// The matrix `index` of a stack, whose tensors have one dimension more than a matrix.
  ///
  /// - Precondition: `index` is below the stack's count.
  package func element(_ index: Int) -> WeightTensors {
    with(
      WeightTensors(
        weight: weight.element(index), scales: scales?.element(index), biases: biases?.element(index),
        bias: bias?.element(index), quantization: quantization, rows: rows, columns: columns))
  }

  /// The outputs `range` alone.
  ///
  /// - Precondition: the range is within the rows.
  package func rows(_ range: Range<Int>) -> WeightTensors {
    var part = with(
      WeightTensors(
        weight: weight.rows(range), scales: scales?.rows(range), biases: biases?.rows(range),
        bias: bias?.rows(range), quantization: quantization, rows: range.count, columns: columns))
    part.firstRow = firstRow + range.lowerBound
    return part
  }

  /// A part of this matrix, with what parts have in common.
  private func with(_ part: WeightTensors) -> WeightTensors {
    var part = part
    (part.table, part.factor, part.order) = (table, factor, order)
    (part.blocks, part.headRows) = (blocks, headRows)
    return part
  }
}
