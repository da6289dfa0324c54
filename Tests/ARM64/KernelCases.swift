// The kernels of arm64 against their scalar twins, to the bit: cases for an Embedded Swift object beside `main.c`.
//
// Compiled together with Compute's kernel tables, so that what is tried is what the program calls. The twins of the float
// kernels of NEON are models in scalar fused operations: eight lanes for each output, as KernelsAVX2 has them.

import KernelTypes

/// The levels of this machine are the C program's affair.
enum CPUFeatures {
  static let best = ISA.portable
}

@_silgen_name("guarded_memory")
func guardedMemory(_ count: Int) -> UnsafeMutableRawPointer

/// Prints what failed with its numbers, or how many comparisons there were.
@_silgen_name("report")
func report(
  _ level: UnsafePointer<UInt8>, _ what: UnsafePointer<UInt8>?, _ count: Int, _ numbers: UnsafePointer<Int>?)

/// Random numbers, the same in every run.
struct Random {
  var state: UInt64

  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return state >> 24
  }

  mutating func below(_ count: Int) -> Int { Int(truncatingIfNeeded: next()) % count }

  /// In -1 ... 1.
  mutating func float() -> Float { Float(below(1 << 24) - 1 << 23) * 0x1p-23 }
}

/// What a case found. Memory is never freed.
struct Check {
  let level: ISA
  let kernels: KernelTable
  var random: Random
  var failures = 0
  var comparisons = 0

  /// - Parameter numbers: what the case was about.
  mutating func expect(_ isTrue: Bool, _ what: StaticString, _ numbers: Int...) {
    comparisons += 1
    guard !isTrue else { return }
    failures += 1
    guard failures < 20 else { return }
    numbers.withUnsafeBufferPointer { report(level.name.utf8Start, what.utf8Start, $0.count, $0.baseAddress) }
  }

  mutating func bytes(_ count: Int) -> UnsafeMutableRawPointer {
    let memory = guardedMemory(count)
    for i in 0..<count {
      memory.storeBytes(of: UInt8(truncatingIfNeeded: random.next()), toByteOffset: i, as: UInt8.self)
    }
    return memory
  }

  mutating func floats(_ count: Int) -> UnsafeMutablePointer<Float> {
    let memory = guardedMemory(4 * count).assumingMemoryBound(to: Float.self)
    for i in 0..<count { memory[i] = random.float() }
    return memory
  }

  /// Floats in a format, whose start has any address.
  mutating func stored(_ count: Int, _ format: FloatFormat) -> UnsafeMutableRawPointer {
    let memory = guardedMemory(count * format.bytes)
    for i in 0..<count {
      let value = random.float()
      switch format {
      case .f32: memory.storeBytes(of: value, toByteOffset: 4 * i, as: Float.self)
      case .f16: memory.storeBytes(of: Float16(value).bitPattern, toByteOffset: 2 * i, as: UInt16.self)
      case .bf16:
        let bits = UInt16(truncatingIfNeeded: value.bitPattern >> 16)
        memory.storeBytes(of: bits, toByteOffset: 2 * i, as: UInt16.self)
      }
    }
    return memory
  }

  mutating func affine(_ count: Int, _ columns: Int, bits: Int, group: Int, _ format: FloatFormat)
    -> QuantizedRows
  {
    let groups = columns / group
    return QuantizedRows(
      packed: bytes(count * columns * bits / 8), rowBytes: columns * bits / 8, bits: bits,
      groups: Groups(
        scales: stored(count * groups, format), biases: stored(count * groups, format),
        rowBytes: groups * format.bytes, format: format, size: group), count: count, columns: columns)
  }

  mutating func floating(_ count: Int, _ columns: Int, _ mode: FloatingMode) -> FloatingRows {
    if mode.hasFloatScales { return floatScaled(count, columns, mode) }
    let groups = count * columns / mode.groupSize
    let scales = guardedMemory(groups)
    for i in 0..<groups {
      let code =
        mode == .nvfp4 ? UInt8(truncatingIfNeeded: random.next()) & 0xBF : UInt8(117 + random.below(20))
      scales.storeBytes(of: i == 0 && mode != .nvfp4 ? 0 : code, toByteOffset: i, as: UInt8.self)
    }
    return FloatingRows(
      packed: bytes(count * columns * mode.bits / 8), rowBytes: columns * mode.bits / 8, scales: scales,
      scaleRowBytes: columns / mode.groupSize, mode: mode, count: count, columns: columns)
  }
}

