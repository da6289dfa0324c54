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
    // Behind the rows stand the numbers of one: as float32, scales and biases, as bytes.
    let (most, start) = (columns / 32, (rows.count * sizes.all + 3) / 4)
    let all = scratch.floats(start + columns + 2 * most + columns / 4)
    let (room, floats) = (UnsafeMutableRawPointer(all), all + start)
    let work = BlockWork(
      quanta: UnsafeMutableRawPointer(floats + columns + 2 * most).assumingMemoryBound(to: UInt8.self),
      scales: floats + columns, biases: floats + columns + most)
    for (index, row) in rows.enumerated() {
      let packed = room + index * sizes.packed
      let scales = room + rows.count * sizes.packed + index * sizes.scales
      switch form {
      case .floats: decode(source(row), into: packed.assumingMemoryBound(to: Float.self))
      case .mxfp4: reorder(source(row), packed, scales.assumingMemoryBound(to: UInt8.self))
      case .affine(let bits, let size, let scaleFormat):
        let groups = columns / size
        if form == format.exactForm {
          read(source(row), work)
        } else {
          decode(source(row), into: floats)
          requantize(floats, work)
        }
        packStream(work.quanta, columns, bits, packed)
        let biases = scales + rows.count * sizes.scales
        if scaleFormat == .f32 {
          scales.copyMemory(from: work.scales, byteCount: 4 * groups)
          biases.copyMemory(from: work.biases, byteCount: 4 * groups)
        } else {
          for group in 0..<groups {
            scales.storeBytes(of: halfBits(work.scales[group]), toByteOffset: 2 * group, as: UInt16.self)
            biases.storeBytes(of: halfBits(work.biases[group]), toByteOffset: 2 * group, as: UInt16.self)
          }
        }
      }
    }
    return matrix(form, UnsafeRawPointer(room), rows: rows.count)
  }

  /// Rows in a form, whose parts stand one after the other.
  private func matrix(_ form: BlockFormat.Form, _ room: UnsafeRawPointer, rows: Int) -> WeightMatrix {
    let sizes = RowSizes(form, columns: columns)
    let scales = room + rows * sizes.packed
    switch form {
    case .floats:
      return .dense(
        FloatRows(base: room, rowBytes: sizes.packed, format: .f32, count: rows, columns: columns))
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
    case .floats: (packed, scales, all) = (4 * columns, 0, 4 * columns)
    case .mxfp4:
      (packed, scales) = (columns / 2, columns / 32)
      all = packed + scales
    case .affine(let bits, let size, let format):
      (packed, scales) = (columns * bits / 8, columns / size * format.bytes)
      all = packed + 2 * scales
    }
  }
}

/// The numbers of a row while it is read: w = scale · q + bias.
private struct BlockWork {
  /// A byte each, not packed yet.
  let quanta: UnsafeMutablePointer<UInt8>
  /// One for each group.
  let scales, biases: UnsafeMutablePointer<Float>

  /// Sets a group.
  func set(_ group: Int, _ scale: Float, _ bias: Float) { (scales[group], biases[group]) = (scale, bias) }
}

// MARK: - Numbers of the file

/// An unaligned half.
private func storedHalf(_ bytes: UnsafeRawPointer, _ offset: Int = 0) -> Float {
  float(f16: UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self)))
}

/// The numbers of IQ4_NL and IQ4_XS, plus 128.
private let nonlinear: (UInt64, UInt64) = (0x766a_5d4f_3f2d_1801, 0xf1d9_c5b5_a699_8d81)

/// Eight bytes, each below 16, as what the table has for them.
private func lookUp(_ nibbles: UInt64) -> UInt64 {
  var result: UInt64 = 0
  for shift in stride(from: UInt64(0), to: 64, by: 8) {
    let index = nibbles >> shift & 15
    let byte = (index < 8 ? nonlinear.0 : nonlinear.1) >> (8 * (index & 7)) & 255
    result |= byte << shift
  }
  return result
}

private let ones: UInt64 = 0x0101_0101_0101_0101
private let lowHalves: UInt64 = 0x0F0F_0F0F_0F0F_0F0F

/// Eight bytes of the file.
private func eight(_ bytes: UnsafeRawPointer, _ offset: Int) -> UInt64 {
  UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
}

private func byte(_ bytes: UnsafeRawPointer, _ offset: Int) -> UInt8 {
  bytes.load(fromByteOffset: offset, as: UInt8.self)
}

/// Bit i of a byte as byte i.
private func spread(_ bits: UInt8) -> UInt64 {
  // Copies in all bytes, of which each keeps its own bit, and makes it 128 where it is set.
  let kept = UInt64(bits) &* ones & 0x8040_2010_0804_0201
  return ((kept &+ 0x7F7F_7F7F_7F7F_7F7F) | kept) >> 7 & ones
}

extension BlockRows {
  private func store(_ eight: UInt64, _ work: BlockWork, _ index: Int) {
    UnsafeMutableRawPointer(work.quanta + index).storeBytes(of: eight.littleEndian, as: UInt64.self)
  }

