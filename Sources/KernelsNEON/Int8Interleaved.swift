// What PanelRows does with registers in NEON: four of a panel's sixteen outputs each.

package import KernelTypes

/// Sums of outputs 0-3, 4-7, 8-11 and 12-15.
typealias PanelSums = (Sums, Sums, Sums, Sums)
/// Scales or biases of the same.
typealias Factors = (Four, Four, Four, Four)

/// As `multiplyInt8`, for at most one panel of 4- or 8-bit weights and at least four rows of x. Scalar twin:
/// `Reference.multiplyInt8`.
package func multiplyInt8Panel(
  _ weights: QuantizedRows, _ x: Int8Activations, into y: Output, scratch: PanelScratch
) {
  let block = blockSize(weights.groups.size)
  let place = room(scratch.base, weights.columns)
  let blocks = weights.columns / block
  interleave(weights, flip: weights.bits == 8 ? 128 : 0, into: scratch.base)
  for o in 0..<Panel.width {
    let at = min(o, weights.count - 1) * weights.groups.rowBytes
    let (scales, biases) = (weights.groups.scales + at, weights.groups.biases + at)
    for j in 0..<blocks {
      let group = j * block / weights.groups.size
      place.factors[32 * j + o] = scalar(scales, weights.groups.format, group)
      place.factors[32 * j + 16 + o] = scalar(biases, weights.groups.format, group)
    }
  }
  prefetchBytes(weights.packed + weights.count * weights.rowBytes, scratch.aheadRows * weights.rowBytes)
  let pass: Pass = (
    weights: UnsafeRawPointer(scratch.base), bits: weights.bits, gap: 0, inHead: 0,
    columns: weights.columns, block: block, factors: place.factors, totals: place.totals(blocks)
  )
  manyRows(pass, x, weights.count, y)
}

/// Slots 0 ... 15 of sixteen outputs, added up and stored for the first `count`.
@inline(__always)
func storeSums(_ totals: UnsafeMutablePointer<Float>, _ count: Int, _ y: UnsafeMutablePointer<Float>) {
  for g in 0..<4 {
    @inline(__always)
    func slot(_ s: Int) -> Four { four(totals, 16 * s + 4 * g) }
    @inline(__always)
    func two(_ s: Int) -> Four { slot(s) + slot(s + 8) }
    @inline(__always)
    func pairs(_ s: Int) -> Four { two(s) + two(s + 4) }
    let all = (pairs(0) + pairs(2)) + (pairs(1) + pairs(3))
    if 4 * g + 4 <= count {
      store(all, y + 4 * g)
    } else {
      for lane in 0..<max(0, count - 4 * g) { y[4 * g + lane] = all[lane] }
    }
  }
}

/// Adds block `j` of sixteen outputs to its slot; slots without a block are zeroed beforehand.
@inline(__always)
func fold(
  _ products: PanelSums, _ scales: Factors, _ biases: Factors, _ a: UnsafeRawPointer, _ c: UnsafeRawPointer,
  isFirst: Bool, _ total: UnsafeMutablePointer<Float>
) {
  let a = Four(repeating: a.loadUnaligned(as: Float.self))
  let c = Four(repeating: c.loadUnaligned(as: Float.self))
  @inline(__always)
  func add(_ sums: Sums, _ scale: Four, _ bias: Four, _ at: Int) {
    let before = isFirst ? .zero : four(total, at)
    store(fused(bias, c, fused(floats(sums), scale * a, before)), total + at)
  }
  add(products.0, scales.0, biases.0, 0)
  add(products.1, scales.1, biases.1, 4)
  add(products.2, scales.2, biases.2, 8)
  add(products.3, scales.3, biases.3, 12)
}

@inline(__always)
func clearSlots(from blocks: Int, _ totals: UnsafeMutablePointer<Float>) {
  for slot in min(blocks, 16)..<16 { for g in 0..<4 { store(.zero, totals + 16 * slot + 4 * g) } }
}

@inline(__always)
var noFactors: Factors { (.zero, .zero, .zero, .zero) }

@inline(__always)
func factors(_ base: UnsafeMutablePointer<Float>) -> Factors {
  (four(base, 0), four(base, 4), four(base, 8), four(base, 12))
}

