// Models that `serve` has to fetch first: meanwhile clients are told how far it is.

import Hub
import Platform
import Server

enum ServeDownload {
  /// How often a line of the log tells how far it is, seconds.
  private static let logSeconds = 10.0

  /// The models of `--model` that are not here.
  static func missing(_ flags: ParsedFlags) throws -> [ModelReference] {
    let settings = try flags.hubSettings()
    return try flags.texts(.model).compactMap { text in
      guard case .reference(let reference) = try ModelLocator.place(FleetFlags.source(text).path, settings),
        ModelLocator.present(reference, settings) == nil
      else { return nil }
      return reference
    }
  }

  /// Fetches them, and finds the models then.
  static func run(
    _ references: [ModelReference], _ flags: ParsedFlags, ledger: MemoryLedger, _ server: Host
  ) throws -> FleetFlags {
    var settings = try flags.hubSettings()
    settings.ledger = ledger
    for reference in references {
      let name = reference.repository.text
      var display =
        Terminal.errorIsInteractive ? DownloadDisplay(name: name, isQuiet: false, showsProgress: true) : nil
      defer { display?.clear() }
      var nextLine = Instant.now.adding(seconds: logSeconds)
      server.tell("downloading \(name)")
      var request = DownloadRequest(reference)
      request.judge = ModelFetch.judge
      request.memoryLimit = ledger.limit
      _ = try ModelDownload(request, settings: settings).run { event in
        if case .progress(let progress) = event {
          let words = DownloadDisplay.words(progress)
          server.tell("downloading \(name): \(words)")
          if display == nil, Instant.now >= nextLine {
            nextLine = Instant.now.adding(seconds: logSeconds)
            Log.info("downloading", ["model": name, "progress": words])
          }
        }
        if display != nil { display?.show(event) } else { log(event, name) }
      }
      server.tell(nil)
    }
    return try FleetFlags(flags, ledger: ledger)
  }

  private static func log(_ event: DownloadEvent, _ name: String) {
    switch event {
    case .plan(let plan):
      Log.info(
        "download",
        ["model": name, "commit": plan.commit, "bytes": "\(plan.missingBytes)", "folder": plan.folder])
    case .note(let text): Log.info("download", ["model": name, "note": text])
    case .done: Log.info("downloaded", ["model": name])
    case .progress, .file: break
    }
  }
}
