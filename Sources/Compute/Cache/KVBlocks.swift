// Whole blocks of a KV cache as bytes: copied within the cache, taken out, put back.

extension KVCache {
  /// Copies keys and values of all positions. The copy's later positions are overwritten as they are computed;
  /// attention never reads a position that was not.
  package func copyBlock(_ source: Int32, to target: Int32) {
    for (from, to) in zip(parts(of: source), parts(of: target)) {
      to.start.copyMemory(from: from.start, byteCount: from.count)
    }
  }

  /// Keys and values of a block, layer by layer: `bytesPerBlock` bytes.
  package func bytes(ofBlock block: Int32) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(bytesPerBlock)
    for (start, count) in parts(of: block) {
      bytes.append(contentsOf: UnsafeRawBufferPointer(start: start, count: count))
    }
    return bytes
  }

  /// Puts back what `bytes(ofBlock:)` gave, from a cache of the same shape and format. False, and nothing changed,
  /// when it has another size.
  package func setBlock(_ block: Int32, _ bytes: ArraySlice<UInt8>) -> Bool {
    guard bytes.count == bytesPerBlock else { return false }
    bytes.withUnsafeBytes { source in
      var offset = 0
      for (start, count) in parts(of: block) {
        let part = UnsafeRawBufferPointer(rebasing: source[offset..<offset + count])
        UnsafeMutableRawBufferPointer(start: start, count: count).copyMemory(from: part)
        offset += count
      }
    }
    return true
  }

  /// Where the layers keep a block. All heads of a layer lie together.
  private func parts(of block: Int32) -> [(start: UnsafeMutableRawPointer, count: Int)] {
    shape.indices.map { index in
      let layer = layer(index)
      return (layer.keys(block: Int(block), head: 0), layer.kvHeads * layer.headBytes)
    }
  }
}
