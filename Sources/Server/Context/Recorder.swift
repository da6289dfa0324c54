// Answers as they were given, a line of JSON each: the request and its receipts, so that a session can be replayed.

import HTTP
import JSON
package import Platform

/// Appends to a file that only its owner can read. For any thread. Headers, and so keys, are never written.
package final class Recorder: Sendable {
  /// Whether requests, which hold texts, are written too.
  private let keepsTexts: Bool
  private let file: Monitor<(descriptor: Int32, isBroken: Bool)>

  /// - Throws: where the file cannot be opened.
  package init(path: String, keepsTexts: Bool) throws(PlatformError) {
    self.keepsTexts = keepsTexts
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw .file(action: "open", path: path, code: errno) }
    file = Monitor((descriptor, false))
  }

  deinit { _ = file.withLock { close($0.descriptor) } }

  /// - Parameter context: of the request.
  func write(_ receipts: [JSONValue], model: String, at seconds: Int, _ context: ConnectionContext) {
    guard !receipts.isEmpty, let request = context.recorded else { return }
    var line = JSONObject([
      ("at", .int(seconds)), ("path", .string(request.path)), ("model", .string(model)),
    ])
    if keepsTexts { line["request"] = try? JSONValue(parsing: request.body) }
    line["receipts"] = .array(receipts)
    let text = JSONValue.object(line).text + "\n"
    file.withLock { file in
      guard !file.isBroken, !StandardStream.write(text, to: file.descriptor) else { return }
      file.isBroken = true
      Log.warning("the recording ends here: its file cannot be written", [:])
    }
  }
}
