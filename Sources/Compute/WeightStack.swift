// Linear maps of the same input, stacked so that one fork computes the outputs of all.

/// Matrices with equal columns, one after the other: output row = `[part 0 | part 1 | ...]`.
///
/// The parts keep their own formats: q and k may be 4-bit and v 6-bit.
package final class WeightStack {
  struct Part {
    let matrix: WeightStorage
    /// The layer's additive bias, `[rows]`, if it has one.
    let bias: UnsafePointer<Float>?
    /// The part's first column of the output.
    let start: Int
  }

  let parts: [Part]
  private let owners: [AnyObject]
  /// Outputs of all parts.
  package let rows: Int
  /// Inputs.
  package let columns: Int
  /// Bytes that a product with one row of activations reads.
  package let byteCount: Int

  /// - Throws: `unsupportedWeights` when a tensor has no kernel or the parts' inputs differ.
  package init(_ tensors: [WeightTensors]) throws(ComputeError) {
    var parts: [Part] = []
    var owners: [AnyObject] = []
    var start = 0
    var bytes = 0
    for tensor in tensors {
      let matrix = try WeightMatrix(tensor)
      let bias = try tensor.bias.map { view throws(ComputeError) in try floats(view) } ?? []
      guard tensor.columns == tensors[0].columns, bias.isEmpty || bias.count == matrix.rows else {
        throw .unsupportedWeights(
          tensor: tensor.weight.name, reason: "\(tensor.columns) inputs and \(bias.count) bias elements",
          supported: "\(tensors[0].columns) inputs and \(matrix.rows) bias elements")
      }
      let copy = FloatCopy(bias)
      owners += matrix.owners + [copy]
      parts.append(
        Part(matrix: matrix.storage, bias: bias.isEmpty ? nil : UnsafePointer(copy.floats), start: start))
      start += matrix.rows
      bytes += matrix.byteCount
    }
    self.parts = parts
    self.owners = owners
    rows = start
    columns = tensors.first?.columns ?? 0
    byteCount = bytes
  }

  /// A stack of one matrix without bias: a tied output head.
  package init(_ matrix: WeightMatrix) {
    parts = [Part(matrix: matrix.storage, bias: nil, start: 0)]
    owners = matrix.owners
    rows = matrix.rows
    columns = matrix.columns
    byteCount = matrix.byteCount
  }
}
