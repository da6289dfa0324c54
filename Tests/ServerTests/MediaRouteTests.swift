// Images on their way through the routes: bytes found, prompts expanded, refusals with the right path.

import Chat
import Fetch
import HTTP
import Inference
import JSON
import Media
import Pipeline
import Platform
import Support
import Testing
import Tokenizers
import Wire

@testable import Server

/// Vocabulary of the tiny tokenizer; 258 and 259 stand in for the marks of an image.
private let rules = MediaRules(
  images: GridImages(
    marks: MediaMarks(opening: 300, soft: 258, closing: 301),
    grid: PatchGrid(patch: 16, pooling: 3, tokens: 280, positions: 10_240)))

@Suite struct MediaRouteTests {
  private static let template = """
    {% for m in messages %}<|im_start|>{{ m.role }}
    {% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}\
    {% else %}<think>{% endif %}{% endfor %}{% endif %}<|im_end|>
    {% endfor %}
    """

  private func scope(_ settings: ServerSettings = ServerSettings(), takesImages: Bool = true) throws
    -> RequestScope
  {
    let template = try ChatTemplate(source: Self.template, specialTokens: [], localTime: { (0, 0) })
    let model = LoadedModel(
      id: "m", created: 0, service: FakeService("x"), tokenizer: tinyTokenizer, template: template,
      endTokens: [Marker.end], media: takesImages ? rules : MediaRules())
    let server = ServerContext(models: ModelFleet(ResidentModel(model)), settings: settings)
    return RequestScope(server: server, lease: try server.models.lease(""))
  }

  private static let picture = "/media/jpeg-64x48-420.jpg"

  private func dataURL() throws -> String {
    let bytes = try TestData.bytes(TestData.fixtures + Self.picture)
    return "data:image/jpeg;base64," + Base64.encode(bytes)
  }

  private func request(_ content: JSONValue, _ scope: RequestScope) throws -> ChatRequest {
    let body: JSONValue = ["model": "m", "messages": [["role": "user", "content": content]]]
    return try ChatRequest(body, limits: scope.limits, vocabularySize: 262)
  }

  private func image(_ url: String, detail: String = "low") -> JSONValue {
    ["type": "image_url", "image_url": ["url": .string(url), "detail": .string(detail)]]
  }

  private func prompt(_ content: JSONValue, _ scope: RequestScope, _ attachments: [ByteKey: [UInt8]] = [:])
    throws
    -> ModelPrompt
  {
    let template = try #require(scope.model.template)
    return try ChatPlan(scope, media: MediaResolver(scope, attachments: attachments)).makePrompt(
      request(content, scope), template)
  }

  private func refusal(_ content: JSONValue, _ scope: RequestScope) -> String {
    do {
      _ = try prompt(content, scope)
      return "accepted"
    } catch let error as APIError {
      return "\(error.code ?? "null") \(error.param ?? "null")"
    } catch {
      return "\(error)"
    }
  }

  @Test func `an image takes the place of the token that the template wrote`() throws {
    let scope = try scope()
    let text: JSONValue = ["type": "text", "text": "a<think>b"]
    let result = try prompt([text, image(dataURL()), text], scope)
    // 64 x 48 at 70 tokens: 9 x 7 blocks.
    #expect(result.media.map(\.positions.count) == [63])
    let start = try #require(result.media.first?.start)
    #expect(result.tokens[start - 1] == 300)
    #expect(result.tokens[start..<start + 63].allSatisfy { $0 == 258 })
    #expect(result.tokens[start + 63] == 301)
    // What the text spells is no token of an image.
    #expect(result.tokens.count { $0 == 258 } == 63)
    #expect(result.text.contains("a<think>b<think>a<think>b"))
  }

  @Test func `the same bytes are the same input`() throws {
    let scope = try scope()
    let first = try prompt([image(dataURL())], scope)
    let second = try prompt(
      [image("attachment:x")], scope, [ByteKey("x"): TestData.bytes(TestData.fixtures + Self.picture)])
    #expect(first.media.map(\.input.digest) == second.media.map(\.input.digest))
    #expect(first.tokens == second.tokens)
  }

