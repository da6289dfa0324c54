// Small tensors as float32: gains of norms and biases of layers.

extension TensorView {
  /// A f32, f16 or bf16 tensor as float32, a few kilobytes each.
  ///
  /// - Throws: `unsupportedWeights` for other dtypes.
  package func floats() throws(ComputeError) -> [Float] {
    guard let format = dtype.floatFormat else { throw unsupportedDType }
    guard let base = bytes.baseAddress else { return [] }
    return (0..<bytes.count / dtype.size).map { Reference.element(base, format, $0) }
  }

  /// What is thrown where a tensor has to hold floats and does not.
  var unsupportedDType: ComputeError {
    .unsupportedWeights(tensor: name, reason: "dtype \(dtype.rawValue)", supported: "F32, F16, BF16")
  }
}
