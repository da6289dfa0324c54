// Float buffers that grow to the largest step seen and are then reused: a warm forward pass allocates nothing.

import Synchronization

/// A scratch buffer as the tiles of a fork see it: an address, without an owner. If each tile counted itself among the
/// owners of its worker's buffer, these counts would take 3 % of a decode step wherever two of them, or one and what other
/// threads read, share a cache line.
struct Scratch {
  /// What a buffer has; it grows in place.
  fileprivate struct Memory {
    var start: UnsafeMutableRawPointer?
    var capacity = 0
  }

  fileprivate let memory: UnsafeMutablePointer<Memory>

  /// The same worker's other buffer: for what stands behind the work of a tile.
  var aside: Scratch { Scratch(memory: memory + 1) }

  /// As `ScratchBuffer.floats`.
  func floats(_ count: Int) -> UnsafeMutablePointer<Float> {
    let (start, capacity) = (memory.pointee.start, memory.pointee.capacity)
    if let start, count <= capacity { return start.assumingMemoryBound(to: Float.self) }
    start?.deallocate()
    // Growth by doubling bounds the number of reallocations while prompts get longer.
    let wanted = max(count, 2 * capacity, 64)
    let fresh = UnsafeMutableRawPointer.allocate(byteCount: wanted * MemoryLayout<Float>.size, alignment: 64)
    fresh.initializeMemory(as: Float.self, repeating: 0, count: wanted)
    memory.pointee = Memory(start: fresh, capacity: wanted)
    ScratchBuffer.held.wrappingAdd((wanted - capacity) * MemoryLayout<Float>.size, ordering: .relaxed)
    return fresh.assumingMemoryBound(to: Float.self)
  }

  /// As `ScratchBuffer.rows`.
  func rows(_ count: Int, _ columns: Int) -> Rows {
    let stride = ScratchBuffer.stride(columns)
    return Rows(base: floats(count * stride), count: count, columns: columns, stride: stride)
  }
}

/// 64-byte aligned floats. Contents are undefined after growth. Owned by one thread at a time.
package final class ScratchBuffer {
  /// Valid as long as the buffer is.
  let scratch: Scratch

  package init() {
    // Written by its thread while others read what lies beside it: a cache line of its own.
    let line = UnsafeMutableRawPointer.allocate(byteCount: 64, alignment: 64)
    scratch = Scratch(
      memory: line.initializeMemory(as: Scratch.Memory.self, repeating: Scratch.Memory(), count: 2))
  }

  deinit {
    for memory in [scratch.memory[0], scratch.memory[1]] {
      memory.start?.deallocate()
      Self.held.wrappingSubtract(memory.capacity * MemoryLayout<Float>.size, ordering: .relaxed)
    }
    scratch.memory.deallocate()
  }

  fileprivate static let held = Atomic<Int>(0)

  /// Bytes of all buffers of the process.
  package static var heldBytes: Int { held.load(ordering: .relaxed) }

  /// Room for `count` floats.
  func floats(_ count: Int) -> UnsafeMutablePointer<Float> { scratch.floats(count) }

  /// `count` rows of `columns` floats each, at a padded stride.
  package func rows(_ count: Int, _ columns: Int) -> Rows { scratch.rows(count, columns) }

  /// Floats between rows: whole cache lines plus one, because rows a multiple of 4 KiB apart share the same few
  /// sets of the first-level cache, and a matrix product reads eight rows side by side.
  static func stride(_ columns: Int) -> Int { (columns + 31) & ~15 }
}
