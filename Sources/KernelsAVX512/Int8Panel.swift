// Products of int8 activations with 4- and 8-bit affine weights by VPDPBUSD, for many rows of x (prefill, batches).
//
// Sixteen output rows are interleaved into a panel: a register holds four consecutive bytes of each of the sixteen
// outputs, so one VPDPBUSD with a broadcast of four activations advances sixteen dot products.
//
//   panel, for each dword of a packed row:  [ outputs 0-15 ]     64 bytes; nibbles are split when they are multiplied
//   factors, for each block:                [ scales of outputs 0-15 | biases of outputs 0-15 ]

package import KernelTypes
import _Builtin_intrinsics.intel

/// Blocks that the factors have room for: sixteen groups are interleaved at once.
@inline(__always)
func factorBlocks(_ columns: Int, _ block: Int) -> Int { (columns / block + 31) & ~31 }

/// Bytes of scratch that `multiplyInt8Panel` needs, 64-byte aligned.
package func int8PanelBytes(_ columns: Int, _ block: Int) -> Int {
  // A panel of bytes, scales and biases of 16 outputs, and sums of some rows.
  16 * paddedColumns(columns) + 128 * factorBlocks(columns, block) + totalBytes()
}

/// As `multiplyInt8`, for at most one panel of 4- or 8-bit weights and at least four rows of x. Scalar twin:
/// `Reference.multiplyInt8`.
package func multiplyInt8Panel(
  _ weights: QuantizedRows, _ x: Int8Activations, into y: Output, scratch: PanelScratch
) {
  let (columns, rowBytes, groups) = (weights.columns, weights.rowBytes, weights.groups)
  let block = blockSize(groups.size)
  let blocks = columns / block
  let panel = scratch.base
  let factors = (panel + 16 * paddedColumns(columns)).assumingMemoryBound(to: Float.self)
  interleaveFactors(groups, rows: weights.count, count: columns / groups.size, into: factors)
  let a = paddedColumns(columns)
  // The next panel's weights are prefetched line by line in between, its few scales at once.
  var next = weights.packed + weights.count * rowBytes
  let last = next + scratch.aheadRows * rowBytes
  // With few rows of x the next panel is wanted so soon that it is prefetched while this one is interleaved, too, and lines
  // come faster than the first-level cache takes them.
  let isFew = x.count < 8
  let steps = blocks * passCount(x.count) + (isFew ? rowBytes / 64 : 0)
  let share = scratch.aheadRows * rowBytes / steps + 1
  next = interleave(
    weights.packed, rowBytes: rowBytes, rows: weights.count, into: panel, prefetching: next,
    upTo: isFew ? last : next, share)
  for line in 0..<(scratch.aheadRows * groups.rowBytes + 63) / 64 {
    prefetch(groups.scales + weights.count * groups.rowBytes + 64 * line)
    prefetch(groups.biases + weights.count * groups.rowBytes + 64 * line)
  }
  let first: Pass = (
    panel: UnsafeRawPointer(panel), gap: 0, gapShift: 0, blocks: blocks, x: x.base, stride: x.rowBytes,
    a: a, c: a + 4 * paddedBlocks(columns, block), factors: UnsafeRawPointer(factors), factorStep: 128,
    factorShift: 0, scaleFormat: .f32,
    totals: factors + 32 * factorBlocks(columns, block), next: next, last: last, share: share, isFar: isFew,
    y: y, mask: tailMask(weights.count)
  )
  multiplyPanel(first, bits: weights.bits, block: block, rows: x.count)
}

/// A panel by at least 4 rows of x, eight or four at a time.
@inline(__always)
func multiplyRows(_ first: Pass, bits: Int, block: Int, rows xRows: Int) {
  var p = first
  // Slots are written by their first block; those without one are zero.
  for slot in min(p.blocks, 16)..<slots(p.blocks) {
    for i in 0..<8 { _mm512_storeu_ps(p.totals + 256 * i + 16 * slot, _mm512_setzero_ps()) }
  }
  var r = 0
  while r < xRows {
    // The last rows may overlap those before them.
    let isEight = xRows >= 8 && xRows - r > 4
    r = min(r, xRows - (isEight ? 8 : 4))
    p.x = first.x + r * p.stride
    p.y.base = first.y.base + r * first.y.stride
    p.last = min(first.last, p.next + p.blocks * p.share)
    switch (bits, block, isEight) {
    case (4, 64, true): eightRows4x64(p)
    case (4, 64, false): fourRows4x64(p)
    case (4, _, true): eightRows4x32(p)
    case (4, _, false): fourRows4x32(p)
    case (_, 64, true): eightRows8x64(p)
    case (_, 64, false): fourRows8x64(p)
    case (_, 32, true): eightRows8x32(p)
    case (_, 32, false): fourRows8x32(p)
    case (_, _, true): eightRows8x16(p)
    default: fourRows8x16(p)
    }
    p.next = max(p.next, p.last)
    let rows = isEight ? 8 : 4
    if !isTree(p.blocks) {
      for i in 0..<rows {
        _mm512_mask_storeu_ps(p.y.base + i * p.y.stride, p.mask, sumOfSlots(p.totals + 256 * i, p.blocks))
      }
    }
    r += rows
  }
}

