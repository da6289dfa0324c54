// The scan of an index's signs by tables, at the levels of x86. A level has `signSums`, in whose registers the rows are.

package import KernelTypes
import _Builtin_intrinsics.intel

/// `out[r] = Σ tables[p][0][low half of byte p] + tables[p][1][high half]`: a shuffle looks up 32 rows at once. Scalar
/// twin: `ScanKernels.reference`.
package func scanSigns(
  _ rows: SignRows, _ tables: UnsafePointer<UInt8>, _ out: UnsafeMutablePointer<Int32>
) {
  let tables = UnsafeRawPointer(tables)
  for block in 0..<rows.blocks {
    let bytes = rows.base + 32 * block * rows.rowBytes
    let target = UnsafeMutableRawPointer(out + 32 * block)
    var at = 0
    while at < rows.rowBytes {
      // 128 sums of at most 254 fit sixteen bits.
      let sums = signSums(bytes, tables, at..<min(at + 128, rows.rowBytes))
      // Rows 0 to 7 and 16 to 23, then 8 to 15 and 24 to 31.
      let first = _mm256_unpacklo_epi16(sums.even, sums.odd)
      let second = _mm256_unpackhi_epi16(sums.even, sums.odd)
      store(first.lowHalf, target, isFirst: at == 0)
      store(second.lowHalf, target + 32, isFirst: at == 0)
      store(first.highHalf, target + 64, isFirst: at == 0)
      store(second.highHalf, target + 96, isFirst: at == 0)
      at += 128
    }
  }
}

@inline(__always)
private func store(_ sums: __m128i, _ out: UnsafeMutableRawPointer, isFirst: Bool) {
  let wide = unsafeBitCast(_mm256_cvtepu16_epi32(sums), to: SIMD8<Int32>.self)
  let known = isFirst ? SIMD8<Int32>.zero : UnsafeRawPointer(out).loadUnaligned(as: SIMD8<Int32>.self)
  out.storeBytes(of: known &+ wide, as: SIMD8<Int32>.self)
}
