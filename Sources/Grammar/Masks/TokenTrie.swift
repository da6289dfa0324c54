// The bytes of a vocabulary as a prefix tree in flat arrays, in the order of a depth-first walk.

/// Node 0 is the root. The descendants of node n are the nodes from n + 1 up to `end[n]`, so that a walk that finds a
/// byte impossible goes on at `end[n]`.
struct TokenTrie: Sendable {
  private(set) var byte: [UInt8] = [0]
  private(set) var end: [Int32] = [1]
  private(set) var parent: [Int32] = [0]
  private(set) var depth: [UInt16] = [0]
  /// The tokens that end at node n are `tokens[tokenStart[n]..<tokenStart[n + 1]]`; in order of nodes.
  private(set) var tokenStart: [Int32] = [0, 0]
  private(set) var tokens: [Int32] = []

  var count: Int { byte.count }

  /// - Parameters:
  ///   - ids: the tokens that text consists of.
  ///   - bytes, starts: the bytes of token i are `bytes[starts[i]..<starts[i + 1]]`; tokens without bytes are left out.
  init(ids: [Int32], bytes: [UInt8], starts: [Int32]) {
    func range(_ id: Int32) -> Range<Int> { Int(starts[Int(id)])..<Int(starts[Int(id) + 1]) }
    // Most tokens differ in their first eight bytes, which are compared at once.
    var sorted = ids.filter { !range($0).isEmpty }.map { id in
      let range = range(id)
      var first: UInt64 = 0
      for place in 0..<8 {
        first = first << 8 | (place < range.count ? UInt64(bytes[range.lowerBound + place]) : 0)
      }
      return (first: first, id: id)
    }
    sorted.sort { a, b in
      if a.first != b.first { return a.first < b.first }
      let (x, y) = (range(a.id), range(b.id))
      var place = 8
      while place < x.count, place < y.count {
        let (i, j) = (bytes[x.lowerBound + place], bytes[y.lowerBound + place])
        if i != j { return i < j }
        place += 1
      }
      return x.count == y.count ? a.id < b.id : x.count < y.count
    }
    var path: [Int32] = [0]
    tokenStart = [0]
    for (_, id) in sorted {
      let range = range(id)
      var common = 0
      while common < path.count - 1, common < range.count,
        byte[Int(path[common + 1])] == bytes[range.lowerBound + common]
      { common += 1 }
      close(&path, to: common)
      for at in range.dropFirst(common) {
        let node = Int32(truncatingIfNeeded: byte.count)
        byte.append(bytes[at])
        parent.append(path[path.count - 1])
        depth.append(UInt16(truncatingIfNeeded: path.count))
        end.append(0)
        tokenStart.append(Int32(truncatingIfNeeded: tokens.count))
        path.append(node)
      }
      tokens.append(id)
    }
    close(&path, to: 0)
    end[0] = Int32(truncatingIfNeeded: byte.count)
    tokenStart.append(Int32(truncatingIfNeeded: tokens.count))
  }

  private mutating func close(_ path: inout [Int32], to length: Int) {
    while path.count - 1 > length {
      end[Int(path.removeLast())] = Int32(truncatingIfNeeded: byte.count)
    }
  }

  @inline(__always)
  func tokens(at node: Int) -> Range<Int> { Int(tokenStart[node])..<Int(tokenStart[node + 1]) }

  /// The places in `tokens` of those that end at `node` or below it.
  func tokens(below node: Int) -> Range<Int> { Int(tokenStart[node])..<Int(tokenStart[Int(end[node])]) }

  /// The bytes from the root to `node`.
  func text(to node: Int) -> [UInt8] {
    var out: [UInt8] = []
    var at = node
    while at > 0 {
      out.append(byte[at])
      at = Int(parent[at])
    }
    return out.reversed()
  }

  /// The child of `node` for `byte`.
  func child(of node: Int, _ byte: UInt8) -> Int? {
    var at = node + 1
    while at < Int(end[node]) {
      if self.byte[at] == byte { return at }
      at = Int(end[at])
    }
    return nil
  }
}
