// Elements of activations that tower over their row: as int8 they would leave too little for the others of their block,
// so the fast mode multiplies them in float32, with the columns of the weights that they meet.
//
// A row has a few of them, often at the same places as others (docs/develop/fast-mode.md: what they cost a model that keeps
// them). While a tile's weights are in the cache, the columns that any row needs become floats, once for all rows.

import KernelTypes

extension ComputeContext {
  /// Rows of x that a stretch of outputs is computed for at once: their outputs are still in the cache when outliers are added.
  private static let sparedRows = 512

  /// The tile of outputs `rows` of a part: the product of what was quantized, and that of the outliers.
  func multiply(
    _ quantized: QuantizedInput, sparing outliers: Outliers, by part: WeightStack.Part, rows: Range<Int>,
    xRows: Int, into y: Output, _ scratch: Scratch
  ) {
    guard let layout = part.layout, let int8 = fastKernels else { return }
    // The product's own scratch comes first.
    let columns = part.matrix.columns
    let room = int8.pointee.panelBytes(columns, layout.block) / 4 + Panel.width * columns / 4
    let first = (room + 15) & ~15
    let floats = scratch.floats(first + outliers.columnCount * OutlierList.outputs) + first
    let met = WeightColumns(base: floats, columns: outliers.columns, count: outliers.columnCount)
    let isPlain = part.factor == 1
    for start in stride(from: rows.lowerBound, to: rows.upperBound, by: OutlierList.outputs) {
      let outputs = start..<min(start + OutlierList.outputs, rows.upperBound)
      for r in stride(from: 0, to: xRows, by: Self.sparedRows) {
        let count = min(Self.sparedRows, xRows - r)
        var some = quantized
        some.first += r
        let target = Output(base: y.base + (start - rows.lowerBound) + r * y.stride, stride: y.stride)
        _ = multiplyInt8(part, rows: outputs, x: some, xRows: count, into: target, scratch)
        // The first product has brought the weights into the cache.
        if r == 0 { read(met, of: part, outputs, scratch) }
        let bias = isPlain ? part.bias.map { $0 + start } : nil
        kernels.addOutliers(
          outliers.rows(some.first..<some.first + count), floats, bias, outputs.count, target)
        if !isPlain { finish(part, rows: outputs, xRows: count, target) }
      }
    }
  }

  /// Makes floats of the columns of some outputs.
  private func read(
    _ columns: WeightColumns, of part: WeightStack.Part, _ outputs: Range<Int>, _ scratch: Scratch
  ) {
    if let panels = part.panels(of: outputs), let read = fastKernels?.pointee.interleaved?.columns {
      guard let shape = part.matrix.panelShape else { return }
      read(PanelRows(base: panels, shape: shape, count: outputs.count, aheadBytes: 0), columns)
    } else {
      let (matrix, rows) = part.matrix.readable(outputs, exactly: false, scratch.aside)
      guard case .affine(let all) = matrix else { return }
      kernels.columns(all.rows(rows), columns)
    }
  }
}

/// The outliers of some rows, and the columns that have any.
struct Outliers {
  /// A list for each row, then for each column 1 + its index among those that have any, then these.
  private let base: UnsafeMutablePointer<UInt32>
  private let rowCount: Int
  private let width: Int
  /// Columns that have outliers.
  private(set) var columnCount = 0

  init(_ buffer: ScratchBuffer, rows: Int, columns: Int) {
    let floats = buffer.floats(rows * OutlierList.length + 2 * columns)
    base = UnsafeMutableRawPointer(floats).assumingMemoryBound(to: UInt32.self)
    rowCount = rows
    width = columns
  }

  /// The list of a row.
  func list(_ row: Int) -> UnsafeMutablePointer<UInt32> { base + row * OutlierList.length }

  /// Some rows.
  func rows(_ range: Range<Int>) -> OutlierRows {
    OutlierRows(base: list(range.lowerBound), count: range.count)
  }

  /// The columns that have outliers.
  var columns: UnsafePointer<UInt32> { UnsafePointer(base + rowCount * OutlierList.length + width) }

  /// Numbers the columns that have outliers, in the order in which rows have them, and says these numbers in the lists in
  /// place of the columns.
  func indexed() -> Outliers {
    var result = self
    let indices = base + rowCount * OutlierList.length
    let columns = indices + width
    var count = 0
    indices.update(repeating: 0, count: width)
    for row in 0..<rowCount {
      let list = list(row)
      for index in 0..<Int(list[0]) {
        let column = Int(list[1 + index])
        if indices[column] == 0 {
          columns[count] = UInt32(truncatingIfNeeded: column)
          count += 1
          indices[column] = UInt32(truncatingIfNeeded: count)
        }
        list[1 + index] = indices[column] - 1
      }
    }
    result.columnCount = count
    return result
  }
}
