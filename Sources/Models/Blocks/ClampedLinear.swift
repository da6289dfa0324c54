// A linear map whose inputs and outputs are clamped at bounds that the checkpoint gives.

import Checkpoint
import Compute

/// `y = clamp(linear(clamp(x)))`; a plain linear map where there are no bounds.
struct ClampedLinear {
  private let linear: Linear
  private let inputs, outputs: ClosedRange<Float>?
  private let compute: ComputeContext

  /// - Parameter name: of the module; its matrix is `<name>.linear.weight` or `<name>.weight`, beside `input_min`,
  ///   `input_max`, `output_min` and `output_max`.
  init(_ name: String, rows: Int, columns: Int, at map: WeightMap, compute: ComputeContext) throws(ModelError)
  {
    let module = map.at(name)
    let matrix = module.has("linear.weight") ? name + ".linear" : name
    linear = try Linear([matrix: rows], columns: columns, at: map, compute: compute)
    inputs = try Self.bounds("input", at: module)
    outputs = try Self.bounds("output", at: module)
    self.compute = compute
  }

  private static func bounds(_ side: String, at map: WeightMap) throws(ModelError) -> ClosedRange<Float>? {
    let (lower, upper) = (try scalar(side + "_min", at: map), try scalar(side + "_max", at: map))
    if lower == nil, upper == nil { return nil }
    guard let lower, let upper, lower <= upper else {
      throw .missingTensor(
        name: "\(map.prefix).\(side)_min, \(side)_max", because: "clamped maps need both bounds, in order")
    }
    return lower...upper
  }

  private static func scalar(_ name: String, at map: WeightMap) throws(ModelError) -> Float? {
    guard let shape = map.shape(of: name) else { return nil }
    let expected = shape.isEmpty ? [] : [1]
    let tensor = try loading { () throws(CheckpointError) in try map.tensor(name, shape: expected) }
    return try computing { () throws(ComputeError) in try floats(tensor) }.first
  }

  /// x `[n, columns]` → y `[n, rows]`.
  ///
  /// - Parameter scratch: holds the clamped inputs.
  func callAsFunction(_ x: Rows, into y: Rows, scratch: ScratchBuffer) {
    if let inputs {
      let clamped = scratch.rows(x.count, x.columns)
      compute.clamp(x, to: inputs, into: clamped)
      linear(clamped, into: y)
    } else {
      linear(x, into: y)
    }
    if let outputs { compute.clamp(y, to: outputs, into: y) }
  }
}