/// Passes over a panel that so many rows of x take.
@inline(__always)
func passCount(_ rows: Int) -> Int { rows < 8 ? (rows + 3) / 4 : (rows + 7) / 8 }

/// Slots that are looked at: the last eight of few blocks are zero.
@inline(__always)
func slots(_ blocks: Int) -> Int { blocks <= 8 ? 8 : 16 }

/// The tree of `sum` over sixteen registers instead of sixteen lanes.
@inline(__always)
func sumOfSlots(_ slots: UnsafeMutablePointer<Float>, _ blocks: Int) -> __m512 {
  let isFew = blocks <= 8
  @inline(__always)
  func two(_ i: Int) -> __m512 {
    isFew ? load(slots, 16 * i) : _mm512_add_ps(load(slots, 16 * i), load(slots, 16 * (i + 8)))
  }
  @inline(__always)
  func four(_ i: Int) -> __m512 { _mm512_add_ps(two(i), two(i + 4)) }
  let all = _mm512_add_ps(_mm512_add_ps(four(0), four(2)), _mm512_add_ps(four(1), four(3)))
  // Zeros that are added change nothing but a negative zero.
  return isFew ? _mm512_add_ps(all, _mm512_setzero_ps()) : all
}

/// Whether each slot has as many blocks as the others: then the last blocks add the slots up, beside their products.
@inline(__always)
private func isTree(_ blocks: Int) -> Bool { blocks >= 16 && blocks & 15 == 0 }

// MARK: Interleaving

private typealias Four = (__m512i, __m512i, __m512i, __m512i)

/// Within each 128-bit lane: dword d of the four registers in the d-th result.
@inline(__always)
private func transposed(_ r: Four) -> Four {
  let (a0, a1) = (_mm512_unpacklo_epi32(r.0, r.1), _mm512_unpackhi_epi32(r.0, r.1))
  let (a2, a3) = (_mm512_unpacklo_epi32(r.2, r.3), _mm512_unpackhi_epi32(r.2, r.3))
  return (
    _mm512_unpacklo_epi64(a0, a2), _mm512_unpackhi_epi64(a0, a2), _mm512_unpacklo_epi64(a1, a3),
    _mm512_unpackhi_epi64(a1, a3)
  )
}

/// Lane l of the four registers in the l-th result.
@inline(__always)
private func lanesTransposed(_ a: __m512i, _ b: __m512i, _ c: __m512i, _ d: __m512i) -> Four {
  let low = _mm512_set_epi64(11, 10, 9, 8, 3, 2, 1, 0)
  let high = _mm512_set_epi64(15, 14, 13, 12, 7, 6, 5, 4)
  let even = _mm512_set_epi64(13, 12, 9, 8, 5, 4, 1, 0)
  let odd = _mm512_set_epi64(15, 14, 11, 10, 7, 6, 3, 2)
  let (p, q) = (_mm512_permutex2var_epi64(a, low, b), _mm512_permutex2var_epi64(a, high, b))
  let (r, s) = (_mm512_permutex2var_epi64(c, low, d), _mm512_permutex2var_epi64(c, high, d))
  return (
    _mm512_permutex2var_epi64(p, even, r), _mm512_permutex2var_epi64(p, odd, r),
    _mm512_permutex2var_epi64(q, even, s), _mm512_permutex2var_epi64(q, odd, s)
  )
}

