// Paged storage of keys and values: a sequence's positions live in blocks of 32 that it borrows one by one.
//
// One block holds 32 consecutive positions (fixed absolute boundaries: positions 32·i ..< 32·i + 32) of all
// layers. Inside a layer, per KV head h, float32:
//
//   keys    [headDim][32]   position is the fastest index: scores of 32 keys are lanes, and no
//                           horizontal sum is needed
//   values  [32][headDim]   the weighted sum runs over whole value rows
//
// Layers lie one after the other in one anonymous mapping, so memory is committed as blocks are first written.
// Who owns which block is the business of the caller (a block table per sequence).

/// What one layer caches per position.
package struct KVLayerShape: Sendable, Equatable {
  package var kvHeads: Int
  /// Elements of one head's key, and of its value.
  package var headDim: Int

  package init(kvHeads: Int, headDim: Int) {
    self.kvHeads = kvHeads
    self.headDim = headDim
  }
}

/// Keys and values of all sequences. Engine thread only; kernels of one step write disjoint positions.
package final class KVCache {
  /// Positions per block.
  package static let blockTokens = 32

  package let shape: [KVLayerShape]
  package let blockCount: Int
  /// Bytes of one block over all layers.
  package let bytesPerBlock: Int

  private let memory: AnonymousMemory
  /// Float offset of each layer's first block.
  private let layerStart: [Int]

  /// Reserves address space; memory is committed when blocks are written.
  ///
  /// - Throws: `invalidSize` when a size is not positive or the total overflows, `outOfMemory`.
  package init(shape: [KVLayerShape], blockCount: Int) throws(ComputeError) {
    let perBlock = try Self.bytesPerBlock(shape)
    guard blockCount > 0, blockCount <= Int(Int32.max) else {
      throw .invalidSize(what: "KV cache blocks", value: blockCount)
    }
    let (total, overflow) = perBlock.multipliedReportingOverflow(by: blockCount)
    guard !overflow else { throw .invalidSize(what: "KV cache blocks", value: blockCount) }

    var starts: [Int] = []
    var next = 0
    for layer in shape {
      starts.append(next)
      next += Self.floatsPerBlock(layer) * blockCount
    }
    self.shape = shape
    self.blockCount = blockCount
    bytesPerBlock = perBlock
    layerStart = starts
    memory = try AnonymousMemory(byteCount: total, purpose: "the KV cache")
  }

  /// Bytes of one block for a model of this shape, to size a cache before making it.
  package static func bytesPerBlock(_ shape: [KVLayerShape]) throws(ComputeError) -> Int {
    guard !shape.isEmpty else { throw .invalidSize(what: "KV cache layers", value: 0) }
    var bytes = 0
    for layer in shape {
      guard (1...1 << 16).contains(layer.kvHeads) else {
        throw .invalidSize(what: "KV heads", value: layer.kvHeads)
      }
      guard (1...1 << 16).contains(layer.headDim) else {
        throw .invalidSize(what: "head size", value: layer.headDim)
      }
      bytes += floatsPerBlock(layer) * MemoryLayout<Float>.size
    }
    return bytes
  }

  private static func floatsPerBlock(_ layer: KVLayerShape) -> Int {
    2 * layer.kvHeads * layer.headDim * blockTokens
  }

  /// One layer as kernels see it.
  func layer(_ index: Int) -> KVLayer {
    let layer = shape[index]
    let base = memory.start.assumingMemoryBound(to: Float.self) + layerStart[index]
    return KVLayer(base: base, kvHeads: layer.kvHeads, headDim: layer.headDim, blockCount: blockCount)
  }
}

/// The storage of one layer; valid as long as its cache.
struct KVLayer {
  let base: UnsafeMutablePointer<Float>
  let kvHeads: Int
  let headDim: Int
  let blockCount: Int

  /// `[headDim][32]` of a block and head.
  func keys(block: Int, head: Int) -> UnsafeMutablePointer<Float> {
    base + (block * kvHeads + head) * 2 * headDim * KVCache.blockTokens
  }

  /// `[32][headDim]` of a block and head.
  func values(block: Int, head: Int) -> UnsafeMutablePointer<Float> {
    keys(block: block, head: head) + headDim * KVCache.blockTokens
  }
}
