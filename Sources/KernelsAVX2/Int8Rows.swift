// Activations as int8 for the integer kernels: blocks of 16, 32 or 64 elements with a scale each.
//
// One quantized row, 32-byte aligned:
//
//   int8 x8[columns, padded with zeros to 64]  |  float a[blocks, padded to 16]  |  float c[blocks, padded to 16]
//
// with x ≈ a · x8 in each block and c = a · Σ x8: the bias term of affine weights needs the sum of what the integer
// product sees. Beside 4-bit weights the elements of a block stand as [even | odd], the order in which nibbles
// unpack. The values are those of the AVX-512 module, to the bit.

package import KernelTypes
import _Builtin_intrinsics.intel

@inline(__always)
func loadBytes(_ base: UnsafeRawPointer) -> __m256i {
  _mm256_loadu_si256(base.assumingMemoryBound(to: __m256i.self))
}

@inline(__always)
func storeBytes(_ value: __m256i, _ base: UnsafeMutableRawPointer) {
  _mm256_storeu_si256(base.assumingMemoryBound(to: __m256i.self), value)
}

/// Bytes of one quantized row.
package func int8RowBytes(_ columns: Int, _ block: Int) -> Int {
  paddedColumns(columns) + 8 * paddedBlocks(columns, block)
}

/// Quantizes one row of `columns` floats, whole blocks; see the head of this file for `out`. Scalar twin:
/// `Reference.quantizeInt8`.
package func quantizeInt8(
  _ x: UnsafePointer<Float>, _ columns: Int, _ block: Int, _ order: Int8Order,
  into out: UnsafeMutableRawPointer
) {
  let padded = paddedColumns(columns)
  let blocks = paddedBlocks(columns, block)
  let scales = (out + padded).assumingMemoryBound(to: Float.self)
  let sums = scales + blocks
  let used = columns / block
  for j in used..<blocks {
    scales[j] = 0
    sums[j] = 0
  }
  if columns < padded {
    storeBytes(_mm256_setzero_si256(), out + padded - 64)
    storeBytes(_mm256_setzero_si256(), out + padded - 32)
  }

  let sign = _mm256_set1_ps(-0.0)
  for j in 0..<used {
    let source = x + j * block
    var largest = _mm256_setzero_ps()
    for i in 0..<block / 8 {
      largest = _mm256_max_ps(largest, _mm256_andnot_ps(sign, load(source, 8 * i)))
    }
    let top = maximum(largest)
    let inverse = _mm256_set1_ps(top > 0 ? 127 / top : 0)
    var total = _mm256_setzero_si256()
    for i in 0..<block / 32 {
      let at = 32 * i
      let q0 = _mm256_cvtps_epi32(_mm256_mul_ps(load(source, at), inverse))
      let q1 = _mm256_cvtps_epi32(_mm256_mul_ps(load(source, at + 8), inverse))
      let q2 = _mm256_cvtps_epi32(_mm256_mul_ps(load(source, at + 16), inverse))
      let q3 = _mm256_cvtps_epi32(_mm256_mul_ps(load(source, at + 24), inverse))
      total = _mm256_add_epi32(total, _mm256_add_epi32(_mm256_add_epi32(q0, q1), _mm256_add_epi32(q2, q3)))
      // Packing works within the halves of a register: the dwords come out as 0 2 4 6 | 1 3 5 7.
      let bytes = _mm256_packs_epi16(_mm256_packs_epi32(q0, q1), _mm256_packs_epi32(q2, q3))
      let order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0)
      storeBytes(_mm256_permutevar8x32_epi32(bytes, order), out + j * block + at)
    }
    if block == 16 {
      let q0 = _mm256_cvtps_epi32(_mm256_mul_ps(load(source, 0), inverse))
      let q1 = _mm256_cvtps_epi32(_mm256_mul_ps(load(source, 8), inverse))
      total = _mm256_add_epi32(q0, q1)
      let (words, zero) = (_mm256_packs_epi32(q0, q1), _mm256_setzero_si256())
      // The dwords come out as 0 2, 1 3, with zeros after each two.
      let order = _mm256_set_epi32(7, 6, 3, 2, 5, 1, 4, 0)
      let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words, zero), order)
      (out + 16 * j).storeBytes(of: bytes.lowHalf, as: SIMD2<Int64>.self)
    }
    let scale = top / 127
    scales[j] = scale
    sums[j] = scale * Float(sumOfLanes(total))
    if case .evenOdd = order { separate(out + j * block, block) }
  }
}

