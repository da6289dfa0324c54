// Weights that were prepared: the same products as from the model's own file, and nothing of a file that does not fit.

import KernelTypes
import Platform
import Support
import Testing

@testable import Compute

/// A folder with a file of weights and one for what is prepared of it; both go with their owner.
private final class Place {
  let path: String
  var prepared: String { path + "/prepared" }
  let weights: MappedFile
  private let shapes: [(rows: Int, bits: Int)] = [(37, 4), (16, 8), (301, 6), (5, 3), (40, 5), (17, 2)]
  private let floating: [(rows: Int, mode: Quantization.Mode, group: Int)] = [
    (45, .mxfp4, 32), (18, .nvfp4, 16), (21, .mxfp8, 32),
  ]
  let identity = [UInt8](repeating: 7, count: 32)

  init() throws {
    var template = Array("/tmp/mlxserve-prepared-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw PlatformError.system(action: "make a folder", code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    var random = SeededGenerator(seed: 5)
    var bytes = (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) }
    for (rows, bits) in shapes {
      bytes += (0..<rows * 24 * bits).map { _ in UInt8.random(in: 0...255, using: &random) }
      let floats = (0..<6 * rows).map { _ in Float.random(in: -1...1, using: &random) }
      bytes += floats.withUnsafeBytes { Array($0) }
    }
    for (rows, mode, group) in floating {
      bytes += (0..<rows * 192 * (mode == .mxfp8 ? 8 : 4) / 8).map { _ in
        UInt8.random(in: 0...255, using: &random)
      }
      bytes += (0..<rows * 192 / group).map { UInt8(116 + $0 % 9) }
    }
    bytes += (0..<19 * 192).map { _ in UInt8.random(in: 0...255, using: &random) }
    let scales = (0..<2 * 19).map { _ in Float.random(in: 0.5...1, using: &random) }
    bytes += scales.withUnsafeBytes { Array($0) }
    try SystemFiles().writeDurably(bytes, folder: path, name: "weights")
    try SystemFiles().makeFolder(path + "/prepared")
    weights = try MappedFile(path + "/weights")
  }

  /// All matrices, which have 192 columns, in groups of 64 where they are affine.
  func stack(_ arena: PanelArena?, isMultiplied: Bool = true) throws -> WeightStack {
    var offset = 64
    func view(_ dtype: DType, _ shape: [Int]) -> TensorView {
      let count = shape.reduce(dtype.size, *)
      defer { offset += count }
      return TensorView(
        name: "t", dtype: dtype, shape: shape,
        bytes: UnsafeRawBufferPointer(rebasing: weights.bytes[offset..<offset + count]), owner: weights)
    }
    let affine = shapes.map { rows, bits in
      WeightTensors(
        weight: view(.u32, [rows, 6 * bits]), scales: view(.f32, [rows, 3]), biases: view(.f32, [rows, 3]),
        quantization: Quantization(bits: bits, groupSize: 64), rows: rows, columns: 192)
    }
    let others = floating.map { rows, mode, group in
      let bits = mode == .mxfp8 ? 8 : 4
      return WeightTensors(
        weight: view(.u32, [rows, 6 * bits]), scales: view(.u8, [rows, 192 / group]), biases: nil,
        quantization: Quantization(mode: mode, bits: bits, groupSize: group), rows: rows, columns: 192)
    }
    let blocks = WeightTensors(
      weight: view(.u32, [19, 48]), scales: view(.f32, [19, 2]), biases: nil,
      quantization: Quantization(mode: .fp8, bits: 8, groupSize: 128), rows: 19, columns: 192)
    return try WeightStack(affine + others + [blocks], arena: arena, isMultiplied: isMultiplied)
  }

  func context(threads: Int = 2) throws -> ComputeContext {
    let context = try ComputeContext(threads: threads, mode: .fast)
    context.preparedFolder = prepared
    return context
  }

  /// Prepares the stack, and another one that is only looked up.
  @discardableResult
  func prepare(
    _ context: ComputeContext, identity: [UInt8]? = nil, limit: Int = 1 << 30,
    files: any FileSystem = SystemFiles(), folder: String? = nil
  ) throws -> PreparedFile {
    let identity = identity ?? self.identity
    let arena = try #require(context.makeArena(identity: identity, remembers: true))
    let stacks = [try stack(arena), try stack(arena, isMultiplied: false)]
    return try withExtendedLifetime(stacks) {
      try context.prepare(
        arena, identity: identity, folder: PreparedFolder(path: folder ?? prepared, files: files),
        limit: limit)
    }
  }

