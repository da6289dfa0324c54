// A download as a person sees it: a line for each file on its way and one for the whole, or plain lines in a pipe.

import Hub
import Platform

/// For one thread.
struct DownloadDisplay {
  private let name: String
  private let isLive: Bool
  private let isQuiet: Bool
  /// Lines of the live part that stand above the cursor.
  private var drawn = 0
  private var nextDraw: Instant?
  private var nextLine: Instant?
  private let start = Instant.now

  private static let mostFiles = 6
  /// A person reads no faster.
  private static let drawSeconds = 0.2
  private static let lineSeconds = 10.0
  /// Before it, an estimate would jump.
  private static let estimateSeconds = 3.0

  /// - Parameters:
  ///   - name: of the model.
  ///   - showsProgress: false for notes and the plan only.
  init(name: String, isQuiet: Bool, showsProgress: Bool) {
    (self.name, self.isQuiet) = (name, isQuiet)
    isLive = showsProgress && !isQuiet && Terminal.errorIsInteractive
    if !showsProgress { nextLine = Instant(nanoseconds: .max) }
  }

  mutating func show(_ event: DownloadEvent) {
    guard !isQuiet else { return }
    switch event {
    case .plan(let plan): say(Self.words(plan))
    case .note(let text): say(text)
    case .file(let path, let bytes):
      if !isLive, nextLine != Instant(nanoseconds: .max) { say("\(name): \(path), \(Size.words(bytes))") }
    case .progress(let progress):
      if isLive { draw(progress) } else { tell(progress) }
    case .done: clear()
    }
  }

  /// Removes the live part.
  mutating func clear() {
    guard drawn > 0 else { return }
    StandardStream.write("\u{1B}[\(drawn)A\r\u{1B}[J", to: STDERR_FILENO)
    drawn = 0
  }

  // MARK: Lines

  /// `Qwen3-0.6B-4bit  main@73e3e38  9 files, 351 MB (3 already here)  → ~/.cache/huggingface/hub`
  static func words(_ plan: DownloadPlan) -> String {
    let here = plan.files.filter(\.isHere).count
    let moved = plan.previous.map { ", \(plan.reference.revisionName) moved from \($0.prefix(7))" } ?? ""
    let size =
      here == plan.files.count
      ? "all \(here) files are here"
      : "\(plan.files.count) files, \(Size.words(plan.missingBytes))"
        + (here > 0 ? " to fetch (\(here) already here)" : "")
    return
      "\(plan.reference.repository.text)  \(plan.reference.revisionName)@\(plan.commit.prefix(7))\(moved)  \(size)  → \(place(of: plan.folder))"
  }

  /// The cache where the folder is in one, for people.
  private static func place(of folder: String) -> String {
    let place = folder.firstRange(of: "/models--").map { String(folder[..<$0.lowerBound]) } ?? folder
    guard let home = Environment.value("HOME"), home.count > 1, place.hasPrefix(home + "/") else {
      return place
    }
    return "~" + place.dropFirst(home.count)
  }

  private mutating func say(_ line: String) {
    clear()
    Terminal.tell(line)
  }

  private mutating func tell(_ progress: DownloadProgress) {
    let now = Instant.now
    guard let next = nextLine else {
      nextLine = now.adding(seconds: Self.lineSeconds)
      return
    }
    guard now >= next, next != Instant(nanoseconds: .max) else { return }
    nextLine = now.adding(seconds: Self.lineSeconds)
    say("\(name): \(Self.words(progress))")
  }

