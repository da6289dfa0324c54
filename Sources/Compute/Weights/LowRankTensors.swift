// The two thin matrices that an adapter has for one linear map, as its file stores them.

/// `Δ = factor · up · down`, with `down` `[rank, columns]` and `up` `[rows, rank]`; DoRA gives each output of `W + Δ` a length.
package struct LowRankTensors: Sendable {
  package let down, up: TensorView
  /// Whether the file has them turned over: `[columns, rank]` and `[rank, rows]`.
  package let isDownTurned, isUpTurned: Bool
  /// The length of each row of `W + Δ`, `[rows]`; nil for LoRA.
  package let magnitude: TensorView?
  package var factor: Float
  package let rank, rows, columns: Int
  /// The first of the outputs that are meant, of a map that is bound in parts.
  private var firstRow = 0

  /// - Precondition: the tensors are matrices of a common rank, or stacks of them.
  package init(
    down: TensorView, isDownTurned: Bool, up: TensorView, isUpTurned: Bool, magnitude: TensorView? = nil,
    factor: Float
  ) {
    (self.down, self.isDownTurned) = (down, isDownTurned)
    (self.up, self.isUpTurned, self.magnitude) = (up, isUpTurned, magnitude)
    let (a, b) = (Array(down.shape.suffix(2)), Array(up.shape.suffix(2)))
    precondition(
      a.count == 2 && b.count == 2 && a[isDownTurned ? 1 : 0] == b[isUpTurned ? 0 : 1],
      "low rank: shapes differ")
    rank = a[isDownTurned ? 1 : 0]
    columns = a[isDownTurned ? 0 : 1]
    rows = b[isUpTurned ? 1 : 0]
    self.factor = factor
  }

  /// The pair of one expert, of stacks with a dimension more.
  package func element(_ index: Int) -> LowRankTensors {
    LowRankTensors(
      down: down.element(index), isDownTurned: isDownTurned, up: up.element(index), isUpTurned: isUpTurned,
      factor: factor)
  }

  /// The same map for its outputs from `first` on.
  package func outputs(from first: Int) -> LowRankTensors {
    var part = self
    part.firstRow += first
    return part
  }

  /// The first element that is no number, by the name of its tensor.
  package func tensorWithoutNumbers() throws(ComputeError) -> String? {
    for tensor in [down, up] + (magnitude.map { [$0] } ?? []) {
      guard let format = tensor.dtype.floatFormat else { throw tensor.unsupportedDType }
      guard let base = tensor.bytes.baseAddress else { continue }
      for index in 0..<tensor.count where !Reference.element(base, format, index).isFinite {
        return tensor.name
      }
    }
    return nil
  }

  /// The element of `down` for an input.
  func downIndex(_ k: Int, _ column: Int) -> Int { isDownTurned ? column * rank + k : k * columns + column }

  /// The element of `up` for an output.
  func upIndex(_ row: Int, _ k: Int) -> Int {
    isUpTurned ? k * rows + firstRow + row : (firstRow + row) * rank + k
  }

  /// The length that DoRA gives an output.
  func magnitude(_ row: Int) -> Float {
    guard let magnitude, let format = magnitude.dtype.floatFormat, let base = magnitude.bytes.baseAddress
    else { return 0 }
    return Reference.element(base, format, firstRow + row)
  }
}