extension Check {
  /// Rows with a float32 scale for each two groups of 32, the last of which may have less.
  private mutating func floatScaled(_ count: Int, _ columns: Int, _ mode: FloatingMode) -> FloatingRows {
    let groups = (columns / mode.groupSize + 1) / 2
    var rows = FloatingRows(
      packed: bytes(count * columns * mode.bits / 8), rowBytes: columns * mode.bits / 8,
      scales: stored(count * groups, .f32), scaleRowBytes: 4 * groups, mode: mode, count: count,
      columns: columns)
    rows.scaleShift = 1
    rows.table = UnsafeRawPointer(stored(16, .f32))
    return rows
  }
}

extension ISA {
  var name: StaticString {
    switch self {
    case .portable: "portable"
    case .neon: "neon"
    case .dotprod: "dotprod"
    case .i8mm: "i8mm"
    default: "another"
    }
  }
}

/// Room for results, whose every element has to be written.
func room(_ count: Int) -> UnsafeMutablePointer<Float> {
  let memory = UnsafeMutablePointer<Float>.allocate(capacity: count + 16)
  for i in 0..<count + 16 { memory[i] = .nan }
  return memory
}

func isSame(_ a: UnsafeMutablePointer<Float>, _ b: UnsafeMutablePointer<Float>, _ count: Int) -> Bool {
  for i in 0..<count where a[i].bitPattern != b[i].bitPattern { return false }
  // Nothing after the end was written.
  return a[count].isNaN && a[count + 15].isNaN
}

// MARK: Integer products

/// Rows of x that a set of integer kernels quantized.
func quantized(
  _ x: UnsafeMutablePointer<Float>, rows: Int, columns: Int, block: Int, _ order: Int8Order,
  _ kernels: Int8Kernels
) -> Int8Activations {
  let rowBytes = kernels.rowBytes(columns, block)
  let memory = guardedMemory((rowBytes + 63) / 64 * 64 * rows)
  for r in 0..<rows { kernels.quantize(x + r * columns, columns, block, order, memory + r * rowBytes) }
  return Int8Activations(base: memory, rowBytes: rowBytes, count: rows)
}

extension Check {
  mutating func integerProducts() {
    guard let int8 = kernels.int8, let kept = int8.interleaved else { return expect(false, "int8 is there") }
    let storages: [(group: Int, format: FloatFormat)] = [
      (32, .f32), (32, .bf16), (64, .f16), (64, .bf16), (128, .bf16),
    ]
    for bits in [2, 3, 4, 5, 6, 8] {
      for (group, format) in storages {
        for groups in [1, 2, 3, 5, 12, 19] {
          integerProducts(int8, kept, affine(21, group * groups, bits: bits, group: group, format), groups)
        }
      }
    }
    for groups in [1, 2, 3, 12, 17] {
      for bits in [4, 5, 8] { headedProducts(int8, kept, .halves, bits: bits, groups) }
      for bits in [4, 5] { headedProducts(int8, kept, .bytes, bits: bits, groups) }
      for bits in [4, 6] { headedProducts(int8, kept, .signedBytes, bits: bits, groups) }
      headedProducts(int8, kept, .nibbles, bits: 2, groups)
    }
  }

