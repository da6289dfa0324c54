// Panels of all weights of a model, made at once and kept in a file, so that later processes begin with them.

import KernelTypes
package import Platform

/// What was prepared.
package struct PreparedFile: Sendable {
  package let path: String
  package let bytes: Int
  /// Matrices in it.
  package let matrices: Int
}

/// Why nothing was prepared.
package enum PreparingError: Error, Equatable, CustomStringConvertible {
  /// The kernels in use keep no panels.
  case noPanels(isa: String)
  /// The model has no weights that panels are made of.
  case noWeights
  case tooLarge(bytes: Int, limit: Int)
  case file(PlatformError)
  /// What was read back is not what was written.
  case damaged(path: String)

  package var description: String {
    switch self {
    case .noPanels(let isa):
      "the kernels of \(isa) read weights as they lie in the model's files: there is nothing to prepare. "
        + "Those of AVX-512 VNNI, AVX-VNNI and arm64 in the fast mode have an order of their own."
    case .noWeights:
      "the model has no affine quantized weights in its files: only these are kept in another order."
    case .tooLarge(let bytes, let limit):
      "the prepared weights would take \(bytes) bytes, and \(limit) are allowed for all: raise "
        + "--prepared-dir-size."
    case .file(let error): "\(error)"
    case .damaged(let path): "\(path) is not what was written: check the disk, and prepare again."
    }
  }
}