/// Moves the even elements of a block to its front, the odd ones after them.
@inline(__always)
func separate(_ block: UnsafeMutableRawPointer, _ count: Int) {
  let low = _mm256_set1_epi16(0x00FF)
  let first = loadBytes(block)
  let second = count == 64 ? loadBytes(block + 32) : first
  let even = _mm256_packus_epi16(_mm256_and_si256(first, low), _mm256_and_si256(second, low))
  let odd = _mm256_packus_epi16(_mm256_srli_epi16(first, 8), _mm256_srli_epi16(second, 8))
  // The halves of the two sources alternate: even quarters belong to the first.
  let order = _mm256_set_epi32(7, 6, 3, 2, 5, 4, 1, 0)
  let (evens, odds) = (_mm256_permutevar8x32_epi32(even, order), _mm256_permutevar8x32_epi32(odd, order))
  if count == 64 {
    storeBytes(evens, block)
    storeBytes(odds, block + 32)
  } else {
    block.storeBytes(of: evens.lowHalf, as: SIMD2<Int64>.self)
    (block + 16).storeBytes(of: odds.lowHalf, as: SIMD2<Int64>.self)
  }
}

@inline(__always)
private func maximum(_ v: __m256) -> Float {
  let four = _mm_max_ps(v.lowHalf, v.highHalf)
  let two = max(four[0], four[2])
  return max(two, max(four[1], four[3]))
}

@inline(__always)
func sumOfLanes(_ v: __m256i) -> Int32 {
  let lanes = unsafeBitCast(v, to: SIMD8<Int32>.self)
  let four = lanes.lowHalf &+ lanes.highHalf
  let two = four.lowHalf &+ four.highHalf
  return two[0] &+ two[1]
}

// MARK: Two blocks side by side

/// As `paddedColumns` in a row of `pairBlocks`: twice the block.
@inline(__always)
func pairedColumns(_ columns: Int, _ block: Int) -> Int { (columns + 2 * block - 1) & ~(2 * block - 1) }

/// Bytes of a row of `pairBlocks`.
@inline(__always)
func pairedRowBytes(_ columns: Int, _ block: Int) -> Int {
  pairedColumns(columns, block) + 8 * paddedBlocks(columns, block)
}

/// Rewrites a quantized row for the integer kernels of 2, 3, 5 and 6 bits: see `pairBlocks`. With `inQuarters` an
/// [even | odd] block of 64 is separated once more: elements 4·i, 4·i + 1, 4·i + 2, 4·i + 3, sixteen each.
@inline(never)
func pairRow(
  _ row: UnsafeRawPointer, _ columns: Int, _ block: Int, inQuarters: Bool, _ out: UnsafeMutableRawPointer
) {
  pairBlocks(row, columns, block, inQuarters: inQuarters, out)
  (out + pairedColumns(columns, block)).copyMemory(
    from: row + paddedColumns(columns), byteCount: 8 * paddedBlocks(columns, block))
}

/// Copies a row's elements so that two neighbouring blocks share each register, one in each half: sums of both then need
/// half as many shuffles.
@inline(__always)
func pairBlocks(
  _ row: UnsafeRawPointer, _ columns: Int, _ block: Int, inQuarters: Bool, _ out: UnsafeMutableRawPointer
) {
  let (used, padded) = (columns / block, pairedColumns(columns, block))
  out.copyMemory(from: row, byteCount: columns)
  if used & 1 == 1 { (out + columns).initializeMemory(as: UInt8.self, repeating: 0, count: padded - columns) }
  if inQuarters { for j in 0..<used { separate(out + 64 * j, 64) } }
  for pair in 0..<padded / (2 * block) {
    let base = out + 2 * block * pair
    let (a, b) = (loadBytes(base), loadBytes(base + block))
    if block == 64 {
      let (c, d) = (loadBytes(base + 32), loadBytes(base + 96))
      storeBytes(__m256i(lowHalf: c.lowHalf, highHalf: d.lowHalf), base + 64)
      storeBytes(__m256i(lowHalf: c.highHalf, highHalf: d.highHalf), base + 96)
    }
    storeBytes(__m256i(lowHalf: a.lowHalf, highHalf: b.lowHalf), base)
    storeBytes(__m256i(lowHalf: a.highHalf, highHalf: b.highHalf), base + 32)
  }
}
