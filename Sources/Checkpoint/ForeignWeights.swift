// Modules in the layouts of other tools as affine matrices (`ForeignLayout`).

import Compute
import JSON

extension WeightMap {
  /// A module of a foreign layout; nil where it has no tensors of one.
  func foreign(
    _ name: String, _ layout: ForeignLayout, rows: Int, columns: Int, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors? {
    switch layout.method {
    case .gptq(let lessOne, let symmetric):
      guard has(name + ".qweight") else { return nil }
      return try gptq(
        name, layout, lessOne: lessOne, symmetric: symmetric, rows: rows, columns: columns, bias: bias)
    case .awq(let byInputs):
      guard has(name + ".qweight") else { return nil }
      return try awq(name, layout, byInputs: byInputs, rows: rows, columns: columns, bias: bias)
    case .compressed(let symmetric):
      if has(name + ".weight_packed") {
        return try packed(name, symmetric: symmetric, rows: rows, columns: columns, bias: bias)
      }
      guard has(name + ".weight_scale") else { return nil }
      return try integers(name, scale: name + ".weight_scale", rows: rows, columns: columns, bias: bias)
    case .bitsandbytes:
      guard has(name + ".SCB") else { return nil }
      return try integers(name, scale: name + ".SCB", rows: rows, columns: columns, bias: bias)
    }
  }

  private func matrix(
    _ name: String, rows: Int, columns: Int, bits: Int, groupSize: Int?
  ) throws(CheckpointError) -> ForeignMatrix {
    guard
      let matrix = ForeignMatrix(rows: rows, columns: columns, bits: bits, groupSize: groupSize ?? columns)
    else {
      throw fault(
        name,
        "\(rows) by \(columns) in groups of \(groupSize ?? columns) have no kernel: groups are multiples of 32"
      )
    }
    return matrix
  }

  private func fault(_ name: String, _ problem: String) -> CheckpointError {
    .badQuantization(file: place(of: name), tensor: fullName(name), problem: problem)
  }

  // MARK: GPTQ

  /// `qweight [K · bits / 32, N]` is MLX's matrix of words, turned over; so are the scales `[G, N]`.
  private func gptq(
    _ name: String, _ layout: ForeignLayout, lessOne: Bool, symmetric: Bool, rows: Int, columns: Int,
    bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors {
    let stored = shape(of: name + ".qweight") ?? []
    // The shape decides about the width: some files mix widths.
    let bits =
      stored.count == 2 && columns > 0 && stored[0] <= columns ? stored[0] * 32 / columns : layout.bits
    guard [2, 3, 4, 8].contains(bits) else { throw fault(name, "\(bits) bits have no kernel") }
    // So do the scales about groups, of which some files mix sizes too.
    let groups = shape(of: name + ".scales")?.first ?? 0
    var groupSize = layout.groupSize ?? columns
    if groups > 0, (columns + groupSize - 1) / groupSize != groups, columns % groups == 0 {
      groupSize = columns / groups
    }
    var matrix = try matrix(name, rows: rows, columns: columns, bits: bits, groupSize: groupSize)
    let weight = try tensor(name + ".qweight", shape: [matrix.rowWords, rows])
    let zeros = try tensor(name + ".qzeros", shape: [matrix.groups, rows * bits / 32])
    let scales = try floats(name + ".scales", shape: [matrix.groups, rows])
    try checkGroups(name, matrix)
    let words = Words(weight)
    for word in 0..<matrix.rowWords {
      for row in 0..<rows { matrix.words[row * matrix.rowWords + word] = words[word * rows + row] }
    }
    let fields = Words(zeros)
    let (mask, middle) = (UInt32(1) << UInt32(bits) - 1, UInt32(1) << UInt32(bits - 1))
    let perGroup = rows * bits / 32 * 32 / bits
    func field(_ group: Int, _ row: Int) -> UInt32 {
      fields.field(row, of: bits, in: group * (rows * bits / 32))
    }
    var lessOne = lessOne
    if symmetric, perGroup >= rows {
      // Symmetric files have the middle everywhere: where only the other version gives it, the file is mislabelled.
      var (asSaid, asOther) = (true, true)
      for group in 0..<matrix.groups {
        for row in 0..<rows {
          let (plain, more) = (field(group, row), (field(group, row) &+ 1) & mask)
          asSaid = asSaid && (lessOne ? more : plain) == middle
          asOther = asOther && (lessOne ? plain : more) == middle
        }
      }
      if !asSaid, asOther { lessOne.toggle() }
    }
    for group in 0..<matrix.groups {
      for row in 0..<rows {
        let zero = lessOne ? (field(group, row) &+ 1) & mask : field(group, row)
        matrix.set(row: row, group: group, scale: scales[group * rows + row], zero: Float(zero))
      }
    }
    return matrix.tensors(name: fullName(name), bias: bias)
  }

  /// Groups must be runs of inputs: of an order by activations the inputs would have to be gathered first.
  private func checkGroups(_ name: String, _ matrix: ForeignMatrix) throws(CheckpointError) {
    guard has(name + ".g_idx") else { return }
    let indices = Words(try tensor(name + ".g_idx", shape: [matrix.columns]))
    let isSet = (0..<matrix.columns).contains { indices[$0] != 0 }
    guard isSet else { return }
    for column in 0..<matrix.columns where indices[column] != UInt32(column / matrix.groupSize) {
      throw fault(name, "groups in the order of activations (desc_act) are not supported")
    }
  }

  // MARK: AWQ

  private func awq(
    _ name: String, _ layout: ForeignLayout, byInputs: Bool, rows: Int, columns: Int, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors {
    var matrix = try matrix(name, rows: rows, columns: columns, bits: 4, groupSize: layout.groupSize)
    guard byInputs else { return try awqByOutputs(name, &matrix, bias: bias) }
    guard rows % 8 == 0 else { throw fault(name, "\(rows) outputs are no multiple of 8") }
    let words = Words(try tensor(name + ".qweight", shape: [columns, rows / 8]))
    let scales = try floats(name + ".scales", shape: [matrix.groups, rows])
    let zeros =
      has(name + ".qzeros") ? Words(try tensor(name + ".qzeros", shape: [matrix.groups, rows / 8])) : nil
    // Where the outputs 0 to 7 of a word stand, in nibbles.
    let places: [UInt32] = [0, 4, 1, 5, 2, 6, 3, 7]
    for column in 0..<columns {
      for row in 0..<rows {
        let word = words[column * (rows / 8) + row / 8]
        matrix.put(row: row, column: column, word >> (4 * places[row % 8]) & 15)
      }
    }
    for group in 0..<matrix.groups {
      for row in 0..<rows {
        let zero = zeros.map { $0[group * (rows / 8) + row / 8] >> (4 * places[row % 8]) & 15 } ?? 8
        matrix.set(row: row, group: group, scale: scales[group * rows + row], zero: Float(zero))
      }
    }
    return matrix.tensors(name: fullName(name), bias: bias)
  }

  /// `gemv`: MLX's words; scales and zero points of a row are padded.
  private func awqByOutputs(
    _ name: String, _ matrix: inout ForeignMatrix, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors {
    let rows = matrix.rows
    let words = Words(try tensor(name + ".qweight", shape: [rows, matrix.rowWords]))
    for index in matrix.words.indices { matrix.words[index] = words[index] }
    let padded = (shape(of: name + ".qzeros") ?? []).last ?? 0
    guard padded > 0, padded <= 1 << 20, padded * 8 >= matrix.groups else {
      throw fault(name, "its zero points do not fit its groups")
    }
    let zeros = Words(try tensor(name + ".qzeros", shape: [rows, padded]))
    let scales = try floats(name + ".scales", shape: [rows, 8 * padded])
    for row in 0..<rows {
      for group in 0..<matrix.groups {
        matrix.set(
          row: row, group: group, scale: scales[row * 8 * padded + group],
          zero: Float(zeros.field(group, of: 4, in: row * padded)))
      }
    }
    return matrix.tensors(name: fullName(name), bias: bias)
  }

  // MARK: compressed-tensors and bitsandbytes

  /// `weight_packed` is MLX's words of `q + 2^(bits - 1)`, of integers or of E2M1.
  private func packed(
    _ name: String, symmetric: Bool, rows: Int, columns: Int, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors {
    let scaleName = name + ".weight_scale"
    let (stored, scaled) = (shape(of: name + ".weight_packed") ?? [], shape(of: scaleName) ?? [])
    guard stored.count == 2, stored[0] == rows, columns > 0, let groups = scaled.last, scaled.count == 2,
      groups > 0,
      columns % groups == 0
    else { throw fault(name, "shape \(stored) with scales \(scaled) for \(rows) by \(columns)") }
    if stored[1] == columns / 2, groups == columns / 32 {
      // MXFP4: bytes of elements and of scales, unchanged.
      let bytes = try tensor(name + ".weight_packed", shape: [rows, columns / 2])
      let weight = TensorView(
        name: bytes.name, dtype: .u32, shape: [rows, columns / 8], bytes: bytes.bytes, owner: bytes.owner)
      return WeightTensors(
        weight: weight, scales: try tensor(scaleName, shape: [rows, groups]), bias: bias,
        quantization: Quantization(mode: .mxfp4, bits: 4, groupSize: 32), rows: rows, columns: columns)
    }
    let bits = stored[1] * 32 / columns
    guard QuantizationConfig.bitWidths.contains(bits), stored[1] == columns * bits / 32 else {
      throw fault(name, "\(stored[1]) words per row for \(columns) inputs are no width that has a kernel")
    }
    if has(name + ".weight_g_idx") {
      let indices = Words(try tensor(name + ".weight_g_idx", shape: [columns]))
      for column in 0..<columns
      where indices[column] != .max && indices[column] != UInt32(column / (columns / groups)) {
        throw fault(name, "groups in the order of activations (actorder) are not supported")
      }
    }
    var matrix = try matrix(name, rows: rows, columns: columns, bits: bits, groupSize: columns / groups)
    let words = Words(try tensor(name + ".weight_packed", shape: stored))
    for index in matrix.words.indices { matrix.words[index] = words[index] }
    let scales = try floats(scaleName, shape: [rows, groups])
    let zeroName = name + ".weight_zero_point"
    let zeros =
      !symmetric && has(zeroName)
      ? Words(try tensor(zeroName, shape: [(rows * bits + 31) / 32, groups])) : nil
    for row in 0..<rows {
      for group in 0..<groups {
        // Packed along the outputs, one column of words per group.
        let zero = zeros.map { $0.field(row, of: bits, column: group, of: groups) } ?? 1 << UInt32(bits - 1)
        matrix.set(row: row, group: group, scale: scales[row * groups + group], zero: Float(zero))
      }
    }
    return matrix.tensors(name: fullName(name), bias: bias)
  }

  /// Signed bytes with a scale per row, per group, or one of all.
  private func integers(
    _ name: String, scale scaleName: String, rows: Int, columns: Int, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors {
    let bytes = try tensor(name + ".weight", shape: [rows, columns])
    guard bytes.dtype == .i8 else {
      throw fault(name, "elements of type \(bytes.dtype.rawValue), expected I8")
    }
    let stored = shape(of: scaleName) ?? []
    let scales = try floats(scaleName, shape: stored)
    let isBitsAndBytes = scaleName.utf8.last == UInt8(ascii: "B")
    let groups = max(1, stored.count == 2 ? stored[1] : 1)
    guard groups <= columns, scales.count == rows * groups || scales.count == 1, columns % groups == 0 else {
      throw fault(name, "scales \(stored) for \(rows) by \(columns)")
    }
    var matrix = try matrix(name, rows: rows, columns: columns, bits: 8, groupSize: columns / groups)
    var zeros: TensorView?
    if has(name + ".weight_zero_point") { zeros = try tensor(name + ".weight_zero_point", shape: stored) }
    for row in 0..<rows {
      for column in 0..<columns {
        matrix.put(row: row, column: column, UInt32(bytes.bytes[row * columns + column] ^ 0x80))
      }
    }
    for row in 0..<rows {
      for group in 0..<groups {
        let at = scales.count == 1 ? 0 : row * groups + group
        let zero = zeros.map { Float($0.bytes.loadUnaligned(fromByteOffset: at, as: Int8.self)) } ?? 0
        // bitsandbytes divides first, in float32.
        matrix.set(
          row: row, group: group, scale: isBitsAndBytes ? scales[at] / 127 : scales[at], zero: zero + 128)
      }
    }
    return matrix.tensors(name: fullName(name), bias: bias)
  }

  private func floats(_ name: String, shape: [Int]) throws(CheckpointError) -> [Float] {
    let found = try tensor(name, shape: shape)
    do throws(ComputeError) {
      return try found.floats()
    } catch {
      throw .wrongType(
        file: place(of: name), tensor: found.name, found: found.dtype.rawValue, expected: "F32, F16 or BF16")
    }
  }
}

/// A tensor of 32-bit words.
private struct Words {
  private let tensor: TensorView

  init(_ tensor: TensorView) { self.tensor = tensor }

  /// Zero for a word that is not there, as in a tensor of another type.
  subscript(index: Int) -> UInt32 {
    guard index >= 0, 4 * index + 4 <= tensor.bytes.count else { return 0 }
    return UInt32(littleEndian: tensor.bytes.loadUnaligned(fromByteOffset: 4 * index, as: UInt32.self))
  }

  /// Element `index` of a bit stream that begins at word `start`.
  func field(_ index: Int, of bits: Int, in start: Int) -> UInt32 {
    bitsAt(index * bits, bits) { self[start + $0] }
  }

  /// Element `index` of a bit stream down a column of a matrix of `columns` columns.
  func field(_ index: Int, of bits: Int, column: Int, of columns: Int) -> UInt32 {
    bitsAt(index * bits, bits) { self[$0 * columns + column] }
  }

  private func bitsAt(_ at: Int, _ bits: Int, _ word: (Int) -> UInt32) -> UInt32 {
    let (index, shift) = (at / 32, at % 32)
    var value = UInt64(word(index))
    if shift + bits > 32 { value |= UInt64(word(index + 1)) << 32 }
    return UInt32(truncatingIfNeeded: value >> UInt64(shift)) & (1 << UInt32(bits) - 1)
  }
}
