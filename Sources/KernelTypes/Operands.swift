// What kernels read and write: pointers with their sizes and strides, without owners.
//
// A product is `kernel(weights, activations, into: output)`: `output[r][o] = weights[o] · activations[r]`. Weights know how
// many they are and how long; activations know how many rows there are; an output only where it is. Pointers to weights,
// scales and biases may have any alignment, those to floats of activations and outputs are aligned to 4 bytes. Nothing is
// read outside of what an operand describes.

// MARK: Weights

/// Rows of dense weights.
package struct FloatRows {
  /// The first row.
  package var base: UnsafeRawPointer
  /// Bytes between the starts of neighbouring rows.
  package var rowBytes: Int
  package var format: FloatFormat
  /// Rows, each of which is an output.
  package var count: Int
  /// Elements of a row.
  package var columns: Int

  package init(base: UnsafeRawPointer, rowBytes: Int, format: FloatFormat, count: Int, columns: Int) {
    (self.base, self.rowBytes, self.format) = (base, rowBytes, format)
    (self.count, self.columns) = (count, columns)
  }

  /// Some of the rows.
  package func rows(_ range: Range<Int>) -> FloatRows {
    var part = self
    part.base += range.lowerBound * rowBytes
    part.count = range.count
    return part
  }
}

/// Scales and biases of affine weights: one of each for a group of neighbouring elements of a row.
package struct Groups {
  /// `[rows][columns / size]`, as the biases.
  package var scales: UnsafeRawPointer
  package var biases: UnsafeRawPointer
  /// Bytes between the scales of neighbouring rows, and between their biases.
  package var rowBytes: Int
  package var format: FloatFormat
  /// Elements of a group: 32, 64 or 128; 16 where elements are bytes that blocks of a GGUF file became.
  package var size: Int

  package init(
    scales: UnsafeRawPointer, biases: UnsafeRawPointer, rowBytes: Int, format: FloatFormat, size: Int
  ) {
    (self.scales, self.biases, self.rowBytes) = (scales, biases, rowBytes)
    (self.format, self.size) = (format, size)
  }
}

/// Rows of affine weights, w = scale · q + bias; `Compute/Weights/WeightMatrix` has the order of the bits.
package struct QuantizedRows {
  /// The first row.
  package var packed: UnsafeRawPointer
  /// Bytes between the starts of neighbouring rows.
  package var rowBytes: Int
  /// Bits of an element: 2, 3, 4, 5, 6 or 8.
  package var bits: Int
  package var groups: Groups
  /// Rows, each of which is an output.
  package var count: Int
  /// Elements of a row, whole groups.
  package var columns: Int

  package init(
    packed: UnsafeRawPointer, rowBytes: Int, bits: Int, groups: Groups, count: Int, columns: Int
  ) {
    (self.packed, self.rowBytes, self.bits) = (packed, rowBytes, bits)
    (self.groups, self.count, self.columns) = (groups, count, columns)
  }

  /// Some of the rows.
  package func rows(_ range: Range<Int>) -> QuantizedRows {
    var part = self
    part.packed += range.lowerBound * rowBytes
    part.groups.scales += range.lowerBound * groups.rowBytes
    part.groups.biases += range.lowerBound * groups.rowBytes
    part.count = range.count
    return part
  }

  /// The rows in panels.
  package var panelShape: PanelShape {
    PanelShape(bits: bits, groupSize: groups.size, factors: .pairs(groups.format), columns: columns)
  }
}

/// Rows of weights in a floating mode, w = scale · element.
package struct FloatingRows {
  /// The first row.
  package var packed: UnsafeRawPointer
  /// Bytes between the starts of neighbouring rows.
  package var rowBytes: Int
  /// `[rows][columns / mode.groupSize]`, a byte each; where the mode has float32 scales, one for each 2^`scaleShift` groups
  /// of a row, the last of which may have less.
  package var scales: UnsafeRawPointer
  /// Bytes between the scales of neighbouring rows.
  package var scaleRowBytes: Int
  package var mode: FloatingMode
  /// At most 31.
  package var scaleShift = 0
  /// Sixteen floats, where elements are indices of a table; else anything.
  package var table: UnsafeRawPointer
  /// Rows, each of which is an output.
  package var count: Int
  /// Elements of a row, whole groups.
  package var columns: Int

  package init(
    packed: UnsafeRawPointer, rowBytes: Int, scales: UnsafeRawPointer, scaleRowBytes: Int,
    mode: FloatingMode, count: Int, columns: Int
  ) {
    (self.packed, self.rowBytes, self.scales) = (packed, rowBytes, scales)
    (self.scaleRowBytes, self.mode) = (scaleRowBytes, mode)
    table = packed
    (self.count, self.columns) = (count, columns)
  }

  /// Whether elements are E4M3 and their scales are of 32 or 128 inputs, so that integers of sixteen bits hold what counts of
  /// them (`KernelsAVX512/WidePanels`).
  package var isWide: Bool { mode == .mxfp8 || (mode == .fp8 && scaleShift == 2) }

  /// Some of the rows.
  package func rows(_ range: Range<Int>) -> FloatingRows {
    var part = self
    part.packed += range.lowerBound * rowBytes
    part.scales += range.lowerBound * scaleRowBytes
    part.count = range.count
    return part
  }
}

