// Weights copied into the order in which the integer kernels read them.
//
// Sixteen rows side by side are a panel (KernelsAVX512/Int8Interleaved): decode sums no lanes, and batches and prompts need
// not make panels again in every step. A panel has as many bytes as its rows had. It lies in memory of the process,
// in large pages where the system gives them, and the pages of the file that it was made from are let go. Stacks are
// copied when they are multiplied, a little each time: what no request needs stays in the file, and no token waits for
// all of a model to be copied. Rows that were not copied yet are read from the file, with the same bits. What was
// prepared (`WeightPreparing`) is not copied: its panels lie in a file. Blocks of a GGUF file are copied whole when they are
// first multiplied, since every product with those that are not turns them into rows anew.

import KernelTypes

extension ComputeContext {
  /// Bytes of weights that have been copied, in all contexts.
  package static var copiedWeightBytes: Int { PanelArena.filledBytes }

  /// What products cost pays for copying: so many bytes that are read, or six times as many that are multiplied with a row of
  /// x, are worth one of a panel. By reckoning, copying then takes a fifth to a third of the time.
  private static let bytesPerCopied = 128
  private static let rowsPerRead = 6
  /// What products without anything to copy save up at most.
  private static let savedBudget = 4 << 20

  /// Copies more of a stack into panels, if there is something to copy, memory for it, and products have paid for it.
  ///
  /// - Parameter rows: of x, that the stack is about to be multiplied with.
  func interleave(_ stack: WeightStack, rows: Int) {
    let earned = stack.byteCount / Self.bytesPerCopied * (Self.rowsPerRead + rows) / Self.rowsPerRead
    copyBudget = min(copyBudget, Self.savedBudget) + earned
    guard copyBudget > 0 || stack.hasBlocks, stack.isCopying, let arena = stack.arena, let int8 = activeInt8,
      let kernels = int8.interleaved
    else {
      return
    }
    // Panels lie near the threads that multiply them: at the same place among all of the stack, as the tiles of products do.
    let whole = (stack.rows + Panel.width - 1) / Panel.width
    for (index, part) in stack.parts.enumerated() {
      let matrix = part.matrix
      guard let layout = part.layout, part.copiedRows < matrix.rows,
        let panelBytes = kernels.panelBytes(of: matrix)
      else { continue }
      let panels = (matrix.rows + Panel.width - 1) / Panel.width
      let (size, overflow) = panels.multipliedReportingOverflow(by: panelBytes)
      guard !overflow else { break }
      if part.copiedRows == 0, stack.adoptPrepared(part: index, panelBytes: panelBytes, bytes: size) {
        continue
      }
      var isBlocks = false
      if case .blocks = matrix { isBlocks = true }
      guard copyBudget > 0 || isBlocks else { return }
      guard let base = part.panels ?? arena.allocate(size) else { break }
      stack.place(base, panelBytes: panelBytes, part: index)
      let first = part.copiedRows / Panel.width
      let due = isBlocks ? panels : max(1, max(copyBudget, copiedAtOnce) / panelBytes)
      let end = min(panels, first + due)
      let start = part.start / Panel.width
      pool.place(start + first..<start + end, of: 0..<whole) { tile, worker in
        let panel = tile - start
        makePanel(
          of: matrix, from: panel * Panel.width, layout, int8, kernels,
          into: base + panel * panelBytes, workerScratch[worker])
      }
      stack.adopt(part: index, upTo: min(end * Panel.width, matrix.rows))
      arena.fill((end - first) * panelBytes)
      if !isBlocks { copyBudget -= (end - first) * panelBytes }
      if end < panels { return }
    }
    stack.endCopying()
  }
}
