// A file of tensors as a checkpoint's store asks it, whatever its format.

import Compute
import Platform

/// Tensors by their positions in a file. Names are those of the model's checkpoint in safetensors.
protocol WeightShard: Sendable {
  var path: String { get }
  /// What the file was when it was mapped.
  var facts: FileFacts { get }
  var count: Int { get }
  /// Bytes that all tensors take in memory.
  var dataBytes: Int { get }
  func tensorName(_ index: Int) -> String
  /// The element type as the file spells it.
  func dtypeName(_ index: Int) -> String
  /// Nil for a type that `DType` does not have.
  func dtype(_ index: Int) -> DType?
  func shape(_ index: Int) -> [Int]
  func byteCount(_ index: Int) -> Int
  /// The elements; nil for a type that `DType` does not have.
  func tensor(_ index: Int) -> TensorView?
  /// The block type of a tensor that is stored in blocks, and rows per head where their halves stand as pairs.
  func blocks(_ index: Int) -> (format: BlockFormat, headRows: Int, bytes: TensorView)?
}

extension WeightShard {
  /// The last component of `path`.
  var name: String { File.name(of: path) }
}
