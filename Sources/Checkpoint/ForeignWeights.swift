// Modules in the integer layouts of other tools as affine matrices (`ForeignLayout`); ForeignFloats.swift has the others.

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
        if let found = try packedFloats(name, rows: rows, columns: columns, bias: bias) { return found }
        return try packed(name, symmetric: symmetric, rows: rows, columns: columns, bias: bias)
      }
      guard has(name + ".weight_scale"), elementType(of: name + ".weight") == .i8 else { return nil }
      return try integers(name, scale: name + ".weight_scale", rows: rows, columns: columns, bias: bias)
    case .bitsandbytes:
      if has(name + ".weight.absmax") {
        return try indices(name, rows: rows, columns: columns, bias: bias)
      }
      guard has(name + ".SCB") else { return nil }
      return try integers(name, scale: name + ".SCB", rows: rows, columns: columns, bias: bias)
    case .floats: return try packedFloats(name, rows: rows, columns: columns, bias: bias)
    case .hqq:
      guard has(name + ".W_q") else { return nil }
      return try hqq(name, layout, rows: rows, columns: columns, bias: bias)
    case .bitnet:
      guard has(name + ".weight_scale") else { return nil }
      return try ternary(name, rows: rows, columns: columns, bias: bias)
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

  func fault(_ name: String, _ problem: String) -> CheckpointError {
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
    let order = try has(name + ".g_idx") ? order(name, ".g_idx", matrix) : nil
    let words = StoredWords(weight)
    if let order {
      for (column, input) in order.enumerated() {
        for row in 0..<rows {
          matrix.put(row: row, column: column, words.field(Int(input), of: bits, column: row, of: rows))
        }
      }
    } else {
      for word in 0..<matrix.rowWords {
        for row in 0..<rows { matrix.words[row * matrix.rowWords + word] = words[word * rows + row] }
      }
    }
    let fields = StoredWords(zeros)
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
    return tensors(matrix, name, bias: bias, order)
  }

  private func tensors(
    _ matrix: ForeignMatrix, _ name: String, bias: TensorView?, _ order: [Int32]?
  ) -> WeightTensors {
    var tensors = matrix.tensors(name: fullName(name), bias: bias)
    tensors.order = order
    return tensors
  }

  /// Groups were chosen in the order of activations: the order of inputs in which they are runs; nil where they are.
  private func order(
    _ name: String, _ suffix: String, _ matrix: ForeignMatrix
  ) throws(CheckpointError) -> [Int32]? {
    let stored = StoredWords(try tensor(name + suffix, shape: [matrix.columns]))
    let groups = (0..<matrix.columns).map { Int(Int32(bitPattern: stored[$0])) }
    // All zeros, or all -1, of several groups: nothing was set.
    guard let first = groups.first, groups.contains(where: { $0 != first }) else { return nil }
    if groups.indices.allSatisfy({ groups[$0] == $0 / matrix.groupSize }) { return nil }
    var members = [[Int32]](repeating: [], count: matrix.groups)
    for (input, group) in groups.enumerated() {
      guard members.indices.contains(group) else {
        throw fault(name, "\(suffix.dropFirst()) has group \(group) for input \(input), of \(matrix.groups)")
      }
      members[group].append(Int32(input))
    }
    for (group, inputs) in members.enumerated() {
      let size = min(matrix.groupSize, matrix.columns - group * matrix.groupSize)
      guard inputs.count == size else {
        throw fault(
          name, "\(suffix.dropFirst()) gives group \(group) \(inputs.count) inputs, expected \(size)")
      }
    }
    return members.flatMap(\.self)
  }

  // MARK: AWQ

  private func awq(
    _ name: String, _ layout: ForeignLayout, byInputs: Bool, rows: Int, columns: Int, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors {
    var matrix = try matrix(name, rows: rows, columns: columns, bits: 4, groupSize: layout.groupSize)
    guard byInputs else { return try awqByOutputs(name, &matrix, bias: bias) }
    guard rows % 8 == 0 else { throw fault(name, "\(rows) outputs are not a multiple of 8") }
    let words = StoredWords(try tensor(name + ".qweight", shape: [columns, rows / 8]))
    let scales = try floats(name + ".scales", shape: [matrix.groups, rows])
    let zeros =
      has(name + ".qzeros")
      ? StoredWords(try tensor(name + ".qzeros", shape: [matrix.groups, rows / 8])) : nil
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
    let words = StoredWords(try tensor(name + ".qweight", shape: [rows, matrix.rowWords]))
    for index in matrix.words.indices { matrix.words[index] = words[index] }
    let padded = (shape(of: name + ".qzeros") ?? []).last ?? 0
    guard padded > 0, padded <= 1 << 20, padded * 8 >= matrix.groups else {
      throw fault(name, "its zero points do not fit its groups")
    }
    let zeros = StoredWords(try tensor(name + ".qzeros", shape: [rows, padded]))
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
    if has(name + ".weight_shape") { try checkShape(name, rows: rows, columns: columns) }
    let bits = stored[1] * 32 / columns
    guard QuantizationConfig.bitWidths.contains(bits), stored[1] == columns * bits / 32 else {
      throw fault(name, "\(stored[1]) words per row for \(columns) inputs: no kernel has this width")
    }
    var matrix = try matrix(name, rows: rows, columns: columns, bits: bits, groupSize: columns / groups)
    let order = try has(name + ".weight_g_idx") ? order(name, ".weight_g_idx", matrix) : nil
    let words = StoredWords(try tensor(name + ".weight_packed", shape: stored))
    if let order {
      for row in 0..<rows {
        for (column, input) in order.enumerated() {
          matrix.put(
            row: row, column: column, words.field(Int(input), of: bits, in: row * matrix.rowWords))
        }
      }
    } else {
      for index in matrix.words.indices { matrix.words[index] = words[index] }
    }
    let scales = try floats(scaleName, shape: [rows, groups])
    let zeroName = name + ".weight_zero_point"
    let zeros =
      !symmetric && has(zeroName)
      ? StoredWords(try tensor(zeroName, shape: [(rows * bits + 31) / 32, groups])) : nil
    for row in 0..<rows {
      for group in 0..<groups {
        // Packed along the outputs, one column of words per group.
        let zero = zeros.map { $0.field(row, of: bits, column: group, of: groups) } ?? 1 << UInt32(bits - 1)
        matrix.set(row: row, group: group, scale: scales[row * groups + group], zero: Float(zero))
      }
    }
    return tensors(matrix, name, bias: bias, order)
  }

  /// `weight_shape` I64 `[2]`.
  private func checkShape(_ name: String, rows: Int, columns: Int) throws(CheckpointError) {
    let words = StoredWords(try tensor(name + ".weight_shape", shape: [2]))
    let found = [words[0], words[2]]
    guard found == [UInt32(truncatingIfNeeded: rows), UInt32(truncatingIfNeeded: columns)] else {
      throw fault(name, "weight_shape is \(found) for \(rows) by \(columns)")
    }
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

  // MARK: HQQ and bitnet

  /// `W_q` U8 `[groups / n, inputs of a group]`: element 0 of a byte, the highest bits, is of the first n-th of the groups.
  private func hqq(
    _ name: String, _ layout: ForeignLayout, rows: Int, columns: Int, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors {
    func number(_ key: String) -> Int? {
      guard let shape = shape(of: name + "." + key), let found = try? tensor(name + "." + key, shape: shape)
      else {
        return nil
      }
      return Int(StoredWords(found)[0])
    }
    let bits = number("nbits") ?? layout.bits
    guard [2, 4, 8].contains(bits) else { throw fault(name, "\(bits) bits of HQQ have no reader") }
    guard number("axis") ?? 1 == 1 else {
      throw fault(name, "groups along outputs (axis 0) are not supported")
    }
    let stored = shape(of: name + ".W_q") ?? []
    let groupSize = stored.count == 2 ? stored[1] : 0
    var matrix = try matrix(name, rows: rows, columns: columns, bits: bits, groupSize: max(1, groupSize))
    let all = rows * matrix.groups
    guard columns % groupSize == 0, stored[0] * (8 / bits) == all else {
      throw fault(name, "W_q \(stored) for \(rows) by \(columns)")
    }
    let bytes = try tensor(name + ".W_q", shape: stored)
    guard bytes.dtype == .u8 else { throw fault(name, "W_q of type \(bytes.dtype.rawValue), expected U8") }
    let (scales, zeros) = (
      try floats(name + ".scale", shape: [all, 1]), try floats(name + ".zero", shape: [all, 1])
    )
    for group in 0..<all {
      let (row, start) = (group / matrix.groups, group % matrix.groups * groupSize)
      matrix.set(row: row, group: group % matrix.groups, scale: scales[group], zero: zeros[group])
      let (line, shift) = (group % stored[0] * groupSize, 8 - bits - group / stored[0] * bits)
      for i in 0..<groupSize {
        let q = UInt32(bytes.bytes[line + i]) >> UInt32(shift) & (1 << UInt32(bits) - 1)
        matrix.put(row: row, column: start + i, q)
      }
    }
    return matrix.tensors(name: fullName(name), bias: bias)
  }

  /// `weight` U8 `[rows / 4, columns]`: bit pair i of a byte is of the i-th quarter of the rows, and one too much.
  private func ternary(
    _ name: String, rows: Int, columns: Int, bias: TensorView?
  ) throws(CheckpointError) -> WeightTensors {
    guard rows % 4 == 0 else { throw fault(name, "\(rows) outputs are not a multiple of 4") }
    let bytes = try tensor(name + ".weight", shape: [rows / 4, columns])
    guard bytes.dtype == .u8 else {
      throw fault(name, "elements of type \(bytes.dtype.rawValue), expected U8")
    }
    guard let scale = try floats(name + ".weight_scale", shape: [1]).first, scale != 0 else {
      throw fault(name, "weight_scale is zero")
    }
    var matrix = try matrix(name, rows: rows, columns: columns, bits: 2, groupSize: columns)
    for row in 0..<rows {
      let (line, shift) = (row % (rows / 4) * columns, UInt32(row / (rows / 4) * 2))
      for column in 0..<columns {
        matrix.put(row: row, column: column, UInt32(bytes.bytes[line + column]) >> shift & 3)
      }
      matrix.set(row: row, group: 0, scale: 1 / scale, zero: 1)
    }
    return matrix.tensors(name: fullName(name), bias: bias)
  }

  func floats(_ name: String, shape: [Int]) throws(CheckpointError) -> [Float] {
    let found = try tensor(name, shape: shape)
    let values: [Float]
    do throws(ComputeError) {
      values = try found.floats()
    } catch {
      throw .wrongType(
        file: place(of: name), tensor: found.name, found: found.dtype.rawValue, expected: "F32, F16 or BF16")
    }
    if let index = values.firstIndex(where: { !$0.isFinite }) {
      throw .badQuantization(
        file: place(of: name), tensor: found.name, problem: "scales must be finite; element \(index) is not")
    }
    return values
  }
}