/// 16 × 16 dwords: stores dword d of all rows for each d.
@inline(__always)
func transpose(_ row: (Int) -> __m512i, into store: (_ d: Int, __m512i) -> Void) {
  @inline(__always)
  func four(_ i: Int) -> Four { transposed((row(i), row(i + 1), row(i + 2), row(i + 3))) }
  let (a, b, c, d) = (four(0), four(4), four(8), four(12))
  @inline(__always)
  func lanes(_ i: Int, _ words: Four) {
    // Lane l of these registers holds dword 4 l + i.
    store(i, words.0)
    store(i + 4, words.1)
    store(i + 8, words.2)
    store(i + 12, words.3)
  }
  lanes(0, lanesTransposed(a.0, b.0, c.0, d.0))
  lanes(1, lanesTransposed(a.1, b.1, c.1, d.1))
  lanes(2, lanesTransposed(a.2, b.2, c.2, d.2))
  lanes(3, lanesTransposed(a.3, b.3, c.3, d.3))
}

/// Scales and biases of `count` groups of the sixteen outputs, `out[32 · block + output]` and sixteen after. Outputs that are
/// not there repeat the last; after the last block are zeros, up to a multiple of 32.
@inline(never)
func interleaveFactors(
  _ all: Groups, rows: Int, count groups: Int, into out: UnsafeMutablePointer<Float>
) {
  let (scales, biases, stride) = (all.scales, all.biases, all.rowBytes)
  let isShared = all.size > Int8Block.limit
  let sixteen = _mm512_set1_epi32(16)
  let blocksPerGroup = isShared ? 2 : 1
  var first = 0
  while first < groups {
    let mask = tailMask(groups - first < 16 ? groups - first : 16)
    let target = out + 32 * blocksPerGroup * first
    @inline(__always)
    func store(_ d: Int, _ words: __m512i, _ offset: Int) {
      let at = target + 32 * blocksPerGroup * d + offset
      _mm512_storeu_si512(at, words)
      // A group of 128 is two blocks of 64 with the same scale.
      if isShared { _mm512_storeu_si512(at + 32, words) }
    }
    @inline(__always)
    func floats(_ base: UnsafeRawPointer, _ o: Int) -> __m512i {
      _mm512_maskz_loadu_epi32(mask, base + (o < rows ? o : rows - 1) * stride + 4 * first)
    }
    @inline(__always)
    func halves(_ base: UnsafeRawPointer, _ o: Int) -> __m512i {
      let at = base + (o < rows ? o : rows - 1) * stride + 2 * first
      return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at))
    }
    /// A scale and a bias of sixteen bits, which are moved together.
    @inline(__always)
    func pair(_ o: Int) -> __m512i {
      _mm512_or_si512(halves(scales, o), _mm512_sllv_epi32(halves(biases, o), sixteen))
    }
    switch all.format {
    case .f32:
      transpose({ floats(scales, $0) }, into: { store($0, $1, 0) })
      transpose({ floats(biases, $0) }, into: { store($0, $1, 16) })
    case .f16:
      transpose(
        pair,
        into: { d, words in
          let high = _mm512_srlv_epi32(words, sixteen)
          store(d, _mm512_castps_si512(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(words))), 0)
          store(d, _mm512_castps_si512(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(high))), 16)
        })
    case .bf16:
      transpose(
        pair,
        into: { d, words in
          store(d, _mm512_sllv_epi32(words, sixteen), 0)
          store(d, _mm512_and_si512(words, _mm512_set1_epi32(Int32(bitPattern: 0xFFFF_0000))), 16)
        })
    }
    first += 16
  }
}

/// A panel of the sixteen outputs' packed rows. Outputs that are not there repeat the last. Along the way the lines
/// from `next` to `last` are prefetched, `share` bytes with each 64 of a row.
///
/// - Returns: the first line that was not prefetched.
@inline(never)
func interleave(
  _ packed: UnsafeRawPointer, rowBytes: Int, rows: Int, into panel: UnsafeMutableRawPointer,
  prefetching next: UnsafeRawPointer, upTo last: UnsafeRawPointer, _ share: Int
) -> UnsafeRawPointer {
  var first = 0
  var (asked, wanted) = (next, next)
  while first < rowBytes {
    wanted = min(last, wanted + share)
    while asked < wanted {
      prefetchFar(asked)
      asked += 64
    }
    let left = (rowBytes - first) / 4
    let mask = tailMask(left < 16 ? left : 16)
    transpose(
      { o in _mm512_maskz_loadu_epi32(mask, packed + (o < rows ? o : rows - 1) * rowBytes + first) },
      into: { d, words in _mm512_storeu_si512(panel + 16 * first + 64 * d, words) })
    first += 64
  }
  return asked
}

// MARK: Products

