// Modules whose elements are floats of eight or four bits, in the layouts of other tools.
//
// Elements stay in the file. Scales are MLX's bytes where they are powers of two in groups of 32 (mxfp4, mxfp8) or E4M3 in
// groups of 16 (nvfp4, whose second scale is a factor of the whole matrix); all others become float32, one for each group,
// row, or row of a block. So nothing is lost: a weight is the product of its stored numbers, rounded once.

import Compute
import JSON

extension WeightMap {
  // MARK: Eight bits

  /// E4M3 elements and whatever scales there are: of all of the matrix, of each row, of blocks, or of groups.
  ///
  /// - Parameters:
  ///   - weightName: the tensor of the elements; scales are called so with an ending.
  ///   - leading: the dimensions before rows and columns: the experts of a layer.
  func eightBits(
    _ weight: TensorView, _ weightName: String, leading: [Int], rows: Int, columns: Int, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors {
    guard weight.shape == leading + [rows, columns] else {
      throw wrongShape(weight, expected: leading + [rows, columns])
    }
    guard columns % 32 == 0 else { throw fault(weightName, "\(columns) inputs are not a multiple of 32") }
    if let index = notNumber(weight.bytes) {
      throw fault(weightName, "NaN at element \(index)")
    }
    let names = ["_scale_inv", "_scale"].map { weightName + $0 }
    guard let scaleName = names.first(where: has), let stored = shape(of: scaleName) else {
      guard foreignLayout == nil else { throw missing(names[0]) }
      let one = ScaleBlocks(rows: rows, columns: .max)
      let ones = [Float](repeating: 1, count: leading.reduce(1, *))
      return eightBits(weight, leading, rows, columns, ones, in: one, bias)
    }
    let scale = try tensor(scaleName, shape: stored)
    if scale.dtype == .u8, stored == leading + [rows, columns / 32] {
      if scale.bytes.contains(255) { throw fault(scaleName, "scales must be finite; 255 is not") }
      return WeightTensors(
        weight: weight, scales: scale, bias: bias,
        quantization: Quantization(mode: .mxfp8, bits: 8, groupSize: 32), rows: rows, columns: columns)
    }
    var values = scale.dtype == .f8e8m0 ? powers(scale) : try floats(scaleName, shape: stored)
    // One of all matrices is one of each.
    if values.count == 1 { values = [Float](repeating: values[0], count: leading.reduce(1, *)) }
    guard let blocks = scaleBlocks(stored, values.count, leading, rows, columns) else {
      let sizes = foreignLayout?.block.map { " in blocks of \($0)" } ?? ""
      throw fault(scaleName, "scales \(stored) for \(rows) by \(columns)" + sizes)
    }
    return eightBits(weight, leading, rows, columns, values, in: blocks, bias)
  }

  /// Outputs and inputs that share a scale.
  private struct ScaleBlocks {
    var rows: Int
    /// `Int.max` where all of a row share it.
    var columns: Int
  }

  /// What shares a scale: of `count` scales a matrix has one, or one for each block, row, or group of a row; nil where none of
  /// that is so, or there is no kernel for it.
  private func scaleBlocks(
    _ stored: [Int], _ count: Int, _ leading: [Int], _ rows: Int, _ columns: Int
  ) -> ScaleBlocks? {
    func hasKernel(_ groupSize: Int) -> Bool {
      groupSize >= 32 && groupSize % 32 == 0 && (groupSize / 32).nonzeroBitCount == 1
    }
    let matrices = leading.reduce(1, *)
    if count == matrices { return ScaleBlocks(rows: rows, columns: .max) }
    if let block = foreignLayout?.block {
      guard block.count == 2, block[0] > 0, hasKernel(block[1]),
        stored == leading + [(rows - 1) / block[0] + 1, (columns - 1) / block[1] + 1]
      else { return nil }
      return ScaleBlocks(rows: block[0], columns: block[1])
    }
    if count == matrices * rows { return ScaleBlocks(rows: 1, columns: .max) }
    let perRow = count / max(1, matrices * rows)
    guard perRow > 0, count == matrices * rows * perRow, columns % perRow == 0, hasKernel(columns / perRow)
    else { return nil }
    return ScaleBlocks(rows: 1, columns: columns / perRow)
  }

  /// - Parameter values: matrix by matrix, the scales of its blocks row by row.
  private func eightBits(
    _ weight: TensorView, _ leading: [Int], _ rows: Int, _ columns: Int, _ values: [Float],
    in blocks: ScaleBlocks, _ bias: TensorView?
  ) -> WeightTensors {
    let perRow = blocks.columns == .max ? 1 : (columns - 1) / blocks.columns + 1
    let blockRows = (rows - 1) / blocks.rows + 1
    let matrices = leading.reduce(1, *)
    var scales: [Float] = []
    scales.reserveCapacity(matrices * rows * perRow)
    for matrix in 0..<matrices {
      for row in 0..<rows {
        let first = (matrix * blockRows + row / blocks.rows) * perRow
        scales.append(contentsOf: values[first..<first + perRow])
      }
    }
    return WeightTensors(
      weight: weight,
      scales: TensorView(name: weight.name + "_scale", shape: leading + [rows, perRow], floats: scales),
      bias: bias, quantization: Quantization(mode: .fp8, bits: 8, groupSize: blocks.columns), rows: rows,
      columns: columns)
  }

  /// The first E4M3 byte that is not a number.
  private func notNumber(_ bytes: UnsafeRawBufferPointer) -> Int? {
    typealias Block = SIMD64<UInt8>
    var at = 0
    while at + 64 <= bytes.count {
      let block = bytes.loadUnaligned(fromByteOffset: at, as: Block.self) & 0x7F
      if any(block .== 0x7F) { break }
      at += 64
    }
    return bytes[at...].firstIndex { $0 & 0x7F == 0x7F }.map { $0 - bytes.startIndex }
  }

  private func powers(_ scale: TensorView) -> [Float] {
    scale.bytes.map { $0 == 0 ? 0x1p-127 : Float(bitPattern: UInt32($0) << 23) }
  }

  // MARK: Four bits

  /// E2M1 elements, two in a byte: `weight_packed`, or `weight` in ModelOpt's files; nil where it is something else.
  func packedFloats(
    _ name: String, rows: Int, columns: Int, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors? {
    let weightName = name + (has(name + ".weight_packed") ? ".weight_packed" : ".weight")
    let scaleName = name + ".weight_scale"
    guard let stored = shape(of: weightName), stored == [rows, columns / 2], columns % 32 == 0, has(scaleName)
    else {
      return nil
    }
    let bytes = try tensor(weightName, shape: stored)
    guard bytes.dtype == .u8 || bytes.dtype == .i8 else { return nil }
    let weight = TensorView(
      name: bytes.name, dtype: .u32, shape: [rows, columns / 8], bytes: bytes.bytes, owner: bytes.owner)
    let scales = try tensor(scaleName, shape: shape(of: scaleName) ?? [])
    let codes = TensorView(
      name: scales.name, dtype: .u8, shape: scales.shape, bytes: scales.bytes, owner: scales.owner)
    switch (scales.dtype, scales.shape) {
    case (.u8, [rows, columns / 32]), (.f8e8m0, [rows, columns / 32]):
      if codes.bytes.contains(255) { throw fault(scaleName, "scales must be finite; 255 is not") }
      return WeightTensors(
        weight: weight, scales: codes, bias: bias,
        quantization: Quantization(mode: .mxfp4, bits: 4, groupSize: 32), rows: rows, columns: columns)
    case (.f8e4m3, [rows, columns / 16]):
      if let index = notNumber(codes.bytes) { throw fault(scaleName, "NaN at element \(index)") }
      var tensors = WeightTensors(
        weight: weight, scales: codes, bias: bias,
        quantization: Quantization(mode: .nvfp4, bits: 4, groupSize: 16), rows: rows, columns: columns)
      tensors.factor = try secondScale(name)
      return tensors
    default:
      throw fault(scaleName, "scales \(scales.shape) of type \(scales.dtype.rawValue) for E2M1 elements")
    }
  }

  /// What all weights of a matrix are multiplied with. compressed-tensors stores its inverse.
  private func secondScale(_ name: String) throws(CheckpointError) -> Float {
    for (suffix, divides) in [(".weight_global_scale", true), (".weight_scale_2", false)] {
      guard let stored = shape(of: name + suffix) else { continue }
      let values = try floats(name + suffix, shape: stored)
      guard values.count == 1, values[0] > 0 else {
        throw fault(name + suffix, "\(suffix.dropFirst()) must be one number above zero")
      }
      return divides ? 1 / values[0] : values[0]
    }
    return 1
  }

  // MARK: bitsandbytes' four bits

  /// `weight` U8, two indices of `quant_map` in a byte, the first in its high bits; `absmax` per block, which may be
  /// quantized itself.
  func indices(
    _ name: String, rows: Int, columns: Int, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors {
    let state = try state(name)
    let blockSize = state["blocksize"]?.intValue ?? 64
    guard blockSize >= 32, blockSize % 32 == 0, (blockSize / 32).nonzeroBitCount == 1,
      columns % blockSize == 0
    else {
      throw fault(name, "blocksize \(blockSize) for \(columns) inputs has no kernel")
    }
    if let shape = state["shape"]?.arrayValue?.compactMap(\.intValue), shape != [rows, columns] {
      throw fault(name, "quant_state says \(shape), expected \([rows, columns])")
    }
    let stored = shape(of: name + ".weight") ?? []
    let bytes = try tensor(name + ".weight", shape: stored)
    guard bytes.dtype == .u8, bytes.bytes.count == rows * (columns / 2) else {
      throw fault(name, "elements \(stored) of type \(bytes.dtype.rawValue) for \(rows) by \(columns)")
    }
    let blocks = rows * (columns / blockSize)
    let scales = try absmax(name, state, count: blocks)
    // The kernels read the lower half of a byte first.
    let words = (0..<bytes.bytes.count / 4).map { index in
      let word = bytes.bytes.loadUnaligned(fromByteOffset: 4 * index, as: UInt32.self).littleEndian
      return (word & 0x0F0F_0F0F) << 4 | (word & 0xF0F0_F0F0) >> 4
    }
    var tensors = WeightTensors(
      weight: TensorView(name: bytes.name, shape: [rows, columns / 8], words: words),
      scales: TensorView(
        name: bytes.name + ".absmax", shape: [rows, columns / blockSize], floats: scales), bias: bias,
      quantization: Quantization(mode: .table, bits: 4, groupSize: blockSize), rows: rows, columns: columns)
    tensors.table = TensorView(
      name: bytes.name + ".quant_map", shape: [16],
      floats: try floats(name + ".weight.quant_map", shape: [16]))
    return tensors
  }

  /// The JSON object that is stored as a tensor of bytes.
  private func state(_ name: String) throws(CheckpointError) -> JSONObject {
    let places = ["nf4", "fp4"].map { name + ".weight.quant_state.bitsandbytes__" + $0 }
    guard let place = places.first(where: has), let shape = shape(of: place) else { throw missing(places[0]) }
    let bytes = try tensor(place, shape: shape).bytes
    guard bytes.count <= 1 << 16, let state = try? JSONValue(parsing: Array(bytes)),
      let object = state.objectValue
    else { throw fault(place, "quant_state is not a JSON object") }
    return object
  }

  private func absmax(_ name: String, _ state: JSONObject, count: Int) throws(CheckpointError) -> [Float] {
    let place = name + ".weight.absmax"
    let stored = try tensor(place, shape: [count])
    guard stored.dtype == .u8 else { return try floats(place, shape: [count]) }
    let size = state["nested_blocksize"]?.intValue ?? 256
    guard size > 0, let offset = state["nested_offset"]?.doubleValue else {
      throw fault(name, "quant_state has no nested_blocksize or nested_offset")
    }
    let table = try floats(name + ".weight.nested_quant_map", shape: [256])
    let factors = try floats(name + ".weight.nested_absmax", shape: [(count - 1) / size + 1])
    return stored.bytes.enumerated().map { table[Int($1)] * factors[$0 / size] + Float(offset) }
  }
}