  /// Panels with the scales of a GGUF file's blocks, and rows with the same weights.
  private mutating func headedProducts(
    _ int8: Int8Kernels, _ kept: InterleavedKernels, _ factors: PanelFactors, bits: Int, _ groups: Int
  ) {
    let (rows, count) = (9, 21)
    let size = factors.groups == 16 ? 16 : 32
    let columns = size * groups
    var weights = affine(count, columns, bits: size == 16 ? 8 : bits, group: size, .f32)
    if size == 16 {
      let elements = guardedMemory(count * columns)
      for i in 0..<count * columns {
        elements.storeBytes(of: UInt8(random.below(1 << bits)), toByteOffset: i, as: UInt8.self)
      }
      weights.packed = UnsafeRawPointer(elements)
    }
    let shape = PanelShape(bits: bits, groupSize: size, factors: factors, columns: columns)
    let panelBytes = kept.panelBytes(shape)
    let stored = guardedMemory(2 * panelBytes)
    let scratch = guardedMemory(int8.panelBytes(columns, size))
    let (scales, biases) = (room(count * groups), room(count * groups))
    weights.groups.scales = UnsafeRawPointer(scales)
    weights.groups.biases = UnsafeRawPointer(biases)
    for panel in 0..<2 {
      let part = weights.rows(panel == 0 ? 0..<16 : 16..<21)
      kept.make(repacked(part, int8), shape, stored + panel * panelBytes, scratch)
    }
    for o in 0..<count {
      var (scale, bias) = (Float16(0), Float16(0))
      for group in 0..<groups {
        let head = stored + o / 16 * panelBytes + shape.headOffset(of: group)
        let (lane, place, at) = (o % 16, group % factors.groups, o * groups + group)
        func isHalves() -> Bool {
          if case .halves = factors { return true }
          return false
        }
        if place == 0 || isHalves() {
          (scale, bias) = (Float16(random.float()), Float16(random.float()))
          (head + 2 * lane + (isHalves() ? 32 * place : 0)).storeBytes(of: scale, as: Float16.self)
          if !isHalves() { (head + 2 * lane + 32).storeBytes(of: bias, as: Float16.self) }
        }
        let (first, second) = (UInt8(random.below(256)), UInt8(random.below(256)))
        let codes = head + 64 + (size == 16 ? 16 : 32) * place + lane
        switch factors {
        case .pairs: break
        case .halves:
          scales[at] = Float(scale)
          biases[at] = scales[at] * -Float(1 << (bits - 1))
        case .bytes:
          codes.storeBytes(of: first, as: UInt8.self)
          codes.storeBytes(of: second, toByteOffset: 16, as: UInt8.self)
          (scales[at], biases[at]) = (Float(scale) * Float(first), Float(bias) * Float(second))
        case .signedBytes:
          codes.storeBytes(of: first, as: UInt8.self)
          scales[at] = Float(scale) * Float(Int8(bitPattern: first))
          biases[at] = scales[at] * -Float(1 << (bits - 1))
        case .nibbles:
          codes.storeBytes(of: first, as: UInt8.self)
          scales[at] = Float(scale) * Float(first & 15)
          biases[at] = Float(bias) * Float(first >> 4)
        }
      }
    }
    let order: Int8Order = size == 32 && bits <= 4 ? .evenOdd : .natural
    let x = floats(rows * columns)
    let exact = room(rows * count)
    Reference.multiplyInt8(
      weights, quantized(x, rows: rows, columns: columns, block: size, order, Reference.int8),
      into: Output(base: exact, stride: count))
    var values = quantized(x, rows: rows, columns: columns, block: size, order, int8)
    if size == 16 {
      let found = room(rows * count)
      int8.multiply(weights, values, Output(base: found, stride: count))
      expect(isSame(found, exact, rows * count), "rows in groups of 16", groups)
    }
    let panels = PanelRows(base: stored, shape: shape, count: count, aheadBytes: 0)
    for xRows in [1, 3, 4, 9] {
      values.count = xRows
      let found = room(xRows * count)
      kept.multiply(panels, values, Output(base: found, stride: count), scratch)
      expect(isSame(found, exact, xRows * count), "panels with heads", bits, size, groups, xRows)
    }
    let (found, expected) = (room(OutlierList.outputs * columns), room(OutlierList.outputs * columns))
    let list = UnsafeMutableRawPointer(room(columns)).assumingMemoryBound(to: UInt32.self)
    for c in 0..<columns { list[c] = UInt32(c) }
    kept.columns(panels, WeightColumns(base: found, columns: list, count: columns))
    Reference.columns(of: weights, into: WeightColumns(base: expected, columns: list, count: columns))
    for c in 0..<columns {
      let at = c * OutlierList.outputs
      expect(isSame(found + at, expected + at, count), "columns of panels with heads", bits, size, c)
    }
  }

