// Attention over a cache's int16 or int8 keys and values in NEON; `Compute/Kernels/IntegerAttention` has the method and the
// scalar twins.
//
// SMLAL multiplies int16 and adds to 32 bits without adding neighbours: a pair's two elements have a lane each, and the
// lanes of pairs are added once, after the last one.

package import KernelTypes
import _Builtin_intrinsics.arm.neon

/// Rounds `count` floats to `x ≈ scale · out` with `|out| <= limit`; `out` has room for an even count, and zero after an odd
/// one. Scalar twin: `IntegerAttention.quantized`.
///
/// - Returns: the scale.
package func quantizeInt16(
  _ x: UnsafePointer<Float>, _ count: Int, _ limit: Float, into out: UnsafeMutablePointer<Int16>
) -> Float {
  var largest = SIMD4<UInt32>.zero
  var i = 0
  while i < count {
    largest = vmaxq_u32(largest, magnitude(i + 4 <= count ? four(x, i) : eightTail(x, i, count - i).low))
    i += 4
  }
  let top = Float(bitPattern: vmaxvq_u32(largest))
  let inverse = inverseScale(limit, top)
  i = 0
  while i + 4 <= count {
    UnsafeMutableRawPointer(out + i).storeBytes(of: rounded(four(x, i), inverse), as: SIMD4<Int16>.self)
    i += 4
  }
  if i < count {
    let last = rounded(eightTail(x, i, count - i).low, inverse)
    for j in i..<count + count % 2 { out[j] = last[j - i] }
  }
  return top * (1 / limit)
}

/// The bits of absolute values, which are ordered as those are, with NaN above all.
@inline(__always)
private func magnitude(_ x: Four) -> SIMD4<UInt32> { unsafeBitCast(x, to: SIMD4<UInt32>.self) & 0x7FFF_FFFF }

/// To the nearest integer; what has none becomes zero.
@inline(__always)
private func rounded(_ x: Four, _ inverse: Float) -> SIMD4<Int16> {
  vmovn_s32(vcvtnq_s32_f32(x * Four(repeating: inverse)))
}

/// Rounds the seen weights of a row, times the scales of their values, in their own place. Scalar twin:
/// `IntegerAttention.roundWeights`.
///
/// - Returns: the scale.
package func roundWeights(
  _ row: UnsafeMutablePointer<Float>, _ seen: Range<Int>, _ valueScales: UnsafePointer<Float>
) -> Float {
  let from = Sums(repeating: Int32(truncatingIfNeeded: seen.lowerBound))
  let to = Sums(repeating: Int32(truncatingIfNeeded: seen.upperBound))
  /// Hidden weights are zero, but their scales may be anything.
  @inline(__always)
  func scaled(_ at: Int) -> Four {
    let lanes = Sums(0, 1, 2, 3) &+ Int32(truncatingIfNeeded: at)
    let product = four(row, at) * four(valueScales, at)
    return product.replacing(with: 0, where: (lanes .< from) .| (lanes .>= to))
  }
  var largest = SIMD4<UInt32>.zero
  for i in 0..<8 { largest = vmaxq_u32(largest, magnitude(scaled(4 * i))) }
  let top = Float(bitPattern: vmaxvq_u32(largest))
  let inverse = inverseScale(IntegerLimit.weight, top)
  // A result takes half of the room of what it is made from, which is before what is still to be read.
  for i in 0..<8 {
    let weights = rounded(scaled(4 * i), inverse)
    (UnsafeMutableRawPointer(row) + 8 * i).storeBytes(of: weights, as: SIMD4<Int16>.self)
  }
  return top * (1 / IntegerLimit.weight)
}

/// Products of a row with 16 pairs, a lane for each element.
private typealias Products = (Sums, Sums, Sums, Sums, Sums, Sums, Sums, Sums)

/// Pairs of stored integers that are multiplied with a pair of each row: those in `from ..< to`, `stride` pairs apart.
private typealias Pairs = (base: UnsafeRawPointer, element: StoredInteger, from: Int, to: Int, stride: Int)

