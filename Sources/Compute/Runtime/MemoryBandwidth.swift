// The machine's read bandwidth as a plain loop reaches it: the ceiling of decode speed.

import Platform

/// Threads that read a buffer far larger than the caches.
package final class MemoryBandwidth {
  private let buffer: UnsafeMutableRawBufferPointer
  private let pool: WorkerPool

  package init(threads: Int, bytes: Int = 512 << 20) {
    buffer = .allocate(byteCount: bytes, alignment: 1 << 21)
    pool = WorkerPool(threads: threads)
    // Each part is first written where it is going to be read.
    pool.place(0..<pool.threads, of: 0..<pool.threads) { part, _ in
      self.part(part).initializeMemory(as: UInt8.self, repeating: 1)
    }
  }

  /// What one thread reads.
  private func part(_ index: Int) -> UnsafeMutableRawBufferPointer {
    let bytes = buffer.count / pool.threads & ~255
    return UnsafeMutableRawBufferPointer(rebasing: buffer[index * bytes..<(index + 1) * bytes])
  }

  deinit { buffer.deallocate() }

  /// Bytes per second that the threads read together, in whole passes over at least `seconds`: the mean, since what is compared
  /// with it has the same moments in which a shared machine is slow.
  package func read(seconds: Double) -> Double {
    let begin = Instant.now
    var (bytes, elapsed) = (0, 0.0)
    repeat {
      pool.run(tiles: pool.threads) { index, _ in
        // The sum must be used, or the optimizer removes the loop: it can never be zero.
        let sum = Self.sumOfWords(UnsafeRawBufferPointer(part(index)))
        if sum == 0 { buffer.storeBytes(of: 1, as: UInt8.self) }
      }
      bytes += pool.threads * part(0).count
      elapsed = Instant.now.seconds(since: begin)
    } while elapsed < seconds
    return Double(bytes) / elapsed
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
