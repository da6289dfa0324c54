// How far ahead and into which cache weights are prefetched in AVX-512, as measured.

/// How far ahead of the products weights are prefetched, bytes. 1 to 4 KiB measured the same.
@inline(__always)
var prefetchDistance: Int { 2048 }

/// Prefetches the lines that `count` bytes from `address` on, a constant, will be read from `prefetchDistance` later.
@inline(__always)
func prefetchAhead(_ address: UnsafeRawPointer, _ count: Int) {
  var at = 0
  while at < count {
    prefetch(address + prefetchDistance + at)
    at += 64
  }
}
