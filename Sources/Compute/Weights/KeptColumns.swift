// Some columns of a stack of weights as float32, for elements of activations that are not multiplied as integers.

import KernelTypes

/// Some columns of a stack of affine weights as float32; the last ones that were asked for. Engine thread only.
final class KeptColumns {
  /// Columns that are kept.
  static let limit = 64

  /// Elements of a column.
  let rows: Int
  private let buffer = ScratchBuffer()
  private var placeOf: [Int32]
  private var columnIn = [Int](repeating: -1, count: limit)
  private var next = 0

  init(rows: Int, columns: Int) {
    self.rows = rows
    placeOf = [Int32](repeating: -1, count: columns)
  }

  /// Finds places for columns, at most `limit`.
  ///
  /// - Returns: those of them that are to be filled.
  func place(_ columns: ArraySlice<Int>) -> [Int] {
    _ = buffer.floats(Self.limit * rows)
    let missing = columns.filter { placeOf[$0] < 0 }
    guard !missing.isEmpty else { return [] }
    var isWanted = [Bool](repeating: false, count: Self.limit)
    for column in columns where placeOf[column] >= 0 { isWanted[Int(placeOf[column])] = true }
    for column in missing {
      while isWanted[next] { next = (next + 1) % Self.limit }
      if columnIn[next] >= 0 { placeOf[columnIn[next]] = -1 }
      columnIn[next] = column
      placeOf[column] = Int32(truncatingIfNeeded: next)
      isWanted[next] = true
    }
    return missing
  }

  /// A column that has a place.
  func floats(of column: Int) -> UnsafeMutablePointer<Float> {
    buffer.floats(Self.limit * rows) + Int(placeOf[column]) * rows
  }

  /// Dequantizes a column that has a place, `factor · (scale · q + bias)` of every row.
  func fill(_ column: Int, from weights: WeightStack, _ kernels: KernelTable) {
    for part in weights.parts {
      guard case .affine(let matrix) = part.matrix else { continue }
      let out = floats(of: column) + part.start
      let group = column / matrix.groups.size
      withUnsafeTemporaryAllocation(of: Float.self, capacity: 2 * matrix.count) { factors in
        guard let scales = factors.baseAddress else { return }
        let biases = scales + matrix.count
        gather(matrix.groups.scales, matrix.groups, group, matrix.count, kernels, into: scales)
        gather(matrix.groups.biases, matrix.groups, group, matrix.count, kernels, into: biases)
        for row in 0..<matrix.count {
          let q = Reference.quantum(matrix.packed + row * matrix.rowBytes, matrix.bits, column)
          out[row] = part.factor * (scales[row] * Float(q) + biases[row])
        }
      }
    }
  }

  /// One number of every row.
  private func gather(
    _ base: UnsafeRawPointer, _ groups: Groups, _ index: Int, _ count: Int, _ kernels: KernelTable,
    into out: UnsafeMutablePointer<Float>
  ) {
    guard groups.format != .f32 else {
      for row in 0..<count { out[row] = Reference.element(base + row * groups.rowBytes, .f32, index) }
      return
    }
    withUnsafeTemporaryAllocation(of: UInt16.self, capacity: count) { halves in
      guard let start = halves.baseAddress else { return }
      for row in 0..<count {
        start[row] = (base + row * groups.rowBytes).loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self)
      }
      kernels.widen(start, groups.format, count, out)
    }
  }
}
