// `mlxserve pull`: a model from the hub into the cache that the hub's own tools share.

import Checkpoint
import Hub
import Inference
import JSON
import Platform

enum PullCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    let settings = try flags.hubSettings()
    var reference = try ModelLocator.reference(try flags.argument("NAME"), settings)
    if let revision = flags.text("revision") {
      try ModelReference.check(revision, of: revision)
      reference.revision = revision
    }
    var request = DownloadRequest(reference)
    request.selection.included = flags.texts("include")
    request.selection.excluded = flags.texts("exclude")
    request.selection.takesAll = flags.isSet("all-files")
    request.folder = flags.text("to")
    request.jobs = flags.integer("jobs") ?? request.jobs
    request.rateLimit = try flags.size("limit-rate")
    request.isDryRun = flags.isSet("dry-run")
    request.isForced = flags.isSet("force")
    do {
      let folder = try fetch(
        request, settings, asJSON: flags.isSet("json"), isQuiet: flags.isSet("quiet"))
      if !flags.isSet("json") { Terminal.print(folder) }
      return ExitCode.success
    } catch {
      if flags.isSet("json") {
        let event: JSONValue = [
          "event": "error", "message": .string(String(describing: error)),
          "code": .int(Int(ExitCode.of(error))),
        ]
        Terminal.print(event.text)
      }
      throw error
    }
  }

  /// Downloads, shows it, and leaves politely on Ctrl-C.
  ///
  /// - Returns: the model's folder.
  static func fetch(
    _ request: DownloadRequest, _ settings: HubSettings, asJSON: Bool = false, isQuiet: Bool = false
  ) throws -> String {
    var request = request
    request.judge = judge
    request.memoryLimit = MemoryLimit.bytes / 10 * 9
    let isUnwanted = Monitor(false)
    try Signals.onTermination { count, signal in
      guard count == 1 else { exit(128 + signal) }
      isUnwanted.update { $0 = true }
    }
    var display = DownloadDisplay(
      name: request.reference.repository.text, isQuiet: isQuiet || asJSON,
      showsProgress: settings.showsProgress)
    defer { display.clear() }
    return try ModelDownload(request, settings: settings).run(
      isUnwanted: { isUnwanted.withLock { $0 } },
      report: { event in
        if asJSON { Terminal.print(event.json.text) } else { display.show(event) }
      })
  }

  /// What would not be served, before its weights are fetched.
  @Sendable static func judge(_ config: JSONValue, weightBytes: Int) -> String? {
    guard let type = config["model_type"]?.stringValue else { return "its config.json names no model_type" }
    guard ModelInspection.supportedTypes.contains(type) else {
      return "its model_type '\(type.prefix(100))' is none that this program runs: "
        + ModelInspection.supportedTypes.joined(separator: ", ") + " (--force fetches it anyway)"
    }
    do {
      _ = try QuantizationConfig(config: config, file: "config.json")
      return nil
    } catch {
      return String(describing: error)
    }
  }
}
