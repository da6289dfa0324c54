// Requests of the API, from the document on.

import Driver
import JSON

@testable import Bodies
@testable import Wire

@_cdecl("fuzz_requests_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(count, arguments, ["request": RequestTargets.request])
}

enum RequestTargets {
  /// The bodies of every wire.
  static func request(_ bytes: [UInt8]) {
    guard let value = try? JSONValue(parsing: bytes) else { return }
    let limits = RequestLimits()
    _ = try? ChatRequest(value, limits: limits, vocabularySize: 2048)
    _ = try? CompletionRequest(value, limits: limits, vocabularySize: 2048)
    _ = try? MessagesRequest(value, limits: limits, vocabularySize: 2048)
    _ = try? TokenizeRequest(value, limits: limits, vocabularySize: 2048)
    _ = try? OllamaRequest(chat: value, limits: limits)
    _ = try? OllamaRequest(generate: value, limits: limits)
    _ = try? EmbeddingsRequest(value, limits: limits, vocabularySize: 2048)
    _ = try? VectorStoreRequest(value)
    _ = try? FileBatchRequest(value)
    _ = try? StoreSearchRequest(value).filter?.accepts(value.objectValue ?? JSONObject())
    guard
      let request = try? ResponsesRequest(
        value, isMessage: false, limits: limits, vocabularySize: 2048),
      let items = try? ResponsesItemReader(limits: limits, makeID: { "ID" }, resolve: { _ in nil }).read(
        request.input ?? "")
    else { return }
    _ = try? request.chatRequest(context: [], input: items, limits: limits)
  }
}
