// What an adapter adds to stacked linear maps, in the order in which its product reads it.

import KernelTypes

/// The pairs of the maps of one product, which have their inputs in common. A map without a pair is left out.
package final class LowRankStack {
  struct Part {
    /// The part's first output, and how many it has.
    let start, rows: Int
    let rank: Int
    /// The first of its rows among those of `down`.
    let first: Int
    let factor: Float
    /// `up` in stretches of outputs, each `[rank][outputs]`.
    let up: UnsafeRawPointer
    /// DoRA's factor of each output, and the bias that it does not change.
    let scales: UnsafePointer<Float>?
    let bias: UnsafePointer<Float>?
  }

  /// Outputs whose elements of `up` stand side by side: as floats they fit the first-level cache with a rank of 32.
  static let stretch = 256

  private(set) var parts: [Part] = []
  /// `down` of all parts, one after the other.
  let down: FloatRows
  /// Inputs.
  let columns: Int
  package let byteCount: Int
  private let memory: UnsafeMutableRawPointer
  /// What keeps scales and biases valid.
  private var owners: [AnyObject]

  var format: FloatFormat { down.format }
  /// Ranks of all parts together.
  var ranks: Int { down.count }

  /// What the pairs of a map take in memory, bytes.
  package static func bytes(of tensors: LowRankTensors, rows: Int) -> Int {
    (format(of: [tensors])?.bytes ?? 4) * tensors.rank * (tensors.columns + rows)
  }

  /// The format of all tensors, or float32 where they differ.
  private static func format(of pairs: [LowRankTensors]) -> FloatFormat? {
    var formats = pairs.flatMap { [$0.down.dtype.floatFormat, $0.up.dtype.floatFormat] }[...]
    guard let first = formats.popFirst() ?? nil, !formats.contains(nil) else { return nil }
    return formats.allSatisfy { $0 == first } ? first : .f32
  }

  /// A pair, and the outputs it is for.
  struct Piece {
    let tensors: LowRankTensors
    let start, rows: Int
    let factor: Float
    var scales: [Float] = []
    var bias: UnsafePointer<Float>?
  }

  /// - Throws: `unsupportedWeights` for tensors of another type than floats.
  init(_ pieces: [Piece], keeping weights: [WeightStack]) throws(ComputeError) {
    guard let format = Self.format(of: pieces.map(\.tensors)), let columns = pieces.first?.tensors.columns
    else {
      let other = pieces.flatMap { [$0.tensors.down, $0.tensors.up] }.first { $0.dtype.floatFormat == nil }
      throw other?.unsupportedDType ?? .invalidSize(what: "adapted maps", value: 0)
    }
    let size = format.bytes
    let ranks = pieces.reduce(0) { $0 + $1.tensors.rank }
    let bytes = pieces.reduce(size * ranks * columns) { $0 + size * $1.tensors.rank * $1.rows }
    memory = .allocate(byteCount: max(64, bytes), alignment: 64)
    (byteCount, self.columns, owners) = (bytes, columns, weights)
    down = FloatRows(
      base: memory, rowBytes: size * columns, format: format, count: ranks, columns: columns)
    var (first, end) = (0, memory + size * ranks * columns)
    for piece in pieces {
      let (tensors, start) = (piece.tensors, end)
      for k in 0..<tensors.rank {
        let row = memory + (first + k) * size * columns
        for column in 0..<columns {
          Self.copy(tensors.down, tensors.downIndex(k, column), to: row, column, format)
        }
      }
      for outputs in Self.stretches(of: piece.rows) {
        for k in 0..<tensors.rank {
          for (place, output) in outputs.enumerated() {
            Self.copy(tensors.up, tensors.upIndex(output, k), to: end, place, format)
          }
          end += size * outputs.count
        }
      }
      let scales = piece.scales.isEmpty ? nil : FloatCopy(piece.scales)
      if let scales { owners.append(scales) }
      parts.append(
        Part(
          start: piece.start, rows: piece.rows, rank: tensors.rank, first: first, factor: piece.factor,
          up: UnsafeRawPointer(start), scales: scales.map { UnsafePointer($0.floats) }, bias: piece.bias))
      first += tensors.rank
    }
  }

  deinit { memory.deallocate() }

  /// The outputs of a part in stretches.
  static func stretches(of rows: Int) -> [Range<Int>] {
    stride(from: 0, to: rows, by: stretch).map { $0..<min($0 + stretch, rows) }
  }

  /// Copies an element: its bits, or as float32.
  private static func copy(
    _ tensor: TensorView, _ index: Int, to target: UnsafeMutableRawPointer, _ place: Int,
    _ format: FloatFormat
  ) {
    guard let base = tensor.bytes.baseAddress, let stored = tensor.dtype.floatFormat else { return }
    if format == .f32 {
      target.storeBytes(
        of: Reference.element(base, stored, index), toByteOffset: 4 * place, as: Float.self)
    } else {
      target.storeBytes(
        of: base.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self), toByteOffset: 2 * place,
        as: UInt16.self)
    }
  }
}
