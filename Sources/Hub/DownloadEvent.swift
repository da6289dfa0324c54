// What a download tells while it runs, as values: a terminal draws them, a route sends them.

package import JSON

/// What is to be done, before the first byte.
package struct DownloadPlan: Sendable {
  package let reference: ModelReference
  package let commit: String
  /// The commit that the same revision was before, where that is another.
  package let previous: String?
  /// Name, bytes, and whether it is there already.
  package let files: [(path: String, bytes: Int, isHere: Bool)]
  /// Hexadecimal digits by path: SHA-256 of large files, git's of small ones.
  package let digests: [String: String]
  package let folder: String
  package let licence: String?

  package var totalBytes: Int { files.reduce(0) { $0 + $1.bytes } }
  package var missingBytes: Int { files.reduce(0) { $0 + ($1.isHere ? 0 : $1.bytes) } }
}

/// How far it is.
package struct DownloadProgress: Sendable {
  /// A file on its way.
  package struct Part: Sendable {
    package enum Phase: String, Sendable {
      case waiting, verifying, downloading
      /// Another process, or another request, fetches it.
      case elsewhere
    }

    package let path: String
    package let done: Int
    package let total: Int
    package let phase: Phase
  }

  /// Files that something happens to now.
  package let parts: [Part]
  /// Of all files that were missing at the plan; never falls.
  package let done: Int
  package let total: Int
  /// Bytes per second of the last seconds; nil at first.
  package let speed: Double?
  package var secondsLeft: Double? {
    guard let speed, speed > 0 else { return nil }
    return Double(total - done) / speed
  }
}

package enum DownloadEvent: Sendable {
  case plan(DownloadPlan)
  case progress(DownloadProgress)
  /// A file is there, whole.
  case file(path: String, bytes: Int)
  case note(String)
  /// The model is in the folder.
  case done(folder: String)

  /// One line of `--json`, and of a route's stream.
  package var json: JSONValue {
    switch self {
    case .plan(let plan):
      [
        "event": "plan", "model": .string(plan.reference.repository.text),
        "revision": .string(plan.reference.revisionName), "commit": .string(plan.commit),
        "previous_commit": plan.previous.map(JSONValue.string) ?? nil,
        "license": plan.licence.map(JSONValue.string) ?? nil, "folder": .string(plan.folder),
        "total_bytes": .int(plan.totalBytes), "missing_bytes": .int(plan.missingBytes),
        "files": .array(
          plan.files.map { ["path": .string($0.path), "bytes": .int($0.bytes), "present": .bool($0.isHere)] }),
      ]
    case .progress(let progress):
      [
        "event": "progress", "done_bytes": .int(progress.done), "total_bytes": .int(progress.total),
        "bytes_per_second": progress.speed.map { .int(Int($0)) } ?? nil,
        "seconds_left": progress.secondsLeft.map { .int(Int(min($0, 1e9))) } ?? nil,
        "files": .array(
          progress.parts.map {
            [
              "path": .string($0.path), "done_bytes": .int($0.done), "total_bytes": .int($0.total),
              "phase": .string($0.phase.rawValue),
            ]
          }),
      ]
    case .file(let path, let bytes): ["event": "file", "path": .string(path), "bytes": .int(bytes)]
    case .note(let text): ["event": "note", "text": .string(text)]
    case .done(let folder): ["event": "done", "folder": .string(folder)]
    }
  }
}

/// Bytes per second over the last seconds.
struct SpeedMeter {
  private static let window = 5.0
  /// Before this, a speed is a guess.
  private static let leastSeconds = 1.0
  private var samples: [(seconds: Double, bytes: Int)] = []

  /// - Parameters:
  ///   - seconds: since any fixed moment.
  ///   - bytes: so far.
  /// - Returns: nil at first.
  mutating func add(seconds: Double, bytes: Int) -> Double? {
    samples.append((seconds, bytes))
    // One sample from before the window stays, or a slow reporter would have nothing to compare with.
    while samples.count > 2, samples[1].seconds <= seconds - Self.window { samples.removeFirst() }
    guard let first = samples.first, seconds - first.seconds >= Self.leastSeconds else { return nil }
    return Double(max(0, bytes - first.bytes)) / (seconds - first.seconds)
  }
}
