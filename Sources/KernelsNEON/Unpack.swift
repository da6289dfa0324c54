// Weights as float32 in NEON: affine and floating formats unpacked, f16 and bf16 widened.
//
// Eight elements are `bits` whole bytes; four of them fit the 32-bit lanes of a register, each shifted by its own amount.

package import KernelTypes
import _Builtin_intrinsics.arm.neon

/// The bits of eight elements, four each; nothing outside of their `bits` bytes is read.
@inline(__always)
private func words(_ source: UnsafeRawPointer, _ bits: Int) -> (low: UInt32, high: UInt32) {
  func byte(_ at: Int) -> UInt32 { UInt32(source.load(fromByteOffset: at, as: UInt8.self)) }
  func half(_ at: Int) -> UInt32 { UInt32(source.loadUnaligned(fromByteOffset: at, as: UInt16.self)) }
  func word(_ at: Int) -> UInt32 { source.loadUnaligned(fromByteOffset: at, as: UInt32.self) }
  switch bits {
  case 2: return (half(0), half(0) >> 8)
  case 3:
    let all = half(0) | byte(2) << 16
    return (all, all >> 12)
  case 4: return (word(0), word(0) >> 16)
  case 5:
    let all = UInt64(word(0)) | UInt64(byte(4)) << 32
    return (UInt32(truncatingIfNeeded: all), UInt32(truncatingIfNeeded: all >> 20))
  case 6:
    let all = UInt64(word(0)) | UInt64(half(4)) << 32
    return (UInt32(truncatingIfNeeded: all), UInt32(truncatingIfNeeded: all >> 24))
  default: return (word(0), word(4))
  }
}

/// Four elements of `bits` bits that begin with the lowest of a word.
@inline(__always)
private func fields(_ word: UInt32, _ bits: Int) -> SIMD4<UInt32> {
  let width = UInt32(truncatingIfNeeded: bits)
  return (SIMD4(repeating: word) &>> SIMD4(0, width, 2 * width, 3 * width)) & SIMD4(repeating: 1 << width - 1)
}

/// Eight affine weights, `scale · q + bias` fused.
@inline(__always)
func affineEight(_ source: UnsafeRawPointer, _ bits: Int, _ scale: Four, _ bias: Four) -> Lanes {
  let (low, high) = words(source, bits)
  return (
    fused(vcvtq_f32_u32(fields(low, bits)), scale, bias),
    fused(vcvtq_f32_u32(fields(high, bits)), scale, bias)
  )
}

/// `out[i] = scale · q[i] + bias`, fused, for each row of `weights`. Scalar twin: `Reference.unpack`.
package func unpackAffine(_ weights: QuantizedRows, into y: Output) {
  for row in 0..<weights.count {
    let (from, to) = (weights.rows(row..<row + 1), y.base + row * y.stride)
    switch weights.bits {
    case 2: unpackRow(from, 2, to)
    case 3: unpackRow(from, 3, to)
    case 4: unpackRow(from, 4, to)
    case 5: unpackRow(from, 5, to)
    case 6: unpackRow(from, 6, to)
    default: unpackRow(from, 8, to)
    }
  }
}

@inline(__always)
private func unpackRow(_ row: QuantizedRows, _ bits: Int, _ out: UnsafeMutablePointer<Float>) {
  var i = 0
  for group in 0..<row.columns / row.groups.size {
    let scale = Four(repeating: scalar(row.groups.scales, row.groups.format, group))
    let bias = Four(repeating: scalar(row.groups.biases, row.groups.format, group))
    for _ in 0..<row.groups.size / 8 {
      let weights = affineEight(row.packed + i / 8 * bits, bits, scale, bias)
      store(weights.low, out + i)
      store(weights.high, out + i + 4)
      i += 8
    }
  }
}

/// Eight weights of a floating mode from element `c` of a row on.
@inline(__always)
func floatingEight(_ row: FloatingRows, _ c: Int, _ mode: FloatingMode, _ scale: Four) -> Lanes {
  if mode.bits == 8 {
    let words = vmovl_s8((row.packed + c).loadUnaligned(as: SIMD8<Int8>.self)) &<< 7
    let halves = unsafeBitCast(words & Int16(bitPattern: 0xBFFF), to: SIMD8<Float16>.self)
    return (
      vcvt_f32_f16(halves.lowHalf) * 256 * scale, vcvt_f32_f16(halves.highHalf) * 256 * scale
    )
  }
  let word = (row.packed + c / 2).loadUnaligned(as: UInt32.self)
  if case .table = mode {
    return (entries(fields(word, 4), row.table) * scale, entries(fields(word >> 16, 4), row.table) * scale)
  }
  return (elements(fields(word, 4), scale), elements(fields(word >> 16, 4), scale))
}

/// E2M1: exponent and mantissa moved into place, times the power of two that rebiases the exponent, times the scale.
@inline(__always)
private func elements(_ q: SIMD4<UInt32>, _ scale: Four) -> Four {
  unsafeBitCast((q & 8) &<< 28 | (q & 7) &<< 22, to: Four.self) * 0x1p126 * scale
}

/// Four of the sixteen floats at `table`.
@inline(__always)
private func entries(_ q: SIMD4<UInt32>, _ table: UnsafeRawPointer) -> Four {
  var values = Four.zero
  for lane in 0..<4 { values[lane] = scalar(table, .f32, Int(q[lane])) }
  return values
}

/// The scale of the elements that kernels take at a time.
@inline(__always)
func groupScale(_ row: FloatingRows, _ group: Int, _ mode: FloatingMode) -> Four {
  let scale =
    mode.hasFloatScales
    ? scalar(row.scales, .f32, group >> row.scaleShift)
    : scaleValue(row.scales.load(fromByteOffset: group, as: UInt8.self), mode)
  return Four(repeating: scale)
}

/// `out[i] = scale · element[i]` for each row of `weights`. Scalar twin: `Reference.unpackFloating`.
package func unpackFloating(_ weights: FloatingRows, into y: Output) {
  for row in 0..<weights.count {
    let (from, to) = (weights.rows(row..<row + 1), y.base + row * y.stride)
    switch weights.mode {
    case .mxfp4: unpackRow(from, .mxfp4, to)
    case .mxfp8: unpackRow(from, .mxfp8, to)
    case .nvfp4: unpackRow(from, .nvfp4, to)
    case .fp8: unpackRow(from, .fp8, to)
    case .table: unpackRow(from, .table, to)
    }
  }
}

@inline(__always)
private func unpackRow(_ row: FloatingRows, _ mode: FloatingMode, _ out: UnsafeMutablePointer<Float>) {
  for group in 0..<row.columns / mode.groupSize {
    let scale = groupScale(row, group, mode)
    var c = group * mode.groupSize
    while c < (group + 1) * mode.groupSize {
      let weights = floatingEight(row, c, mode, scale)
      store(weights.low, out + c)
      store(weights.high, out + c + 4)
      c += 8
    }
  }
}

/// Widens `count` elements of f16 or bf16. Scalar twin: `Reference.widen`.
package func widenHalf(
  _ source: UnsafeRawPointer, _ format: FloatFormat, _ count: Int, into out: UnsafeMutablePointer<Float>
) {
  var i = 0
  while i + 8 <= count {
    let values = widenEight(source + 2 * i, format)
    store(values.low, out + i)
    store(values.high, out + i + 4)
    i += 8
  }
  while i < count {
    out[i] = scalar(source, format, i)
    i += 1
  }
}
