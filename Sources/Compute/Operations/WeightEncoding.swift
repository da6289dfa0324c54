// Rows of a matrix, in whatever layout they are stored, as a file in MLX's layouts has them.

import KernelTypes
import Platform

/// What rows are written as.
package enum WeightForm: Sendable {
  /// Floats of a type.
  case floats(DType)
  /// Rounded anew; before that to a type of floats, where one is given.
  case rounded(Quantizer, first: DType?)
  /// The numbers of a GGUF file's blocks, with scales and biases of a type.
  case blocks(BlockFormat, scales: DType)
}

/// Rows as bytes of a file's tensors.
package struct EncodedRows: Sendable {
  package fileprivate(set) var bytes: [UInt8]
  /// Where in `bytes` elements, scales and biases are; empty where the form has none.
  package let parts: [Range<Int>]
  /// Of all numbers that were rounded, and of what rounding changed in them, the sums of squares.
  package fileprivate(set) var squares = 0.0
  package fileprivate(set) var misses = 0.0

  fileprivate init(bytes: [UInt8], parts: [Range<Int>]) { (self.bytes, self.parts) = (bytes, parts) }
}

extension BlockFormat {
  /// The form that has the numbers of blocks to the bit, but for scales and biases of 16 bits where the file's are
  /// products of two; nil for types without one.
  package var kept: Quantization? {
    switch commonForm {
    case nil: nil
    case .affine(let bits, let size, _): Quantization(bits: bits, groupSize: size)
    case .mxfp4: Quantization(mode: .mxfp4, bits: 4, groupSize: 32)
    }
  }
}

extension WeightForm {
  /// How a form's numbers are stored; nil for floats.
  package var quantization: Quantization? {
    switch self {
    case .floats: nil
    case .rounded(let quantizer, _): quantizer.quantization
    case .blocks(let format, _): format.kept
    }
  }

  /// The type of floats, or of scales and biases.
  package var dtype: DType {
    switch self {
    case .floats(let type): type
    case .rounded(let quantizer, _): quantizer.quantization.mode == .affine ? quantizer.dtype : .u8
    case .blocks(let format, let type): format == .mxfp4 ? .u8 : type
    }
  }

  /// Bytes of a row's elements, scales and biases.
  package func rowBytes(_ columns: Int) -> [Int] {
    guard let quantization else { return [columns * dtype.size, 0, 0] }
    let scales = columns / quantization.groupSize * dtype.size
    return [columns * quantization.bits / 8, scales, quantization.mode == .affine ? scales : 0]
  }
}

extension ComputeContext {
  /// Encodes rows of a matrix, on all threads.
  ///
  /// - Throws: `unsupportedWeights` for layouts without kernels, and for numbers that are not finite, in the file or in the
  ///   form, with their place.
  package func encode(
    _ tensors: WeightTensors, rows range: Range<Int>, as form: WeightForm
  ) throws(ComputeError) -> EncodedRows {
    let matrix = try WeightMatrix(tensors)
    let sizes = form.rowBytes(tensors.columns)
    var (parts, end): ([Range<Int>], Int) = ([], 0)
    for size in sizes {
      parts.append(end..<end + size * range.count)
      end += size * range.count
    }
    var encoded = EncodedRows(bytes: [UInt8](repeating: 0, count: end), parts: parts)
    var sums = [SIMD2<Double>](repeating: SIMD2(), count: range.count)
    let broken = Monitor<(row: Int, column: Int)?>(nil)
    encoded.bytes.withUnsafeMutableBytes { bytes in
      sums.withUnsafeMutableBufferPointer { sums in
        guard let base = bytes.baseAddress, let sums = sums.baseAddress else { return }
        pool.run(tiles: range.count) { index, worker in
          let row = range.lowerBound + index
          let places = zip(parts, sizes).map { base + $0.lowerBound + index * $1 }
          let fault = self.encode(matrix, tensors, row, worker, form, places, &sums[index])
          guard let fault else { return }
          broken.update { first in
            if let found = first, found < (row, fault) { return }
            first = (row, fault)
          }
        }
      }
    }
    if let place = broken.withLock({ $0 }) {
      throw .unsupportedWeights(
        tensor: tensors.weight.name,
        reason: "element [\(place.row), \(place.column)] is no finite \(form.dtype.rawValue)",
        supported: "finite weights; --dtype float32 has room for large ones")
    }
    for sum in sums { (encoded.squares, encoded.misses) = (encoded.squares + sum.x, encoded.misses + sum.y) }
    return encoded
  }

  /// - Parameter sums: the row's squares, and those of what rounding changed.
  /// - Returns: the place of a number that is not finite.
  private func encode(
    _ matrix: WeightMatrix, _ tensors: WeightTensors, _ row: Int, _ worker: Int, _ form: WeightForm,
    _ places: [UnsafeMutableRawPointer], _ sums: inout SIMD2<Double>
  ) -> Int? {
    let columns = tensors.columns
    let aside = workerScratch[worker].aside
    if case .blocks(let format, let type) = form {
      let (packed, rows) = matrix.readable(
        row..<row + 1, exactly: format.commonForm == format.exactForm, aside)
      return copy(packed.first(rows), type, places)
    }
    let (source, rows) = matrix.readable(row..<row + 1, exactly: true, aside)
    let room = workerScratch[worker].floats(3 * columns)
    unpack(source, rows: rows, into: Output(base: room, stride: columns))
    if tensors.factor != 1 { kernels.scale(tensors.factor, columns, room) }
    if let order = tensors.order {
      let aside = room + columns
      aside.update(from: room, count: columns)
      for (index, input) in order.enumerated() { room[Int(input)] = aside[index] }
    }
    if let place = Quantizer.firstBroken(room, columns) { return place }
    switch form {
    case .floats(let type):
      for i in 0..<columns { type.store(room[i], places[0], i) }
      return type == .f16 ? (0..<columns).first { !type.rounded(room[$0]).isFinite } : nil
    case .rounded(let quantizer, let first):
      if let first, first != .f32 { for i in 0..<columns { room[i] = first.rounded(room[i]) } }
      let quanta = UnsafeMutableRawPointer(room + columns).assumingMemoryBound(to: UInt8.self)
      sums = quantizer.round(
        room, columns, quanta, packed: places[0], scales: places[1], biases: places[2])
      return sums.y.isFinite ? nil : 0
    case .blocks: return nil
    }
  }

  /// Copies a row in the form of its blocks.
  private func copy(_ row: WeightMatrix, _ type: DType, _ places: [UnsafeMutableRawPointer]) -> Int? {
    switch row {
    case .affine(let row):
      places[0].copyMemory(from: row.packed, byteCount: row.rowBytes)
      for group in 0..<row.columns / row.groups.size {
        for (base, place) in [(row.groups.scales, places[1]), (row.groups.biases, places[2])] {
          let value = Reference.element(base, row.groups.format, group)
          type.store(value, place, group)
          if !type.rounded(value).isFinite { return group * row.groups.size }
        }
      }
    case .floating(let row):
      places[0].copyMemory(from: row.packed, byteCount: row.rowBytes)
      places[1].copyMemory(from: row.scales, byteCount: row.scaleRowBytes)
    case .dense, .blocks: break
    }
    return nil
  }
}

extension WeightMatrix {
  /// One row of some that kernels read.
  fileprivate func first(_ rows: Range<Int>) -> WeightMatrix {
    switch self {
    case .affine(let all): .affine(all.rows(rows))
    case .floating(let all): .floating(all.rows(rows))
    case .dense, .blocks: self
    }
  }
}
