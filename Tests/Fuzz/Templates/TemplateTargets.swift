// Chat templates.

import Driver
import JSON

@testable import Jinja

@_cdecl("fuzz_templates_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) -> CInt {
  Fuzz.run(count, arguments, ["jinja": TemplateTargets.template, "render": TemplateTargets.render])
}

enum TemplateTargets {
  private static let conversation: JSONObject = {
    let value: JSONValue = [
      "messages": [
        ["role": "system", "content": "s"], ["role": "user", "content": "hi {{ x }}"],
        [
          "role": "assistant", "content": .null,
          "tool_calls": [["function": ["name": "f", "arguments": ["a": 1]]]],
        ],
      ],
      "tools": [["type": "function", "function": ["name": "f", "parameters": ["type": "object"]]]],
      "add_generation_prompt": true, "bos_token": "<s>", "n": 3, "x": 1.5, "s": "a\u{301}b",
    ]
    return value.objectValue ?? JSONObject()
  }()

  /// Reads a template, and does not render it.
  static func template(_ bytes: [UInt8]) {
    _ = try? JinjaTemplate(source: String(decoding: bytes, as: UTF8.self))
  }

  static func render(_ bytes: [UInt8]) {
    var limits = JinjaLimits()
    limits.steps = 5000
    limits.outputBytes = 1 << 14
    guard let template = try? JinjaTemplate(source: String(decoding: bytes, as: UTF8.self), limits: limits)
    else { return }
    let text = try? template.render(conversation) { CalendarTime(secondsSince1970: 0) }
    check((text?.utf8.count ?? 0) <= limits.outputBytes, "the output keeps its bound")
  }
}