  /// The numbers of a row in the exact form, where it is affine.
  private func read(_ source: UnsafeRawPointer, _ work: BlockWork) {
    for block in 0..<columns / format.values {
      let bytes = source + block * format.bytes
      let first = block * format.values
      switch format {
      case .q40, .q41, .q50, .q51, .iq4NL: readHalves(bytes, work, first)
      case .q80:
        let d = storedHalf(bytes)
        for i in stride(from: 0, to: 32, by: 8) {
          store(eight(bytes, 2 + i) ^ 0x8080_8080_8080_8080, work, first + i)
        }
        work.set(block, d, -128 * d)
      case .q4K, .q5K: readMinima(bytes, work, first)
      case .q3K: readThreeBits(bytes, work, first)
      case .iq4XS:
        let d = storedHalf(bytes)
        let high = UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self))
        for group in 0..<8 {
          let low = byte(bytes, 4 + group / 2) >> UInt8(group % 2 * 4) & 15
          let scale = d * Float(Int(low) | Int(high >> UInt16(2 * group) & 3) << 4 - 32)
          for i in stride(from: 0, to: 16, by: 8) {
            let nibbles = eight(bytes, 8 + 16 * group + i)
            store(lookUp(nibbles & lowHalves), work, first + 32 * group + i)
            store(lookUp(nibbles >> 4 & lowHalves), work, first + 32 * group + 16 + i)
          }
          work.set(first / 32 + group, scale, -128 * scale)
        }
      case .tq10: readDigits(bytes, work, first)
      case .tq20:
        for i in 0..<256 {
          work.quanta[first + i] =
            byte(bytes, i / 128 * 32 + i % 32) >> UInt8(i % 128 / 32 * 2) & 3
        }
        setBoth(storedHalf(bytes, 64), work, first)
      case .q10:
        for i in 0..<16 { store(spread(byte(bytes, 2 + i)) << 1, work, first + 8 * i) }
        work.set(block, storedHalf(bytes), -storedHalf(bytes))
      case .q20:
        for i in 0..<64 { work.quanta[first + i] = byte(bytes, 2 + i / 4) >> UInt8(i % 4 * 2) & 3 }
        work.set(block, storedHalf(bytes), -storedHalf(bytes))
      case .q2K, .q6K, .mxfp4: break
      }
    }
  }

  /// Blocks of 32, of whose bytes the low halves are the first numbers and the high halves the others.
  private func readHalves(_ bytes: UnsafeRawPointer, _ work: BlockWork, _ first: Int) {
    let hasMinimum = format == .q41 || format == .q51
    let isFive = format == .q50 || format == .q51
    let start = hasMinimum ? 4 : 2
    let nibbles = start + (isFive ? 4 : 0)
    for i in stride(from: 0, to: 16, by: 8) {
      let pairs = eight(bytes, nibbles + i)
      var (low, high) = (pairs & lowHalves, pairs >> 4 & lowHalves)
      if isFive {
        low |= spread(byte(bytes, start + i / 8)) << 4
        high |= spread(byte(bytes, start + 2 + i / 8)) << 4
      } else if format == .iq4NL {
        (low, high) = (lookUp(low), lookUp(high))
      }
      store(low, work, first + i)
      store(high, work, first + 16 + i)
    }
    let d = storedHalf(bytes)
    let offset: Float = isFive ? -16 : format == .iq4NL ? -128 : -8
    work.set(first / 32, d, hasMinimum ? storedHalf(bytes, 2) : offset * d)
  }

  /// Q4_K and Q5_K: eight groups with scales and minima of 6 bits.
  private func readMinima(_ bytes: UnsafeRawPointer, _ work: BlockWork, _ first: Int) {
    let (d, least) = (storedHalf(bytes), storedHalf(bytes, 2))
    let isFive = format == .q5K
    for group in 0..<8 {
      func stored(_ at: Int) -> UInt8 { byte(bytes, 4 + at) }
      let (scale, minimum): (UInt8, UInt8) =
        group < 4
        ? (stored(group) & 63, stored(group + 4) & 63)
        : (
          stored(group + 4) & 15 | (stored(group - 4) >> 6) << 4,
          stored(group + 4) >> 4 | (stored(group) >> 6) << 4
        )
      work.set(first / 32 + group, d * Float(scale), -least * Float(minimum))
      for i in stride(from: 0, to: 32, by: 8) {
        let pairs = eight(bytes, (isFive ? 48 : 16) + group / 2 * 32 + i)
        var numbers = pairs >> UInt64(group % 2 * 4) & lowHalves
        if isFive { numbers |= (eight(bytes, 16 + i) >> UInt64(group) & ones) << 4 }
        store(numbers, work, first + 32 * group + i)
      }
    }
  }

  /// Q3_K: products of a group's scale and a number, from -124 to 128, plus 127.
  private func readThreeBits(_ bytes: UnsafeRawPointer, _ work: BlockWork, _ first: Int) {
    setBoth(storedHalf(bytes, 108), work, first, -127)
    for group in 0..<16 {
      let low = byte(bytes, 96 + group % 8) >> UInt8(group / 8 * 4) & 15
      let high = byte(bytes, 96 + 8 + group % 4) >> UInt8(group / 4 * 2) & 3
      let scale = Int(low | high << 4) - 32
      // Quarters of a half of 128 numbers share bytes.
      let (part, quarter, start) = (group / 8, group % 8 / 2, group % 2 * 16)
      for i in start..<start + 16 {
        let two = Int(byte(bytes, 32 + 32 * part + i) >> UInt8(2 * quarter) & 3)
        let isWhole = byte(bytes, i) >> UInt8(4 * part + quarter) & 1 == 1
        let product = scale * (isWhole ? two : two - 4)
        work.quanta[first + 16 * group + i - start] = UInt8(truncatingIfNeeded: product + 127)
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
          work.quanta[first + target + place * count + i] = UInt8(truncatingIfNeeded: (fraction * 3) >> 8)
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

  /// The values of a row of Q6_K or Q2_K.
  private func decode(_ source: UnsafeRawPointer, into out: UnsafeMutablePointer<Float>) {
    for block in 0..<columns / format.values {
      let bytes = source + block * format.bytes
      let target = out + block * format.values
      for group in 0..<16 {
        let (part, quarter, start) = (group / 8, group % 8 / 2, group % 2 * 16)
        if format == .q6K {
          let scale = storedHalf(bytes, 208) * Float(Int8(bitPattern: byte(bytes, 192 + group)))
          for i in start..<start + 16 {
            let low = byte(bytes, 64 * part + i + 32 * (quarter & 1)) >> UInt8(quarter / 2 * 4) & 15
            let high = byte(bytes, 128 + 32 * part + i) >> UInt8(2 * quarter) & 3
            target[16 * group + i - start] = scale * Float(Int(low | high << 4) - 32)
          }
        } else {
          let both = byte(bytes, group)
          let (scale, least) = (
            storedHalf(bytes, 80) * Float(both & 15), storedHalf(bytes, 82) * Float(both >> 4)
          )
          for i in start..<start + 16 {
            let number = byte(bytes, 16 + 32 * part + i) >> UInt8(2 * quarter) & 3
            target[16 * group + i - start] = scale * Float(number) - least
          }
        }
      }
    }
  }

  /// Values as 8 bits in groups of 32, whose scales and biases are halves.
  private func requantize(_ values: UnsafeMutablePointer<Float>, _ work: BlockWork) {
    for group in 0..<columns / 32 {
      let numbers = values + 32 * group
      var (least, most) = (numbers[0], numbers[0])
      for i in 1..<32 { (least, most) = (min(least, numbers[i]), max(most, numbers[i])) }
      let bias = float(f16: halfBits(least))
      let scale = float(f16: halfBits(max(0, most - bias) / 255))
      let inverse = scale > 0 ? 1 / scale : 0
      for i in 0..<32 {
        let q = ((numbers[i] - bias) * inverse).rounded()
        // What is not a number becomes 0.
        work.quanta[32 * group + i] = q > 0 ? UInt8(min(q, 255)) : 0
      }
      work.set(group, scale, bias)
    }
  }

  /// MXFP4: the scale's byte stays, and halves of 16 become pairs of neighbours.
  private func reorder(
    _ source: UnsafeRawPointer, _ packed: UnsafeMutableRawPointer, _ scales: UnsafeMutablePointer<UInt8>
  ) {
    for block in 0..<columns / 32 {
      let bytes = source + block * 17
      scales[block] = byte(bytes, 0)
      for i in stride(from: 0, to: 16, by: 8) {
        let pairs = eight(bytes, 1 + i)
        for (low, at) in [(pairs, 0), (pairs >> 4, 8)] {
          packed.storeBytes(
            of: UInt32(truncatingIfNeeded: joined(low & lowHalves, 4)).littleEndian,
            toByteOffset: 16 * block + at + i / 2, as: UInt32.self)
        }
      }
    }
  }
}

/// Bytes of a row as a stream of bits.
func packStream(
  _ quanta: UnsafeMutablePointer<UInt8>, _ columns: Int, _ bits: Int, _ out: UnsafeMutableRawPointer
) {
  guard bits < 8 else { return out.copyMemory(from: quanta, byteCount: columns) }
  for eighth in 0..<columns / 8 {
    let word = joined(eight(UnsafeRawPointer(quanta), 8 * eighth), bits)
    for i in 0..<bits {
      out.storeBytes(
        of: UInt8(truncatingIfNeeded: word >> UInt64(8 * i)), toByteOffset: eighth * bits + i,
        as: UInt8.self)
    }
  }
}

/// Eight bytes below 2^bits as one number, the first in its lowest bits.
private func joined(_ bytes: UInt64, _ bits: Int) -> UInt64 {
  let bits = UInt64(bits)
  let twos = bytes & 0x00FF_00FF_00FF_00FF | (bytes >> 8 & 0x00FF_00FF_00FF_00FF) << bits
  let fours = twos & 0x0000_FFFF_0000_FFFF | (twos >> 16 & 0x0000_FFFF_0000_FFFF) << (2 * bits)
  return fours & 0xFFFF_FFFF | (fours >> 32) << (4 * bits)
}