/// `Σ rows[r][k] · stored[k][0 ..< 16]` of two rows.
@inline(__always)
private func products(of first: UnsafeRawPointer, _ second: UnsafeRawPointer, _ stored: Pairs)
  -> (Products, Products)
{
  let zero = Sums.zero
  var t: Products = (zero, zero, zero, zero, zero, zero, zero, zero)
  var u = t
  var k = stored.from
  while k < stored.to {
    let base = stored.base + k * stored.stride * 2 * stored.element.bytes
    /// Four pairs of int16.
    @inline(__always)
    func pairs(_ i: Int) -> SIMD8<Int16> {
      switch stored.element {
      case .int8: vmovl_s8((base + 8 * i).loadUnaligned(as: SIMD8<Int8>.self))
      case .int16: (base + 16 * i).loadUnaligned(as: SIMD8<Int16>.self)
      }
    }
    @inline(__always)
    func add(
      _ row: UnsafeRawPointer, _ t: inout Products, _ a: SIMD8<Int16>, _ b: SIMD8<Int16>, _ c: SIMD8<Int16>,
      _ d: SIMD8<Int16>
    ) {
      let pair = unsafeBitCast(
        SIMD4<Int32>(repeating: (row + 4 * k).loadUnaligned(as: Int32.self)), to: SIMD8<Int16>.self)
      t.0 = vmlal_s16(t.0, a.lowHalf, pair.lowHalf)
      t.1 = vmlal_s16(t.1, a.highHalf, pair.highHalf)
      t.2 = vmlal_s16(t.2, b.lowHalf, pair.lowHalf)
      t.3 = vmlal_s16(t.3, b.highHalf, pair.highHalf)
      t.4 = vmlal_s16(t.4, c.lowHalf, pair.lowHalf)
      t.5 = vmlal_s16(t.5, c.highHalf, pair.highHalf)
      t.6 = vmlal_s16(t.6, d.lowHalf, pair.lowHalf)
      t.7 = vmlal_s16(t.7, d.highHalf, pair.highHalf)
    }
    let (a, b, c, d) = (pairs(0), pairs(1), pairs(2), pairs(3))
    add(first, &t, a, b, c, d)
    add(second, &u, a, b, c, d)
    k += 1
  }
  return (t, u)
}

@inline(__always)
func scores(
  _ queries: IntegerQueries, _ block: IntegerBlock, _ element: StoredInteger,
  _ out: UnsafeMutablePointer<Float>
) {
  var r = 0
  while r < queries.count {
    // Of an odd number the last row is computed twice.
    let second = r + 1 < queries.count ? r + 1 : r
    var first = 0
    while first < block.headDim {
      let end = min(first + IntegerLimit.products, block.headDim)
      @inline(__always)
      func finish(_ row: Int, _ position: Int, _ products: Sums) {
        let target = out + blockTokens * row + position
        var sum = floats(products)
        if first > 0 { sum = four(target, 0) + sum }
        if end == block.headDim {
          sum = sum * Four(repeating: queries.scales[row]) * four(block.scales, position)
        }
        store(sum, target)
      }
      for half in 0..<2 {
        let (t, u) = products(
          of: queries.base + r * queries.stride, queries.base + second * queries.stride,
          (block.base + half * 32 * element.bytes, element, first / 2, (end + 1) / 2, blockTokens))
        @inline(__always)
        func finishAll(_ row: Int, _ t: Products) {
          let at = 16 * half
          finish(row, at, addPairs(t.0, t.1))
          finish(row, at + 4, addPairs(t.2, t.3))
          finish(row, at + 8, addPairs(t.4, t.5))
          finish(row, at + 12, addPairs(t.6, t.7))
        }
        finishAll(r, t)
        if second > r { finishAll(second, u) }
        let read = 16 * (end - first) * element.bytes
        if r == 0 { prefetchBytes(block.ahead + 32 * first * element.bytes + half * read, read) }
      }
      first = end
    }
    r += 2
  }
}

@inline(__always)
func accumulate(_ rows: AttentionRows, _ block: IntegerBlock, _ element: StoredInteger) {
  let headDim = block.headDim
  let (first, end) = (rows.seen.lowerBound / 2, (rows.seen.upperBound + 1) / 2)
  var r = 0
  while r < rows.count {
    let second = r + 1 < rows.count ? r + 1 : r
    var d = 0
    while d < headDim {
      // After the values of a block are its scales: whole vectors may be read.
      let (t, u) = products(
        of: rows.scores + blockTokens * r, rows.scores + blockTokens * second,
        (block.base + 2 * element.bytes * d, element, first, end, headDim))
      @inline(__always)
      func finish(_ row: Int, _ at: Int, _ sums: Sums) {
        guard at < headDim else { return }
        let target = rows.sums + row * headDim + at
        let scaled = floats(sums) * Four(repeating: rows.weightScales[row])
        let factor = rows.factors[row]
        if at + 4 <= headDim {
          store(four(target, 0) * Four(repeating: factor) + scaled, target)
        } else {
          for lane in 0..<headDim - at { target[lane] = target[lane] * factor + scaled[lane] }
        }
      }
      @inline(__always)
      func finishAll(_ row: Int, _ t: Products) {
        finish(row, d, addPairs(t.0, t.1))
        finish(row, d + 4, addPairs(t.2, t.3))
        finish(row, d + 8, addPairs(t.4, t.5))
        finish(row, d + 12, addPairs(t.6, t.7))
      }
      finishAll(r, t)
      if second > r { finishAll(second, u) }
      if r == 0 { prefetchBytes(block.ahead + 32 * element.bytes * d, 512 * element.bytes) }
      d += 16
    }
    r += 2
  }
}
