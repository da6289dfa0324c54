// Which calls an answer may hold, as a pattern in the model's own way of writing them.

package import Grammar
package import JSON
package import Tokenizers

/// A tool that may be called, and what its arguments may be.
package struct CallableTool: Sendable, Equatable {
  /// What the arguments of a call may be.
  package enum Arguments: Sendable, Equatable {
    case none
    case anyObject
    case schema(JSONValue)
    /// One argument of this name, a text that the pattern derives.
    case text(name: String, Pattern)
  }

  package var name: String
  package var arguments: Arguments

  package init(name: String, arguments: Arguments) {
    (self.name, self.arguments) = (name, arguments)
  }
}

/// What an answer must look like when its calls are constrained.
package struct CallRules: Sendable, Equatable {
  package var tools: [CallableTool]
  /// Whether the answer consists of calls; otherwise it may be content, or content and then calls.
  package var isForced: Bool
  /// Most calls; nil has no bound.
  package var maxCalls: Int?
  /// What the content must look like when there is no call; nil leaves it free.
  package var content: Pattern?

  package init(tools: [CallableTool], isForced: Bool, maxCalls: Int?, content: Pattern?) {
    (self.tools, self.isForced, self.maxCalls) = (tools, isForced, maxCalls)
    self.content = content
  }
}

extension OutputFormat {
  /// - Throws: when this model's way of writing calls cannot express a schema.
  package func pattern(for rules: CallRules, tokenizer: Tokenizer) throws(GrammarError) -> Pattern {
    guard let syntax = syntax(for: ToolSchemas([])) else { return .choice([]) }
    let writer = CallWriter(tokenizer: tokenizer, maxCalls: rules.maxCalls)
    let calls = try syntax.pattern(of: rules.tools, writer)
    if rules.isForced { return calls }
    if let content = rules.content { return .choice([calls, framed(content, tokenizer: tokenizer)]) }
    return syntax.mixed(calls, writer)
  }

  /// Text in which no call begins; nil where no text is a call.
  package func callFree(tokenizer: Tokenizer) -> Pattern? {
    syntax(for: ToolSchemas([]))?.mixed(.choice([]), CallWriter(tokenizer: tokenizer, maxCalls: nil))
  }

  /// Content as the answer holds it: where answers are messages, after a header.
  package func framed(_ content: Pattern, tokenizer: Tokenizer) -> Pattern {
    let writer = CallWriter(tokenizer: tokenizer, maxCalls: nil)
    return switch reasoning {
    case .harmony: HarmonyCalls.final(content, writer)
    case .addressed: AddressedCalls.message(to: "user", content, writer)
    default: content
    }
  }

  /// One call of a tool.
  package func pattern(of tool: CallableTool, tokenizer: Tokenizer) throws(GrammarError) -> Pattern {
    try pattern(
      for: CallRules(tools: [tool], isForced: true, maxCalls: 1, content: nil), tokenizer: tokenizer)
  }
}

/// Parts of patterns that the syntaxes share.
struct CallWriter {
  let tokenizer: Tokenizer
  let maxCalls: Int?

  /// A marker: one token where the vocabulary has it.
  func marker(_ text: String) -> Pattern { tokenizer.id(of: text).map(Pattern.token) ?? .literal(text) }

  /// One or more calls, as many as are allowed.
  func list(_ call: Pattern, separator: Pattern) -> Pattern {
    guard maxCalls != 1 else { return call }
    return .sequence([
      call, .repeated(.sequence([separator, call]), min: 0, max: maxCalls.map { max(0, $0 - 1) }),
    ])
  }

  /// The JSON text of the arguments.
  func json(_ arguments: CallableTool.Arguments) -> Pattern {
    switch arguments {
    case .none: .literal("{}")
    case .anyObject: .anyObject
    case .schema(let schema): .schema(schema)
    case .text(let name, let text):
      .sequence([
        .literal("{\(JSONValue.string(name).text):"), .choice([.literal(""), .literal(" ")]), .quoted(text),
        .literal("}"),
      ])
    }
  }

  /// `{"name": "f", "arguments": {...}}` for one of the tools.
  func objects(_ tools: [CallableTool], key: String) -> Pattern {
    .choice(
      tools.map { tool in
        .sequence([
          .literal("{\"name\": \(JSONValue.string(tool.name).text), \"\(key)\": "), json(tool.arguments),
          .literal("}"),
        ])
      })
  }
}

extension CallSyntax {
  /// Free text, and calls after it: what opens a call in the text is a call.
  func mixed(_ calls: Pattern, _ writer: CallWriter) -> Pattern {
    .sequence([
      .text(excluding: openings.map { Bytes.text($0.marker) }), .choice([.literal(""), calls]),
    ])
  }
}

extension QwenCalls {
  func pattern(of tools: [CallableTool], _ writer: CallWriter) -> Pattern {
    writer.list(
      .sequence([
        writer.marker("<tool_call>"), .literal("\n"), writer.objects(tools, key: "arguments"), .literal("\n"),
        writer.marker("</tool_call>"),
      ]), separator: .literal("\n"))
  }
}

extension LlamaCalls {
  func pattern(of tools: [CallableTool], _ writer: CallWriter) -> Pattern {
    writer.list(writer.objects(tools, key: "parameters"), separator: .literal("; "))
  }

  /// Nothing but its beginning tells a call from text, so text does not begin with a brace.
  func mixed(_ calls: Pattern, _ writer: CallWriter) -> Pattern {
    .choice([
      .literal(""), calls,
      .sequence([.regex("[^{\\s]"), .text(excluding: ["<|python_tag|>"])]),
    ])
  }
}

extension PhiCalls {
  func pattern(of tools: [CallableTool], _ writer: CallWriter) -> Pattern {
    .sequence([
      writer.marker("<|tool_call|>"), .literal("["),
      writer.list(writer.objects(tools, key: "arguments"), separator: .literal(", ")), .literal("]"),
      writer.marker("<|/tool_call|>"),
    ])
  }
}

extension MistralCalls {
  func pattern(of tools: [CallableTool], _ writer: CallWriter) -> Pattern {
    let marker = writer.marker("[TOOL_CALLS]")
    guard form != .array else {
      return .sequence([
        marker, .choice([.literal(""), .literal(" ")]), .literal("["),
        writer.list(writer.objects(tools, key: "arguments"), separator: .literal(", ")), .literal("]"),
      ])
    }
    let id: [Pattern] =
      form == .identified ? [writer.marker("[CALL_ID]"), .regex("[a-zA-Z0-9]{9}")] : []
    return writer.list(
      .choice(
        tools.map { tool in
          .sequence(
            [marker, .literal(tool.name)] + id + [writer.marker("[ARGS]"), writer.json(tool.arguments)])
        }), separator: .literal(""))
  }
}
