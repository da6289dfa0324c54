// Attention in which every patch of an image sees every other.

import Compute

/// Of one image. Engine thread only.
final class PatchAttention {
  private let shape: AttentionShape
  private let cache: KVCache
  private let layout = StepLayout()
  private let attended = ScratchBuffer()

  /// - Throws: when there is no memory for keys and values.
  init(_ shape: AttentionShape, patches: Int) throws(ModelError) {
    self.shape = shape
    let blocks = KVCache.blocks(forTokens: patches)
    cache = try computing(
      try KVCache(
        shape: [KVLayerShape(kvHeads: shape.kvHeads, headDim: shape.headDim)], blockCount: blocks))
    layout.append(
      count: patches, start: 0, table: (0..<blocks).map { Int32(clamping: $0) }, blockCount: blocks,
      ropeVariant: 0, groups: [0..<patches])
  }

  /// `[queries | keys | values]` of every patch to the heads' results side by side, valid until the next call.
  func callAsFunction(_ all: Rows, _ compute: ComputeContext) -> Rows {
    let width = shape.heads * shape.headDim
    let out = attended.rows(all.count, width)
    compute.attend(
      all.columns(from: 0, count: width),
      adding: (all.columns(from: width, count: width), all.columns(from: 2 * width, count: width)),
      shape: shape, layer: 0, of: cache, at: layout, into: out)
    return out
  }
}
