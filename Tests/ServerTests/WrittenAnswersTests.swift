// The next turn's prompt holds the tokens that an answer was written with, also where a tokenizer would cut its text otherwise.

import Chat
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Support
import Testing
import Tokenizers
import Wire

@testable import Server

struct WrittenAnswersTests {
  private let tokenizer: Tokenizer
  /// The answer with a token for each of its letters.
  private let letters: [Int32]

  init() throws {
    let folder = TestData.fixtures + "/models/demo/"
    let tokenizer = try Tokenizer(tokenizerJSON: TestData.bytes(folder + "tokenizer.json"))
    self.tokenizer = tokenizer
    letters = try "Hello".map { try #require(tokenizer.id(of: String($0))) }
    #expect(tokenizer.encode("Hello", addSpecialTokens: false).count < letters.count)
  }

  private func app(_ service: FakeService, configure: (inout ServerSettings) -> Void = { _ in }) throws -> App
  {
    let count = Monitor(0)
    var settings = ServerSettings()
    settings.makeID = {
      count.update {
        $0 += 1
        return "\($0)"
      }
    }
    configure(&settings)
    let template = try ChatTemplate(
      source: """
        {%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}{% endfor -%}
        {%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
        """, specialTokens: []
    ) { (0, 0) }
    return App(
      LoadedModel(
        id: "m", created: 5, service: service, tokenizer: tokenizer, template: template, endTokens: [1]),
      settings: settings)
  }

  private func service() -> FakeService { FakeService { [letters] _, _ in Script(extraTokens: letters) } }

  private func respond(_ app: App, _ members: String) throws -> JSONValue {
    let answer = try app.send("POST", "/v1/responses", body: #"{"model":"m","input":"hi",\#(members)}"#)
    #expect(
      answer.status == 200 && answer.json["output"]?[0]?["content"]?[0]?["text"] == "Hello", "\(answer)")
    return answer.json
  }

  /// Whether the second prompt goes on with the first one and its answer as it was written.
  private func goesOn(_ service: FakeService) throws -> Bool {
    let prompts = service.requests.map(\.promptTokens)
    try #require(prompts.count == 2)
    let text = tokenizer.decode(prompts[1], skipSpecialTokens: false)
    #expect(text.hasPrefix(tokenizer.decode(prompts[0], skipSpecialTokens: false) + "Hello<|im_end|>"))
    return prompts[1].starts(with: prompts[0] + letters)
  }

  private func chat(_ app: App, _ history: [String], _ context: ConnectionContext = ConnectionContext())
    throws
  {
    let messages = history.enumerated().map { index, text -> JSONValue in
      ["role": index % 2 == 0 ? "user" : "assistant", "content": .string(text)]
    }
    let body: JSONValue = ["model": "m", "messages": .array(messages)]
    #expect(try app.send("POST", "/v1/chat/completions", body: body.text, context: context).status == 200)
  }

  @Test func `a chat that sends an answer back finds its tokens, and another client does not`() throws {
    for isOther in [false, true] {
      let service = service()
      let app = try app(service)
      try chat(app, ["hi"])
      let context = ConnectionContext()
      context.client = ClientIdentity(number: isOther ? 7 : 0)
      try chat(app, ["hi", "Hello", "and?"], context)
      #expect(try goesOn(service) != isOther)
    }
  }

  @Test(arguments: ["Hello!", "Jello", "hello"])
  func `an answer that was changed is tokenised`(text: String) throws {
    let service = service()
    let app = try app(service)
    try chat(app, ["hi"])
    try chat(app, ["hi", text, "and?"])
    let prompt = try #require(service.requests.last).promptTokens
    #expect(
      prompt
        == tokenizer.encode(tokenizer.decode(prompt, skipSpecialTokens: false), addSpecialTokens: false))
  }

  @Test func `an answer that the tokenizer would cut alike is not kept`() throws {
    let usual = tokenizer.encode("Hello", addSpecialTokens: false)
    let service = FakeService { _, _ in Script(extraTokens: usual) }
    let app = try app(service)
    try chat(app, ["hi"])
    let prompt = try #require(service.requests.first).promptTokens
    let model = LoadedModel(
      id: "m", created: 5, service: service, tokenizer: tokenizer, template: nil, endTokens: [1])
    let place = AnswerPlace(after: tokenizer.decode(prompt, skipSpecialTokens: false))
    #expect(model.remember(usual, after: prompt, at: place) == nil)
    #expect(model.remember(letters, after: prompt, at: place)?.tokens == letters)
  }

  @Test(arguments: ["previous_response_id", "conversation"])
  func `a stored answer keeps its tokens, also after a restart`(field: String) throws {
    let disk = SimulatedDisk()
    func stored() throws -> ResponseStore {
      var settings = ResponseStore.Settings()
      settings.folder = "/state"
      return try ResponseStore(settings, files: disk)
    }
    let first = service()
    var link = ""
    do {
      let store = try stored()
      let app = try app(first) { $0.store = store }
      if field == "conversation" {
        link = try #require(app.send("POST", "/v1/conversations", body: "{}").json["id"]?.stringValue)
        _ = try respond(app, #""conversation":"\#(link)""#)
      } else {
        link = try #require(respond(app, #""store":true"#)["id"]?.stringValue)
      }
    }
    let second = service()
    let store = try stored()
    _ = try respond(app(second) { $0.store = store }, #""\#(field)":"\#(link)""#)
    let prompts = (first.requests + second.requests).map(\.promptTokens)
    try #require(prompts.count == 2)
    #expect(prompts[1].starts(with: prompts[0] + letters))
  }

  @Test func `a record without tokens, as earlier versions wrote it, is read; damage is no answer`() throws {
    let made = StoredResponse(body: JSONObject([("id", "r")]), context: [], input: [], reasoning: .openai)
    #expect(StoredResponse(made.bytes) == made && !made.bytes.contains("written".utf8))
    let place = AnswerPlace(after: "x")
    let model = LoadedModel(
      id: "m", created: 5, service: service(), tokenizer: tokenizer, template: nil, endTokens: [1])
    var other = made
    other.written = [try #require(model.remember(letters, after: [], at: place))]
    #expect(StoredResponse(other.bytes) == other)
    for damage: JSONValue in [
      nil, [:], ["start": -1, "before": "", "tokens": []], ["start": 1, "before": "00"],
    ] {
      #expect(WrittenAnswer(damage) == nil)
    }
  }
}