/// Some rows of x by a panel. `panel` is where the first block's weights are; `gap` bytes are between each 2^`gapShift` blocks
/// and the next. `factors` is where the first block's scales are, which its biases follow, and `factorStep` bytes after them are
/// others, for each 2^`factorShift` blocks. `a` and `c` are where a row of x has its scales and its sums; the memory from `next`
/// to `last` is prefetched, `share` bytes with each block, `isFar` into the second-level cache. Results go to `y`, where `mask`
/// has an output.
typealias Pass = (
  panel: UnsafeRawPointer, gap: Int, gapShift: Int, blocks: Int, x: UnsafeRawPointer, stride: Int, a: Int,
  c: Int, factors: UnsafeRawPointer, factorStep: Int, factorShift: Int, scaleFormat: FloatFormat,
  totals: UnsafeMutablePointer<Float>,
  next: UnsafeRawPointer, last: UnsafeRawPointer, share: Int, isFar: Bool, y: Output, mask: __mmask16
)

/// What of the tree of `sumOfSlots` a block's slot ends: nothing; its sum with the first neighbour (8 to 11); with the second too
/// (12, 13); the sum of all even slots (14); the whole sum (15).
private enum Merge { case nothing, neighbour, second, half, all }

// A function for each shape: inlined together they share registers and spill them.

@inline(never)
func eightRows4x64(_ p: Pass) { pass(p, rows: 8, bits: 4, block: 64) }

@inline(never)
func eightRows4x32(_ p: Pass) { pass(p, rows: 8, bits: 4, block: 32) }

@inline(never)
func eightRows8x64(_ p: Pass) { pass(p, rows: 8, bits: 8, block: 64) }

@inline(never)
func eightRows8x32(_ p: Pass) { pass(p, rows: 8, bits: 8, block: 32) }

@inline(never)
func eightRows8x16(_ p: Pass) { pass(p, rows: 8, bits: 8, block: 16) }

@inline(never)
func fourRows4x64(_ p: Pass) { pass(p, rows: 4, bits: 4, block: 64) }

@inline(never)
func fourRows4x32(_ p: Pass) { pass(p, rows: 4, bits: 4, block: 32) }

@inline(never)
func fourRows8x64(_ p: Pass) { pass(p, rows: 4, bits: 8, block: 64) }

@inline(never)
func fourRows8x32(_ p: Pass) { pass(p, rows: 4, bits: 8, block: 32) }

@inline(never)
func fourRows8x16(_ p: Pass) { pass(p, rows: 4, bits: 8, block: 16) }

@inline(__always)
private func pass(_ p: Pass, rows: Int, bits: Int, block: Int) {
  let end = p.blocks
  // A slot's first block finds nothing to add to.
  guard isTree(end) else {
    let first = min(16, end)
    for j in 0..<first { step(p, j, rows: rows, bits: bits, block: block, isFirst: true, ends: .nothing) }
    for j in first..<end { step(p, j, rows: rows, bits: bits, block: block, isFirst: false, ends: .nothing) }
    return
  }
  let isOnly = end == 16
  for j in 0..<(isOnly ? 8 : 16) {
    step(p, j, rows: rows, bits: bits, block: block, isFirst: true, ends: .nothing)
  }
  for j in 16..<max(16, end - 8) {
    step(p, j, rows: rows, bits: bits, block: block, isFirst: false, ends: .nothing)
  }
  for j in end - 8..<end - 4 {
    step(p, j, rows: rows, bits: bits, block: block, isFirst: isOnly, ends: .neighbour)
  }
  for j in end - 4..<end - 2 {
    step(p, j, rows: rows, bits: bits, block: block, isFirst: isOnly, ends: .second)
  }
  step(p, end - 2, rows: rows, bits: bits, block: block, isFirst: isOnly, ends: .half)
  step(p, end - 1, rows: rows, bits: bits, block: block, isFirst: isOnly, ends: .all)
}

/// 1.5 · 2^23: integers below 2^22 that are added to its bits are added to the float. The sums of a block are, at most
/// 255 · 127 · 64, and so a subtraction widens them, which leaves the pipes of the products alone.
@inline(__always)
var widener: __m512 { _mm512_set1_ps(12_582_912) }

/// Sums that began with the widener.
@inline(__always)
func widened(_ products: __m512i) -> __m512 { _mm512_sub_ps(_mm512_castsi512_ps(products), widener) }

