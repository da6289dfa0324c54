// Panels of sixteen outputs: kept in memory instead of rows (`InterleavedKernels`), or made for one product.
//
// A register of a panel holds a piece of several outputs: four bytes of four of them, or eight bytes of two, as the level's
// multiplication takes them (`isPaired`). In order of the activations the weights of a block are `block` registers of
// bytes. A plane of b bits packs them into n = block · b / 8 registers: bits b·k ..< b·k + b of the bytes of register i
// are those of register i + n·k (PanelMaking has the planes of a width). Bytes of 8 bits are kept as signed ones, q - 128.

package import KernelTypes
import _Builtin_intrinsics.arm.neon

/// Bytes of scratch of the panel kernels: the weights as bytes, scales and biases as floats, and the sums of four rows.
package func int8PanelBytes(_ columns: Int, _ block: Int) -> Int {
  16 * paddedColumns(columns) + 128 * (columns / block) + 4 * 16 * 64
}

/// Rows from which a panel of `bits` is kept, side by side: bytes of 8 bits as signed ones.
@inline(__always)
func interleaveRows(_ weights: QuantizedRows, _ bits: Int, into out: UnsafeMutableRawPointer) {
  interleave(weights, flip: bits == 8 ? 128 : 0, into: out)
}

/// Rows of nibbles or bytes side by side, sixteen bytes of each after the other: 256 bytes for all outputs.
@inline(never)
func interleave(_ weights: QuantizedRows, flip: UInt8, into out: UnsafeMutableRawPointer) {
  let last = weights.count - 1
  for unit in 0..<weights.rowBytes / 16 {
    let target = out + 256 * unit
    var o = 0
    while o < Panel.width {
      @inline(__always)
      func row(_ i: Int) -> Codes {
        codes(weights.packed + min(o + i, last) * weights.rowBytes + 16 * unit) ^ Codes(repeating: flip)
      }
      if isPaired {
        writePair(row(0), row(1), target + 8 * o)
        writePair(row(2), row(3), target + 8 * o + 16)
      } else {
        writeFour(row(0), row(1), row(2), row(3), target + 4 * o)
      }
      o += 4
    }
  }
}

/// Eight bytes of two rows in each register.
@inline(__always)
private func writePair(_ a: Codes, _ b: Codes, _ out: UnsafeMutableRawPointer) {
  out.storeBytes(of: Codes(lowHalf: a.lowHalf, highHalf: b.lowHalf), as: Codes.self)
  (out + 128).storeBytes(of: Codes(lowHalf: a.highHalf, highHalf: b.highHalf), as: Codes.self)
}

/// Four bytes of four rows in each register.
@inline(__always)
private func writeFour(_ a: Codes, _ b: Codes, _ c: Codes, _ d: Codes, _ out: UnsafeMutableRawPointer) {
  @inline(__always)
  func words(_ codes: Codes) -> SIMD4<UInt32> { unsafeBitCast(codes, to: SIMD4<UInt32>.self) }
  let (ac, bd) = (
    (vzip1q_u32(words(a), words(c)), vzip2q_u32(words(a), words(c))),
    (vzip1q_u32(words(b), words(d)), vzip2q_u32(words(b), words(d)))
  )
  out.storeBytes(of: vzip1q_u32(ac.0, bd.0), as: SIMD4<UInt32>.self)
  (out + 64).storeBytes(of: vzip2q_u32(ac.0, bd.0), as: SIMD4<UInt32>.self)
  (out + 128).storeBytes(of: vzip1q_u32(ac.1, bd.1), as: SIMD4<UInt32>.self)
  (out + 192).storeBytes(of: vzip2q_u32(ac.1, bd.1), as: SIMD4<UInt32>.self)
}

/// - Parameter source: the registers of a block, of nibbles or bytes (`whole` bits).
@inline(never)
func writePlanes(
  _ source: UnsafeRawPointer, _ block: Int, _ whole: Int, low: Int, high: Int,
  _ out: UnsafeMutableRawPointer
) {
  /// Register i of the bytes.
  @inline(__always)
  func byteRegister(_ i: Int) -> Codes {
    guard whole == 4 else { return codes(source + 16 * i) }
    let words = codes(source + 16 * (i % (block / 2)))
    return i < block / 2 ? words & 15 : words &>> 4
  }
  @inline(__always)
  func write(_ width: Int, _ shift: Int, _ target: UnsafeMutableRawPointer) {
    let registers = block * width / 8
    for i in 0..<registers {
      var all = Codes.zero
      for k in 0..<8 / width {
        let field = (byteRegister(i + registers * k) &>> UInt8(shift)) & (1 << UInt8(width) - 1)
        all |= field &<< UInt8(width * k)
      }
      (target + 16 * i).storeBytes(of: all, as: Codes.self)
    }
  }
  write(low, 0, out)
  if high > 0 { write(high, low, out + blockBytes(block, low)) }
}

/// A block of narrow planes as bytes.
@inline(never)
func unpackPlanes(
  _ source: UnsafeRawPointer, _ block: Int, low: Int, high: Int, _ out: UnsafeMutableRawPointer
) {
  let upper = source + blockBytes(block, low)
  for i in 0..<block {
    var all = field(source, low, block, i)
    if high > 0 { all |= field(upper, high, block, i) &<< UInt8(low) }
    (out + 16 * i).storeBytes(of: all, as: Codes.self)
  }
}

/// What register `i` of a block's bytes has in a plane.
@inline(__always)
func field(_ plane: UnsafeRawPointer, _ width: Int, _ block: Int, _ i: Int) -> Codes {
  let registers = block * width / 8
  let shift = UInt8(truncatingIfNeeded: width * (i / registers))
  return (codes(plane + 16 * (i % registers)) &>> shift) & (1 << UInt8(truncatingIfNeeded: width) - 1)
}
