// The shared corpus of bad request bodies, as far as it concerns chat completions and needs no model.

import JSON
import Platform
import Support
import Testing
import Wire

/// One line of the corpus.
struct BadRequest {
  let id: String
  let path: String
  let body: [UInt8]
  /// `400`, `200|400`, …
  let expected: String
  let param: String?

  /// Reads the lines of at most `maxBytes`; longer bodies are the end-to-end tests' business.
  static func load(maxBytes: Int) throws -> [BadRequest] {
    let path = (TestData.shared ?? "") + "/api/bad_requests.jsonl.gz"
    guard let pipe = popen("gzip -dc '\(path)' | awk 'length($0) <= \(maxBytes)'", "r") else { return [] }
    defer { pclose(pipe) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = fread(&buffer, 1, buffer.count, pipe)
      guard count > 0 else { break }
      bytes += buffer[..<count]
    }
    return try bytes.split(separator: 0x0A).map { line in
      let value = try JSONValue(parsing: Array(line))
      return BadRequest(
        id: value["id"]?.stringValue ?? "", path: value["path"]?.stringValue ?? "",
        body: decodeBase64(value["b64"]?.stringValue ?? ""), expected: value["expect"]?.stringValue ?? "",
        param: value["param"]?.stringValue)
    }
  }

  private static func decodeBase64(_ text: String) -> [UInt8] {
    var out: [UInt8] = []
    var bits: UInt32 = 0
    var count = 0
    for byte in text.utf8 {
      let value: UInt32
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = UInt32(byte) - 65
      case UInt8(ascii: "a")...UInt8(ascii: "z"): value = UInt32(byte) - 71
      case UInt8(ascii: "0")...UInt8(ascii: "9"): value = UInt32(byte) + 4
      case UInt8(ascii: "+"): value = 62
      case UInt8(ascii: "/"): value = 63
      default: continue
      }
      bits = bits << 6 | value
      count += 6
      if count >= 8 {
        count -= 8
        out.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
      }
    }
    return out
  }
}

struct CorpusTests {
  @Test(.enabled(if: TestData.shared != nil, "the shared data folder is absent"))
  func `every bad chat body is refused as the corpus says`() throws {
    var checked = 0
    for request in try BadRequest.load(maxBytes: 400_000)
    where request.path == "/v1/chat/completions" && isDecidedByTheBody(request) {
      checked += 1
      let (status, param) = answer(to: request.body)
      #expect(
        request.expected.split(separator: "|").contains("\(status)"), "\(request.id): answered \(status)")
      guard status == 400, let param, let expected = request.param else { continue }
      #expect(
        param == expected || param.hasPrefix(expected + ".") || param.hasPrefix(expected + "["),
        "\(request.id): names \(param)")
    }
    #expect(checked > 240)
  }

  /// Overlong prompts, unknown models, impossible schemas, and images that cannot be had are found out later, by the
  /// server.
  private func isDecidedByTheBody(_ request: BadRequest) -> Bool {
    !request.id.hasPrefix("tok/") && !request.id.hasPrefix("schema/") && !request.id.hasPrefix("ctx/")
      && !request.expected.contains("404")
      && request.id != "big/strings-escapes" && !request.id.contains("image_url")
      // Parameters that are no schema are taken where the model is free.
      && !request.id.contains(#""function":{"name":"a","parameters":"#)
  }

  private func answer(to body: [UInt8]) -> (status: Int, param: String?) {
    do {
      _ = try ChatRequest(JSONValue(parsing: body), limits: RequestLimits(), vocabularySize: 1000)
      return (200, nil)
    } catch let error as APIError {
      return (error.status, error.param)
    } catch {
      return (400, nil)
    }
  }
}
