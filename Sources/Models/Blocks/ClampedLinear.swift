// A linear map whose inputs and outputs are clamped at bounds that the checkpoint gives.

import Compute

/// `y = clamp(linear(clamp(x)))`; a plain linear map where there are no bounds.
struct ClampedLinear {
  private let linear: Linear
  private let inputs, outputs: ClosedRange<Float>?
  private let compute: ComputeContext

  /// - Parameter name: of the module; its matrix is `<name>.linear.weight` or `<name>.weight`, beside `input_min`,
  ///   `input_max`, `output_min` and `output_max`.
  init(_ name: String, _ rows: Int, from columns: Int, _ weights: LayerLoader) throws(ModelError) {
    let module = weights.at(name)
    linear = try weights.linear([module.has("linear.weight") ? name + ".linear" : name: rows], from: columns)
    inputs = try Self.bounds("input", module)
    outputs = try Self.bounds("output", module)
    compute = weights.compute
  }

  private static func bounds(_ side: String, _ module: LayerLoader) throws(ModelError) -> ClosedRange<Float>?
  {
    let (lower, upper) = (try scalar(side + "_min", module), try scalar(side + "_max", module))
    if lower == nil, upper == nil { return nil }
    guard let lower, let upper, lower <= upper else {
      throw .missingTensor(
        name: "\(module.prefix).\(side)_min, \(side)_max", because: "clamped maps need both bounds, in order")
    }
    return lower...upper
  }

  private static func scalar(_ name: String, _ module: LayerLoader) throws(ModelError) -> Float? {
    guard let shape = module.shape(of: name) else { return nil }
    return try module.floats(name, shape: shape.isEmpty ? [] : [1]).first
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
