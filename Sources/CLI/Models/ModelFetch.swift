// Fetching a model from the hub while somebody watches.

import Checkpoint
import Hub
import Inference
import JSON
import Platform

enum ModelFetch {
  /// Downloads, shows it, and leaves politely on Ctrl-C or SIGTERM.
  ///
  /// - Returns: the model's folder.
  static func folder(
    _ request: DownloadRequest, _ settings: HubSettings, asJSON: Bool = false, isQuiet: Bool = false
  ) throws -> String {
    var request = request
    request.judge = judge
    request.memoryLimit = MemoryLimit.bytes / 10 * 9
    let ending = Monitor<Int32?>(nil)
    try Signals.onTermination { count, signal in
      guard count == 1 else { exit(128 + signal) }
      ending.update { $0 = signal }
    }
    var display = DownloadDisplay(
      name: request.reference.repository.text, isQuiet: isQuiet || asJSON,
      showsProgress: settings.showsProgress)
    defer { display.clear() }
    do throws(HubError) {
      return try ModelDownload(request, settings: settings).run(
        isUnwanted: { ending.withLock { $0 != nil } },
        report: { event in
          if asJSON { Terminal.print(event.json.text) } else { display.show(event) }
        })
    } catch {
      if case .cancelled = error, let signal = ending.withLock({ $0 }) { throw EndedBySignal(signal: signal) }
      throw error
    }
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