  private mutating func integerProducts(
    _ int8: Int8Kernels, _ kept: InterleavedKernels, _ weights: QuantizedRows, _ groups: Int
  ) {
    let (rows, count, columns, bits) = (9, weights.count, weights.columns, weights.bits)
    let block = min(weights.groups.size, Int8Block.limit)
    let order: Int8Order = bits <= 4 ? .evenOdd : .natural
    let x = floats(rows * columns)
    let exact = room(rows * count)
    Reference.multiplyInt8(
      weights, quantized(x, rows: rows, columns: columns, block: block, order, Reference.int8),
      into: Output(base: exact, stride: count))
    var values = quantized(x, rows: rows, columns: columns, block: block, order, int8)
    let found = room(rows * count)
    int8.multiply(weights, values, Output(base: found, stride: count))
    expect(isSame(found, exact, rows * count), "rows", bits, weights.groups.size, groups)

    let shape = PanelShape(
      bits: bits, groupSize: weights.groups.size, factors: .pairs(weights.groups.format), columns: columns)
    let panelBytes = kept.panelBytes(shape)
    let stored = guardedMemory(2 * panelBytes)
    let scratch = guardedMemory(int8.panelBytes(columns, block))
    for panel in 0..<2 {
      let part = weights.rows(panel == 0 ? 0..<16 : 16..<21)
      let whole = repacked(part, int8)
      kept.make(whole, shape, stored + panel * panelBytes, scratch)
      guard bits == 4 || bits == 8 else { continue }
      for xRows in Panel.worthwhileRows...rows {
        values.count = xRows
        let found = room(xRows * count)
        int8.multiplyPanel(
          part, values, Output(base: found, stride: count),
          PanelScratch(base: scratch, aheadRows: panel == 0 ? 5 : 0))
        for r in 0..<xRows {
          for o in 0..<part.count {
            let (a, b) = (found[r * count + o], exact[r * count + 16 * panel + o])
            expect(a.bitPattern == b.bitPattern, "panels", bits, weights.groups.size, groups, xRows, r, o)
          }
        }
      }
    }
    for xRows in [1, 2, 3, 4, 7, 9] {
      values.count = xRows
      let found = room(xRows * count)
      kept.multiply(
        PanelRows(base: stored, shape: shape, count: count, aheadBytes: 0), values,
        Output(base: found, stride: count), scratch)
      expect(isSame(found, exact, xRows * count), "kept panels", bits, weights.groups.size, groups, xRows)
    }
  }

  /// Rows as nibbles or bytes, by the kernels' own function, which is compared with its twin.
  private mutating func repacked(_ rows: QuantizedRows, _ int8: Int8Kernels) -> QuantizedRows {
    guard rows.bits != 4 && rows.bits != 8 else { return rows }
    var whole = rows
    whole.bits = rows.bits <= 4 ? 4 : 8
    whole.rowBytes = rows.columns * whole.bits / 8
    let size = rows.count * whole.rowBytes
    let (found, exact) = (guardedMemory(size), guardedMemory(size))
    int8.repack(rows.packed, rows.bits, rows.count * rows.columns, found)
    Reference.repack(rows.packed, rows.bits, rows.count * rows.columns, into: exact)
    for i in 0..<size {
      let (a, b) = (
        found.load(fromByteOffset: i, as: UInt8.self), exact.load(fromByteOffset: i, as: UInt8.self)
      )
      if a != b { expect(false, "repack", rows.bits, i) }
    }
    whole.packed = UnsafeRawPointer(found)
    return whole
  }

  mutating func floatingProducts() {
    guard let int8 = kernels.int8 else { return }
    for mode in [FloatingMode.mxfp4, .nvfp4] {
      for blocks in [1, 2, 3, 5, 17] {
        let (columns, rows) = (32 * blocks, 5)
        let weights = floating(5, columns, mode)
        let x = floats(rows * columns)
        for xRows in 1...rows {
          let (found, exact) = (room(5 * xRows), room(5 * xRows))
          int8.multiplyFloating(
            weights, quantized(x, rows: xRows, columns: columns, block: 32, .evenOdd, int8),
            Output(base: found, stride: 5))
          Reference.multiplyInt8Floating(
            weights, quantized(x, rows: xRows, columns: columns, block: 32, .evenOdd, Reference.int8),
            into: Output(base: exact, stride: 5))
          expect(isSame(found, exact, 5 * xRows), "E2M1", mode.groupSize, blocks, xRows)
        }
      }
    }
  }

