// What was being worked on when a process ended: it may be what ended it, so it is tried again twice, and then given up.

/// Work by name, and how often a process has begun it and not come to its end.
///
/// Each name that is at work is a file with a digit. The files are not flushed: they outlive the end of a process, which
/// is what they are for, and cost little.
package final class Attempts: Sendable {
  /// How often work is begun before it is given up.
  package static let most = 3

  private struct State {
    /// Of earlier processes.
    var counts: [String: Int]
    /// Such work that is at work again. It is alone, so that others are not given up with it.
    var suspect: String?
  }

  private let folder: String?
  private let files: any FileSystem
  private let state: Monitor<State>

  /// Reads what earlier processes have left.
  ///
  /// - Parameter folder: made with the first work; nil where no process comes after this one.
  package init(folder: String?, files: any FileSystem = SystemFiles()) {
    (self.folder, self.files) = (folder, files)
    var counts: [String: Int] = [:]
    if let folder, let names = try? files.names(in: folder) {
      for name in names {
        let digit = (try? files.read(folder + "/" + name, limit: 16))?.first ?? 0
        // What has no such digit was begun, at least once: a damaged note is no reason to give work up.
        counts[name] = (1...Self.most).contains(Int(digit) - 0x30) ? Int(digit) - 0x30 : 1
      }
    }
    state = Monitor(State(counts: counts))
  }

  /// Begins work. What an earlier process did not come to the end of waits until it is alone among its like.
  ///
  /// - Parameters:
  ///   - name: of a file.
  ///   - isUnwanted: ends the waiting.
  /// - Returns: false when it has been begun too often. Whoever has written that down ends it, so that it is tried when it is
  ///   asked for anew.
  package func begin(_ name: String, isUnwanted: () -> Bool = { false }) -> Bool {
    let earlier = state.withLock { $0.counts[name] ?? 0 }
    guard earlier < Self.most else { return false }
    if earlier > 0 {
      while !isUnwanted() {
        let isAlone = state.wait(until: Instant.now.adding(seconds: 0.05)) { state -> Bool? in
          guard state.suspect == nil || state.suspect == name else { return nil }
          state.suspect = name
          return true
        }
        if isAlone != nil { break }
      }
    }
    write(name, earlier + 1)
    return true
  }

  /// Work has come so far that another process would not begin it at the same place: it counts as begun for the first time.
  package func restart(_ name: String) {
    let isNews = state.withLock { $0.counts.removeValue(forKey: name) != nil }
    if isNews { write(name, 1) }
  }

  /// Work is over, or nobody wants it any more.
  package func end(_ name: String) {
    state.update { state in
      state.counts[name] = nil
      if state.suspect == name { state.suspect = nil }
    }
    if let folder { _ = files.unlink(folder + "/" + name) }
  }

  /// Why work was given up, in words.
  package static func reason(_ what: String) -> String {
    "the server ended \(most) times while it \(what), and does not try it again by itself"
  }

  /// Where that is not possible, the work is done all the same.
  private func write(_ name: String, _ count: Int) {
    guard let folder else { return }
    let path = folder + "/" + name
    do throws(PlatformError) {
      let descriptor = try create(path, in: folder)
      defer { files.close(descriptor) }
      try files.write([UInt8(0x30 + count)], to: descriptor, at: 0, path: path)
    } catch {
      Log.debug("work begins without a note", ["file": path, "error": "\(error)"])
    }
  }

  private func create(_ path: String, in folder: String) throws(PlatformError) -> Int {
    do throws(PlatformError) {
      return try files.create(path)
    } catch {
      _ = files.mkdir(folder)
      return try files.create(path)
    }
  }
}
