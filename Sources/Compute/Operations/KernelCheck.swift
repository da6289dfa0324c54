// A set of kernels against its scalar twins on this machine, in a moment: for hardware that no test has run on.
//
// The tests of Compute go through all sizes and edges; here each kernel answers one question of usual size.

import KernelTypes

/// What became of one kernel.
package struct KernelFinding: Sendable, Equatable {
  /// The kernel, in words.
  package let kernel: String
  /// Whether it agrees with its twin: integers to the bit, floats up to rounding.
  package let isRight: Bool
}

/// The comparison of one set with the twins.
package struct KernelCheck {
  private let kernels: KernelTable
  private let scan: ScanKernels
  private let room = CheckRoom()
  private let rows = 5
  /// As many as the kernels of many rows begin with, and some that fill no tile.
  private let manyRows = 37
  private let outputs = 21
  private let columns = 384

  private init(_ isa: ISA) {
    kernels = .table(for: isa)
    scan = .table(for: isa)
  }

  /// Compares all kernels of a set.
  ///
  /// - Parameter isa: a level that this machine has.
  package static func run(_ isa: ISA) -> [KernelFinding] {
    let check = KernelCheck(isa)
    return check.products() + check.integerProducts() + check.attention() + check.rowsAlone()
  }

  /// - Parameter results: writes results by these kernels, or by the twins.
  private func same(
    _ kernel: String, _ count: Int, bits: Bool = false,
    _ results: (_ isTwin: Bool, _ out: UnsafeMutablePointer<Float>) -> Void
  ) -> KernelFinding {
    let (found, exact) = (room.floats(count, filled: .nan), room.floats(count, filled: .nan))
    results(false, found)
    results(true, exact)
    let isRight = (0..<count).allSatisfy { i in
      bits
        ? found[i].bitPattern == exact[i].bitPattern
        : abs(found[i] - exact[i]) <= 1e-4 * max(1, abs(exact[i]))
    }
    return KernelFinding(kernel: kernel, isRight: isRight)
  }

  // MARK: Products of floats

  private func products() -> [KernelFinding] {
    let x = Activations(base: room.random(rows * columns), stride: columns, count: rows)
    let weights = FloatRows(
      base: room.random(outputs * columns), rowBytes: 4 * columns, format: .f32, count: outputs,
      columns: columns)
    var findings = [
      same("f32 weights", rows * outputs) { isTwin, out in
        let table = isTwin ? KernelTable.reference : kernels
        table.multiply(weights, x, Output(base: out, stride: outputs))
      }
    ]
    for bits in WeightMatrix.supportedBits {
      let packed = affine(bits, group: 64, .f16)
      findings.append(
        same("\(bits)-bit weights as floats", outputs * columns) { isTwin, out in
          let table = isTwin ? KernelTable.reference : kernels
          table.unpack(packed, Output(base: out, stride: columns))
        })
      let fused = bits == 4 ? kernels.multiply4 : bits == 8 ? kernels.multiply8 : nil
      if let fused { findings.append(same(fused, packed, x, "\(bits)-bit weights, exact")) }
    }
    for mode in FloatingMode.allCases {
      let packed = floating(mode)
      findings.append(
        same("\(mode) weights as floats", outputs * columns, bits: true) { isTwin, out in
          let table = isTwin ? KernelTable.reference : kernels
          table.unpackFloating(packed, Output(base: out, stride: columns))
        })
    }
    for format in [FloatFormat.f16, .bf16] {
      let halves = room.bytes(2 * columns)
      for i in 0..<columns {
        let bits = format == .f16 ? UInt16(0x3800 + i) : UInt16(0x3F00 + i % 128)
        halves.storeBytes(of: bits, toByteOffset: 2 * i, as: UInt16.self)
      }
      findings.append(
        same("\(format) weights as floats", columns, bits: true) { isTwin, out in
          (isTwin ? KernelTable.reference : kernels).widen(halves, format, columns, out)
        })
    }
    return findings
  }

  private func same(
    _ fused: @escaping KernelTable.Product<QuantizedRows, Activations>, _ packed: QuantizedRows,
    _ all: Activations, _ name: String
  ) -> KernelFinding {
    var x = all
    x.count = min(kernels.fusedRows, x.count)
    return same(name, x.count * outputs) { isTwin, out in
      let y = Output(base: out, stride: outputs)
      guard isTwin else { return fused(packed, x, y) }
      let unpacked = room.floats(outputs * columns, filled: 0)
      Reference.unpack(packed, into: Output(base: unpacked, stride: columns))
      let weights = FloatRows(
        base: unpacked, rowBytes: 4 * columns, format: .f32, count: outputs, columns: columns)
      Reference.multiply(weights, x, into: y)
    }
  }

  // MARK: Products of integers

  private func integerProducts() -> [KernelFinding] {
    guard let int8 = kernels.int8 else { return [] }
    var findings: [KernelFinding] = []
    for bits in WeightMatrix.supportedBits {
      for group in WeightMatrix.supportedGroupSizes {
        findings += integerProducts(int8, affine(bits, group: group, .bf16))
      }
    }
    for mode in FloatingMode.allCases {
      // Float scales of 128 inputs, which integer kernels take.
      let weights = floating(mode, scaleShift: 2)
      guard int8.takes(weights) else { continue }
      let x = room.random(manyRows * columns)
      findings.append(
        same("\(mode) weights, fast", manyRows * outputs, bits: true) { isTwin, out in
          let kernels = isTwin ? Reference.int8 : int8
          kernels.multiplyFloating(
            weights, quantized(x, weights, kernels), Output(base: out, stride: outputs))
        })
      if let kept = int8.interleaved?.floating { findings += products(kept, int8, weights, x) }
    }
    return findings
  }

  /// Weights in a floating mode in panels, by all rows of x together and by each alone.
  private func products(
    _ kept: FloatingPanelKernels, _ int8: Int8Kernels, _ weights: FloatingRows,
    _ x: UnsafeMutablePointer<Float>
  ) -> [KernelFinding] {
    let scratch = room.bytes(int8.panelBytes(columns, 32))
    let panelBytes = kept.panelBytes(weights.mode, columns)
    let panels = room.bytes(panelBytes * ((outputs + Panel.width - 1) / Panel.width))
    for (index, start) in stride(from: 0, to: outputs, by: Panel.width).enumerated() {
      kept.make(
        weights.rows(start..<min(start + Panel.width, outputs)), panels + index * panelBytes, scratch)
    }
    let all = FloatingPanelRows(
      base: panels, mode: weights.mode, columns: columns, count: outputs, aheadBytes: 0)
    return [("in panels", manyRows), ("in panels, row by row", 1)].map { words, together in
      same("\(weights.mode) weights, fast, \(words)", manyRows * outputs, bits: true) { isTwin, out in
        guard !isTwin else {
          let twins = quantized(x, weights, Reference.int8)
          return Reference.int8.multiplyFloating(weights, twins, Output(base: out, stride: outputs))
        }
        let rows = quantized(x, weights, int8)
        for r in stride(from: 0, to: manyRows, by: together) {
          let some = Int8Activations(
            base: rows.base + r * rows.rowBytes, rowBytes: rows.rowBytes, count: together)
          kept.multiply(all, some, Output(base: out + r * outputs, stride: outputs))
        }
      }
    }
  }

  private func integerProducts(_ int8: Int8Kernels, _ weights: QuantizedRows) -> [KernelFinding] {
    let (bits, block) = (weights.bits, min(weights.groups.size, Int8Block.limit))
    let order: Int8Order = bits <= 4 ? .evenOdd : .natural
    let x = room.random(manyRows * columns)
    let scratch = room.bytes(int8.panelBytes(columns, block))
    let words = "\(bits)-bit weights in groups of \(weights.groups.size), fast"
    func compare(
      _ what: String, _ call: (_ x: Int8Activations, _ y: Output) -> Void
    ) -> KernelFinding {
      same(words + what, manyRows * outputs, bits: true) { isTwin, out in
        let y = Output(base: out, stride: outputs)
        if isTwin {
          Reference.multiplyInt8(weights, quantized(x, block: block, order, Reference.int8), into: y)
        } else {
          call(quantized(x, block: block, order, int8), y)
        }
      }
    }
    var findings = [compare("") { int8.multiply(weights, $0, $1) }]
    if bits == 4 || bits == 8 {
      findings.append(
        compare(", by panels") { x, y in
          for start in stride(from: 0, to: outputs, by: Panel.width) {
            let part = weights.rows(start..<min(start + Panel.width, outputs))
            let target = Output(base: y.base + start, stride: y.stride)
            int8.multiplyPanel(part, x, target, PanelScratch(base: scratch, aheadRows: 0))
          }
        })
    }
    guard let kept = int8.interleaved else { return findings }
    let shape = weights.panelShape
    let panels = room.bytes(kept.panelBytes(shape) * ((outputs + Panel.width - 1) / Panel.width))
    for (index, start) in stride(from: 0, to: outputs, by: Panel.width).enumerated() {
      var part = weights.rows(start..<min(start + Panel.width, outputs))
      if bits != 4 && bits != 8 {
        let whole = bits < 4 ? 4 : 8
        let repacked = room.bytes(part.count * columns * whole / 8)
        int8.repack(part.packed, bits, part.count * columns, repacked)
        (part.packed, part.bits, part.rowBytes) = (UnsafeRawPointer(repacked), whole, columns * whole / 8)
      }
      kept.make(part, shape, panels + index * kept.panelBytes(shape), scratch)
    }
    let all = PanelRows(base: panels, shape: shape, count: outputs, aheadBytes: 0)
    findings.append(compare(", in panels") { kept.multiply(all, $0, $1, scratch) })
    findings.append(
      compare(", in panels, row by row") { x, y in
        for r in 0..<manyRows {
          let row = Int8Activations(base: x.base + r * x.rowBytes, rowBytes: x.rowBytes, count: 1)
          kept.multiply(all, row, Output(base: y.base + r * y.stride, stride: y.stride), scratch)
        }
      })
    return findings
  }

  private func quantized(
    _ x: UnsafeMutablePointer<Float>, block: Int, _ order: Int8Order, _ int8: Int8Kernels
  ) -> Int8Activations {
    let rowBytes = int8.rowBytes(columns, block)
    let memory = room.bytes(rowBytes * manyRows)
    for r in 0..<manyRows { int8.quantize(x + r * columns, columns, block, order, memory + r * rowBytes) }
    return Int8Activations(base: memory, rowBytes: rowBytes, count: manyRows)
  }

  /// In the form that weights in a floating mode need.
  private func quantized(
    _ x: UnsafeMutablePointer<Float>, _ weights: FloatingRows, _ int8: Int8Kernels
  ) -> Int8Activations {
    guard weights.isWide, let wide = int8.wide else { return quantized(x, block: 32, .evenOdd, int8) }
    let rowBytes = wide.rowBytes(columns)
    let memory = room.bytes(rowBytes * manyRows)
    for r in 0..<manyRows { wide.quantize(x + r * columns, columns, memory + r * rowBytes) }
    return Int8Activations(base: memory, rowBytes: rowBytes, count: manyRows)
  }

  // MARK: Attention, rows, search

  private func attention() -> [KernelFinding] {
    let (size, count) = (128, 3)
    let stored = room.bytes(2 * 32 * size * 2 + 256)
    let elements = stored.assumingMemoryBound(to: Int16.self)
    for i in 0..<2 * 32 * size { elements[i] = Int16(i &* 2_654_435 % 8191 - 4095) }
    let (queries, scales) = (room.random(count * size), room.random(64))
    let integers = room.bytes(2 * count * size).assumingMemoryBound(to: Int16.self)
    let (factors, weightScales) = (room.random(count), room.random(count))
    return [false, true].flatMap { isBytes in
      let words = "attention over \(isBytes ? "q8" : "q16")"
      return [
        same(words, count * (32 + size), bits: true) { isTwin, out in
          let all = isTwin ? KernelTable.portable.integerAttention : kernels.integerAttention
          let width = isBytes ? all.int8 : all.int16
          let queryScales = room.floats(count, filled: 0)
          for r in 0..<count {
            queryScales[r] = all.quantize(
              queries + r * size, size, IntegerLimit.element, integers + r * size)
          }
          let keys = IntegerBlock(base: stored, scales: scales, headDim: size, ahead: stored)
          let rounded = IntegerQueries(base: integers, stride: size, count: count, scales: queryScales)
          width.scores(rounded, keys, out)
          let states = room.floats(2 * count, filled: 0)
          let positive = room.floats(32, filled: 0.01)
          let sums = out + 32 * count
          for i in 0..<count * size { sums[i] = 0 }
          let rows = AttentionRows(
            count: count, seen: 2..<31, scores: out, states: states, factors: factors,
            weightScales: weightScales, sums: sums)
          all.softmax(rows, positive)
          let values = stored + 32 * size * (isBytes ? 1 : 2)
          width.accumulate(
            rows, IntegerBlock(base: values, scales: scales, headDim: size, ahead: stored))
          // The upper half of a row's room is not the weights'.
          for r in 0..<count { for j in 16..<32 { out[32 * r + j] = 0 } }
        }
      ]
    } + [floatAttention(size, count, queries)] + shortAttention()
  }

  private func shortAttention() -> [KernelFinding] {
    guard let attend = kernels.attendShortly else { return [] }
    let (tokens, size) = (53, 64)
    let rows = room.random(tokens * 3 * size)
    let text = ShortText(
      queries: rows, keys: rows + size, values: rows + 2 * size, stride: 3 * size, tokens: tokens, group: 1,
      headDim: size, scale: 0.5)
    let scratch = room.floats(ShortText.scratchFloats(headDim: size), filled: 0)
    return [
      same("attention over a short text", tokens * size) { isTwin, out in
        let output = Output(base: out, stride: size)
        if isTwin { Reference.attendShortly(text, into: output) } else { attend(text, scratch, output) }
      }
    ]
  }

  private func floatAttention(_ size: Int, _ count: Int, _ queries: UnsafeMutablePointer<Float>)
    -> KernelFinding
  {
    let (keys, values) = (room.random(32 * size), room.random(32 * size))
    let factors = room.random(count)
    return same("attention over f32", count * (32 + size)) { isTwin, out in
      let table = isTwin ? KernelTable.reference : kernels
      let q = Activations(base: queries, stride: size, count: count)
      table.scores(q, FloatBlock(base: keys, headDim: size), out)
      let sums = out + 32 * count
      for i in 0..<count * size { sums[i] = 0.5 }
      let rows = AttentionRows(
        count: count, seen: 0..<32, scores: out, states: factors, factors: factors, weightScales: factors,
        sums: sums)
      table.accumulate(rows, FloatBlock(base: values, headDim: size))
    }
  }

  private func rowsAlone() -> [KernelFinding] {
    let (x, gain) = (room.random(columns), room.random(columns))
    let codes = room.bytes(4 * columns)
    for i in 0..<4 * columns {
      codes.storeBytes(of: UInt8(truncatingIfNeeded: i &* 37), toByteOffset: i, as: UInt8.self)
    }
    let plane = room.bytes(columns).assumingMemoryBound(to: Int8.self)
    for i in 0..<columns { plane[i] = Int8(i % 120 - 60) }
    let sum = (0..<columns).reduce(Int32(0)) { $0 + Int32(plane[$1]) }
    let query = QueryPlanes(high: plane, low: plane, highSum: sum, lowSum: sum, scale: 0.5)
    let found = CodeRows(base: codes, rowBytes: columns, scales: gain, count: 4)
    let spiky = room.random(columns)
    for c in [5, 90, 301] { spiky[c] = 40 }
    let list = room.bytes(4 * OutlierList.length).assumingMemoryBound(to: UInt32.self)
    // Three outliers, which meet the first three of some columns.
    let met = room.bytes(4 * OutlierList.length).assumingMemoryBound(to: UInt32.self)
    met[0] = 3
    for i in 0..<3 { (met[1 + i], met[1 + OutlierList.limit + i]) = (UInt32(i), Float(i + 1).bitPattern) }
    let met64 = room.random(3 * OutlierList.outputs)
    return [
      same("rows without outliers", columns, bits: true) { isTwin, out in
        (isTwin ? KernelTable.reference : kernels).splitOutliers(spiky, columns, out, list)
      },
      same("outliers", OutlierList.outputs, bits: true) { isTwin, out in
        for o in 0..<OutlierList.outputs { out[o] = gain[o] }
        (isTwin ? KernelTable.reference : kernels).addOutliers(
          OutlierRows(base: met, count: 1), met64, x, OutlierList.outputs,
          Output(base: out, stride: OutlierList.outputs))
      },
      same("norms", columns) { isTwin, out in
        (isTwin ? KernelTable.reference : kernels).rmsNorm(x, gain, 1e-6, columns, out)
      },
      same("SiLU", columns) { isTwin, out in
        (isTwin ? KernelTable.reference : kernels).gatedSilu(x, gain, columns, out)
      },
      same("GELU", columns) { isTwin, out in
        (isTwin ? KernelTable.reference : kernels).gatedGELU(x, gain, columns, out)
      },
      same("search", 4, bits: true) { isTwin, out in
        (isTwin ? ScanKernels.reference : scan).scan(found, query, out)
      },
    ]
  }

  // MARK: Weights

  private func affine(_ bits: Int, group: Int, _ format: FloatFormat) -> QuantizedRows {
    let groups = columns / group
    let factors = room.bytes(2 * 2 * outputs * groups)
    for i in 0..<2 * outputs * groups {
      // Around a half in both formats, of both signs.
      let bits = UInt16(format == .f16 ? 0x3400 : 0x3E80) + UInt16(i * 29 % 256) + (i % 3 == 0 ? 0x8000 : 0)
      factors.storeBytes(of: bits, toByteOffset: 2 * i, as: UInt16.self)
    }
    return QuantizedRows(
      packed: room.noise(outputs * columns * bits / 8), rowBytes: columns * bits / 8, bits: bits,
      groups: Groups(
        scales: factors, biases: factors + 2 * outputs * groups, rowBytes: 2 * groups, format: format,
        size: group), count: outputs, columns: columns)
  }

  /// Rows with a float32 scale for each two groups.
  private func floatScaled(_ mode: FloatingMode, scaleShift: Int) -> FloatingRows {
    let groups = ((columns / mode.groupSize - 1) >> scaleShift) + 1
    var rows = FloatingRows(
      packed: room.noise(outputs * columns * mode.bits / 8), rowBytes: columns * mode.bits / 8,
      scales: floatBytes(outputs * groups), scaleRowBytes: 4 * groups, mode: mode, count: outputs,
      columns: columns)
    rows.scaleShift = scaleShift
    rows.table = floatBytes(16)
    return rows
  }

  private func floatBytes(_ count: Int) -> UnsafeRawPointer {
    let bytes = room.bytes(4 * count)
    for i in 0..<count {
      bytes.storeBytes(of: 0.5 + 0.125 * Float(i % 9), toByteOffset: 4 * i, as: Float.self)
    }
    return UnsafeRawPointer(bytes)
  }

  /// - Parameter scaleShift: of float scales.
  private func floating(_ mode: FloatingMode, scaleShift: Int = 1) -> FloatingRows {
    guard !mode.hasFloatScales else { return floatScaled(mode, scaleShift: scaleShift) }
    let groups = columns / mode.groupSize
    let scales = room.bytes(outputs * groups)
    for i in 0..<outputs * groups {
      let code = mode == .nvfp4 ? UInt8(0x30 + i % 9) : UInt8(122 + i % 9)
      scales.storeBytes(of: code, toByteOffset: i, as: UInt8.self)
    }
    return FloatingRows(
      packed: room.noise(outputs * columns * mode.bits / 8), rowBytes: columns * mode.bits / 8,
      scales: scales, scaleRowBytes: groups, mode: mode, count: outputs, columns: columns)
  }
}

