// Weights copied into the order in which the integer kernels read them.
//
// Sixteen rows side by side are a panel (KernelsAVX512/Int8Interleaved): decode sums no lanes, and batches and prompts need
// not make panels again in every step. A panel has as many bytes as its rows had. It lies in memory of the process,
// in large pages where the system gives them, and the pages of the file that it was made from are let go. Stacks are
// copied when they are multiplied, a little in each step: what no request needs stays in the file, and no token waits for
// all of a model to be copied. Rows that were not copied yet are read from the file, with the same bits.

import KernelTypes
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
  /// Larger pieces would only be asked for earlier.
  private static let largestPiece = 64 << 20
  private static let filled = Atomic<Int>(0)
  private let isAffordable: (_ bytes: Int) -> Bool
  /// The least that was refused: the next of thousands of experts need not ask the system again.
  private var refused = Int.max

  /// - Parameter isAffordable: whether the process may hold so many more bytes.
  init(isAffordable: @escaping (_ bytes: Int) -> Bool = leavesRoom) { self.isAffordable = isAffordable }

  /// Bytes of panels in all arenas of the process.
  static var filledBytes: Int { filled.load(ordering: .relaxed) }

  deinit { Self.filled.wrappingSubtract(filled, ordering: .relaxed) }

  /// So many more bytes hold panels.
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
      let isLarge = size >= 8 * Self.largePage
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

  /// Whether so many more bytes leave an eighth of the memory available, and panels of all models half of it: pages of a
  /// file can be let go and read again, these cannot.
  private static func leavesRoom(_ bytes: Int) -> Bool {
    let limit = MemoryLimit.bytes
    guard filledBytes + bytes <= limit / 2 else { return false }
    return Machine.availableBytes.map { $0 - bytes >= limit / 8 } ?? true
  }
}

extension ComputeContext {
  /// Bytes of weights that have been copied, in all contexts.
  package static var copiedWeightBytes: Int { PanelArena.filledBytes }

  /// Copies more of a stack into panels, if there is something to copy, memory for it, and the step has not yet copied enough.
  func interleave(_ stack: WeightStack) {
    guard copyBudget > 0, stack.isCopying, let arena = stack.arena, let int8 = activeInt8,
      let kernels = int8.interleaved
    else {
      return
    }
    for (index, part) in stack.parts.enumerated() {
      guard let layout = Int8Layout(part.matrix), case .quantized(let matrix) = part.matrix,
        matrix.mode == .affine, part.copiedRows < matrix.rows
      else { continue }
      guard copyBudget > 0 else { return }
      let panelBytes = kernels.panelBytes(matrix.panelShape)
      let panels = (matrix.rows + Panel.width - 1) / Panel.width
      let (size, overflow) = panels.multipliedReportingOverflow(by: panelBytes)
      guard !overflow, let base = part.panels ?? arena.allocate(size) else { break }
      stack.place(base, part: index)
      let first = part.copiedRows / Panel.width
      let end = min(panels, first + max(1, copyBudget / panelBytes))
      pool.run(tiles: end - first) { tile, worker in
        let (start, scratch) = ((first + tile) * Panel.width, workerScratch[worker])
        let rows = matrix.operand(start..<min(start + Panel.width, matrix.rows))
        let whole = wholeRows(rows, layout, int8, scratch)
        kernels.make(whole.rows, matrix.bits, base + (first + tile) * panelBytes, whole.scratch)
      }
      stack.adopt(part: index, upTo: min(end * Panel.width, matrix.rows))
      arena.fill((end - first) * panelBytes)
      copyBudget -= (end - first) * panelBytes
      if end < panels { return }
    }
    stack.endCopying()
  }
}
