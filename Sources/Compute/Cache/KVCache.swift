// Paged storage of keys and values: a sequence's positions live in blocks of 32 that it borrows one by one.
//
// One block holds 32 consecutive positions (fixed absolute boundaries: positions 32·i ..< 32·i + 32) of all
// layers. Inside a layer, per KV head h:
//
//   f32      keys    [headDim][32]         position is the fastest index: scores of 32 keys are lanes, and no
//                                          horizontal sum is needed
//            values  [32][headDim]         the weighted sum runs over whole value rows
//   q16, q8  keys    [headDim / 2][32][2]  two elements of a position side by side: their products are added at once
//            values  [16][headDim][2]      an element of two positions side by side, likewise
//            scales  [32] of the keys, [32] of the values: one float32 per position and head
//
// Latent attention has keys alone: their first elements are the values.
//
// Layers lie one after the other in one anonymous mapping, so memory is committed as blocks are first written.
// The caller knows which sequence owns which block (a block table per sequence).

import KernelTypes
import Platform

/// How keys and values are stored, which decides how attention computes.
package enum KVFormat: String, Sendable, CaseIterable {
  /// Attention in float32.
  case f32
  /// Half the bytes: int16 with one scale per position and head, x ≈ scale · q, scale = max |x| / 4,095. Attention in
  /// integers (`IntegerAttention`).
  case q16
  /// A quarter of the bytes: int8, scale = max |x| / 127.
  case q8

  /// Bytes of one stored element.
  var elementBytes: Int {
    switch self {
    case .f32: 4
    case .q16: 2
    case .q8: 1
    }
  }

  /// The largest stored integer; nil for floats.
  var limit: Float? {
    switch self {
    case .f32: nil
    case .q16: IntegerLimit.element
    case .q8: 127
    }
  }
}

/// What one layer caches per position.
package struct KVLayerShape: Sendable, Equatable {
  package var kvHeads: Int
  /// Elements of one head's key, and of its value.
  package var headDim: Int
  /// The layer is sliding: a query sees its own position and the `window - 1` before it. Nil when it sees all.
  package var window: Int?
  /// The values are the first elements of the keys, this many, and are not stored again; nil where they are of their own.
  package var latentValues: Int?

  package init(kvHeads: Int, headDim: Int, window: Int? = nil, latentValues: Int? = nil) {
    (self.kvHeads, self.headDim, self.window) = (kvHeads, headDim, window)
    self.latentValues = latentValues
  }
}

