// A bar on standard error that fills while long work goes on; silent where that is no terminal.

import Platform

struct ProgressBar {
  private static let width = 30
  /// A person reads no faster, and a terminal need not draw more.
  private static let secondsBetween = 0.1
  private var next: Instant?

  /// Draws the bar with a few words after it, unless it has just been drawn.
  mutating func show(_ done: Int, of total: Int, _ words: @autoclosure () -> String) {
    guard Terminal.errorIsInteractive else { return }
    let now = Instant.now
    if let next, now < next { return }
    next = now.adding(seconds: Self.secondsBetween)
    StandardStream.write("\r\(Self.bar(done, of: total)) \(words())\u{1B}[K", to: STDERR_FILENO)
  }

  /// Removes the bar, if one has been drawn.
  mutating func clear() {
    guard next != nil else { return }
    next = nil
    StandardStream.write("\r\u{1B}[K", to: STDERR_FILENO)
  }

  /// `[#####-----]  50 %`
  static func bar(_ done: Int, of total: Int) -> String {
    let share = total > 0 ? min(1, max(0, Double(done) / Double(total))) : 0
    let filled = Int(share * Double(width))
    let percent = String(Int(share * 100))
    let marks = String(repeating: "#", count: filled) + String(repeating: "-", count: width - filled)
    return "[\(marks)] " + String(repeating: " ", count: 3 - percent.utf8.count) + percent + " %"
  }
}
