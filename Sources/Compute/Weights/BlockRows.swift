// Rows of a GGUF file's blocks, and their numbers in the forms that kernels read.

import KernelTypes

/// A matrix of blocks as it lies in the file.
struct BlockRows {
  /// The first row of the matrix.
  let base: UnsafeRawPointer
  let format: BlockFormat
  let count: Int
  /// Numbers of a row, whole blocks.
  let columns: Int
  /// Rows of a head whose halves stand in the file as pairs; 0 where all rows stand in their order.
  let headRows: Int

  var rowBytes: Int { columns / format.values * format.bytes }

  /// Where a row lies. Rotary embeddings turn pairs that are neighbours in the file, and half a head apart here.
  func source(_ row: Int) -> UnsafeRawPointer {
    base + (headRows > 0 ? unpairedRow(row, headRows: headRows) : row) * rowBytes
  }

  /// What products in integers read, without its bytes: for questions about its form alone.
  var outline: WeightMatrix { matrix(format.fastForm, base, rows: count) }

  /// Rows of the matrix in a form for kernels, in memory that holds until `scratch` is used again.
  ///
  /// - Parameter exactly: with the values of the file; else for products in integers.
  func readable(_ rows: Range<Int>, exactly: Bool, _ scratch: Scratch) -> WeightMatrix {
    let form = exactly ? format.exactForm : format.fastForm
    let sizes = RowSizes(form, columns: columns)
    // Behind the rows stand the numbers of one: scales, biases, bytes.
    let (most, start) = (columns / 16, (rows.count * sizes.all + 3) / 4)
    let all = scratch.floats(start + 2 * most + columns / 4)
    let room = UnsafeMutableRawPointer(all)
    let aside = BlockWork(
      quanta: UnsafeMutableRawPointer(all + start + 2 * most), scales: all + start, biases: all + start + most
    )
    for (index, row) in rows.enumerated() {
      let packed = room + index * sizes.packed
      let scales = room + rows.count * sizes.packed + index * sizes.scales
      let biases = scales + rows.count * sizes.scales
      switch form {
      case .mxfp4: reorder(source(row), packed, scales)
      case .affine(8, _, .f32):
        read(
          source(row), exactly: exactly,
          BlockWork(
            quanta: packed, scales: scales.assumingMemoryBound(to: Float.self),
            biases: biases.assumingMemoryBound(to: Float.self)))
      case .affine(let bits, let size, let scaleFormat):
        read(source(row), exactly: exactly, aside)
        packStream(aside.quanta, columns, bits, packed)
        for group in 0..<columns / size {
          switch scaleFormat {
          case .f32:
            scales.storeBytes(of: aside.scales[group], toByteOffset: 4 * group, as: Float.self)
            biases.storeBytes(of: aside.biases[group], toByteOffset: 4 * group, as: Float.self)
          case .f16, .bf16:
            scales.storeBytes(of: halfBits(aside.scales[group]), toByteOffset: 2 * group, as: UInt16.self)
            biases.storeBytes(of: halfBits(aside.biases[group]), toByteOffset: 2 * group, as: UInt16.self)
          }
        }
      }
    }
    return matrix(form, UnsafeRawPointer(room), rows: rows.count)
  }

  /// Writes the heads of the panel of the rows from one on, where they have the file's own scales; rows that are not there
  /// repeat the last.
  func writeFactors(from start: Int, into panel: UnsafeMutableRawPointer) {
    guard let shape = format.panelShape(columns) else { return }
    for lane in 0..<Panel.width {
      let row = source(min(start + lane, count - 1))
      for block in 0..<columns / format.values {
        let bytes = row + block * format.bytes
        let group = block * format.values / shape.groupSize
        let head = panel + shape.headOffset(of: group)
        func write(_ half: UInt16, _ offset: Int) {
          head.storeBytes(of: half, toByteOffset: offset + 2 * lane, as: UInt16.self)
        }
        func writeCodes(_ code: (_ inHead: Int) -> UInt8) {
          for inHead in 0..<16 {
            head.storeBytes(of: code(inHead), toByteOffset: 64 + 16 * inHead + lane, as: UInt8.self)
          }
        }
        switch shape.factors {
        case .pairs: break
        case .halves: write(storedBits(bytes), 32 * (group % 2))
        case .bytes:
          write(storedBits(bytes), 0)
          // What the file takes away.
          write(storedBits(bytes, 2) ^ 0x8000, 32)
          for inHead in 0..<8 {
            let (scale, minimum) = scaleAndMinimum(bytes, inHead)
            let codes = head + 64 + 32 * inHead + lane
            codes.storeBytes(of: scale, as: UInt8.self)
            codes.storeBytes(of: minimum, toByteOffset: 16, as: UInt8.self)
          }
        case .signedBytes where format == .q3K:
          write(storedBits(bytes, 108), 0)
          writeCodes { sixBitScale(bytes, $0) }
        case .signedBytes:
          write(storedBits(bytes, 208), 0)
          writeCodes { byte(bytes, 192 + $0) }
        case .nibbles:
          write(storedBits(bytes, 80), 0)
          write(storedBits(bytes, 82) ^ 0x8000, 32)
          writeCodes { byte(bytes, $0) }
        }
      }
    }
  }

