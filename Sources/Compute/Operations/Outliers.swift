// Elements of activations that tower over their row: as int8 they would leave too little for the others of their block,
// so the fast mode multiplies them in float32, with the columns of the weights that they meet.
//
// Encoders of texts have some such elements in most rows, often at the same places. Columns of the last ones are kept.

import KernelTypes

extension ComputeContext {
  /// As `multiply`, with float32 activations for the outliers of each row: for models whose rows have them. A row's results
  /// depend on it alone, as those of all products do.
  package func multiply(sparingOutliers x: Rows, by weights: WeightStack, into y: Rows) {
    guard activeInt8 != nil, let kept = weights.keptColumns, x.count > 0 else {
      return multiply(x, by: weights, into: y)
    }
    let rest = outlierRest.rows(x.count, x.columns)
    let outliers = Outliers(outlierPlaces, rows: x.count)
    forEachRow(x.count, work: 2 * x.columns) { range in
      for r in range { outliers.split(x.row(r), x.columns, rest.row(r), row: r) }
    }
    multiply(rest, by: weights, into: y)
    for chunk in outliers.columns(of: x.columns) {
      let missing = kept.place(chunk)
      forEachRow(missing.count, work: 8 * weights.rows) { range in
        for index in range { kept.fill(missing[index], from: weights, kernels) }
      }
      forEachRow(x.count, work: weights.rows) { range in
        for r in range { outliers.add(chunk, of: kept, row: r, into: y.row(r)) }
      }
    }
  }
}

/// The outliers of some rows: of each its column and its value, columns ascending.
struct Outliers {
  /// An outlier has more than this share of its row's sum of squares. So a row has fewer of them than `limit`.
  static let share: Float = 1 / 32
  private static let limit = 32
  /// A count, then columns, then values.
  private static let places = 1 + 2 * limit

  private let base: UnsafeMutablePointer<Float>
  private let rows: Int

  init(_ buffer: ScratchBuffer, rows: Int) {
    base = buffer.floats(rows * Self.places)
    self.rows = rows
  }

  private func found(_ row: Int) -> UnsafeMutablePointer<UInt32> {
    UnsafeMutableRawPointer(base + row * Self.places).assumingMemoryBound(to: UInt32.self)
  }

  /// Copies a row and makes its outliers zero in the copy. Whole registers: columns are whole groups of weights.
  func split(
    _ x: UnsafePointer<Float>, _ columns: Int, _ rest: UnsafeMutablePointer<Float>, row: Int
  ) {
    var sums = Portable.Lanes.zero
    for c in stride(from: 0, to: columns, by: Portable.lanes) {
      let value = Portable.load(x, c)
      Portable.store(value, rest, c)
      sums += value * value
    }
    // Numbers whose squares are none have no outliers: nothing exceeds them.
    let bound = Portable.Lanes(repeating: Portable.sum(sums) * Self.share)
    let found = found(row)
    var count = 0
    for c in stride(from: 0, to: columns, by: Portable.lanes) {
      let value = Portable.load(x, c)
      let isOutlier = value * value .> bound
      guard any(isOutlier) else { continue }
      for lane in 0..<Portable.lanes where isOutlier[lane] && count < Self.limit {
        found[1 + count] = UInt32(truncatingIfNeeded: c + lane)
        found[1 + Self.limit + count] = value[lane].bitPattern
        rest[c + lane] = 0
        count += 1
      }
    }
    found[0] = UInt32(truncatingIfNeeded: count)
  }

  /// The columns that have outliers, ascending, in pieces that are kept at once.
  func columns(of width: Int) -> [ArraySlice<Int>] {
    var isUsed = [Bool](repeating: false, count: width)
    for row in 0..<rows {
      let found = found(row)
      for index in 0..<Int(found[0]) { isUsed[Int(found[1 + index])] = true }
    }
    let used = isUsed.indices.filter { isUsed[$0] }
    return stride(from: 0, to: used.count, by: KeptColumns.limit).map {
      used[$0..<min($0 + KeptColumns.limit, used.count)]
    }
  }

  /// `y += value · column` for the outliers of a row in some columns, in their order.
  func add(_ columns: ArraySlice<Int>, of kept: KeptColumns, row: Int, into y: UnsafeMutablePointer<Float>) {
    guard let first = columns.first, let last = columns.last else { return }
    let found = found(row)
    for index in 0..<Int(found[0]) {
      let column = Int(found[1 + index])
      guard column >= first, column <= last else { continue }
      let value = Float(bitPattern: found[1 + Self.limit + index])
      let (weights, count) = (kept.floats(of: column), kept.rows)
      var at = 0
      while at + Portable.lanes <= count {
        Portable.store(Portable.load(y, at) + value * Portable.load(weights, at), y, at)
        at += Portable.lanes
      }
      while at < count {
        y[at] += value * weights[at]
        at += 1
      }
    }
  }
}

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
