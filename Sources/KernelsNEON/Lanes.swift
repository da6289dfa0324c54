// Registers of NEON as Swift's vectors: loads at any address, sums of lanes, and formats widened to float32.
//
// Intrinsics for loads, stores, lanes and constant shifts are macros, which Swift does not import: its own operators are
// used instead.

import KernelTypes
import _Builtin_intrinsics.arm.neon

/// Four float32 lanes.
typealias Four = SIMD4<Float>
/// Sums of Registers.
typealias Floats = Four
typealias Integers = Sums
/// Signed bytes that are multiplied.
typealias Bytes = SIMD16<Int8>
/// Bytes as the checkpoint stores them.
typealias Codes = SIMD16<UInt8>
/// Integer sums of products.
typealias Sums = SIMD4<Int32>
/// Eight lanes of an output: columns 8·i + 0 ... 3, and 4 ... 7.
typealias Lanes = (low: Four, high: Four)

@inline(__always)
func four(_ base: UnsafeRawPointer, _ index: Int) -> Four {
  base.loadUnaligned(fromByteOffset: 4 * index, as: Four.self)
}

@inline(__always)
func store(_ value: Four, _ base: UnsafeMutablePointer<Float>) {
  UnsafeMutableRawPointer(base).storeBytes(of: value, as: Four.self)
}

@inline(__always)
func bytes(_ base: UnsafeRawPointer) -> Bytes { base.loadUnaligned(as: Bytes.self) }

@inline(__always)
func codes(_ base: UnsafeRawPointer) -> Codes { base.loadUnaligned(as: Codes.self) }

@inline(__always)
func signed(_ codes: Codes) -> Bytes { unsafeBitCast(codes, to: Bytes.self) }

@inline(__always)
func lowNibbles(_ codes: Codes) -> Bytes { signed(codes & 15) }

@inline(__always)
func highNibbles(_ codes: Codes) -> Bytes { signed(codes &>> 4) }

/// `a · b + c`, rounded once.
@inline(__always)
func fused(_ a: Four, _ b: Four, _ c: Four) -> Four { vfmaq_f32(c, a, b) }

@inline(__always)
func floats(_ sums: Sums) -> Four { vcvtq_f32_s32(sums) }

/// Neighbouring lanes added: those of `a`, then those of `b`.
@inline(__always)
func addPairs(_ a: Sums, _ b: Sums) -> Sums { vpaddq_s32(a, b) }

/// The sum of eight lanes, always in the same tree.
@inline(__always)
func sum(_ v: Lanes) -> Float {
  let four = v.low + v.high
  let two = four.lowHalf + four.highHalf
  return two[0] + two[1]
}

/// Eight floats from element `index` on.
@inline(__always)
func eight(_ base: UnsafeRawPointer, _ index: Int) -> Lanes { (four(base, index), four(base, index + 4)) }

/// The first `count` (0 ... 7) of them, zeros after them.
@inline(__always)
func eightTail(_ base: UnsafeRawPointer, _ index: Int, _ count: Int) -> Lanes {
  var lanes: Lanes = (.zero, .zero)
  for lane in 0..<count {
    let value = base.loadUnaligned(fromByteOffset: 4 * (index + lane), as: Float.self)
    if lane < 4 { lanes.low[lane] = value } else { lanes.high[lane - 4] = value }
  }
  return lanes
}

/// `total + a · b`.
@inline(__always)
func add(_ total: inout Lanes, _ a: Lanes, _ b: Lanes) {
  total = (fused(a.low, b.low, total.low), fused(a.high, b.high, total.high))
}

// MARK: Formats

/// Four f16 or bf16 elements as float32.
@inline(__always)
func widen(_ bits: SIMD4<UInt16>, _ format: FloatFormat) -> Four {
  if case .f16 = format { return vcvt_f32_f16(unsafeBitCast(bits, to: SIMD4<Float16>.self)) }
  return unsafeBitCast(vmovl_u16(bits) &<< 16, to: Four.self)
}

