// Which line of its file each part of a text came from, where the text was made out of the file.

/// Grows with the text. Parts of a line need no entry of their own.
package struct LineMap: Sendable, Equatable {
  /// Where the text begins to come from another line, and that line.
  private var starts: [Int] = []
  private var lines: [Int] = []
  /// How far the file's lines are counted.
  private var counted = 0
  private var line = 1

  /// The text goes on at `start` with what stands at `offset` of the file. Neither is smaller than the one before.
  mutating func note(_ offset: Int, of file: [UInt8], at start: Int) {
    while counted < min(offset, file.count) {
      if file[counted] == UInt8(ascii: "\n") { line += 1 }
      counted += 1
    }
    guard lines.last != line else { return }
    starts.append(start)
    lines.append(line)
  }

  /// The line of the file, from 1, for a place of the text.
  package func line(at place: Int) -> Int {
    var (low, high) = (0, starts.count)
    while low < high {
      let middle = (low + high) / 2
      if starts[middle] <= place { low = middle + 1 } else { high = middle }
    }
    return low > 0 ? lines[low - 1] : 1
  }
}
