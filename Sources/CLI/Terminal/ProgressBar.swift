// A bar on standard error that fills while long work goes on; silent where that is no terminal.

import Platform

struct ProgressBar {
  private static let (widest, narrowest) = (30, 8)
  /// A person reads no faster, and a terminal need not draw more.
  private static let secondsBetween = 0.1
  private var next: Instant?

  /// Draws the bar with a few words after it, unless it has just been drawn.
  ///
  /// - Parameter words: the most important ones first; those that have no room are left out.
  mutating func show(_ done: Int, of total: Int, _ words: @autoclosure () -> [String]) {
    guard Terminal.errorIsInteractive else { return }
    let now = Instant.now
    if let next, now < next { return }
    next = now.adding(seconds: Self.secondsBetween)
    let line = Self.line(done, of: total, words(), columns: Terminal.width)
    StandardStream.write("\r\(line)\u{1B}[K", to: STDERR_FILENO)
  }

  /// Removes the bar, if one has been drawn.
  mutating func clear() {
    guard next != nil else { return }
    next = nil
    StandardStream.write("\r\u{1B}[K", to: STDERR_FILENO)
  }

  /// `[#####-----]  50 %  3 of 6 files, 0:12 left`, in fewer than `columns`: a line that is full begins another one.
  static func line(_ done: Int, of total: Int, _ words: [String], columns: Int) -> String {
    let share = total > 0 ? min(1, max(0, Double(done) / Double(total))) : 0
    let digits = String(Int(share * 100))
    var line = String(repeating: " ", count: 3 - digits.utf8.count) + digits + " %"
    var isFirst = true
    for word in words where TextWidth.of(line) + 2 + TextWidth.of(word) < columns {
      line += (isFirst ? "  " : ", ") + word
      isFirst = false
    }
    let width = min(widest, columns - TextWidth.of(line) - 4)
    guard width >= narrowest else { return line }
    let filled = Int(share * Double(width))
    let marks = String(repeating: "#", count: filled) + String(repeating: "-", count: width - filled)
    return "[\(marks)] \(line)"
  }
}
