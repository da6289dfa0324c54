// Products of a panel with many rows of x by AMX: a block of sixteen outputs by sixteen rows is one instruction, and what is
// left is to scale its sums, in the order of the rows' own kernels.

import KernelTypes
import _Builtin_intrinsics.intel

/// Rows of a tile.
@inline(__always)
private var tileRows: Int { 16 }

/// Bytes of the sums of a product.
@inline(__always)
private var tileBytes: Int { 64 * tileRows }

/// From how many rows of x on tiles pay: nibbles become bytes first. Of 16 rows they are as fast as VPDPBUSD, of 32 rows 1.2 to
/// 1.4 times, of 512 rows 1.6 to 1.9 times (Emerald Rapids).
@inline(__always)
private var worthwhileRows: Int { 32 }

/// Bytes of scratch after the factors: totals of sixteen slots of as many rows, the sums of two products, shapes of tiles.
@inline(__always)
func totalBytes() -> Int { 16 * tileBytes + 2 * tileBytes + 64 }

/// A panel by at least 4 rows of x, the first of which are `first`'s.
@inline(__always)
func multiplyPanel(_ first: Pass, bits: Int, block: Int, rows xRows: Int) {
  guard xRows >= worthwhileRows else {
    return multiplyRows(first, bits: bits, block: block, rows: xRows)
  }
  let (y, sums) = (first.y, UnsafeMutableRawPointer(first.totals) + 16 * tileBytes)
  var p = first
  if bits == 4 {
    p.panel = panelOfBytes(p, block)
    p.gap = 0
  }
  for slot in min(p.blocks, 16)..<slots(p.blocks) {
    for i in 0..<tileRows { _mm512_storeu_ps(p.totals + 256 * i + 16 * slot, _mm512_setzero_ps()) }
  }
  configureTiles(block, in: sums + 2 * tileBytes)
  // Shares are for eight rows.
  p.share *= 2
  var r = 0
  while r < xRows {
    // The last rows may overlap those before them.
    r = min(r, xRows - tileRows)
    p.x = first.x + r * p.stride
    p.last = min(first.last, p.next + p.blocks * p.share)
    switch block {
    case 64: sixteenRows64(p, sums)
    case 32: sixteenRows32(p, sums)
    default: sixteenRows16(p, sums)
    }
    p.next = max(p.next, p.last)
    for i in 0..<tileRows {
      _mm512_mask_storeu_ps(y.base + (r + i) * y.stride, p.mask, sumOfSlots(p.totals + 256 * i, p.blocks))
    }
    r += tileRows
  }
  releaseTiles()
}

/// The panel's nibbles as bytes, in scratch before the factors, where they may be themselves: the last block goes first, and
/// ends behind where it was.
@inline(never)
func panelOfBytes(_ p: Pass, _ block: Int) -> UnsafeRawPointer {
  let out = UnsafeMutableRawPointer(mutating: p.factors) - 16 * paddedColumns(p.blocks * block)
  let nibbles = _mm512_set1_epi32(0x0F0F_0F0F)
  for j in stride(from: p.blocks - 1, through: 0, by: -1) {
    let (source, target) = (p.panel + 8 * block * j + j &>> p.gapShift * p.gap, out + 16 * block * j)
    @inline(__always)
    func words(_ i: Int) -> __m512i { _mm512_loadu_si512(source + 64 * i) }
    @inline(__always)
    func four(_ first: Int) {
      let (a, b, c, d) = (words(first), words(first + 1), words(first + 2), words(first + 3))
      @inline(__always)
      func write(_ words: __m512i, _ i: Int) {
        _mm512_storeu_si512(target + 64 * (first + i), _mm512_and_si512(words, nibbles))
        _mm512_storeu_si512(
          target + 64 * (first + i) + 8 * block, _mm512_and_si512(_mm512_srli_epi32(words, 4), nibbles))
      }
      write(a, 0)
      write(b, 1)
      write(c, 2)
      write(d, 3)
    }
    four(0)
    if block == 64 { four(4) }
  }
  return UnsafeRawPointer(out)
}

@inline(never)
func sixteenRows64(_ p: Pass, _ sums: UnsafeMutableRawPointer) { pass(p, block: 64, sums) }

@inline(never)
func sixteenRows32(_ p: Pass, _ sums: UnsafeMutableRawPointer) { pass(p, block: 32, sums) }

@inline(never)
func sixteenRows16(_ p: Pass, _ sums: UnsafeMutableRawPointer) { pass(p, block: 16, sums) }

@inline(__always)
private func pass(_ p: Pass, block: Int, _ sums: UnsafeMutableRawPointer) {
  let first = min(16, p.blocks)
  for j in 0..<first { step(p, j, block: block, isFirst: true, sums) }
  for j in first..<p.blocks { step(p, j, block: block, isFirst: false, sums) }
}

/// Block `j` of the panel, in bytes, by sixteen rows of x.
@inline(__always)
private func step(_ p: Pass, _ j: Int, block: Int, isFirst: Bool, _ room: UnsafeMutableRawPointer) {
  prefetchShare(p.next, upTo: p.last, p.share, j, isFar: p.isFar)
  // Those of the block before are still read.
  let sums = room + (j & 1) * tileBytes
  let weights = p.panel + 16 * block * j + j &>> p.gapShift * p.gap
  multiplyTiles(p.x + j * block, p.stride, weights, block, into: sums)
  // Of many rows they are floats.
  let factors = (p.factors + j &>> p.factorShift * p.factorStep).assumingMemoryBound(to: Float.self)
  let (scale, bias) = (load(factors, 0), load(factors, 16))
  let (a, c) = (p.x + p.a + 4 * j, p.x + p.c + 4 * j)
  let total = p.totals + 16 * (j & 15)
  @inline(__always)
  func fold(_ i: Int) {
    let before = isFirst ? _mm512_setzero_ps() : load(total, 256 * i)
    let integers = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums + 64 * i))
    let sum = folded(integers, scale, bias, a + i * p.stride, c + i * p.stride, before)
    _mm512_storeu_ps(total + 256 * i, sum)
  }
  @inline(__always)
  func four(_ i: Int) {
    fold(i)
    fold(i + 1)
    fold(i + 2)
    fold(i + 3)
  }
  four(0)
  four(4)
  four(8)
  four(12)
}
