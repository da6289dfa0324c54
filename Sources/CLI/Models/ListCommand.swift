// `mlxserve list`: the models that are on this machine.

import Checkpoint
import Hub
import Inference
import JSON
import Pipeline
import Platform

enum ListCommand {
  /// One line.
  struct Entry: Equatable {
    var name: String
    var bytes: Int
    /// Such as `qwen3 4bit g64`.
    var type: String
    /// The commit; empty for a folder.
    var commit = ""
    var revisions: [String] = []
    /// `ready`, `partial 63 %` or `unsupported: mamba2`.
    var state: String
    var folder: String
    /// Seconds since 1970.
    var used: Double
  }

  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let settings = try flags.hubSettings()
    let cache = HubCache(root: settings.cache)
    var entries = cache.repositories().flatMap { cache.snapshots($0) }.compactMap {
      entry($0, all: flags[.all])
    }
    if let folder = flags[.modelsDir] { entries += try models(in: folder) }
    if flags[.names] {
      for name in Set(entries.map(\.name)).sorted() { Terminal.print(name) }
      return ExitCode.success
    }
    if flags[.json] {
      Terminal.print(JSONValue.array(entries.map(json)).text)
      return ExitCode.success
    }
    guard !entries.isEmpty else {
      Terminal.tell("no models in \(settings.cache); 'mlxserve pull OWNER/NAME' fetches one")
      return ExitCode.success
    }
    for line in Table.lines(
      ["NAME", "SIZE", "TYPE", "REVISION", "STATE", "USED"],
      entries.map { entry in
        [
          entry.name, Size.words(entry.bytes), entry.type,
          entry.commit.isEmpty ? "-" : String(entry.commit.prefix(7)), entry.state,
          ago(Instant.wallSeconds - entry.used),
        ]
      }, width: Terminal.tableWidth, dispensable: [3, 5, 2])
    { Terminal.print(line) }
    return ExitCode.success
  }

  private static func entry(_ snapshot: HubCache.Snapshot, all: Bool) -> Entry? {
    let config = config(snapshot.folder)
    let tags = config == nil ? QuantizedFiles.tags(of: QuantizedFiles.inside(snapshot.folder)) : []
    guard config != nil || !tags.isEmpty || all || snapshot.state != .whole else { return nil }
    let type = config?["model_type"]?.stringValue
    let state: String =
      switch snapshot.state {
      case .partial(let share): share.map { "partial \($0) %" } ?? "partial"
      case .missing: "partial"
      case .whole:
        config == nil
          ? tags.isEmpty ? "no model" : "ready"
          : ModelInspection.supportedTypes.contains(type ?? "")
            ? "ready" : "unsupported: \(type ?? "no model_type")"
      }
    return Entry(
      name: snapshot.repository.text, bytes: snapshot.bytes,
      type: tags.isEmpty ? self.type(config, folder: snapshot.folder) : tags.joined(separator: ", "),
      commit: snapshot.commit,
      revisions: snapshot.revisions, state: state, folder: snapshot.folder, used: snapshot.used)
  }

  private static func models(in folder: String) throws -> [Entry] {
    try File.names(in: folder).compactMap { name in
      let path = folder + "/" + name
      guard let config = config(path) else { return nil }
      let files =
        (try? File.names(in: path))?.compactMap { File.status(path + "/" + $0) }
        ?? [File.status(path)].compactMap(\.self)
      let type = config["model_type"]?.stringValue ?? ""
      return Entry(
        name: name, bytes: files.filter { $0.kind == .file }.map(\.bytes).sumOfSizes,
        type: self.type(config, folder: path),
        state: ModelInspection.supportedTypes.contains(type) ? "ready" : "unsupported: \(type)", folder: path,
        used: files.map(\.used).max() ?? 0)
    }
  }

  private static func config(_ folder: String) -> JSONValue? {
    if ModelFolder.isGGUF(folder) { return (try? ModelFolder(path: folder))?.config }
    return (try? File.read(folder + "/config.json", limit: 16 << 20)).flatMap { try? JSONValue(parsing: $0) }
  }

  /// `qwen3 4bit g64`, or the type of the weights.
  ///
  /// - Parameter folder: where the weights are, which say it too; nil where they are not here.
  static func type(_ config: JSONValue?, folder: String? = nil) -> String {
    guard let config, let type = config["model_type"]?.stringValue else { return "-" }
    let quantization = config["quantization"] ?? config["quantization_config"]
    let facts = quantization == nil ? folder.flatMap { ModelFacts(folder: $0) } : nil
    if let blocks = facts?.blocks { return "\(type) \(blocks)" }
    if let stored = facts?.quantization { return "\(type) \(stored.bits)bit g\(stored.groupSize)" }
    if let bits = quantization?["bits"]?.intValue {
      let group = quantization?["group_size"]?.intValue.map { " g\($0)" } ?? ""
      return "\(type) \(bits)bit\(group)"
    }
    let dtype = config["torch_dtype"]?.stringValue ?? config["dtype"]?.stringValue
    return dtype.map { "\(type) \($0)" } ?? type
  }

  /// `3 minutes ago`.
  static func ago(_ seconds: Double) -> String {
    guard seconds.isFinite, seconds < 1e9 else { return "-" }
    for (unit, name) in [(86_400.0, "day"), (3600, "hour"), (60, "minute")] where seconds >= unit {
      let count = Int(seconds / unit)
      return "\(count) \(name)\(count == 1 ? "" : "s") ago"
    }
    return "just now"
  }

  private static func json(_ entry: Entry) -> JSONValue {
    [
      "name": .string(entry.name), "bytes": .int(entry.bytes), "type": .string(entry.type),
      "commit": entry.commit.isEmpty ? nil : .string(entry.commit),
      "revisions": .array(entry.revisions.map(JSONValue.string)), "state": .string(entry.state),
      "folder": .string(entry.folder), "used": .int(Int(min(max(0, entry.used), 1e18))),
    ]
  }
}