  /// Rows in a form, whose parts stand one after the other.
  private func matrix(_ form: BlockFormat.Form, _ room: UnsafeRawPointer, rows: Int) -> WeightMatrix {
    let sizes = RowSizes(form, columns: columns)
    let scales = room + rows * sizes.packed
    switch form {
    case .mxfp4:
      return .floating(
        FloatingRows(
          packed: room, rowBytes: sizes.packed, scales: scales, scaleRowBytes: sizes.scales, mode: .mxfp4,
          count: rows, columns: columns))
    case .affine(let bits, let size, let format):
      return .affine(
        QuantizedRows(
          packed: room, rowBytes: sizes.packed, bits: bits,
          groups: Groups(
            scales: scales, biases: scales + rows * sizes.scales, rowBytes: sizes.scales, format: format,
            size: size), count: rows, columns: columns))
    }
  }
}

/// Bytes of a row in a form.
private struct RowSizes {
  let packed, scales: Int
  /// Of elements, scales and biases.
  let all: Int

  init(_ form: BlockFormat.Form, columns: Int) {
    switch form {
    case .mxfp4:
      (packed, scales) = (columns / 2, columns / 32)
      all = packed + scales
    case .affine(let bits, let size, let format):
      (packed, scales) = (columns * bits / 8, columns / size * format.bytes)
      all = packed + 2 * scales
    }
  }
}

/// Where the numbers of a row go: w = scale · q + bias.
private struct BlockWork {
  /// A byte each, not packed yet.
  let quanta: UnsafeMutableRawPointer
  /// One for each group.
  let scales, biases: UnsafeMutablePointer<Float>

  /// Sets a group.
  @inline(__always)
  func set(_ group: Int, _ scale: Float, _ bias: Float) { (scales[group], biases[group]) = (scale, bias) }

  /// Sets sixteen numbers of the row, from one on.
  @inline(__always)
  func set(_ first: Int, _ numbers: Sixteen) {
    quanta.storeBytes(of: numbers, toByteOffset: first, as: Sixteen.self)
  }

  /// Sets one number of the row.
  @inline(__always)
  func setOne(_ index: Int, _ number: UInt8) {
    quanta.storeBytes(of: number, toByteOffset: index, as: UInt8.self)
  }
}

// MARK: - Numbers of the file

private typealias Sixteen = SIMD16<UInt8>

/// Sixteen bytes of the file.
@inline(__always)
private func sixteen(_ bytes: UnsafeRawPointer, _ offset: Int) -> Sixteen {
  bytes.loadUnaligned(fromByteOffset: offset, as: Sixteen.self)
}

@inline(__always)
private func byte(_ bytes: UnsafeRawPointer, _ offset: Int) -> UInt8 {
  bytes.load(fromByteOffset: offset, as: UInt8.self)
}

/// The bits of an unaligned half.
@inline(__always)
private func storedBits(_ bytes: UnsafeRawPointer, _ offset: Int = 0) -> UInt16 {
  UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self))
}

/// An unaligned half.
@inline(__always)
private func storedHalf(_ bytes: UnsafeRawPointer, _ offset: Int = 0) -> Float {
  float(f16: storedBits(bytes, offset))
}

/// Of a group of Q4_K and Q5_K, whose eight groups have six bits of each in twelve bytes.
@inline(__always)
private func scaleAndMinimum(_ bytes: UnsafeRawPointer, _ group: Int) -> (scale: UInt8, minimum: UInt8) {
  func stored(_ at: Int) -> UInt8 { byte(bytes, 4 + at) }
  guard group >= 4 else { return (stored(group) & 63, stored(group + 4) & 63) }
  return (
    stored(group + 4) & 15 | (stored(group - 4) >> 6) << 4, stored(group + 4) >> 4 | (stored(group) >> 6) << 4
  )
}

