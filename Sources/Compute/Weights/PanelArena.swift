// The memory that copied weights lie in: a few large pieces of the process, in large pages where the system gives them.

import Platform
import Synchronization

/// The memory that panels lie in, in few large pieces: of all weights that are used together. Owned by one thread at a
/// time.
package final class PanelArena {
  private var pieces: [AnonymousMemory] = []
  /// What is left of the last piece.
  private var next: UnsafeMutableRawPointer?
  private var left = 0
  /// Bytes that were given out, and those of them that hold panels.
  private var (used, filled) = (0, 0)

  /// The system's large pages on x86-64 and most others.
  private static let largePage = 2 << 20
  /// Larger pieces would only be taken earlier.
  private static let largestPiece = 64 << 20
  private static let filled = Atomic<Int>(0)
  private let nodes: Int
  private let isAffordable: (_ bytes: Int) -> Bool
  /// The least that was refused: the next of thousands of experts need not ask the system again.
  private var refused = Int.max
  /// Panels that need not be made, as a file has them.
  let prepared: PreparedPanels?
  /// The stacks that were made with this arena, where somebody wants to know: they hold the arena in turn.
  private var stacks: [WeightStack]?

  /// - Parameters:
  ///   - prepared: what a file has already.
  ///   - remembers: whether `takeStacks` is going to be called.
  ///   - nodes: of memory, over which the threads that read the panels are spread.
  ///   - isAffordable: whether the process may hold that many more bytes.
  init(
    prepared: PreparedPanels? = nil, remembers: Bool = false, nodes: Int = 1,
    isAffordable: @escaping (_ bytes: Int) -> Bool = leavesRoom
  ) {
    (self.prepared, self.nodes, self.isAffordable) = (prepared, nodes, isAffordable)
    stacks = remembers ? [] : nil
  }

  /// A stack that products may copy was made.
  func note(_ stack: WeightStack) { stacks?.append(stack) }

  /// The stacks that were made so far and are multiplied, once.
  func takeStacks() -> [WeightStack] {
    defer { stacks = nil }
    return (stacks ?? []).filter(\.isMultiplied)
  }

  /// Bytes of panels in all arenas of the process.
  static var filledBytes: Int { filled.load(ordering: .relaxed) }

  deinit { Self.filled.wrappingSubtract(filled, ordering: .relaxed) }

  /// Counts more bytes that hold panels.
  func fill(_ bytes: Int) {
    filled += bytes
    Self.filled.wrappingAdd(bytes, ordering: .relaxed)
  }

  /// 64-byte aligned zeros; nil where memory is short.
  func allocate(_ bytes: Int) -> UnsafeMutableRawPointer? {
    let bytes = (bytes + 63) & ~63
    if bytes > left {
      // Pieces grow with the model: of a small one the unused part of a large page would be much.
      let size = max(bytes, min(used, Self.largestPiece))
      // A page lies on one node, and a matrix on all.
      let isLarge = nodes > 1 ? bytes / nodes >= 8 * Self.largePage : size >= 8 * Self.largePage
      guard size < refused, isAffordable(size),
        let piece = try? AnonymousMemory(
          byteCount: isLarge ? size + Self.largePage : size, purpose: "weights")
      else {
        refused = min(refused, size)
        return nil
      }
      var start = piece.start
      if isLarge {
        start = start.alignedUp(toMultipleOf: Self.largePage)
        piece.preferLargePages()
      } else if nodes > 1 {
        piece.refuseLargePages()
      }
      pieces.append(piece)
      (next, left) = (start, size)
    }
    let start = next
    next = start.map { $0 + bytes }
    left -= bytes
    used += bytes
    return start
  }

  /// Whether that many more bytes leave an eighth of the memory available, and panels of all models half of it: pages of a
  /// file can be let go and read again, these cannot.
  private static func leavesRoom(_ bytes: Int) -> Bool {
    let limit = MemoryLimit.bytes
    guard filledBytes + bytes <= limit / 2 else { return false }
    return Machine.availableBytes.map { $0 - bytes >= limit / 8 } ?? true
  }
}