  mutating func scan() {
    for width in [64, 128, 448] {
      let codes = bytes(5 * width)
      let (high, low) = (
        bytes(width).assumingMemoryBound(to: Int8.self), bytes(width).assumingMemoryBound(to: Int8.self)
      )
      var sums: (Int32, Int32) = (0, 0)
      for i in 0..<width {
        high[i] = high[i] == -128 ? -127 : high[i]
        low[i] = low[i] / 2
        sums = (sums.0 + Int32(high[i]), sums.1 + Int32(low[i]))
      }
      let rows = CodeRows(base: codes, rowBytes: width, scales: floats(5), count: 5)
      let query = QueryPlanes(high: high, low: low, highSum: sums.0, lowSum: sums.1, scale: 0.37)
      let (found, exact) = (room(5), room(5))
      ScanKernels.table(for: level).scan(rows, query, found)
      ScanKernels.reference.scan(rows, query, exact)
      expect(isSame(found, exact, 5), "scan", width)
    }
  }
}

// MARK: Float products

/// `weights · x` in eight lanes of fused operations and one tree.
func modelProduct(_ weights: UnsafeMutablePointer<Float>, _ x: UnsafeMutablePointer<Float>, _ columns: Int)
  -> Float
{
  var lanes: (SIMD8<Float>) = .zero
  for c in 0..<columns { lanes[c % 8] = lanes[c % 8].addingProduct(weights[c], x[c]) }
  for half in [4, 2, 1] { for lane in 0..<half { lanes[lane] += lanes[lane + half] } }
  return lanes[0]
}

extension Check {
  mutating func floatProducts() {
    for columns in [1, 3, 7, 8, 9, 15, 16, 17, 35, 172, 520] {
      for (count, rows) in [(1, 1), (4, 1), (5, 2), (9, 3), (9, 7)] {
        let (weights, x) = (floats(count * columns), floats(rows * columns))
        let found = room(count * rows)
        kernels.multiply(
          FloatRows(base: weights, rowBytes: 4 * columns, format: .f32, count: count, columns: columns),
          Activations(base: x, stride: columns, count: rows), Output(base: found, stride: count))
        expectModel(found, weights, count, x, rows, columns, "f32")
      }
      for format in [FloatFormat.f16, .bf16] {
        guard let fused = kernels.multiplyHalf else { return expect(false, "f16 is there") }
        let stored = self.stored(3 * columns, format)
        let wide = room(3 * columns)
        kernels.widen(stored, format, 3 * columns, wide)
        for i in 0..<3 * columns {
          expect(wide[i] == Reference.element(stored, format, i), "widen", format.bytes, i)
        }
        for rows in 1...kernels.fusedRows {
          let (x, found) = (floats(rows * columns), room(3 * rows))
          fused(
            FloatRows(base: stored, rowBytes: 2 * columns, format: format, count: 3, columns: columns),
            Activations(base: x, stride: columns, count: rows), Output(base: found, stride: 3))
          expectModel(found, wide, 3, x, rows, columns, "f16 and bf16")
        }
      }
    }
  }

  private mutating func expectModel(
    _ found: UnsafeMutablePointer<Float>, _ weights: UnsafeMutablePointer<Float>, _ count: Int,
    _ x: UnsafeMutablePointer<Float>, _ rows: Int, _ columns: Int, _ what: StaticString
  ) {
    for r in 0..<rows {
      for o in 0..<count {
        let exact = modelProduct(weights + o * columns, x + r * columns, columns)
        expect(found[r * count + o].bitPattern == exact.bitPattern, what, columns, count, rows, r, o)
      }
    }
  }

