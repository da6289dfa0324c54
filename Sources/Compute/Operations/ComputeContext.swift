// What a model computes with: the kernels of one instruction set and the threads to run them on.

import Platform

/// Kernels, worker threads and their buffers. One thread uses them at a time: an engine's own, or those of several
/// engines in turns (`SharedCompute`).
package final class ComputeContext {
  let kernels: KernelTable
  let pool: WorkerPool
  /// One per worker: a tile of unpacked weights, or the scores of an attention tile.
  let workerScratch: [Scratch]
  private let workerBuffers: [ScratchBuffer]
  /// The instruction-set level in use; nil for the reference kernels.
  package let isa: ISA?

  /// How products with quantized weights are computed; `exact` where this machine has no integer kernels.
  package let mode: ComputeMode
  /// Quantized activations of the running product, one buffer per form.
  let int8Rows: [ScratchBuffer]
  /// The outliers of the running product's rows.
  let outlierPlaces = ScratchBuffer()
  /// Inputs in the order that the running product's weights expect.
  let reorderedRows = ScratchBuffer()
  /// What stands between the two thin matrices of an adapter.
  let lowRankRows = ScratchBuffer()

  /// Whether weights may be copied into panels, and there are kernels for these.
  let interleaves: Bool
  /// The folder of prepared weights; nil uses none.
  package var preparedFolder: String?

  /// Told the inputs of products; nil but for a calibration.
  package var recorder: InputRecorder?

  /// Bytes of panels that may be made now; negative where more were made than was due.
  var copyBudget = 0
  /// Bytes of panels that are made at once, if any are due.
  var copiedAtOnce = 1 << 20

  /// The integer kernels at an address for tiles; nil in exact mode.
  let fastKernels: UnsafePointer<Int8Kernels>?
  /// The integer kernels in the fast mode, else nil.
  var activeInt8: Int8Kernels? { fastKernels?.pointee }

  /// - Parameters:
  ///   - threads: kernel threads, the caller included; nil for one per core.
  ///   - isa: the level to use; nil for the best this machine offers.
  ///   - mode: all but `exact` trade a little accuracy for speed where the instruction set has integer kernels.
  ///   - interleaves: copies quantized weights into memory of the process, in the order of the integer kernels, where
  ///     there are kernels for it and memory: faster, but processes that serve the same file do not share it.
  ///   - useReference: the slow scalar twins instead, to tell a kernel bug from a model bug.
  ///   - nodes: the processors of each node of memory, over which threads and weights are spread.
  /// - Throws: `unsupportedISA` when this machine cannot run `isa`.
  package init(
    threads: Int? = nil, isa: ISA? = nil, mode: ComputeMode = .exact, interleaves: Bool = true,
    useReference: Bool = false, nodes: [[Int]] = Topology.here.nodes
  ) throws(ComputeError) {
    let level = isa ?? CPUFeatures.best
    guard CPUFeatures.available.contains(level) else {
      throw .unsupportedISA(requested: level.rawValue, available: CPUFeatures.available.map(\.rawValue))
    }
    pool = WorkerPool(threads: threads ?? Machine.cores, nodes: nodes)
    workerBuffers = (0..<pool.threads).map { _ in ScratchBuffer() }
    workerScratch = workerBuffers.map(\.scratch)
    self.isa = useReference ? nil : level
    kernels = useReference ? .reference : .table(for: level)
    self.mode = kernels.int8 == nil ? .exact : mode
    self.interleaves = interleaves && self.mode != .exact && kernels.int8?.interleaved != nil
    int8Rows = (0..<Int8Layout.count).map { _ in ScratchBuffer() }
    fastKernels = kernels.int8.flatMap { int8 in
      guard mode != .exact else { return nil }
      let place = UnsafeMutablePointer<Int8Kernels>.allocate(capacity: 1)
      place.initialize(to: int8)
      return UnsafePointer(place)
    }
  }

  deinit {
    guard let place = fastKernels.map(UnsafeMutablePointer.init(mutating:)) else { return }
    place.deinitialize(count: 1)
    place.deallocate()
  }

  package var threads: Int { pool.threads }

  /// The instruction set and the mode, such as "avx512 fast".
  package var name: String {
    let level = isa?.rawValue ?? "reference"
    return mode == .exact ? level : "\(level) \(mode.rawValue)"
  }

  /// Bytes that copying `bytes` of weights may take beyond them: rows that fill up panels, and pages that are begun.
  package func overhead(ofCopying bytes: Int) -> Int {
    interleaves ? min(bytes / 2, 2 << 20) : 0
  }

  /// Memory for the panels of weights that are used together, or the file that has them; nil where weights stay in their
  /// own files.
  ///
  /// - Parameters:
  ///   - identity: of the weight files, 32 bytes.
  ///   - remembers: whether the panels are to be prepared: then none that were are used.
  package func makeArena(identity: [UInt8], remembers: Bool = false) -> PanelArena? {
    guard interleaves else { return nil }
    guard !remembers, let preparedFolder, let layout = panelLayout else {
      return PanelArena(remembers: remembers, nodes: pool.nodes)
    }
    return PanelArena(
      prepared: PreparedPanels(folder: preparedFolder, identity: identity, layout: layout),
      nodes: pool.nodes)
  }

  /// Calls `body` for ranges that together cover `0 ..< rows`, in parallel when the work is worth a fork.
  ///
  /// - Parameter work: elements touched per row.
  package func forEachRow(_ rows: Int, work: Int, _ body: (_ range: Range<Int>) -> Void) {
    // Below about 32 K elements a fork costs more than it saves (a few microseconds each way).
    guard rows > 1, rows * work >= 1 << 15 else {
      if rows > 0 { body(0..<rows) }
      return
    }
    let step = max(1, rows / (4 * pool.threads))
    pool.run(tiles: (rows + step - 1) / step) { tile, _ in
      body(tile * step..<min(rows, (tile + 1) * step))
    }
  }
}