/// Of a group of Q3_K, in two's complement: four bits of sixteen, then two of them.
@inline(__always)
private func sixBitScale(_ bytes: UnsafeRawPointer, _ group: Int) -> UInt8 {
  let low = byte(bytes, 96 + group % 8) >> UInt8(group / 8 * 4) & 15
  let high = byte(bytes, 96 + 8 + group % 4) >> UInt8(group / 4 * 2) & 3
  return (low | high << 4) &- 32
}

/// Bit i of two bytes as 16 in byte i.
@inline(__always)
private func fifthBits(_ bytes: UnsafeRawPointer, _ offset: Int) -> Sixteen {
  let low = SIMD8<UInt8>(repeating: byte(bytes, offset))
  let high = SIMD8<UInt8>(repeating: byte(bytes, offset + 1))
  let places = Sixteen(1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128)
  let isSet = (Sixteen(lowHalf: low, highHalf: high) & places) .!= 0
  return Sixteen.zero.replacing(with: 16, where: isSet)
}

/// The numbers of IQ4_NL and IQ4_XS, plus 128.
private let nonlinear: (UInt64, UInt64) = (0x766a_5d4f_3f2d_1801, 0xf1d9_c5b5_a699_8d81)

/// Bytes below 16 as what the table has for them: where a bit of theirs is set, the other half of what is left of it.
@inline(__always)
private func lookUp(_ nibbles: Sixteen) -> Sixteen {
  func entry(_ index: Int) -> Sixteen {
    let eight = index < 8 ? nonlinear.0 : nonlinear.1
    return Sixteen(repeating: UInt8(truncatingIfNeeded: eight >> UInt64(8 * (index & 7))))
  }
  func chosen(_ bit: UInt8, _ clear: Sixteen, _ set: Sixteen) -> Sixteen {
    clear.replacing(with: set, where: nibbles & bit .!= 0)
  }
  func two(_ index: Int) -> Sixteen { chosen(1, entry(index), entry(index + 1)) }
  func four(_ index: Int) -> Sixteen { chosen(2, two(index), two(index + 2)) }
  func eight(_ index: Int) -> Sixteen { chosen(4, four(index), four(index + 4)) }
  return chosen(8, eight(0), eight(8))
}