  @Test(arguments: [
    ("data:image/png;base64,!", "invalid_value messages[0].content[0].image_url.url"),
    ("data:image/png;base64,AAAA", "invalid_image messages[0].content[0].image_url.url"),
    ("http://127.0.0.1/x", "unsupported_value messages[0].content[0].image_url.url"),
    ("HTTPS://x", "unsupported_value messages[0].content[0].image_url.url"),
    ("file:///etc/passwd", "unsupported_value messages[0].content[0].image_url.url"),
    ("attachment:x", "invalid_value messages[0].content[0].image_url.url"),
    ("x", "invalid_value messages[0].content[0].image_url.url"),
  ])
  func `what is no image is refused with its place`(url: String, expected: String) throws {
    #expect(refusal([image(url)], try scope()) == expected)
  }

  @Test func `a model without images says so`() throws {
    let scope = try scope(takesImages: false)
    #expect(refusal([image(try dataURL())], scope) == "unsupported_value messages[0].content[0].type")
    let clip: JSONValue = ["type": "input_audio", "input_audio": ["data": "AA", "format": "wav"]]
    #expect(refusal([clip], scope) == "unsupported_value messages[0].content[0].type")
  }

  @Test func `files are read below the root alone`() throws {
    var settings = ServerSettings()
    settings.mediaRoot = TestData.fixtures
    let scope = try scope(settings)
    #expect(refusal([image("file://" + Self.picture)], scope) == "accepted")
    for url in ["file:///../Package.swift", "file:///media", "file:///media/%2e%2e/media/x", "file:media/x"] {
      #expect(refusal([image(url)], scope) == "invalid_value messages[0].content[0].image_url.url")
    }
  }

  @Test(arguments: [
    ("file:///a%20b/%c3%A9", ["a b", "é"] as [String]?), ("file://localhost/a//b", ["a", "b"]),
    ("file:///a%+Ab", nil), ("file:///a%-0b", nil), ("file:///a%4", nil), ("file:///%ff", nil),
    ("file://host/a", nil), ("file:a", nil),
  ])
  func `a file's path is percent-decoded, by hexadecimal digits alone`(url: String, path: [String]?) {
    #expect(MediaResolver.path(ofFileURL: url) == path)
  }

  @Test func `URLs are followed where that is allowed, to public places`() throws {
    var settings = ServerSettings()
    settings.mediaURLs = FetchRules()
    // No curl: the refusal comes from the fetcher.
    #expect(
      refusal([image("https://a.example/x")], try scope(settings))
        == "unsupported_value messages[0].content[0].image_url.url")
    settings.mediaURLs?.program = "/usr/bin/curl"
    for url in ["http://user@a.example/", "http://127.0.0.1:1/x", "http://[::1]/", "http://2130706433/"] {
      #expect(
        refusal([image(url)], try scope(settings))
          == "invalid_image_url messages[0].content[0].image_url.url", "\(url)")
    }
  }

  @Test func `levels of detail are budgets`() throws {
    let images = try #require(rules.images)
    #expect(ImageDetail.allCases.map { images.budgets.tokens(for: $0) } == [280, 70, 560, 1120])
  }

  @Test func `a form holds the request and its images`() throws {
    let scope = try scope()
    let picture = try TestData.bytes(TestData.fixtures + Self.picture)
    func part(_ name: String, _ body: [UInt8]) -> [UInt8] {
      Array("--B\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n".utf8) + body
        + Array("\r\n".utf8)
    }
    let json: JSONValue = [
      "model": "m", "messages": [["role": "user", "content": [image("attachment:cat")]]],
    ]
    func form(_ parts: [[UInt8]]) throws -> ChatForm {
      let request = try Request(
        "POST", "/v1/chat/completions", headers: ["content-type": "multipart/form-data; boundary=B"],
        body: Array(parts.joined()) + Array("--B--".utf8))
      let form = try request.chatForm(scope.limits)
      try form.check(ChatRequest(form.body, limits: scope.limits, vocabularySize: 262))
      return form
    }
    let whole = try form([part("request", json.bytes), part("cat", picture)])
    #expect(whole.body == json)
    #expect(whole.attachments == [ByteKey("cat"): picture])
    for parts in [
      [part("request", json.bytes), part("cat", picture), part("dog", picture)], [part("cat", picture)],
      [part("request", json.bytes), part("cat", picture), part("cat", picture)],
    ] {
      #expect(throws: APIError.self) { try form(parts) }
    }
  }
}
