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
      "the kernels of \(isa) read weights as they lie in the model's files: nothing needs preparing. "
        + "Those of AVX-512 VNNI, AVX-VNNI and arm64 in the fast mode have an order of their own."
    case .noWeights:
      "the model has no weights in its files that these kernels keep in another order: only affine ones are, and with "
        + "AVX-512 MXFP4, NVFP4, MXFP8 and FP8 with scales of 128."
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
            all += checksum(ofPanelOf: .affine(matrix), int8, kernels)
          }
        }
      }
    }
    // Blocks have up to 34 bytes for 32 elements.
    let (columns, bytes) = (2 * 128, (0..<Panel.width * 272).map { UInt8(truncatingIfNeeded: $0 &* 167) })
    bytes.withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress else { return }
      for format in BlockFormat.allCases {
        let matrix = BlockRows(base: base, format: format, count: Panel.width, columns: columns, headRows: 0)
        all += checksum(ofPanelOf: .blocks(matrix), int8, kernels)
      }
      for mode in FloatingMode.allCases {
        var matrix = FloatingRows(
          packed: base, rowBytes: columns * mode.bits / 8, scales: base,
          scaleRowBytes: columns / mode.groupSize,
          mode: mode, count: Panel.width, columns: columns)
        if mode.hasFloatScales { matrix.scaleShift = 2 }
        all += checksum(ofPanelOf: .floating(matrix), int8, kernels)
      }
    }
    return all.withUnsafeBytes { Checksum.of($0) }
  }

  /// Of one panel; none where no panels of such weights are kept.
  private func checksum(
    ofPanelOf matrix: WeightMatrix, _ int8: Int8Kernels, _ kernels: InterleavedKernels
  ) -> [UInt64] {
    guard let layout = Int8Layout(matrix), let bytes = kernels.panelBytes(of: matrix) else { return [] }
    let panel = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes, alignment: 64)
    defer { panel.deallocate() }
    panel.initializeMemory(as: UInt8.self, repeating: 0)
    if let out = panel.baseAddress {
      makePanel(of: matrix, from: 0, layout, int8, kernels, into: out, workerScratch[0])
    }
    return [Checksum.of(UnsafeRawBufferPointer(panel))]
  }

  /// Makes the panel of rows of `matrix`, at most `Panel.width`, from a row on.
  func makePanel(
    of matrix: WeightMatrix, from start: Int, _ layout: Int8Layout, _ int8: Int8Kernels,
    _ kernels: InterleavedKernels, into panel: UnsafeMutableRawPointer, _ scratch: Scratch
  ) {
    let (readable, range) = matrix.readable(
      start..<min(start + Panel.width, matrix.rows), exactly: false, scratch.aside)
    switch readable {
    case .dense, .blocks: break
    case .affine(let all):
      guard let shape = matrix.panelShape else { break }
      let whole = wholeRows(all.rows(range), layout, int8, scratch)
      kernels.make(whole.rows, shape, panel, whole.scratch)
      if case .blocks(let blocks) = matrix { blocks.writeFactors(from: start, into: panel) }
    case .floating(let all):
      let room = scratch.floats(int8.panelBytes(all.columns, layout.block) / 4)
      kernels.floating?.make(all.rows(range), panel, UnsafeMutableRawPointer(room))
    }
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
  let matrix: WeightMatrix
  let layout: Int8Layout
  let panels: Int
  let panelBytes: Int
  let start: Int
  var end: Int { start + panels * panelBytes }

  /// Each matrix once, however many stacks share it, one after the other in the file.
  static func all(of stacks: [WeightStack], _ kernels: InterleavedKernels) -> [PanelWork] {
    var found: [(place: PanelPlace, matrix: WeightMatrix, layout: Int8Layout, panelBytes: Int)] = []
    var places: Set<PanelPlace> = []
    for part in stacks.flatMap(\.parts) {
      guard let place = part.place, let panelBytes = kernels.panelBytes(of: part.matrix),
        let layout = part.layout, places.insert(place).inserted
      else { continue }
      found.append((place, part.matrix, layout, panelBytes))
    }
    var start = PreparedPanels.headerBytes + found.count * PreparedPanels.entryBytes
    var works: [PanelWork] = []
    for (place, matrix, layout, panelBytes) in found {
      let panels = (matrix.rows + Panel.width - 1) / Panel.width
      let work = PanelWork(
        place: place, matrix: matrix, layout: layout, panels: panels, panelBytes: panelBytes, start: start)
      works.append(work)
      start = (work.end + 63) & ~63
    }
    return works
  }
}

extension InterleavedKernels {
  /// Bytes of a panel of some weights; nil where no panels of them are kept.
  func panelBytes(of matrix: WeightMatrix) -> Int? {
    switch matrix.outline {
    case .dense, .blocks: nil
    case .affine: matrix.panelShape.map { panelBytes($0) }
    case .floating(let rows): floating.map { $0.panelBytes(rows.mode, rows.columns) }
    }
  }
}
