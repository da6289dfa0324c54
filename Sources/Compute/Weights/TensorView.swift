// A named, typed, shaped view of bytes that something else keeps alive: a tensor of a mapped checkpoint.

import KernelTypes

/// Row-major elements at `bytes`; nothing guarantees their alignment (safetensors promises none).
///
/// `@unchecked Sendable`: the bytes are read-only for the life of `owner`.
package struct TensorView: @unchecked Sendable {
  package let name: String
  package let dtype: DType
  /// Outermost dimension first; empty for a scalar.
  package let shape: [Int]
  /// Exactly `shape.reduce(1, *) * dtype.size` bytes.
  package let bytes: UnsafeRawBufferPointer
  /// Keeps `bytes` valid.
  package let owner: AnyObject

  package init(name: String, dtype: DType, shape: [Int], bytes: UnsafeRawBufferPointer, owner: AnyObject) {
    self.name = name
    self.dtype = dtype
    self.shape = shape
    self.bytes = bytes
    self.owner = owner
  }

  package var count: Int { shape.reduce(1, *) }
}

/// How a matrix is quantized (config.json `quantization`).
package struct Quantization: Sendable, Equatable {
  /// How an element is stored, by its name in config.json (`mode`); MLX's names. The floating modes are those of the
  /// OCP Microscaling formats specification, and NVIDIA's E2M1 with E4M3 scales.
  package enum Mode: String, Sendable, CaseIterable {
    /// w = scale · q + bias per group, q unsigned.
    case affine
    case mxfp4, mxfp8, nvfp4

    /// The mode as kernels are told it; nil for affine.
    var floating: FloatingMode? {
      switch self {
      case .affine: nil
      case .mxfp4: .mxfp4
      case .mxfp8: .mxfp8
      case .nvfp4: .nvfp4
      }
    }
  }

  package var mode: Mode
  package var bits: Int
  package var groupSize: Int

  package init(mode: Mode = .affine, bits: Int, groupSize: Int) {
    self.mode = mode
    self.bits = bits
    self.groupSize = groupSize
  }
}

/// The tensors of one linear map or embedding as the checkpoint stores them, shapes already checked.
package struct WeightTensors: Sendable {
  /// Dense: `[rows, columns]` f32, f16 or bf16. Quantized: U32 `[rows, columns · bits / 32]`.
  package let weight: TensorView
  /// Quantized only: `[rows, columns / groupSize]`.
  package let scales: TensorView?
  /// Affine only: as `scales`.
  package let biases: TensorView?
  /// The additive bias of the layer itself, `[rows]`.
  package let bias: TensorView?
  package let quantization: Quantization?
  /// Outputs.
  package let rows: Int
  /// Inputs.
  package let columns: Int

  package init(
    weight: TensorView, scales: TensorView? = nil, biases: TensorView? = nil, bias: TensorView? = nil,
    quantization: Quantization? = nil, rows: Int, columns: Int
  ) {
    self.weight = weight
    self.scales = scales
    self.biases = biases
    self.bias = bias
    self.quantization = quantization
    self.rows = rows
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
  /// - Precondition: the stack has so many.
  package func element(_ index: Int) -> WeightTensors {
    WeightTensors(
      weight: weight.element(index), scales: scales?.element(index), biases: biases?.element(index),
      bias: bias?.element(index), quantization: quantization, rows: rows, columns: columns)
  }

  /// The outputs `range` alone.
  ///
  /// - Precondition: the range is within the rows.
  package func rows(_ range: Range<Int>) -> WeightTensors {
    WeightTensors(
      weight: weight.rows(range), scales: scales?.rows(range), biases: biases?.rows(range),
      bias: bias?.rows(range), quantization: quantization, rows: range.count, columns: columns)
  }
}

extension TensorView {
  /// A part of the outermost dimension.
  fileprivate func rows(_ range: Range<Int>) -> TensorView {
    let size = shape.dropFirst().reduce(dtype.size, *)
    precondition(range.lowerBound >= 0 && range.upperBound <= shape.first ?? 0, "rows out of range")
    return TensorView(
      name: name, dtype: dtype, shape: [range.count] + shape.dropFirst(),
      bytes: UnsafeRawBufferPointer(rebasing: bytes[range.lowerBound * size..<range.upperBound * size]),
      owner: owner)
  }

  /// The part `index` of the outermost dimension, without that dimension.
  fileprivate func element(_ index: Int) -> TensorView {
    TensorView(
      name: "\(name)[\(index)]", dtype: dtype, shape: Array(shape.dropFirst()),
      bytes: rows(index..<index + 1).bytes, owner: owner)
  }
}

extension TensorView {
  /// Float32 elements of the caller's, copied: a tensor that had to be rearranged.
  ///
  /// - Precondition: `shape` has as many elements as there are floats.
  package init(name: String, shape: [Int], floats: [Float]) {
    precondition(shape.reduce(1, *) == floats.count, "tensor: shapes differ")
    let copy = FloatCopy(floats)
    let bytes = UnsafeRawBufferPointer(start: copy.floats, count: floats.count * MemoryLayout<Float>.size)
    self.init(name: name, dtype: .f32, shape: shape, bytes: bytes, owner: copy)
  }
}

/// Owns a copy of an array's elements.
final class FloatCopy {
  let floats: UnsafeMutablePointer<Float>

  init(_ floats: [Float]) {
    self.floats = .allocate(capacity: floats.count)
    self.floats.initialize(from: floats, count: floats.count)
  }

  deinit { floats.deallocate() }
}
