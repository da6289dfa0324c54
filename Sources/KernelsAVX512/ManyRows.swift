// Products of a panel with many rows of x: eight at a time, as with few. AMX takes this file's place in its own level.

/// Bytes of scratch after the factors: totals of sixteen slots of eight rows.
@inline(__always)
func totalBytes() -> Int { 16 * 8 * 64 }

/// A panel by at least 4 rows of x, the first of which are `first`'s.
@inline(__always)
func multiplyPanel(_ first: Pass, bits: Int, block: Int, rows xRows: Int) {
  multiplyRows(first, bits: bits, block: block, rows: xRows)
}