/// A block's contribution to the sixteen outputs of a row of x, whose scale and sum are at `a` and `c`, added to `before`.
@inline(__always)
func folded(
  _ integers: __m512, _ scale: __m512, _ bias: __m512, _ a: UnsafeRawPointer, _ c: UnsafeRawPointer,
  _ before: __m512
) -> __m512 {
  @inline(__always)
  func broadcast(_ base: UnsafeRawPointer) -> __m512 { _mm512_set1_ps(base.loadUnaligned(as: Float.self)) }
  let product = _mm512_fmadd_ps(integers, _mm512_mul_ps(scale, broadcast(a)), before)
  return _mm512_fmadd_ps(bias, broadcast(c), product)
}

/// Prefetches what belongs to block `j` of the memory from `next` to `last`.
@inline(__always)
func prefetchShare(
  _ next: UnsafeRawPointer, upTo last: UnsafeRawPointer, _ share: Int, _ j: Int, isFar: Bool
) {
  var line = next + ((share * j) & ~63)
  let end = min(last, next + ((share * (j + 1)) & ~63))
  while line < end {
    if isFar { prefetchFar(line) } else { prefetch(line) }
    line += 64
  }
}

/// Block `j` of the panel by `rows` rows of x.
///
/// - Parameter ends: what of the tree of `sumOfSlots` the block ends.
@inline(__always)
private func step(
  _ p: Pass, _ j: Int, rows: Int, bits: Int, block: Int, isFirst: Bool, ends: Merge
) {
  prefetchShare(p.next, upTo: p.last, p.share, j, isFar: p.isFar)
  let weights = p.panel + 2 * block * bits * j + j &>> p.gapShift * p.gap
  let x = p.x + j * block
  let nibbles = _mm512_set1_epi32(0x0F0F_0F0F)
  var sums = registers(of: _mm512_castps_si512(widener))
  // Four sums alone would wait for their own last product: four rows have four more for their high nibbles.
  var highSums = registers(of: _mm512_setzero_si512())
  for d in 0..<block * bits / 32 {
    let words = _mm512_loadu_si512(weights + 64 * d)
    /// `sum` and the weights times four activations of row `i`, `at` bytes from the first of the block.
    @inline(__always)
    func added(_ sum: __m512i, _ weights: __m512i, row i: Int, at: Int) -> __m512i {
      let four = (x + i * p.stride + at + 4 * d).loadUnaligned(as: Int32.self)
      return _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(four))
    }
    // Low nibbles meet the first half of a block of x, high ones the second.
    let low = bits == 4 ? _mm512_and_si512(words, nibbles) : words
    let (high, half) = (_mm512_and_si512(_mm512_srli_epi32(words, 4), nibbles), block / 2)
    for i in 0..<rows { set(&sums, i, added(get(&sums, i), low, row: i, at: 0)) }
    guard bits == 4 else { continue }
    for i in 0..<rows {
      if rows == 8 {
        set(&sums, i, added(get(&sums, i), high, row: i, at: half))
      } else {
        set(&highSums, i, added(get(&highSums, i), high, row: i, at: half))
      }
    }
  }
  if bits == 4 && rows == 4 {
    for i in 0..<4 { set(&sums, i, _mm512_add_epi32(get(&sums, i), get(&highSums, i))) }
  }
  let factor = p.factors + j &>> p.factorShift * p.factorStep
  let scale = factors(factor, p.scaleFormat)
  let bias = factors(factor + factorBytes(p.scaleFormat), p.scaleFormat)
  let (a, c) = (p.x + p.a + 4 * j, p.x + p.c + 4 * j)
  let total = p.totals + 16 * (j & 15)
  @inline(__always)
  func fold(_ products: __m512i, _ i: Int) {
    let before = isFirst ? _mm512_setzero_ps() : load(total, 256 * i)
    var sum = folded(widened(products), scale, bias, a + i * p.stride, c + i * p.stride, before)
    let slots = p.totals + 256 * i
    @inline(__always)
    func add(_ slot: Int) { sum = _mm512_add_ps(load(slots, 16 * slot), sum) }
    let slot = j & 15
    switch ends {
    case .nothing: _mm512_storeu_ps(slots + 16 * slot, sum)
    case .neighbour:
      add(slot - 8)
      _mm512_storeu_ps(slots + 16 * (slot - 8), sum)
    case .second:
      add(slot - 8)
      add(slot - 12)
      _mm512_storeu_ps(slots + 16 * (slot - 12), sum)
    case .half:
      add(6)
      add(2)
      add(0)
      _mm512_storeu_ps(slots, sum)
    case .all:
      add(7)
      add(3)
      add(1)
      add(0)
      _mm512_mask_storeu_ps(p.y.base + i * p.y.stride, p.mask, sum)
    }
  }
  for i in 0..<rows { fold(get(&sums, i), i) }
}