/// Memory for one check, given back together.
private final class CheckRoom {
  private var pieces: [UnsafeMutableRawPointer] = []
  private var state: UInt64 = 7

  deinit { for piece in pieces { piece.deallocate() } }

  func bytes(_ count: Int) -> UnsafeMutableRawPointer {
    let piece = UnsafeMutableRawPointer.allocate(byteCount: count + 64, alignment: 64)
    piece.initializeMemory(as: UInt8.self, repeating: 0, count: count + 64)
    pieces.append(piece)
    return piece
  }

  func floats(_ count: Int, filled value: Float) -> UnsafeMutablePointer<Float> {
    let memory = bytes(4 * count).assumingMemoryBound(to: Float.self)
    for i in 0..<count { memory[i] = value }
    return memory
  }

  /// Floats in -1 ... 1, the same in every run.
  func random(_ count: Int) -> UnsafeMutablePointer<Float> {
    let memory = bytes(4 * count).assumingMemoryBound(to: Float.self)
    for i in 0..<count { memory[i] = Float(Int32(truncatingIfNeeded: next())) * 0x1p-31 }
    return memory
  }

  func noise(_ count: Int) -> UnsafeMutableRawPointer {
    let memory = bytes(count)
    for i in 0..<count {
      memory.storeBytes(of: UInt8(truncatingIfNeeded: next()), toByteOffset: i, as: UInt8.self)
    }
    return memory
  }

  private func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return state >> 32
  }
}