/// Eight f16 or bf16 elements.
@inline(__always)
func widenEight(_ source: UnsafeRawPointer, _ format: FloatFormat) -> Lanes {
  let bits = source.loadUnaligned(as: SIMD8<UInt16>.self)
  return (widen(bits.lowHalf, format), widen(bits.highHalf, format))
}

/// Four scales or biases from element `index` on.
@inline(__always)
func factors(_ base: UnsafeRawPointer, _ format: FloatFormat, _ index: Int) -> Four {
  switch format {
  case .f32: return four(base, index)
  case .f16, .bf16:
    return widen(base.loadUnaligned(fromByteOffset: 2 * index, as: SIMD4<UInt16>.self), format)
  }
}

/// Four scales and biases of a head's group, from output `first` on.
@inline(__always)
func factors(
  _ head: UnsafeRawPointer, _ group: Int, _ kind: PanelFactors, _ bits: Int, _ first: Int
) -> (scales: Four, biases: Four) {
  switch kind {
  case .pairs(let format):
    return (factors(head, format, first), factors(head + factorBytes(format), format, first))
  case .halves:
    let scales = factors(head + 32 * group, .f16, first)
    return (scales, scales * Four(repeating: middle(bits)))
  case .bytes:
    let codes = head + 64 + 32 * group + first
    return (
      factors(head, .f16, first) * byteFloats(codes), factors(head + 32, .f16, first) * byteFloats(codes + 16)
    )
  case .signedBytes:
    let codes = (head + 64 + 16 * group + first).loadUnaligned(as: SIMD4<Int8>.self)
    let scales = factors(head, .f16, first) * Four(codes)
    return (scales, scales * Four(repeating: middle(bits)))
  case .nibbles:
    let codes = (head + 64 + 16 * group + first).loadUnaligned(as: SIMD4<UInt8>.self)
    return (
      factors(head, .f16, first) * Four(codes & 15), factors(head + 32, .f16, first) * Four(codes &>> 4)
    )
  }
}

/// Four bytes as floats.
@inline(__always)
private func byteFloats(_ base: UnsafeRawPointer) -> Four { Four(base.loadUnaligned(as: SIMD4<UInt8>.self)) }

/// Element `index` of an array of scales or biases.
@inline(__always)
func scalar(_ base: UnsafeRawPointer, _ format: FloatFormat, _ index: Int) -> Float {
  switch format {
  case .f32: return base.loadUnaligned(fromByteOffset: 4 * index, as: Float.self)
  case .f16: return Float(base.loadUnaligned(fromByteOffset: 2 * index, as: Float16.self))
  case .bf16:
    return Float(bitPattern: UInt32(base.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self)) << 16)
  }
}

/// An E8M0 scale, the smallest of which is subnormal, or in nvfp4 an E4M3 one.
@inline(__always)
func scaleValue(_ code: UInt8, _ mode: FloatingMode) -> Float {
  guard case .nvfp4 = mode else {
    return Float(bitPattern: code == 0 ? 0x0040_0000 : UInt32(code) << 23)
  }
  return tinyFloat(code)
}

/// E4M3 has its fields in the places of a half-precision float after one shift, and is 2^8 times that one.
@inline(__always)
func tinyFloat(_ code: UInt8) -> Float {
  let bits = UInt16(code & 0x80) << 8 | UInt16(code & 0x7F) << 7
  return Float(Float16(bitPattern: bits)) * 256
}

// MARK: Prefetching

/// Prefetches `count` bytes.
@inline(__always)
func prefetchBytes(_ address: UnsafeRawPointer, _ count: Int) {
  var at = 0
  while at < count {
    prefetchFar(address + at)
    at += 64
  }
}

/// Prefetches what `count` bytes from `address` on will be read 4 KiB later.
@inline(__always)
func prefetchAhead(_ address: UnsafeRawPointer, _ count: Int) { prefetchBytes(address + 4096, count) }
