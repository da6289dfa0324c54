// Panels of a checkpoint's weights that were made before: a mapped file, which all processes that serve it share.
//
//   magic 8 | layout 8 | identity of the weight files 32 | count 8 | checksum of all this and of the entries 8
//   per matrix, 64 bytes: file | offset | rows | columns | bits, group size, scale format | start | bytes | checksum
//   the panels of each matrix, from a multiple of 64 on
//
// Numbers are little-endian, 8 bytes each. The file is a cache: one that does not fit is not used, and made again.

import KernelTypes
import Platform

/// Where quantized weights lie in a checkpoint, and how they are stored: what their panels are found by.
struct PanelPlace: Hashable {
  /// The number of the weight file on its file system.
  let file: UInt64
  /// Of the first row's elements.
  let offset: UInt64
  let rows: UInt64
  let columns: UInt64
  /// Bits, group size and format of the scales, or what no affine weights have: bits, and a number of the floating mode.
  let storage: UInt64

  /// Nil for weights of which no panels are kept, or that lie in no file.
  init?(_ matrix: WeightMatrix, owner: AnyObject) {
    guard let storage = Self.storage(matrix), let file = owner as? MappedFile,
      let base = file.bytes.baseAddress, let packed = matrix.places.first?.base, packed >= base
    else { return nil }
    let offset = packed - base
    guard offset < file.bytes.count else { return nil }
    self.file = file.facts.number
    self.offset = UInt64(offset)
    rows = UInt64(matrix.rows)
    columns = UInt64(matrix.columns)
    self.storage = storage
  }

  private static func storage(_ matrix: WeightMatrix) -> UInt64? {
    switch matrix.outline {
    case .dense, .blocks: return nil
    case .affine(let weights):
      let format: UInt64 =
        switch weights.groups.format {
        case .f32: 0
        case .f16: 1
        case .bf16: 2
        }
      return UInt64(weights.bits) | UInt64(weights.groups.size) << 8 | format << 32
    case .floating(let weights):
      switch weights.mode {
      case .mxfp4: return 4 | 1 << 40
      case .nvfp4: return 4 | 2 << 40
      case .mxfp8: return 8 | 3 << 40
      case .fp8: return weights.isWide ? 8 | 4 << 40 : nil
      case .table: return nil
      }
    }
  }

  fileprivate init(_ words: [UInt64]) {
    (file, offset, rows, columns, storage) = (words[0], words[1], words[2], words[3], words[4])
  }

  var words: [UInt64] { [file, offset, rows, columns, storage] }
}

/// The panels of one state of a checkpoint's files, in the order of one set of kernels.
package final class PreparedPanels: Sendable {
  /// Some panels in the file.
  struct Extent: Sendable {
    let start: Int
    let bytes: Int
    let checksum: UInt64
  }

  private let file: MappedFile
  private let extents: [PanelPlace: Extent]

  static let headerBytes = 64
  static let entryBytes = 64
  private static let magic: UInt64 = 0x316c_656e_6170_786c  // "lxpanel1"

  /// Opens what was prepared of a checkpoint; nil where nothing was, or nothing that fits.
  ///
  /// - Parameters:
  ///   - folder: where prepared weights are kept.
  ///   - identity: of the weight files, 32 bytes: it changes when somebody touches one of them.
  ///   - layout: of the kernels' panels (`ComputeContext.panelLayout`).
  package init?(folder: String, identity: [UInt8], layout: UInt64) {
    let path = folder + "/" + Self.name(identity: identity, layout: layout)
    guard File.exists(path) else { return nil }
    do throws(PlatformError) {
      file = try MappedFile(path, prefersLargePages: true)
    } catch {
      Log.warning("prepared weights cannot be used", ["error": "\(error)"])
      return nil
    }
    guard let extents = Self.extents(of: file.bytes, identity: identity, layout: layout) else {
      Log.warning("prepared weights are damaged and not used: prepare them again", ["file": path])
      return nil
    }
    self.extents = extents
    Log.info("prepared weights are used", ["file": path, "bytes": "\(file.bytes.count)"])
  }

  /// What the file of a checkpoint's panels is called.
  static func name(identity: [UInt8], layout: UInt64) -> String {
    beginning(identity: identity) + String(layout, radix: 16) + ".panels"
  }

  /// What the names of the files for all kernels begin with.
  static func beginning(identity: [UInt8]) -> String { SHA256.hexadecimal(identity).prefix(32) + "-" }

  package var path: String { file.path }

  /// What keeps the panels in place.
  var owner: AnyObject { file }

  /// Panels of just so many bytes; nil where there are none.
  func panels(at place: PanelPlace, bytes: Int) -> UnsafeRawPointer? {
    guard let extent = extents[place], extent.bytes == bytes else { return nil }
    return file.bytes.baseAddress.map { $0 + extent.start }
  }

  /// Whether every byte is as it was written. Reads the whole file.
  package var isWhole: Bool {
    extents.values.allSatisfy { extent in
      Checksum.of(UnsafeRawBufferPointer(rebasing: file.bytes[extent.start..<extent.start + extent.bytes]))
        == extent.checksum
    }
  }

  // MARK: The format

  /// The header and the entries of a file.
  static func head(_ entries: [(place: PanelPlace, extent: Extent)], identity: [UInt8], layout: UInt64)
    -> [UInt8]
  {
    var head = bytes([magic, layout]) + identity.prefix(32) + bytes([UInt64(entries.count)])
    var table: [UInt8] = []
    for (place, extent) in entries {
      table += bytes(place.words + [UInt64(extent.start), UInt64(extent.bytes), extent.checksum])
    }
    head += bytes([Checksum.of(head + table)])
    return head + table
  }

  /// Nil when the file is not what `head` and its panels make.
  private static func extents(
    of file: UnsafeRawBufferPointer, identity: [UInt8], layout: UInt64
  ) -> [PanelPlace: Extent]? {
    guard file.count >= headerBytes, identity.count == 32, word(file, 0) == magic, word(file, 8) == layout,
      file[16..<48].elementsEqual(identity), let count = Int(exactly: word(file, 48)),
      count <= (file.count - headerBytes) / entryBytes
    else { return nil }
    let end = headerBytes + count * entryBytes
    guard word(file, 56) == Checksum.of(Array(file[0..<56]) + Array(file[headerBytes..<end])) else {
      return nil
    }
    var extents: [PanelPlace: Extent] = [:]
    for index in 0..<count {
      let words = (0..<entryBytes / 8).map { word(file, headerBytes + index * entryBytes + 8 * $0) }
      guard let start = Int(exactly: words[5]), let bytes = Int(exactly: words[6]), start >= end,
        start % 64 == 0, bytes > 0, start <= file.count, bytes <= file.count - start
      else { return nil }
      extents[PanelPlace(words)] = Extent(start: start, bytes: bytes, checksum: words[7])
    }
    return extents
  }

  private static func word(_ file: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
    UInt64(littleEndian: file.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
  }

  private static func bytes(_ words: [UInt64]) -> [UInt8] {
    words.flatMap { word in withUnsafeBytes(of: word.littleEndian) { Array($0) } }
  }
}
