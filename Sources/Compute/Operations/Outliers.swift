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