/// How the weights of panels are stored.
package struct PanelShape {
  /// Bits of an element: 2, 3, 4, 5, 6 or 8.
  package var bits: Int
  /// Elements of a group: 16 (with 2, 4 or 6 bits), 32, 64 or 128.
  package var groupSize: Int
  package var factors: PanelFactors
  /// Elements of a row, whole groups.
  package var columns: Int

  package init(bits: Int, groupSize: Int, factors: PanelFactors, columns: Int) {
    (self.bits, self.groupSize, self.factors) = (bits, groupSize, factors)
    self.columns = columns
  }

  /// Bytes of a panel.
  package var panelBytes: Int {
    let groups = columns / groupSize
    let heads = (groups + factors.groups - 1) / factors.groups
    return heads * factors.headBytes + groups * Panel.width * groupSize * bits / 8
  }

  /// Bytes from the beginning of a panel to the head of a group.
  package func headOffset(of group: Int) -> Int {
    group / factors.groups * (factors.headBytes + factors.groups * Panel.width * groupSize * bits / 8)
  }
}

/// Affine weights that are kept in panels (`KernelsAVX512/Int8Interleaved`), from the first row of a panel on.
package struct PanelRows {
  /// 64-byte aligned.
  package var base: UnsafeRawPointer
  package var shape: PanelShape
  /// Rows, each of which is an output.
  package var count: Int
  /// Bytes of the panels after these that will be wanted soon.
  package var aheadBytes: Int

  package init(base: UnsafeRawPointer, shape: PanelShape, count: Int, aheadBytes: Int) {
    (self.base, self.shape, self.count) = (base, shape, count)
    self.aheadBytes = aheadBytes
  }
}

/// Weights in a floating mode that are kept in panels (`KernelsAVX512/FloatingPanels`), from the first row of a panel on.
package struct FloatingPanelRows {
  /// 64-byte aligned.
  package var base: UnsafeRawPointer
  /// `mxfp4`, `nvfp4`, `mxfp8`, or `fp8` with a scale for each four groups.
  package var mode: FloatingMode
  /// Elements of a row, a multiple of 32.
  package var columns: Int
  /// Rows, each of which is an output.
  package var count: Int
  /// Bytes of the panels after these that will be wanted soon.
  package var aheadBytes: Int

  package init(base: UnsafeRawPointer, mode: FloatingMode, columns: Int, count: Int, aheadBytes: Int) {
    (self.base, self.mode, self.columns) = (base, mode, columns)
    (self.count, self.aheadBytes) = (count, aheadBytes)
  }
}

/// Some columns of weights as float32, for a stretch of outputs: `[count][OutlierList.outputs]`.
package struct WeightColumns {
  package var base: UnsafeMutablePointer<Float>
  /// Which columns.
  package var columns: UnsafePointer<UInt32>
  /// Columns.
  package var count: Int

  package init(base: UnsafeMutablePointer<Float>, columns: UnsafePointer<UInt32>, count: Int) {
    (self.base, self.columns, self.count) = (base, columns, count)
  }
}

/// The outliers of some rows, a list (`OutlierList`) for each. Places are indices of columns that are there as floats.
package struct OutlierRows {
  package var base: UnsafePointer<UInt32>
  /// Rows.
  package var count: Int

  package init(base: UnsafePointer<UInt32>, count: Int) {
    (self.base, self.count) = (base, count)
  }
}

// MARK: Activations and outputs

/// Rows of float32, as many elements each as the operation takes.
package struct Activations {
  package var base: UnsafePointer<Float>
  /// Floats between the starts of neighbouring rows.
  package var stride: Int
  /// Rows.
  package var count: Int

  package init(base: UnsafePointer<Float>, stride: Int, count: Int) {
    (self.base, self.stride, self.count) = (base, stride, count)
  }
}

