// A named, typed, shaped view of bytes that something else keeps alive: a tensor of a mapped checkpoint.

import Platform

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
    (self.name, self.dtype, self.shape) = (name, dtype, shape)
    (self.bytes, self.owner) = (bytes, owner)
  }

  package var count: Int { shape.reduce(1, *) }
}

extension TensorView {
  /// A part of the outermost dimension.
  func rows(_ range: Range<Int>) -> TensorView {
    let size = shape.dropFirst().reduce(dtype.size, *)
    precondition(range.lowerBound >= 0 && range.upperBound <= shape.first ?? 0, "rows out of range")
    return TensorView(
      name: name, dtype: dtype, shape: [range.count] + shape.dropFirst(),
      bytes: UnsafeRawBufferPointer(rebasing: bytes[range.lowerBound * size..<range.upperBound * size]),
      owner: owner)
  }

  /// The part `index` of the outermost dimension, without that dimension.
  func element(_ index: Int) -> TensorView {
    TensorView(
      name: "\(name)[\(index)]", dtype: dtype, shape: Array(shape.dropFirst()),
      bytes: rows(index..<index + 1).bytes, owner: owner)
  }
}

extension TensorView {
  /// A copy of some of the bytes.
  package func copy(_ range: Range<Int>) -> [UInt8] { Array(bytes[range]) }

  /// Gives up the memory of a mapped file's pages; they come again when they are touched.
  package func letGo() { (owner as? MappedFile)?.letGo(bytes) }

  /// The same elements in another shape; nil when their number differs.
  package func reshaped(_ shape: [Int]) -> TensorView? {
    var count = 1
    for size in shape {
      let (product, overflow) = count.multipliedReportingOverflow(by: size)
      guard size >= 0, !overflow else { return nil }
      count = product
    }
    guard count == self.count else { return nil }
    return TensorView(name: name, dtype: dtype, shape: shape, bytes: bytes, owner: owner)
  }

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

extension TensorView {
  /// The same tensor with the rows of each head put in order: halves that stand as pairs of neighbours are put one behind
  /// the other. A vector has rows of one element.
  package func unpaired(headRows: Int) -> TensorView? {
    let rows = shape.first ?? 0
    guard headRows > 0, headRows % 2 == 0, rows % headRows == 0 else { return nil }
    let rowBytes = bytes.count / max(1, rows)
    let copy = ByteCopy(count: bytes.count)
    for row in 0..<rows {
      let source = unpairedRow(row, headRows: headRows)
      UnsafeMutableRawBufferPointer(rebasing: copy.bytes[(row * rowBytes)..<(row + 1) * rowBytes]).copyBytes(
        from: bytes[(source * rowBytes)..<(source + 1) * rowBytes])
    }
    return TensorView(
      name: name, dtype: dtype, shape: shape, bytes: UnsafeRawBufferPointer(copy.bytes), owner: copy)
  }

  /// 32-bit words of the caller's, copied.
  ///
  /// - Precondition: `shape` has as many elements as there are words.
  package init(name: String, shape: [Int], words: [UInt32]) {
    precondition(shape.reduce(1, *) == words.count, "tensor: shapes differ")
    let copy = WordCopy(words)
    let bytes = UnsafeRawBufferPointer(start: copy.words, count: words.count * MemoryLayout<UInt32>.size)
    self.init(name: name, dtype: .u32, shape: shape, bytes: bytes, owner: copy)
  }
}

/// Where a row stands whose head has the rows of its two halves side by side in pairs.
func unpairedRow(_ row: Int, headRows: Int) -> Int {
  let (index, half) = (row % headRows, headRows / 2)
  return row - index + 2 * (index % half) + index / half
}

/// Owns bytes that had to be rearranged.
private final class ByteCopy {
  let bytes: UnsafeMutableRawBufferPointer

  init(count: Int) { bytes = .allocate(byteCount: count, alignment: 64) }

  deinit { bytes.deallocate() }
}

/// Owns a copy of an array's words.
private final class WordCopy {
  let words: UnsafeMutablePointer<UInt32>

  init(_ words: [UInt32]) {
    self.words = .allocate(capacity: words.count)
    self.words.initialize(from: words, count: words.count)
  }

  deinit { words.deallocate() }
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