  private mutating func draw(_ progress: DownloadProgress) {
    let now = Instant.now
    if let nextDraw, now < nextDraw, progress.done < progress.total { return }
    nextDraw = now.adding(seconds: Self.drawSeconds)
    let width = Terminal.width
    var lines = progress.parts.filter { $0.phase != .waiting }.prefix(Self.mostFiles).map { part in
      Self.line(
        part.path, done: part.done, total: part.total,
        tail: Self.words(part.phase) ?? Self.sizes(part.done, part.total), width: width)
    }
    lines.append(
      Self.line("total", done: progress.done, total: progress.total, tail: tail(progress), width: width))
    let text = lines.map { $0 + "\u{1B}[K\n" }.joined()
    let up = drawn > 0 ? "\u{1B}[\(drawn)A\r" : ""
    // Fewer lines than before: what stands below is rubbed out.
    StandardStream.write(up + text + "\u{1B}[J", to: STDERR_FILENO)
    drawn = lines.count
  }

  private static func words(_ phase: DownloadProgress.Part.Phase) -> String? {
    switch phase {
    case .downloading, .waiting: nil
    case .verifying: "verifying"
    case .elsewhere: "another download"
    }
  }

  /// `2.3/4.5 GB  84 MB/s  0:27`
  private func tail(_ progress: DownloadProgress) -> String {
    var parts = [Self.sizes(progress.done, progress.total)]
    if let speed = progress.speed, progress.done < progress.total {
      parts.append(Size.words(Int(speed)) + "/s")
      if Instant.now.seconds(since: start) >= Self.estimateSeconds, let left = progress.secondsLeft {
        parts.append(Self.clock(left))
      }
    }
    return parts.joined(separator: "  ")
  }

  /// `52 %, 2.3/4.5 GB, 84 MB/s, 0:27 left`
  static func words(_ progress: DownloadProgress) -> String {
    let share = progress.total > 0 ? Int(Double(progress.done) / Double(progress.total) * 100) : 0
    var parts = ["\(share) %", sizes(progress.done, progress.total)]
    if let speed = progress.speed { parts.append(Size.words(Int(speed)) + "/s") }
    if let left = progress.secondsLeft, progress.done < progress.total { parts.append(clock(left) + " left") }
    return parts.joined(separator: ", ")
  }

  static func sizes(_ done: Int, _ total: Int) -> String {
    let (some, all) = (Size.words(done), Size.words(total))
    let (a, b) = (some.split(separator: " "), all.split(separator: " "))
    // The same unit is said once.
    guard a.count == 2, b.count == 2, a[1] == b[1] else { return "\(some)/\(all)" }
    return "\(a[0])/\(all)"
  }

  /// `0:27`, `1:02:03`.
  static func clock(_ seconds: Double) -> String {
    let whole = Int(min(max(0, seconds), 359_999).rounded())
    func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let (hours, minutes) = (whole / 3600, whole / 60 % 60)
    return hours > 0 ? "\(hours):\(two(minutes)):\(two(whole % 60))" : "\(minutes):\(two(whole % 60))"
  }

  /// Name, bar, per cent and words, in at most `width` columns: what does not fit is left out, the bar first.
  static func line(_ name: String, done: Int, total: Int, tail: String, width: Int) -> String {
    let share = total > 0 ? min(1, max(0, Double(done) / Double(total))) : 1
    let digits = String(Int(share * 100))
    let percent = String(repeating: " ", count: max(0, 3 - digits.utf8.count)) + digits + " %"
    var room = max(10, width - 1) - percent.count
    let words = tail.count + 2 <= room - 8 ? "  " + tail : ""
    room -= words.count
    let nameWidth = min(max(8, room / 2), 32)
    let bar = min(24, room - nameWidth - 4)
    let shown = shortened(name, to: bar >= 4 ? nameWidth : max(4, room - 1))
    guard bar >= 4 else { return "\(shown) \(percent)\(words)" }
    let filled = Int(share * Double(bar))
    let marks = String(repeating: "#", count: filled) + String(repeating: "-", count: bar - filled)
    let padded = shown + String(repeating: " ", count: max(0, nameWidth - shown.count))
    return "\(padded) [\(marks)] \(percent)\(words)"
  }

  /// The end of a file's name tells more than its beginning.
  private static func shortened(_ name: String, to width: Int) -> String {
    name.count <= width ? name : "…" + name.suffix(max(1, width - 1))
  }
}