/// Rows of int8 activations, as the same table's `quantize` made them.
package struct Int8Activations {
  package var base: UnsafeRawPointer
  /// Bytes between the starts of neighbouring rows.
  package var rowBytes: Int
  /// Rows.
  package var count: Int

  package init(base: UnsafeRawPointer, rowBytes: Int, count: Int) {
    (self.base, self.rowBytes, self.count) = (base, rowBytes, count)
  }
}

/// Where the results of a product go: a row for each row of activations, a float for each row of weights.
package struct Output {
  package var base: UnsafeMutablePointer<Float>
  /// Floats between the starts of neighbouring rows.
  package var stride: Int

  package init(base: UnsafeMutablePointer<Float>, stride: Int) {
    (self.base, self.stride) = (base, stride)
  }
}

/// Memory of the calling thread for a panel that is made for one product.
package struct PanelScratch {
  /// As many bytes as the table's `panelBytes` says, 64-byte aligned.
  package var base: UnsafeMutableRawPointer
  /// Rows of weights after the panel's that will be wanted soon: they are prefetched along the way.
  package var aheadRows: Int

  package init(base: UnsafeMutableRawPointer, aheadRows: Int) {
    (self.base, self.aheadRows) = (base, aheadRows)
  }
}

// MARK: Attention

/// Keys or values of one head in one block of the cache, float32: keys `[headDim][32]`, values `[32][headDim]`.
package struct FloatBlock {
  package var base: UnsafePointer<Float>
  package var headDim: Int

  package init(base: UnsafePointer<Float>, headDim: Int) {
    (self.base, self.headDim) = (base, headDim)
  }
}

/// One key-value head of a short text whose tokens all see each other, with some rows of the query heads that share it. Rows of
/// queries, keys and values are equally far apart.
package struct ShortText {
  /// `[rows, group · headDim]`.
  package var queries: UnsafePointer<Float>
  /// `[tokens, headDim]` each.
  package var keys, values: UnsafePointer<Float>
  /// Floats between rows.
  package var stride: Int
  package var rows: Int
  /// At most `mostTokens`.
  package var tokens: Int
  package var group: Int
  /// A multiple of 32.
  package var headDim: Int
  package var scale: Float

  /// All rows of a text.
  package init(
    queries: UnsafePointer<Float>, keys: UnsafePointer<Float>, values: UnsafePointer<Float>, stride: Int,
    tokens: Int, group: Int, headDim: Int, scale: Float
  ) {
    (self.queries, self.keys, self.values, self.stride) = (queries, keys, values, stride)
    (self.tokens, self.group, self.headDim, self.scale) = (tokens, group, headDim, scale)
    rows = tokens
  }

  /// Of longer texts products of integers are worth their rounding.
  package static let mostTokens = 128

  /// Floats of scratch: keys by dimension, weights of four rows, and two squares of 16.
  package static func scratchFloats(headDim: Int) -> Int { (headDim + 4) * mostTokens + 512 }
}

/// Keys or values of one head in one block of the cache, int16 or int8: keys `[headDim / 2][32][2]`, values
/// `[16][headDim][2]`. 128 bytes after values are readable.
package struct IntegerBlock {
  package var base: UnsafeRawPointer
  /// `[32]`, one for each position. After those of the keys are those of the values.
  package var scales: UnsafePointer<Float>
  package var headDim: Int
  /// Where as many bytes will be wanted next: they are prefetched along the way.
  package var ahead: UnsafeRawPointer

  package init(
    base: UnsafeRawPointer, scales: UnsafePointer<Float>, headDim: Int, ahead: UnsafeRawPointer
  ) {
    (self.base, self.scales, self.headDim) = (base, scales, headDim)
    self.ahead = ahead
  }

  /// Where an element of a position's key stands.
  package static func keyIndex(position: Int, element: Int) -> Int {
    (element / 2 * blockTokens + position) * 2 + element % 2
  }

  /// Where an element of a position's value stands.
  package static func valueIndex(position: Int, element: Int, headDim: Int) -> Int {
    (position / 2 * headDim + element) * 2 + position % 2
  }
}

/// Queries rounded to integers.
package struct IntegerQueries {
  /// `[count][stride]`, padded with a zero to an even head size.
  package var base: UnsafePointer<Int16>
  /// Elements between the starts of neighbouring rows.
  package var stride: Int
  /// Rows.
  package var count: Int
  /// What each row is multiplied with, `[count]`.
  package var scales: UnsafePointer<Float>

  package init(base: UnsafePointer<Int16>, stride: Int, count: Int, scales: UnsafePointer<Float>) {
    (self.base, self.stride, self.count) = (base, stride, count)
    self.scales = scales
  }
}

