// How a matrix of weights is quantized: mode, bits and group size, by their names in config.json.

import KernelTypes

/// How a matrix is quantized (config.json `quantization`).
package struct Quantization: Sendable, Equatable {
  /// How an element is stored, by its name in config.json (`mode`); MLX's names. The floating modes are those of the
  /// OCP Microscaling formats specification, and NVIDIA's E2M1 with E4M3 scales; `fp8` and `table` are layouts of other
  /// programs, which no config.json of MLX's names.
  package enum Mode: String, Sendable, CaseIterable {
    /// w = scale · q + bias per group, q unsigned.
    case affine
    case mxfp4, mxfp8, nvfp4
    /// E4M3 elements with float32 scales.
    case fp8
    /// Indices of a table of sixteen floats, with float32 scales.
    case table

    /// Those of MLX.
    package static let named = [Mode.affine, .mxfp4, .mxfp8, .nvfp4]

    /// The mode as kernels are told it; nil for affine.
    var floating: FloatingMode? {
      switch self {
      case .affine: nil
      case .mxfp4: .mxfp4
      case .mxfp8: .mxfp8
      case .nvfp4: .nvfp4
      case .fp8: .fp8
      case .table: .table
      }
    }
  }

  package var mode: Mode
  package var bits: Int
  /// Elements that share a scale; more than a row has where a row has one.
  package var groupSize: Int

  package init(mode: Mode = .affine, bits: Int, groupSize: Int) {
    (self.mode, self.bits, self.groupSize) = (mode, bits, groupSize)
  }
}
