// The next turn's prompt is computed ahead where its beginning is not what was computed with the answer.

import Chat
import Inference
import Pipeline
import Platform
import Testing
import Tokenizers

@testable import Server

/// Shows the reasoning of answers that no user's message follows, as many templates do.
private let forgetful = """
  {%- set count = messages | selectattr('role', 'equalto', 'user') | list | length -%}
  {%- set users = namespace(seen=0) -%}
  {%- for m in messages -%}
  {%- if m.role == 'user' %}{% set users.seen = users.seen + 1 %}{% endif -%}
  {{- '[' ~ m.role ~ ']' -}}
  {%- if m.role == 'assistant' and users.seen == count %}{{ '<think></think>' }}{% endif -%}
  {{- m.content -}}
  {%- endfor -%}
  {%- if add_generation_prompt %}{{ '[assistant]' }}{% endif -%}
  """

private func app(_ service: FakeService, _ template: String = forgetful) throws -> App {
  let template = try ChatTemplate(source: template, specialTokens: []) { (0, 0) }
  return App(
    LoadedModel(
      id: "m", created: 5, service: service, tokenizer: tinyTokenizer, template: template,
      endTokens: [Marker.end]))
}

/// The prompts that the engine got, once there are `count` of them, or after two seconds.
private func prompts(_ service: FakeService, _ count: Int) -> [String] {
  for _ in 0..<200 where service.requests.count < count { usleep(10_000) }
  return service.requests.map { tinyTokenizer.decode($0.promptTokens, skipSpecialTokens: false) }
}

struct NextTurnTests {
  private let long = String(repeating: "An answer of some length. ", count: 4) + "End."

  @Test func `what a template writes otherwise when the user goes on is computed ahead, and gives way`()
    throws
  {
    let answer = long
    let service = FakeService { _, _ in Script(text: "<think>Hm.</think>" + answer) }
    #expect(try app(service).chat("").status == 200)
    let prompts = prompts(service, 2)
    #expect(prompts == ["[user]hi[assistant]", "[user]hi[assistant]\(answer)[user]"])
    #expect(service.requests.map(\.givesWay) == [false, true] && service.requests.last?.maxTokens == 1)
  }

  @Test(arguments: ["short", "cut", "plain"])
  func `nothing is computed ahead of what is there, or cannot be known`(name: String) throws {
    let answer = name == "short" ? "Hello!" : long
    let service = FakeService { _, _ in
      Script(
        text: (name == "plain" ? "" : "<think>Hm.</think>") + answer, end: name == "cut" ? .length : .stop)
    }
    // Without the marks of reasoning the next prompt begins with this one and its answer.
    let plain =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
    #expect(try app(service, name == "plain" ? plain : forgetful).chat("").status == 200)
    usleep(200_000)
    #expect(service.requests.count == 1)
  }
}
