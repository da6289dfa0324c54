// The tensors of a GGUF file under the names that the model has in safetensors, with what its converter changed undone.

import Compute
import Platform

/// What converters to GGUF do to a tensor.
enum GGUFChange: Sendable, Equatable {
  case none
  /// Gains of norms are stored plus one.
  case plusOne
  /// Of each head, so many rows, the halves stand as pairs of neighbours.
  case pairs(headRows: Int)
  /// Another shape for the same elements.
  case reshaped([Int])
  /// Rates of decay, of which models store the logarithm: -e^A_log.
  case rates([Int])
}

/// One mapped file of a model.
final class GGUFShard: WeightShard {
  struct Entry: Sendable {
    let name: String
    let tensor: GGUFFile.Tensor
    let change: GGUFChange
  }

  private let source: GGUFFile
  private let entries: [Entry]

  init(_ source: GGUFFile, _ entries: [Entry]) { (self.source, self.entries) = (source, entries) }

  var path: String { source.path }
  var facts: FileFacts { source.file.facts }
  var count: Int { entries.count }
  var dataBytes: Int { entries.indices.reduce(0) { $0 + byteCount($1) } }

  func tensorName(_ index: Int) -> String { entries[index].name }

  /// Of blocks, what they take in the form that products in integers read: a model's memory has them once it has run.
  func byteCount(_ index: Int) -> Int {
    let tensor = entries[index].tensor
    guard case .blocks(let format) = tensor.storage else { return tensor.range.count }
    return Int(Double(tensor.range.count / format.bytes * format.values) * format.panelBits / 8)
  }

  func dtypeName(_ index: Int) -> String {
    switch entries[index].tensor.storage {
    case .dense(let type): type.rawValue
    case .blocks(let format): format.name
    case .unread(let name): name
    }
  }

  func dtype(_ index: Int) -> DType? {
    guard case .dense(let type) = entries[index].tensor.storage else { return nil }
    return type
  }

  func shape(_ index: Int) -> [Int] {
    let entry = entries[index]
    switch entry.change {
    case .reshaped(let shape), .rates(let shape): return shape
    case .none, .plusOne, .pairs: return entry.tensor.shape
    }
  }

  private func bytes(_ index: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(rebasing: source.file.bytes[entries[index].tensor.range])
  }

  func tensor(_ index: Int) -> TensorView? {
    let entry = entries[index]
    guard let type = dtype(index) else { return nil }
    let stored = TensorView(
      name: entry.name, dtype: type, shape: shape(index), bytes: bytes(index), owner: source.file)
    func mapped(_ change: (Float) -> Float) -> TensorView? {
      (try? stored.floats()).map {
        TensorView(name: entry.name, shape: stored.shape, floats: $0.map(change))
      }
    }
    switch entry.change {
    case .none, .reshaped: return stored
    case .plusOne: return mapped { $0 - 1 }
    case .rates: return mapped { Float(log(Double(-$0))) }
    case .pairs(let headRows): return stored.unpaired(headRows: headRows)
    }
  }

  func blocks(_ index: Int) -> (format: BlockFormat, headRows: Int, bytes: TensorView)? {
    let entry = entries[index]
    guard case .blocks(let format) = entry.tensor.storage else { return nil }
    var headRows = 0
    if case .pairs(let rows) = entry.change { headRows = rows }
    let shape = shape(index)
    let rowBytes = (shape.last ?? 0) / format.values * format.bytes
    let view = TensorView(
      name: entry.name, dtype: .u8, shape: shape.dropLast() + [rowBytes], bytes: bytes(index),
      owner: source.file)
    return (format, headRows, view)
  }
}
