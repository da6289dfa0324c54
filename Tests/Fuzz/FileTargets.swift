// Documents and files: JSON, requests of the API, headers of safetensors files, tokenizer.json.

@testable import Checkpoint
@testable import JSON
@testable import OpenAI
@testable import Tokenizers

enum FileTargets {
  static func json(_ bytes: [UInt8]) {
    guard let value = try? JSONValue(parsing: bytes) else { return }
    let written = value.bytes
    let again = try? JSONValue(parsing: written)
    check(again == value, "what is read survives being written")
    check(again?.bytes == written, "writing is settled after one round")
  }

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

  static func safetensors(_ bytes: [UInt8]) {
    let dataBytes = bytes.first.map(Int.init) ?? 0
    guard let header = try? SafetensorsHeader(Array(bytes.dropFirst()), dataBytes: dataBytes, file: "f")
    else { return }
    for entry in header.entries {
      check(entry.range.lowerBound >= 0 && entry.range.upperBound <= dataBytes, "tensors lie in the data")
    }
  }

  static func tokenizer(_ bytes: [UInt8]) {
    guard let tokenizer = try? Tokenizer(tokenizerJSON: bytes) else { return }
    let ids = tokenizer.encode("abc <e> \u{e9}e\u{301}\u{1f44d} ab\n\n  12", addSpecialTokens: true)
    check(ids.allSatisfy { $0 >= 0 && tokenizer.token(of: $0) != nil }, "ids that come out have a spelling")
    _ = tokenizer.decode(ids, skipSpecialTokens: false)
  }
}