@inline(__always)
func store(_ factors: Factors, _ base: UnsafeMutablePointer<Float>) {
  store(factors.0, base)
  store(factors.1, base + 4)
  store(factors.2, base + 8)
  store(factors.3, base + 12)
}

/// The scales and biases of a head's group.
@inline(__always)
func factors(
  _ head: UnsafeRawPointer, _ group: Int, _ kind: PanelFactors, _ bits: Int
) -> (scales: Factors, biases: Factors) {
  @inline(__always)
  func four(_ first: Int) -> (scales: Four, biases: Four) { factors(head, group, kind, bits, first) }
  let (a, b, c, d) = (four(0), four(4), four(8), four(12))
  return ((a.scales, b.scales, c.scales, d.scales), (a.biases, b.biases, c.biases, d.biases))
}

// MARK: Products

/// The sums of a block's two planes, of which the second has bits from `low` on.
@inline(__always)
func added(_ lower: PanelSums, _ upper: PanelSums, shifted low: Int) -> PanelSums {
  let shift = Int32(truncatingIfNeeded: low)
  return (
    lower.0 &+ upper.0 &<< shift, lower.1 &+ upper.1 &<< shift, lower.2 &+ upper.2 &<< shift,
    lower.3 &+ upper.3 &<< shift
  )
}

/// Adds what bytes that were multiplied as signed ones lack.
@inline(__always)
func completed(
  _ p: PanelSums, _ x: UnsafeRawPointer, _ block: Int, _ columns: Int, _ j: Int
) -> PanelSums {
  let sum = (x + places(columns, block).sums + 4 * j).loadUnaligned(as: Int32.self)
  let more = Sums(repeating: sum &<< 7)
  return (p.0 &+ more, p.1 &+ more, p.2 &+ more, p.3 &+ more)
}

/// Eight bytes of x beside eight registers of a panel: for the first four of them, and for the others.
@inline(__always)
private func broadcast(_ x: UnsafeRawPointer) -> (Bytes, Bytes) {
  if isPaired {
    let all = unsafeBitCast(SIMD2<UInt64>(repeating: x.loadUnaligned(as: UInt64.self)), to: Bytes.self)
    return (all, all)
  }
  let first = SIMD4<UInt32>(repeating: x.loadUnaligned(as: UInt32.self))
  let second = SIMD4<UInt32>(repeating: (x + 4).loadUnaligned(as: UInt32.self))
  return (unsafeBitCast(first, to: Bytes.self), unsafeBitCast(second, to: Bytes.self))
}

/// The products of a plane of `width` bits with a block of x.
@inline(__always)
func planeSums(_ w: UnsafeRawPointer, _ x: UnsafeRawPointer, _ width: Int, _ block: Int) -> PanelSums {
  // Eight registers of sums before neighbours are added.
  var sums = registers(of: Sums.zero)
  @inline(__always)
  func add(_ values: (Bytes, Bytes), _ weights: (_ index: Int) -> Bytes) {
    for i in 0..<8 { set(&sums, i, dot(get(&sums, i), weights(i), i < 4 ? values.0 : values.1)) }
  }
  switch width {
  case 8: for k in 0..<block / 8 { add(broadcast(x + 8 * k)) { bytes(w + 128 * k + 16 * $0) } }
  case 4:
    for k in 0..<block / 16 {
      add(broadcast(x + 8 * k)) { lowNibbles(codes(w + 128 * k + 16 * $0)) }
      add(broadcast(x + block / 2 + 8 * k)) { highNibbles(codes(w + 128 * k + 16 * $0)) }
    }
  default:
    for k in 0..<block / 8 { add(broadcast(x + 8 * k)) { signed(field(w, width, block, 8 * k + $0)) } }
  }
  if isPaired {
    return (
      addPairs(get(&sums, 0), get(&sums, 1)), addPairs(get(&sums, 2), get(&sums, 3)),
      addPairs(get(&sums, 4), get(&sums, 5)),
      addPairs(get(&sums, 6), get(&sums, 7))
    )
  }
  return (
    get(&sums, 0) &+ get(&sums, 4), get(&sums, 1) &+ get(&sums, 5), get(&sums, 2) &+ get(&sums, 6),
    get(&sums, 3) &+ get(&sums, 7)
  )
}