  mutating func packedProducts() {
    for bits in [2, 3, 4, 5, 6, 8] {
      for (group, format) in [(32, FloatFormat.f32), (64, .f16), (128, .bf16)] {
        let columns = 3 * group
        let weights = affine(3, columns, bits: bits, group: group, format)
        let unpacked = room(3 * columns)
        kernels.unpack(weights, Output(base: unpacked, stride: columns))
        for o in 0..<3 {
          let row = weights.rows(o..<o + 1)
          for c in 0..<columns {
            let scale = Reference.element(row.groups.scales, format, c / group)
            let exact = Reference.element(row.groups.biases, format, c / group).addingProduct(
              Float(Reference.quantum(row.packed, bits, c)), scale)
            expect(unpacked[o * columns + c].bitPattern == exact.bitPattern, "unpack", bits, group, o, c)
          }
        }
        guard let fused = bits == 4 ? kernels.multiply4 : bits == 8 ? kernels.multiply8 : nil else {
          continue
        }
        for rows in 1...kernels.fusedRows {
          let (x, found) = (floats(rows * columns), room(3 * rows))
          fused(weights, Activations(base: x, stride: columns, count: rows), Output(base: found, stride: 3))
          expectModel(found, unpacked, 3, x, rows, columns, "fused")
        }
      }
    }
    for mode in FloatingMode.allCases {
      let columns = 7 * mode.groupSize
      let weights = floating(3, columns, mode)
      let (unpacked, exact) = (room(3 * columns), room(3 * columns))
      kernels.unpackFloating(weights, Output(base: unpacked, stride: columns))
      Reference.unpackFloating(weights, into: Output(base: exact, stride: columns))
      expect(isSame(unpacked, exact, 3 * columns), "floating modes", mode.groupSize, mode.bits)
      guard let fused = kernels.multiplyFloating else { return expect(false, "floating modes are there") }
      for rows in 1...kernels.fusedRows {
        let (x, found) = (floats(rows * columns), room(3 * rows))
        fused(weights, Activations(base: x, stride: columns, count: rows), Output(base: found, stride: 3))
        expectModel(found, unpacked, 3, x, rows, columns, "fused floating modes")
      }
    }
  }
}

// MARK: Attention

extension Check {
  mutating func floatAttention() {
    for size in [1, 4, 30, 32, 64, 80, 130] {
      for rows in [1, 2, 3] {
        let (q, keys, values) = (floats(rows * size), floats(32 * size), floats(32 * size))
        let found = room(32 * rows)
        kernels.scores(
          Activations(base: q, stride: size, count: rows), FloatBlock(base: keys, headDim: size), found)
        let (weights, factors, sums) = (floats(32 * rows), floats(rows), floats(rows * size))
        let added = room(rows * size)
        for i in 0..<rows * size { added[i] = sums[i] }
        kernels.accumulate(
          AttentionRows(
            count: rows, seen: 3..<30, scores: weights, states: weights, factors: factors,
            weightScales: factors,
            sums: added), FloatBlock(base: values, headDim: size))
        for r in 0..<rows {
          for j in 0..<32 {
            var score: Float = 0
            for d in 0..<size { score = score.addingProduct(q[r * size + d], keys[32 * d + j]) }
            expect(found[32 * r + j].bitPattern == score.bitPattern, "scores", size, rows, r, j)
          }
          for d in 0..<size {
            var sum = sums[r * size + d] * factors[r]
            for j in 3..<30 { sum = sum.addingProduct(weights[32 * r + j], values[j * size + d]) }
            expect(added[r * size + d].bitPattern == sum.bitPattern, "sums", size, rows, r, d)
          }
        }
      }
    }
  }

  mutating func integerAttention() {
    let twin = KernelTable.portable.integerAttention
    for count in 0...35 {
      for magnitude in [Float(1), 0x1p-101, .infinity, .nan] {
        let x = floats(count)
        if count > 2 { x[count / 2] = magnitude }
        let (found, exact) = (Integers(count + count % 2), Integers(count + count % 2))
        let scale = kernels.integerAttention.quantize(x, count, 4095, found.start)
        let other = twin.quantize(x, count, 4095, exact.start)
        expect(scale.bitPattern & 0x7FFF_FFFF == other.bitPattern & 0x7FFF_FFFF, "scales of int16", count)
        for i in 0..<count + count % 2 { expect(found.start[i] == exact.start[i], "int16", count, i) }
      }
    }
    for size in [1, 2, 7, 16, 33, 64, 80, 128, 130, 256] {
      for rows in [1, 2, 5] { for isBytes in [false, true] { integerBlock(size, rows, isBytes, twin) } }
    }
    for (from, to) in [(0, 1), (0, 32), (5, 6), (7, 29), (31, 32)] { softmax(from, to, rows: 5, twin) }
  }

  private struct Integers {
    let start: UnsafeMutablePointer<Int16>

    init(_ count: Int) {
      start = .allocate(capacity: count + 1)
      for i in 0..<count { start[i] = -30_000 }
    }
  }

