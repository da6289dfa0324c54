// The machine's read bandwidth as a plain loop reaches it: the ceiling of decode speed.

import Platform

package enum MemoryBandwidth {

  /// Bytes per second that `threads` threads read together from a buffer far larger than the caches.
  ///
  /// The best of five passes over 512 MiB; takes about half a second.
  package static func read(threads: Int) -> Double {
    let count = 512 << 20
    let buffer = UnsafeMutableRawPointer.allocate(byteCount: count, alignment: 1 << 21)
    defer { buffer.deallocate() }
    buffer.initializeMemory(as: UInt8.self, repeating: 1, count: count)
    let bytes = UnsafeRawBufferPointer(start: buffer, count: count)

    let pool = WorkerPool(threads: threads)
    let slice = count / max(1, threads) & ~255
    var best = Double.infinity
    for _ in 0..<5 {
      let begin = Instant.now
      pool.run(tiles: threads) { part, _ in
        // The sum must be used, or the optimizer removes the loop: it can never be zero.
        let sum = sumOfWords(UnsafeRawBufferPointer(rebasing: bytes[part * slice..<(part + 1) * slice]))
        if sum == 0 { buffer.storeBytes(of: 1, as: UInt8.self) }
      }
      best = min(best, Instant.now.seconds(since: begin))
    }
    return Double(slice * threads) / best
  }

  private static func sumOfWords(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    var sums = (SIMD8<UInt64>.zero, SIMD8<UInt64>.zero, SIMD8<UInt64>.zero, SIMD8<UInt64>.zero)
    var at = 0
    while at + 256 <= bytes.count {
      sums.0 &+= bytes.loadUnaligned(fromByteOffset: at, as: SIMD8<UInt64>.self)
      sums.1 &+= bytes.loadUnaligned(fromByteOffset: at + 64, as: SIMD8<UInt64>.self)
      sums.2 &+= bytes.loadUnaligned(fromByteOffset: at + 128, as: SIMD8<UInt64>.self)
      sums.3 &+= bytes.loadUnaligned(fromByteOffset: at + 192, as: SIMD8<UInt64>.self)
      at += 256
    }
    return (sums.0 &+ sums.1 &+ sums.2 &+ sums.3).wrappedSum()
  }
}