extension BlockRows {
  /// The numbers of a row in the exact form, or in the fast one; they differ in the bits of elements, which are packed later, but
  /// for Q3_K.
  private func read(_ source: UnsafeRawPointer, exactly: Bool, _ work: BlockWork) {
    let (blocks, size, values) = (columns / format.values, format.bytes, format.values)
    /// A loop for each type, which does not look at it again.
    @inline(__always)
    func each(_ body: (_ bytes: UnsafeRawPointer, _ first: Int) -> Void) {
      for block in 0..<blocks { body(source + block * size, block * values) }
    }
    switch format {
    case .q40: each { readHalves($0, work, $1, at: 2, offset: -8) { low, _ in low } }
    case .q41: each { readHalves($0, work, $1, at: 4, offset: nil) { low, _ in low } }
    case .q50:
      each { bytes, first in
        readHalves(bytes, work, first, at: 6, offset: -16) { $0 | fifthBits(bytes, 2 + 2 * $1) }
      }
    case .q51:
      each { bytes, first in
        readHalves(bytes, work, first, at: 8, offset: nil) { $0 | fifthBits(bytes, 4 + 2 * $1) }
      }
    case .iq4NL: each { readHalves($0, work, $1, at: 2, offset: -128) { low, _ in lookUp(low) } }
    case .q80:
      each { bytes, first in
        let d = storedHalf(bytes)
        work.set(first, sixteen(bytes, 2) ^ 128)
        work.set(first + 16, sixteen(bytes, 18) ^ 128)
        work.set(first / 32, d, -128 * d)
      }
    case .q4K: each { readMinima($0, work, $1, isFive: false) }
    case .q5K: each { readMinima($0, work, $1, isFive: true) }
    case .q2K:
      each { bytes, first in
        let (d, least) = (storedHalf(bytes, 80), storedHalf(bytes, 82))
        eachSixteen { group, place, quarter in
          work.set(first + 16 * group, sixteen(bytes, 16 + place) &>> (2 * quarter) & 3)
          let both = byte(bytes, group)
          work.set(first / 16 + group, d * Float(both & 15), -(least * Float(both >> 4)))
        }
      }
    case .q3K: each { readThreeBits($0, work, $1, asProducts: exactly) }
    case .q6K:
      each { bytes, first in
        let d = storedHalf(bytes, 208)
        eachSixteen { group, place, quarter in
          // Two quarters of a half share nibbles: 64 bytes for each half.
          let nibbles = sixteen(bytes, place + place / 32 * 32 + 32 * Int(quarter & 1)) &>> (quarter / 2 * 4)
          let high = sixteen(bytes, 128 + place) &>> (2 * quarter) & 3
          work.set(first + 16 * group, nibbles & 15 | high &<< 4)
          let scale = d * Float(Int8(bitPattern: byte(bytes, 192 + group)))
          work.set(first / 16 + group, scale, -32 * scale)
        }
      }
    case .iq4XS:
      each { bytes, first in
        let d = storedHalf(bytes)
        let high = UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self))
        for group in 0..<8 {
          let low = byte(bytes, 4 + group / 2) >> UInt8(group % 2 * 4) & 15
          let scale = d * Float(Int(low) | Int(high >> UInt16(2 * group) & 3) << 4 - 32)
          let nibbles = sixteen(bytes, 8 + 16 * group)
          work.set(first + 32 * group, lookUp(nibbles & 15))
          work.set(first + 32 * group + 16, lookUp(nibbles &>> 4))
          work.set(first / 32 + group, scale, -128 * scale)
        }
      }
    case .tq10: each { readDigits($0, work, $1) }
    case .tq20:
      each { bytes, first in
        eachSixteen { group, place, quarter in
          work.set(first + 16 * group, sixteen(bytes, place) &>> (2 * quarter) & 3)
        }
        setBoth(storedHalf(bytes, 64), work, first)
      }
    case .q10:
      each { bytes, first in
        for i in 0..<8 { work.set(first + 16 * i, fifthBits(bytes, 2 + 2 * i) &>> 3) }
        work.set(first / 128, storedHalf(bytes), -storedHalf(bytes))
      }
    case .q20:
      each { bytes, first in
        for i in 0..<64 { work.setOne(first + i, byte(bytes, 2 + i / 4) >> UInt8(i % 4 * 2) & 3) }
        work.set(first / 64, storedHalf(bytes), -storedHalf(bytes))
      }
    case .mxfp4: break
    }
  }

  /// Blocks of 32, of whose bytes the low halves are the first numbers and the high halves the others.
  ///
  /// - Parameters:
  ///   - start: where these bytes are.
  ///   - offset: the number that stands for zero; nil where a block has its minimum.
  ///   - numbers: what the nibbles of a half, 0 or 1, mean.
  @inline(__always)
  private func readHalves(
    _ bytes: UnsafeRawPointer, _ work: BlockWork, _ first: Int, at start: Int, offset: Float?,
    _ numbers: (_ nibbles: Sixteen, _ half: Int) -> Sixteen
  ) {
    let pairs = sixteen(bytes, start)
    work.set(first, numbers(pairs & 15, 0))
    work.set(first + 16, numbers(pairs &>> 4, 1))
    let d = storedHalf(bytes)
    work.set(first / 32, d, offset.map { $0 * d } ?? storedHalf(bytes, 2))
  }

  /// The groups of 16 of a block of 256 numbers whose bits lie in quarters: the numbers 32·k up to 32·k + 31 of a half of 128 are
  /// the fields k of 32 bytes.
  @inline(__always)
  private func eachSixteen(_ body: (_ group: Int, _ place: Int, _ quarter: UInt8) -> Void) {
    for group in 0..<16 {
      body(group, group / 8 * 32 + group % 2 * 16, UInt8(truncatingIfNeeded: group % 8 / 2))
    }
  }

  /// Q4_K and Q5_K: eight groups with scales and minima of 6 bits.
  @inline(__always)
  private func readMinima(_ bytes: UnsafeRawPointer, _ work: BlockWork, _ first: Int, isFive: Bool) {
    let (d, least) = (storedHalf(bytes), storedHalf(bytes, 2))
    for group in 0..<8 {
      let (scale, minimum) = scaleAndMinimum(bytes, group)
      work.set(first / 32 + group, d * Float(scale), -least * Float(minimum))
      for i in stride(from: 0, to: 32, by: 16) {
        let pairs = sixteen(bytes, (isFive ? 48 : 16) + group / 2 * 32 + i)
        var numbers = group % 2 == 0 ? pairs & 15 : pairs &>> 4
        if isFive {
          numbers |= (sixteen(bytes, 16 + i) &>> UInt8(truncatingIfNeeded: group) & 1) &<< 4
        }
        work.set(first + 32 * group + i, numbers)
      }
    }
  }

  /// Q3_K: products of a group's scale and a number, from -124 to 128, plus 127; or the numbers, from -4 to 3, plus 8.
  private func readThreeBits(
    _ bytes: UnsafeRawPointer, _ work: BlockWork, _ first: Int, asProducts: Bool
  ) {
    let d = storedHalf(bytes, 108)
    if asProducts { setBoth(d, work, first, -127) }
    eachSixteen { group, place, quarter in
      let scale = sixBitScale(bytes, group)
      let two = sixteen(bytes, 32 + place) &>> (2 * quarter) & 3
      // A bit that is not set takes 4 away.
      let third = sixteen(bytes, place % 32) &>> (quarter + (place < 32 ? 0 : 4)) & 1
      let number = two &+ (third &<< 2) &- 4
      if asProducts {
        // Bytes wrap around: only the sum has to fit.
        work.set(first + 16 * group, number &* scale &+ 127)
      } else {
        work.set(first + 16 * group, number &+ 8)
        let factor = d * Float(Int8(bitPattern: scale))
        work.set(first / 16 + group, factor, -8 * factor)
      }
    }
  }

  /// TQ1_0: five digits to the base of 3 in a byte, as a fraction of 256; the last four bytes have four.
  private func readDigits(_ bytes: UnsafeRawPointer, _ work: BlockWork, _ first: Int) {
    let powers: [UInt8] = [1, 3, 9, 27, 81]
    func digits(_ from: Int, _ count: Int, _ each: Int, _ target: Int) {
      for (place, power) in powers.prefix(each).enumerated() {
        for i in 0..<count {
          let fraction = UInt16(byte(bytes, from + i) &* power)
          work.setOne(
            first + target + place * count + i, UInt8(truncatingIfNeeded: (fraction * 3) >> 8))
        }
      }
    }
    digits(0, 32, 5, 0)
    digits(32, 16, 5, 160)
    digits(48, 4, 4, 240)
    setBoth(storedHalf(bytes, 52), work, first)
  }

  /// The groups of 128 of a block of 256 numbers, which share a scale.
  private func setBoth(_ scale: Float, _ work: BlockWork, _ first: Int, _ offset: Float = -1) {
    for group in first / 128..<first / 128 + 2 { work.set(group, scale, offset * scale) }
  }

  /// MXFP4: the scale's byte stays, and halves of 16 become pairs of neighbours.
  private func reorder(
    _ source: UnsafeRawPointer, _ packed: UnsafeMutableRawPointer, _ scales: UnsafeMutableRawPointer
  ) {
    for block in 0..<columns / 32 {
      let bytes = source + block * 17
      scales.storeBytes(of: byte(bytes, 0), toByteOffset: block, as: UInt8.self)
      let pairs = sixteen(bytes, 1)
      store(nibbles(of: pairs & 15), packed + 16 * block)
      store(nibbles(of: pairs &>> 4), packed + 16 * block + 8)
    }
  }
}