/// Keys and values of all sequences. Engine thread only; kernels of one step write disjoint positions.
package final class KVCache {
  /// Positions per block.
  package static let blockTokens = KernelTypes.blockTokens

  package let shape: [KVLayerShape]
  /// The states of the model's recurrent layers, which sequences keep beside keys and values; nil when it has none.
  package let states: StateCache?
  package let format: KVFormat
  package let blockCount: Int
  /// Bytes of one block over all layers.
  package let bytesPerBlock: Int
  /// What the sliding layers have of that: nobody needs it once a block has left the window.
  package let slidingBytesPerBlock: Int
  /// The largest window of the sliding layers; nil without such layers.
  package let window: Int?

  private let memory: AnonymousMemory
  /// Byte offset of each layer's first block.
  private let layerStart: [Int]

  /// Reserves address space; memory is committed when blocks are written.
  ///
  /// - Throws: `invalidSize` when a size is not positive or the total overflows, `outOfMemory`.
  package init(
    shape: [KVLayerShape], blockCount: Int, format: KVFormat = .f32, states: StateCache? = nil
  ) throws(ComputeError) {
    let perBlock = try Self.bytesPerBlock(shape, format: format)
    guard blockCount > 0, blockCount <= Int(Int32.max) else {
      throw .invalidSize(what: "KV cache blocks", value: blockCount)
    }
    let (total, overflow) = perBlock.multipliedReportingOverflow(by: blockCount)
    guard !overflow else { throw .invalidSize(what: "KV cache blocks", value: blockCount) }

    var starts: [Int] = []
    var next = 0
    for layer in shape {
      starts.append(next)
      next += layer.kvHeads * Self.bytesPerHead(layer, format) * blockCount
    }
    (self.shape, self.states, self.format) = (shape, states, format)
    self.blockCount = blockCount
    bytesPerBlock = perBlock
    slidingBytesPerBlock = try Self.slidingBytesPerBlock(shape, format: format)
    window = shape.compactMap(\.window).max()
    layerStart = starts
    memory = try AnonymousMemory(byteCount: total, purpose: "the KV cache")
  }

  /// Bytes of one position over all layers.
  package var bytesPerToken: Int { bytesPerBlock / Self.blockTokens }

  /// Blocks that hold the keys and values of `tokens` positions.
  package static func blocks(forTokens tokens: Int) -> Int { (tokens + blockTokens - 1) / blockTokens }

  /// The first block that a query at `position` sees in sliding layers.
  package static func firstSeen(from position: Int, window: Int?) -> Int {
    window.map { max(0, position - $0 + 1) / blockTokens } ?? 0
  }

  /// Gives the memory of blocks whose content nobody needs back to the system, as far as they fill whole pages: that of
  /// all layers, or of the sliding ones alone.
  package func discard(_ blocks: some Sequence<Int32>, onlySliding: Bool = false) {
    let page = Int(getpagesize())
    for run in Self.runs(blocks) {
      for index in shape.indices where !onlySliding || shape[index].window != nil {
        let stride = shape[index].kvHeads * Self.bytesPerHead(shape[index], format)
        // Whole pages inside the run: their neighbours are in use.
        let begin = (layerStart[index] + run.lowerBound * stride + page - 1) / page * page
        let end = (layerStart[index] + run.upperBound * stride) / page * page
        if begin < end { memory.discard(begin..<end) }
      }
    }
  }

  /// Consecutive numbers as ranges.
  private static func runs(_ blocks: some Sequence<Int32>) -> [Range<Int>] {
    var runs: [Range<Int>] = []
    for block in blocks.sorted().map(Int.init) {
      if let last = runs.last, last.upperBound == block {
        runs[runs.count - 1] = last.lowerBound..<block + 1
      } else {
        runs.append(block..<block + 1)
      }
    }
    return runs
  }

  /// Bytes of one block for a model of this shape, to size a cache before making it.
  package static func bytesPerBlock(_ shape: [KVLayerShape], format: KVFormat = .f32) throws(ComputeError)
    -> Int
  {
    guard !shape.isEmpty else { throw .invalidSize(what: "KV cache layers", value: 0) }
    var bytes = 0
    for layer in shape {
      guard (1...1 << 16).contains(layer.kvHeads) else {
        throw .invalidSize(what: "KV heads", value: layer.kvHeads)
      }
      guard (1...1 << 16).contains(layer.headDim) else {
        throw .invalidSize(what: "head size", value: layer.headDim)
      }
      guard layer.latentValues.map({ (1...layer.headDim).contains($0) }) ?? true else {
        throw .invalidSize(what: "size of latent values", value: layer.latentValues ?? 0)
      }
      bytes += layer.kvHeads * bytesPerHead(layer, format)
    }
    return bytes
  }

  /// What the sliding layers have of `bytesPerBlock`.
  package static func slidingBytesPerBlock(_ shape: [KVLayerShape], format: KVFormat) throws(ComputeError)
    -> Int
  {
    let sliding = shape.filter { $0.window != nil }
    return sliding.isEmpty ? 0 : try bytesPerBlock(sliding, format: format)
  }

  /// Bytes that one position takes over all layers, as `bytesPerBlock`.
  package static func bytesPerToken(_ shape: [KVLayerShape], format: KVFormat) throws(ComputeError) -> Int {
    try bytesPerBlock(shape, format: format) / blockTokens
  }

  /// Keys, values and scales of one head in one block.
  fileprivate static func bytesPerHead(_ layer: KVLayerShape, _ format: KVFormat) -> Int {
    let valueDim = layer.latentValues == nil ? layer.headDim : 0
    let scales = (layer.latentValues == nil ? 2 : 1) * blockTokens * MemoryLayout<Float>.size
    return keyBytes(layer.headDim, format) + blockTokens * valueDim * format.elementBytes
      + (format.limit == nil ? 0 : scales)
  }

  /// Integers are stored in pairs.
  fileprivate static func keyBytes(_ headDim: Int, _ format: KVFormat) -> Int {
    (format.limit == nil ? headDim : headDim + headDim % 2) * blockTokens * format.elementBytes
  }

  /// One layer as kernels see it.
  func layer(_ index: Int) -> KVLayer {
    let layer = shape[index]
    return KVLayer(
      base: memory.start + layerStart[index], format: format, kvHeads: layer.kvHeads, headDim: layer.headDim,
      latentValues: layer.latentValues, headBytes: Self.bytesPerHead(layer, format))
  }
}

/// The storage of one layer; valid as long as its cache.
struct KVLayer {
  let base: UnsafeMutableRawPointer
  let format: KVFormat
  let kvHeads: Int
  let headDim: Int
  /// How many of the keys' elements are the values too; nil where values are stored.
  let latentValues: Int?
  let headBytes: Int

  var hasValues: Bool { latentValues == nil }

  /// The keys of a block and head.
  func keys(block: Int, head: Int) -> UnsafeMutableRawPointer {
    base + (block * kvHeads + head) * headBytes
  }

  /// The values of a block and head.
  func values(block: Int, head: Int) -> UnsafeMutableRawPointer {
    keys(block: block, head: head) + KVCache.keyBytes(headDim, format)
  }

  /// `[32]` scales of the keys, then `[32]` of stored values; integers only.
  func scales(block: Int, head: Int) -> UnsafeMutablePointer<Float> {
    (values(block: block, head: head)
      + (hasValues ? headDim : 0) * KVCache.blockTokens * format.elementBytes)
      .assumingMemoryBound(to: Float.self)
  }
}
