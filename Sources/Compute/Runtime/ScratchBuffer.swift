// Float buffers that grow to the largest step seen and are then reused: a warm forward pass allocates nothing.

import Synchronization

/// 64-byte aligned floats. Contents are undefined after growth. Owned by one thread at a time.
package final class ScratchBuffer {
  private var storage: UnsafeMutableRawPointer?
  private(set) var capacity = 0
  /// Each tile of a product counts itself among the owners of its worker's buffer: no two of these counts in one cache
  /// line.
  private let padding = (UInt64(0), UInt64(0), UInt64(0), UInt64(0), UInt64(0), UInt64(0), UInt64(0))

  package init() {}

  deinit {
    storage?.deallocate()
    Self.held.wrappingSubtract(capacity * MemoryLayout<Float>.size, ordering: .relaxed)
  }

  private static let held = Atomic<Int>(0)

  /// Bytes of all buffers of the process.
  package static var heldBytes: Int { held.load(ordering: .relaxed) }

  /// Room for `count` floats.
  func floats(_ count: Int) -> UnsafeMutablePointer<Float> {
    if let storage, count <= capacity { return storage.assumingMemoryBound(to: Float.self) }
    storage?.deallocate()
    // Growth by doubling bounds the number of reallocations while prompts get longer.
    let wanted = max(count, 2 * capacity, 64)
    let fresh = UnsafeMutableRawPointer.allocate(byteCount: wanted * MemoryLayout<Float>.size, alignment: 64)
    fresh.initializeMemory(as: Float.self, repeating: 0, count: wanted)
    storage = fresh
    Self.held.wrappingAdd((wanted - capacity) * MemoryLayout<Float>.size, ordering: .relaxed)
    capacity = wanted
    return fresh.assumingMemoryBound(to: Float.self)
  }

  /// `count` rows of `columns` floats each, at a padded stride.
  package func rows(_ count: Int, _ columns: Int) -> Rows {
    let stride = Self.stride(columns)
    return Rows(base: floats(count * stride), count: count, columns: columns, stride: stride)
  }

  /// Floats between rows: whole cache lines plus one, because rows a multiple of 4 KiB apart share the same few
  /// sets of the first-level cache, and a matrix product reads eight rows side by side.
  static func stride(_ columns: Int) -> Int { (columns + 31) & ~15 }
}