extension ComputeContext {
  /// A checksum over panels of made-up weights of every kind: kernels whose panels have other bytes have another. Nil
  /// where weights are not kept in panels.
  package var panelLayout: UInt64? {
    guard interleaves, let int8 = activeInt8, let kernels = int8.interleaved else { return nil }
    var all: [UInt64] = []
    for bits in WeightMatrix.supportedBits {
      for size in WeightMatrix.supportedGroupSizes {
        let columns = 2 * 128
        let rowBytes = columns * bits / 8
        let groupBytes = columns / size * 2
        let packed = (0..<Panel.width * rowBytes).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ bits) }
        // Small bf16 numbers of both signs.
        let floats = (0..<Panel.width * groupBytes).map { index in
          index % 2 == 0 ? UInt8(truncatingIfNeeded: index &* 59) : UInt8(index % 4 == 1 ? 0x3C : 0xBC)
        }
        packed.withUnsafeBytes { packed in
          floats.withUnsafeBytes { floats in
            guard let base = packed.baseAddress, let scales = floats.baseAddress else { return }
            let matrix = QuantizedRows(
              packed: base, rowBytes: rowBytes, bits: bits,
              groups: Groups(
                scales: scales, biases: scales, rowBytes: groupBytes, format: .bf16, size: size),
              count: Panel.width, columns: columns)
            guard let layout = Int8Layout(.affine(matrix)) else { return }
            let bytes = kernels.panelBytes(matrix.panelShape)
            let panel = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes, alignment: 64)
            defer { panel.deallocate() }
            panel.initializeMemory(as: UInt8.self, repeating: 0)
            if let out = panel.baseAddress {
              makePanel(of: matrix, from: 0, layout, int8, kernels, into: out, workerScratch[0])
            }
            all.append(Checksum.of(UnsafeRawBufferPointer(panel)))
          }
        }
      }
    }
    return all.withUnsafeBytes { Checksum.of($0) }
  }

  /// Makes the panel of rows of `matrix`, at most `Panel.width`, from a row on.
  func makePanel(
    of matrix: QuantizedRows, from start: Int, _ layout: Int8Layout, _ int8: Int8Kernels,
    _ kernels: InterleavedKernels, into panel: UnsafeMutableRawPointer, _ scratch: Scratch
  ) {
    let rows = matrix.rows(start..<min(start + Panel.width, matrix.count))
    let whole = wholeRows(rows, layout, int8, scratch)
    kernels.make(whole.rows, matrix.bits, panel, whole.scratch)
  }

  /// Writes the panels of all weights that an arena has seen into a file of `folder`, in place of an older one.
  ///
  /// - Parameters:
  ///   - arena: one that remembers what it was used for (`makeArena`).
  ///   - identity: of the weight files, 32 bytes.
  ///   - limit: most bytes of all files in the folder; those that were made longest ago make room.
  ///   - progress: told the bytes that are written, and how many there will be.
  package func prepare(
    _ arena: PanelArena, identity: [UInt8], folder: PreparedFolder, limit: Int,
    progress: (_ done: Int, _ all: Int) -> Void = { _, _ in }
  ) throws(PreparingError) -> PreparedFile {
    guard let int8 = activeInt8, let kernels = int8.interleaved, let layout = panelLayout else {
      throw .noPanels(isa: isa?.rawValue ?? "reference")
    }
    let works = PanelWork.all(of: arena.takeStacks(), kernels)
    guard let end = works.last?.end else { throw .noWeights }
    guard end <= limit else { throw .tooLarge(bytes: end, limit: limit) }
    let name = PreparedPanels.name(identity: identity, layout: layout)
    do throws(PlatformError) {
      try folder.makeRoom(limit - end, besides: name)
      try folder.write(name) { file throws(PlatformError) in
        for work in works {
          var first = 0
          while first < work.panels {
            let count = min(work.panels - first, max(1, Self.preparedAtOnce / work.panelBytes))
            let piece = UnsafeMutableRawBufferPointer.allocate(
              byteCount: count * work.panelBytes, alignment: 64)
            defer { piece.deallocate() }
            piece.initializeMemory(as: UInt8.self, repeating: 0)
            if let base = piece.baseAddress {
              pool.run(tiles: count) { tile, worker in
                makePanel(
                  of: work.matrix, from: (first + tile) * Panel.width, work.layout, int8, kernels,
                  into: base + tile * work.panelBytes, workerScratch[worker])
              }
            }
            try file.write(Array(piece), at: work.start + first * work.panelBytes)
            first += count
            progress(work.start + first * work.panelBytes, end)
          }
        }
        // What lies in the file counts, not what was meant to.
        let written = try file.bytes()
        let entries = works.map { work in
          (
            work.place,
            PreparedPanels.Extent(
              start: work.start, bytes: work.end - work.start,
              checksum: Checksum.of(UnsafeRawBufferPointer(rebasing: written.bytes[work.start..<work.end])))
          )
        }
        try file.write(PreparedPanels.head(entries, identity: identity, layout: layout), at: 0)
      }
      return PreparedFile(path: folder.path + "/" + name, bytes: end, matrices: works.count)
    } catch {
      throw .file(error)
    }
  }

  private static let preparedAtOnce = 16 << 20
}

/// A matrix whose panels are to be made, and where they go.
private struct PanelWork {
  let place: PanelPlace
  let matrix: QuantizedRows
  let layout: Int8Layout
  let panels: Int
  let panelBytes: Int
  let start: Int
  var end: Int { start + panels * panelBytes }

  /// Each matrix once, however many stacks share it, one after the other in the file.
  static func all(of stacks: [WeightStack], _ kernels: InterleavedKernels) -> [PanelWork] {
    var found: [(place: PanelPlace, matrix: QuantizedRows, layout: Int8Layout)] = []
    var places: Set<PanelPlace> = []
    for part in stacks.flatMap(\.parts) {
      guard let place = part.place, case .affine(let matrix) = part.matrix,
        let layout = part.layout, places.insert(place).inserted
      else { continue }
      found.append((place, matrix, layout))
    }
    var start = PreparedPanels.headerBytes + found.count * PreparedPanels.entryBytes
    var works: [PanelWork] = []
    for (place, matrix, layout) in found {
      let panels = (matrix.count + Panel.width - 1) / Panel.width
      let work = PanelWork(
        place: place, matrix: matrix, layout: layout, panels: panels,
        panelBytes: kernels.panelBytes(matrix.panelShape), start: start)
      works.append(work)
      start = (work.end + 63) & ~63
    }
    return works
  }
}