  private mutating func integerBlock(_ size: Int, _ rows: Int, _ isBytes: Bool, _ twin: IntegerAttention) {
    let padded = size + size % 2
    let queries = Integers(rows * padded)
    for i in 0..<rows * padded { queries.start[i] = i % padded < size ? Int16(random.below(8191) - 4095) : 0 }
    let width = isBytes ? 1 : 2
    let stored = bytes(32 * (padded + size) * width + 256)
    if !isBytes {
      let elements = stored.assumingMemoryBound(to: Int16.self)
      for i in 0..<32 * (padded + size) { elements[i] = Int16(random.below(8191) - 4095) }
    }
    let weights = floats(32 * rows)
    let integers = UnsafeMutableRawPointer(weights).assumingMemoryBound(to: Int16.self)
    for i in 0..<64 * rows { integers[i] = (3..<30).contains(i % 64) ? Int16(random.below(16_384)) : 0 }
    let (scales, keyScales, factors, weightScales) = (floats(rows), floats(64), floats(rows), floats(rows))
    let sums = floats(rows * size)
    func run(_ attention: IntegerAttention) -> (UnsafeMutablePointer<Float>, UnsafeMutablePointer<Float>) {
      let (scores, added) = (room(32 * rows), room(rows * size))
      for i in 0..<rows * size { added[i] = sums[i] }
      let kernels = isBytes ? attention.int8 : attention.int16
      kernels.scores(
        IntegerQueries(base: queries.start, stride: padded, count: rows, scales: scales),
        IntegerBlock(base: stored, scales: keyScales, headDim: size, ahead: stored), scores)
      kernels.accumulate(
        AttentionRows(
          count: rows, seen: 3..<30, scores: weights, states: added, factors: factors,
          weightScales: weightScales,
          sums: added),
        IntegerBlock(base: stored + 32 * padded * width, scales: keyScales, headDim: size, ahead: stored))
      return (scores, added)
    }
    let (found, exact) = (run(kernels.integerAttention), run(twin))
    expect(isSame(found.0, exact.0, 32 * rows), "integer scores", size, rows, width)
    expect(isSame(found.1, exact.1, rows * size), "integer sums", size, rows, width)
  }

  private mutating func softmax(_ from: Int, _ to: Int, rows: Int, _ twin: IntegerAttention) {
    let (scores, valueScales) = (floats(32 * rows), floats(32))
    for j in 0..<32 where j < from || j >= to {
      valueScales[j] = .nan
      for r in 0..<rows { scores[32 * r + j] = .nan }
    }
    func run(_ attention: IntegerAttention) -> UnsafeMutablePointer<Float> {
      let out = room(36 * rows)
      for i in 0..<32 * rows { out[i] = scores[i] * 30 }
      let states = out + 32 * rows
      for r in 0..<rows { (states[2 * r], states[2 * r + 1]) = r % 2 == 0 ? (-.infinity, 0) : (5, 2) }
      let (factors, scales) = (states + 2 * rows, states + 3 * rows)
      attention.softmax(
        AttentionRows(
          count: rows, seen: from..<to, scores: out, states: states, factors: factors, weightScales: scales,
          sums: out),
        valueScales)
      // The upper half of a row's room is not the weights'.
      for r in 0..<rows { for j in 16..<32 { out[32 * r + j] = 0 } }
      return out
    }
    expect(isSame(run(kernels.integerAttention), run(twin), 36 * rows), "integer softmax", from, to)
  }
}

/// - Returns: how many comparisons failed on the first `levels` kernel sets of arm64.
@_cdecl("run_kernel_cases")
public func runKernelCases(_ levels: Int32) -> Int32 {
  var failures = 0
  for level in [ISA.neon, .dotprod, .i8mm].prefix(Int(levels)) {
    var check = Check(level: level, kernels: KernelTable.table(for: level), random: Random(state: 1))
    check.integerProducts()
    check.floatingProducts()
    check.scan()
    check.floatProducts()
    check.packedProducts()
    check.floatAttention()
    check.integerAttention()
    withUnsafePointer(to: check.comparisons) { report(level.name.utf8Start, nil, 1, $0) }
    failures += check.failures
  }
  return Int32(truncatingIfNeeded: failures)
}
