// Byte offsets to line and column.

/// Where each line of a source begins.
struct LineMap: Sendable {
  private let bytes: [UInt8]
  private let starts: [Int]

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
    starts = [0] + bytes.indices.filter { bytes[$0] == 0x0A }.map { $0 + 1 }
  }

  /// O(log lines + length of the line).
  func position(of offset: Int) -> JinjaPosition {
    var low = 0
    var high = starts.count
    while high - low > 1 {
      let middle = (low + high) / 2
      if starts[middle] <= offset { low = middle } else { high = middle }
    }
    // Columns count scalars: continuation bytes start none.
    let column = bytes[starts[low]..<min(max(offset, starts[low]), bytes.count)].count { $0 & 0xC0 != 0x80 }
    return JinjaPosition(line: low + 1, column: column + 1)
  }
}
