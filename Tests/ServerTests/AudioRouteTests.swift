// Audio on its way through the routes: bytes found, prompts expanded, tokens counted, refusals with the right path.

import Chat
import Inference
import JSON
import Media
import Pipeline
import Support
import Testing
import Tokenizers
import Wire

@testable import Server

@Suite struct AudioRouteTests {
  /// Vocabulary of the tiny tokenizer; 258 stands in for the placeholder.
  private static let rules = MediaRules(
    audio: MediaRules.Audio(marks: MediaMarks(opening: 300, soft: 258, closing: 301)))
  private static let template = """
    {% for m in messages %}<|im_start|>{{ m.role }}
    {% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}\
    {% elif p.type == 'audio' %}<think>{% endif %}{% endfor %}{% endif %}<|im_end|>
    {% endfor %}
    """

  private func scope(_ rules: MediaRules = AudioRouteTests.rules) throws -> RequestScope {
    let template = try ChatTemplate(source: Self.template, specialTokens: [], localTime: { (0, 0) })
    let model = LoadedModel(
      id: "m", created: 0, service: FakeService("x"), tokenizer: tinyTokenizer, template: template,
      endTokens: [Marker.end], media: rules)
    let server = ServerContext(models: ModelFleet(ResidentModel(model)), settings: ServerSettings())
    return RequestScope(server: server, lease: try server.models.lease(""))
  }

  /// Silence, 16 bits at 16,000 samples per second.
  private func wav(samples: Int) -> [UInt8] {
    func little(_ value: Int, _ count: Int) -> [UInt8] {
      (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }
    let format =
      little(1, 2) + little(1, 2) + little(16_000, 4) + little(32_000, 4) + little(2, 2) + little(16, 2)
    return Array("RIFF".utf8) + little(36 + 2 * samples, 4) + Array("WAVEfmt ".utf8) + little(16, 4) + format
      + Array("data".utf8) + little(2 * samples, 4) + [UInt8](repeating: 0, count: 2 * samples)
  }

  private func audio(_ data: String, format: String = "wav") -> JSONValue {
    ["type": "input_audio", "input_audio": ["data": .string(data), "format": .string(format)]]
  }

  private func prompt(
    _ content: JSONValue, _ scope: RequestScope, _ attachments: [ByteKey: [UInt8]] = [:]
  ) throws -> ModelPrompt {
    let body: JSONValue = ["model": "m", "messages": [["role": "user", "content": content]]]
    let request = try ChatRequest(body, limits: scope.limits, vocabularySize: 262)
    return try ChatPlan(scope, media: MediaResolver(scope, attachments: attachments)).makePrompt(
      request, try #require(scope.model.template))
  }

  private func refusal(_ content: JSONValue, _ scope: RequestScope) -> APIError? {
    do {
      _ = try prompt(content, scope)
      return nil
    } catch {
      return error as? APIError
    }
  }

  @Test func `an audio clip takes the place of the token that the template wrote`() throws {
    let scope = try scope()
    let bytes = wav(samples: 16_000)
    let data = Base64.encode(bytes)
    let result = try prompt([["type": "text", "text": "a"], audio(data)], scope)
    #expect(result.media.map(\.positions.count) == [25] && result.media.first?.input.kind == .audio)
    let start = try #require(result.media.first?.start)
    #expect(result.tokens[start - 1] == 300 && result.tokens[start + 25] == 301)
    #expect(result.tokens[start..<start + 25].allSatisfy { $0 == 258 })
    // The head of a data URL, an attachment and capital letters make no difference.
    for other in [
      try prompt(
        [["type": "text", "text": "a"], audio("data:audio/wav;base64," + data, format: "WAV")], scope),
      try prompt([["type": "text", "text": "a"], audio("attachment:s")], scope, [ByteKey("s"): bytes]),
    ] {
      #expect(other.tokens == result.tokens)
      #expect(other.media.map(\.input.digest) == result.media.map(\.input.digest))
    }
  }

  @Test func `what is no audio is refused with its place and what to do`() throws {
    let scope = try scope()
    let place = "messages[0].content[0].input_audio"
    for format in ["mp3", "flac", "ogg", "pcm16", ""] {
      let error = refusal([audio("AAAA", format: format)], scope)
      #expect(error?.code == "unsupported_value" && error?.param == place + ".format", "\(format)")
    }
    #expect(refusal([audio("!")], scope)?.code == "invalid_value")
    #expect(refusal([audio("attachment:none")], scope)?.param == place + ".data")
    for (bytes, words) in [
      (Array("fLaC1234".utf8), "FLAC"), ([1, 2, 3], "not a WAV"), (wav(samples: 480_001), "at most 30"),
      (wav(samples: 160), "at least 11"), (Array(wav(samples: 1000).prefix(500)), "only 456 are left"),
    ] {
      let error = refusal([audio(Base64.encode(bytes))], scope)
      #expect(error?.code == "invalid_audio" && error?.param == place + ".data" && error?.status == 400)
      #expect(error?.message.contains(words) == true, "\(error?.message ?? "accepted")")
    }
  }

  @Test func `a model without audio says so`() throws {
    let error = refusal([audio("AAAA")], try scope(MediaRules()))
    #expect(error?.code == "unsupported_value" && error?.param == "messages[0].content[0].type")
    #expect(error?.message.contains("'m' takes no sound") == true)
    #expect(error?.message.contains("--no-audio") == false)
  }

  @Test func `a flag that takes the encoder from a model is named`() throws {
    var rules = MediaRules()
    rules.switchedOff = [.audio]
    let error = refusal([audio("AAAA")], try scope(rules))
    #expect(
      error?.message.contains("the model 'm' takes no sound: this server was started with --no-audio") == true
    )
  }

  @Test func `usage counts the tokens of audio where there are any`() {
    #expect(
      Usage(promptTokens: 40, cachedTokens: 3, audioTokens: 25).json["prompt_tokens_details"]
        == ["cached_tokens": 3, "audio_tokens": 25])
    #expect(Usage(promptTokens: 40, cachedTokens: 3).json["prompt_tokens_details"] == ["cached_tokens": 3])
  }
}