  var files: [String] { ((try? File.names(in: prepared)) ?? []).filter { $0 != "lock" } }

  deinit {
    for name in (try? File.names(in: prepared)) ?? [] { _ = unlink(prepared + "/" + name) }
    rmdir(prepared)
    _ = unlink(path + "/weights")
    rmdir(path)
  }
}

/// Whether this machine's kernels keep panels.
private let keepsPanels = CPUFeatures.available.contains { isa in
  KernelTable.table(for: isa).int8?.interleaved != nil
}

@Suite struct PreparedPanelsTests {
  /// Results of `count` random rows.
  private func products(_ context: ComputeContext, _ stack: WeightStack, _ count: Int) -> [[Float]] {
    var random = SeededGenerator(seed: UInt64(count))
    let (input, output) = (ScratchBuffer(), ScratchBuffer())
    let x = input.rows(count, 192)
    for r in 0..<count { for c in 0..<192 { x.row(r)[c] = Float.random(in: -1...1, using: &random) } }
    let y = output.rows(count, stack.rows)
    context.multiply(x, by: stack, into: y)
    return withExtendedLifetime((input, output)) { (0..<count).map { y.values(ofRow: $0) } }
  }

  @Test(.enabled(if: keepsPanels)) func `products with prepared weights are those of the file`() throws {
    let place = try Place()
    let first = try place.context(threads: 1)
    let made = try place.prepare(first)
    let hasFloating = first.activeInt8?.interleaved?.floating != nil
    // Each matrix once, though two stacks have it.
    #expect(made.matrices == (hasFloating ? 10 : 6) && place.files.count == 1)
    for threads in [1, 2] {
      let context = try place.context(threads: threads)
      let stack = try place.stack(context.makeArena(identity: place.identity))
      let mapped = try place.stack(nil)
      // Nothing is left to copy, so none of it is needed.
      context.copyBudget = 0
      for count in [1, 3, 9, 40] {
        // The first product of a step that may copy finds the panels.
        context.copyBudget = count == 1 ? 1 : 0
        #expect(products(context, stack, count) == products(context, mapped, count), "\(count) rows")
      }
      #expect(stack.parts.prefix(made.matrices).allSatisfy { $0.copiedRows == $0.matrix.rows })
      let layout = try #require(context.panelLayout)
      let file = try #require(
        PreparedPanels(folder: place.prepared, identity: place.identity, layout: layout))
      #expect(file.isWhole)
    }
  }

  @Test(.enabled(if: keepsPanels)) func `weights that were touched are copied anew`() throws {
    let place = try Place()
    let context = try place.context()
    try place.prepare(context)
    let other = try #require(context.makeArena(identity: [UInt8](repeating: 8, count: 32)))
    #expect(other.prepared == nil)
    #expect(context.makeArena(identity: place.identity)?.prepared != nil)
    // An arena that is to be prepared does not take what was prepared.
    let remembering = try #require(context.makeArena(identity: place.identity, remembers: true))
    #expect(remembering.prepared == nil)
    context.preparedFolder = nil
    let plain = try #require(context.makeArena(identity: place.identity))
    #expect(plain.prepared == nil)
  }

  @Test(.enabled(if: keepsPanels)) func `what was prepared longest ago makes room`() throws {
    let place = try Place()
    let context = try place.context()
    let size = try place.prepare(context, identity: [UInt8](repeating: 1, count: 32)).bytes
    for number in 2...4 {
      // A second apart: file systems count modifications in whole ones at worst.
      for name in place.files {
        var times = [timeval(tv_sec: number, tv_usec: 0), timeval(tv_sec: number, tv_usec: 0)]
        if File.status(place.prepared + "/" + name)?.modified ?? 0 > 1_000_000 {
          #expect(utimes(place.prepared + "/" + name, &times) == 0)
        }
      }
      try place.prepare(context, identity: [UInt8](repeating: UInt8(number), count: 32), limit: 3 * size)
    }
    let layout = try #require(context.panelLayout)
    let expected = (2...4).map {
      PreparedPanels.name(identity: [UInt8](repeating: UInt8($0), count: 32), layout: layout)
    }
    #expect(Set(place.files) == Set(expected))
    #expect(throws: PreparingError.tooLarge(bytes: size, limit: size - 1)) {
      try place.prepare(context, limit: size - 1)
    }
    #expect(place.files.count == 3)
    let folder = PreparedFolder(path: place.prepared)
    #expect(try folder.remove(identity: [UInt8](repeating: 3, count: 32)) == size)
    #expect(try folder.remove(identity: [UInt8](repeating: 3, count: 32)) == 0)
    #expect(place.files.count == 2)
  }

  @Test(.enabled(if: keepsPanels)) func `a disk that fails leaves the old file or the new one`() throws {
    let place = try Place()
    let context = try place.context(threads: 1)
    let layout = try #require(context.panelLayout)
    let path = "/prepared/" + PreparedPanels.name(identity: place.identity, layout: layout)
    func disk() throws -> SimulatedDisk {
      let disk = SimulatedDisk()
      try disk.makeFolder("/prepared")
      return disk
    }
    let good = try disk()
    good.follow(nil)
    try place.prepare(context, files: good, folder: "/prepared")
    let (calls, content) = (good.calls, try #require(good.content(path)))
    #expect(calls > 15)
    for code in [ENOSPC, EIO, EMFILE, EACCES] {
      for number in 0..<calls {
        for hasOld in [false, true] {
          let disk = try disk()
          if hasOld { disk.put(path, [1, 2, 3]) }
          disk.follow(SimulatedDisk.Plan(.error(code), at: number))
          let isDone = (try? place.prepare(context, files: disk, folder: "/prepared")) != nil
          #expect(disk.openDescriptors == 0)
          disk.follow(nil)
          disk.restart(losingPower: true)
          let found = disk.content(path)
          #expect(found == content || found == (hasOld ? [1, 2, 3] : nil), "call \(number), \(code)")
          #expect(!isDone || found == content)
        }
      }
    }
  }

  // MARK: The file, on any machine

  /// A file of two matrices, and where it lies.
  private func file(_ place: Place, _ identity: [UInt8], change: (inout [UInt8]) -> Void) throws
    -> PreparedPanels?
  {
    let stack = try place.stack(PanelArena())
    let places = try stack.parts.prefix(2).map { try #require($0.place) }
    let panels = (0..<300).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    let entries = [
      (
        places[0],
        PreparedPanels.Extent(start: 192, bytes: 128, checksum: Checksum.of(Array(panels[0..<128])))
      ),
      (
        places[1],
        PreparedPanels.Extent(start: 320, bytes: 172, checksum: Checksum.of(Array(panels[128..<300])))
      ),
    ]
    var bytes = PreparedPanels.head(entries, identity: identity, layout: 99) + panels
    #expect(bytes.count == 492)
    change(&bytes)
    try SystemFiles().writeDurably(
      bytes, folder: place.prepared, name: PreparedPanels.name(identity: identity, layout: 99))
    return PreparedPanels(folder: place.prepared, identity: identity, layout: 99)
  }

  @Test func `a file gives what was put in, and by its place and size alone`() throws {
    let place = try Place()
    let found = try #require(try file(place, place.identity) { _ in })
    let stack = try place.stack(PanelArena())
    let (first, second) = (try #require(stack.parts[0].place), try #require(stack.parts[1].place))
    #expect(found.isWhole)
    let panels = try #require(found.panels(at: first, bytes: 128))
    #expect(panels.load(fromByteOffset: 3, as: UInt8.self) == 93)
    #expect(found.panels(at: second, bytes: 172) == panels + 128)
    #expect(found.panels(at: first, bytes: 127) == nil)
    let third = try #require(stack.parts[2].place)
    #expect(found.panels(at: third, bytes: 128) == nil)
    #expect(PreparedPanels(folder: place.prepared, identity: place.identity, layout: 98) == nil)
    #expect(PreparedPanels(folder: place.path + "/nowhere", identity: place.identity, layout: 99) == nil)
  }

  @Test func `a head with any byte changed is not used`() throws {
    let place = try Place()
    for position in 0..<192 {
      #expect(try file(place, place.identity) { $0[position] ^= 0x21 } == nil, "byte \(position)")
    }
    for position in [192, 400, 491] {
      let found = try #require(try file(place, place.identity) { $0[position] ^= 0x21 })
      #expect(!found.isWhole, "byte \(position)")
    }
  }

  @Test func `a file that is cut is not used`() throws {
    let place = try Place()
    for count in Array(0..<200) + [319, 320, 491] {
      #expect(try file(place, place.identity) { $0.removeLast(492 - count) } == nil, "\(count) bytes")
    }
  }

  @Test func `weights that lie in no file, or are dense, have no place`() throws {
    let place = try Place()
    let stack = try place.stack(nil)
    // Without an arena nobody asks for it.
    #expect(stack.parts.allSatisfy { $0.place == nil })
    let dense = WeightTensors(
      dense: TensorView(name: "d", shape: [4, 192], floats: [Float](repeating: 1, count: 768)))
    #expect(try WeightStack([dense], arena: PanelArena()).parts[0].place == nil)
  }
}