/// Bytes of a row as a stream of bits.
///
/// - Parameter columns: a multiple of 16.
func packStream(
  _ quanta: UnsafeRawPointer, _ columns: Int, _ bits: Int, _ out: UnsafeMutableRawPointer
) {
  switch bits {
  case 8: out.copyMemory(from: quanta, byteCount: columns)
  case 4:
    for i in stride(from: 0, to: columns, by: 16) { store(nibbles(of: sixteen(quanta, i)), out + i / 2) }
  default:
    for eighth in 0..<columns / 8 {
      let word = joined(quanta.loadUnaligned(fromByteOffset: 8 * eighth, as: UInt64.self), bits)
      for i in 0..<bits {
        out.storeBytes(
          of: UInt8(truncatingIfNeeded: word >> UInt64(8 * i)), toByteOffset: eighth * bits + i,
          as: UInt8.self)
      }
    }
  }
}

@inline(__always)
private func store(_ bytes: SIMD8<UInt8>, _ out: UnsafeMutableRawPointer) {
  out.storeBytes(of: bytes, as: SIMD8<UInt8>.self)
}

/// Bytes below 16, two in one.
@inline(__always)
private func nibbles(of bytes: Sixteen) -> SIMD8<UInt8> {
  let pairs = unsafeBitCast(bytes, to: SIMD8<UInt16>.self)
  return SIMD8(truncatingIfNeeded: pairs | pairs &>> 4)
}

/// Eight bytes below 2^bits as one number, the first in its lowest bits.
private func joined(_ bytes: UInt64, _ bits: Int) -> UInt64 {
  let bits = UInt64(bits)
  let twos = bytes & 0x00FF_00FF_00FF_00FF | (bytes >> 8 & 0x00FF_00FF_00FF_00FF) << bits
  let fours = twos & 0x0000_FFFF_0000_FFFF | (twos >> 16 & 0x0000_FFFF_0000_FFFF) << (2 * bits)
  return fours & 0xFFFF_FFFF | (fours >> 32) << (4 * bits)
}