/// Query rows that see the same keys of a block, and their running softmax.
package struct AttentionRows {
  /// Rows.
  package var count: Int
  /// The positions of the block that the rows see.
  package var seen: Range<Int>
  /// `[count][32]`: scores, which the softmax turns into weights. All are readable. In integers the weights are 32 int16 at
  /// the beginning of each row, zeros outside of `seen`.
  package var scores: UnsafeMutablePointer<Float>
  /// `[count][2]`: the maximum and the sum of a row's softmax so far.
  package var states: UnsafeMutablePointer<Float>
  /// `[count]`: what a row's sums are multiplied with before a block is added.
  package var factors: UnsafeMutablePointer<Float>
  /// `[count]`: what a row's integer weights are multiplied with.
  package var weightScales: UnsafeMutablePointer<Float>
  /// `[count][headDim]`: the weighted sums of values so far.
  package var sums: UnsafeMutablePointer<Float>

  package init(
    count: Int, seen: Range<Int>, scores: UnsafeMutablePointer<Float>, states: UnsafeMutablePointer<Float>,
    factors: UnsafeMutablePointer<Float>, weightScales: UnsafeMutablePointer<Float>,
    sums: UnsafeMutablePointer<Float>
  ) {
    (self.count, self.seen, self.scores) = (count, seen, scores)
    (self.states, self.factors, self.weightScales) = (states, factors, weightScales)
    self.sums = sums
  }
}

/// One head of a row that attends to itself and the rows just before it.
package struct LocalHead {
  package var query: UnsafePointer<Float>
  /// The key and the value of the row itself; those d rows before are at `- d · stride`.
  package var keys, values: UnsafePointer<Float>
  /// Floats between the keys of neighbouring rows, and between their values.
  package var stride: Int
  /// What is added to the key at each distance; as many rows as there are distances, at most 32.
  package var relative: Activations
  /// Elements of the head.
  package var size: Int
  /// No score exceeds it.
  package var cap: Float

  package init(
    query: UnsafePointer<Float>, keys: UnsafePointer<Float>, values: UnsafePointer<Float>, stride: Int,
    relative: Activations, size: Int, cap: Float
  ) {
    (self.query, self.keys, self.values) = (query, keys, values)
    (self.stride, self.relative, self.size) = (stride, relative, size)
    self.cap = cap
  }
}

// MARK: Search

/// Rows of an index as bytes: `row ≈ scale · (code - 128)`.
package struct CodeRows {
  /// The first row; 64-byte aligned.
  package var base: UnsafeRawPointer
  /// Bytes between the starts of neighbouring rows, a multiple of 64. Codes beyond a row's columns are 128.
  package var rowBytes: Int
  /// One for each row.
  package var scales: UnsafePointer<Float>
  /// Rows.
  package var count: Int

  package init(base: UnsafeRawPointer, rowBytes: Int, scales: UnsafePointer<Float>, count: Int) {
    (self.base, self.rowBytes, self.scales) = (base, rowBytes, scales)
    self.count = count
  }
}

/// A query as two planes of bytes: `query ≈ scale · (128 · high + low)`, with |high| ≤ 64 and |low| ≤ 64.
package struct QueryPlanes {
  /// `Int8`, as many as a row has bytes, zeros beyond the columns; 64-byte aligned.
  package var high, low: UnsafePointer<Int8>
  /// Sums of the planes, which the codes' 128 is taken off with.
  package var highSum, lowSum: Int32
  package var scale: Float

  package init(
    high: UnsafePointer<Int8>, low: UnsafePointer<Int8>, highSum: Int32, lowSum: Int32, scale: Float
  ) {
    (self.high, self.low, self.highSum) = (high, low, highSum)
    (self.lowSum, self.scale) = (lowSum, scale)
  }
}

/// Rows of an index as signs, 32 rows side by side: byte p of row r is at `(r / 32 · rowBytes + p) · 32 + r % 32`. A bit is
/// the sign of a component, the lowest that of the first of eight.
package struct SignRows {
  package var base: UnsafeRawPointer
  /// Bytes of a row, a multiple of 8.
  package var rowBytes: Int
  /// Whole blocks of 32 rows.
  package var blocks: Int

  package init(base: UnsafeRawPointer, rowBytes: Int, blocks: Int) {
    (self.base, self.rowBytes, self.blocks) = (base, rowBytes, blocks)
  }
}
