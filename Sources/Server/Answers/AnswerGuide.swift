// From what a request allows its answer to say to the guide that holds the model to it.

import Chat
import Decoding
import Grammar
import JSON
import OpenAI
import Tokenizers

struct AnswerGuide {
  let core: RequestContext
  let request: ChatRequest
  let template: ChatTemplate

  private var format: OutputFormat { template.format }
  private var tokenizer: Tokenizer { core.model.tokenizer }

  /// The tools whose calls are calls; others are text.
  var callableTools: [Tool] {
    guard case .named(let name) = request.toolChoice else { return request.tools }
    return request.tools.filter { $0.name.utf8.elementsEqual(name.utf8) }
  }

  /// - Throws: 400 for what cannot be enforced, with the field that asks for it.
  func make(prompt: ModelPrompt) throws(APIError) -> Guide? {
    let grammar = try compile()
    if grammar != nil { try request.options.checkConstrained() }
    let thought = try thought(prompt: prompt, hasGrammar: grammar != nil)
    guard grammar != nil || thought != nil else { return nil }
    var guide = Guide(thought: thought, grammar: grammar)
    if request.continuesFinalMessage, grammar != nil {
      let text = ChatTemplate.continuedText(of: request.messages.last)
      guard guide.accept(prefix: tokenizer.encode(text, addSpecialTokens: false)) else {
        throw .invalidValue(
          request.continuationField, "the text to continue does not begin an allowed answer")
      }
    }
    return guide
  }

  // MARK: The thought

  private func thought(prompt: ModelPrompt, hasGrammar: Bool) throws(APIError) -> Guide.Thought? {
    let budget = try budget()
    // The switch has closed the thought in the prompt.
    let isOff = request.thinking == false && format.supportsThinkingSwitch
    guard format.supportsReasoning, !isOff, !request.continuesFinalMessage, hasGrammar || budget != nil else {
      return nil
    }
    let markers = format.thoughtMarkers
    return Guide.Thought(
      tokenizer: tokenizer, open: markers.open, close: markers.close, lead: markers.lead,
      separator: markers.separator, budget: budget,
      startsInside: format.startsInsideThought(promptTail: prompt.text))
  }

  /// Most tokens of the thought: as asked for, none when a template without a switch is told not to think, or by the
  /// level of effort where the template knows no levels.
  private func budget() throws(APIError) -> Int? {
    if let budget = request.thinkingBudget {
      guard format.supportsReasoning else {
        throw .unsupportedParameter(budget.field, "the model '\(core.model.id)' does not think")
      }
      return budget.tokens
    }
    if request.thinking == false { return 0 }
    guard !format.supportsEffort else { return nil }
    switch request.reasoningEffort {
    case "minimal": return 512
    case "low": return 1024
    case "medium": return 8192
    default: return nil
    }
  }

  // MARK: The grammar

  private func compile() throws(APIError) -> CompiledGrammar? {
    let content = request.format.map { ContentPattern($0).pattern }
    let isForced: Bool
    switch request.toolChoice {
    case .none:
      guard let content, let format = request.format else { return nil }
      return try core.compile(content, param: format.param)
    case .auto:
      guard content != nil || callableTools.contains(where: \.isStrict) else { return nil }
      isForced = false
    case .required, .named: isForced = true
    }
    let isSingle = if case .named = request.toolChoice { true } else { !request.allowsParallelCalls }
    var rules = CallRules(tools: [], isForced: isForced, maxCalls: isSingle ? 1 : nil, content: content)
    rules.tools = callableTools.map(callable)
    do throws(GrammarError) {
      return try core.grammar(format.pattern(for: rules, tokenizer: tokenizer))
    } catch {
      // Which one is it? Schemas that are no promise give way.
      rules.tools = try callableTools.map { (tool) throws(APIError) in try checked(tool) }
    }
    do throws(GrammarError) {
      return try core.grammar(format.pattern(for: rules, tokenizer: tokenizer))
    } catch {
      throw APIError(error, param: request.format?.param ?? "tools")
    }
  }

  private func callable(_ tool: Tool) -> CallableTool {
    CallableTool(name: tool.name, arguments: tool.parameters.map { .schema($0) } ?? .none)
  }

  /// The tool with arguments that can be enforced.
  private func checked(_ tool: Tool) throws(APIError) -> CallableTool {
    let callable = callable(tool)
    do throws(GrammarError) {
      _ = try core.grammar(format.pattern(of: callable, tokenizer: tokenizer))
      return callable
    } catch {
      guard !tool.isStrict else { throw APIError(error, param: tool.parametersField) }
      return CallableTool(name: tool.name, arguments: .anyObject)
    }
  }
}

/// The pattern of an answer's content.
struct ContentPattern {
  let pattern: Pattern

  init(_ format: ResponseFormat) {
    switch format.form {
    case .anyObject: pattern = .anyObject
    case .schema(let schema): pattern = .schema(schema)
    case .regex(let expression): pattern = .regex(expression)
    case .choice(let texts): pattern = .choice(texts.map(Pattern.literal))
    case .grammar(let text): pattern = .gbnf(text)
    }
  }
}

extension RequestContext {
  func grammar(_ pattern: Pattern) throws(GrammarError) -> CompiledGrammar {
    try model.grammars.grammar(for: pattern)
  }

  /// - Parameter param: the field that holds the constraint.
  func compile(_ pattern: Pattern, param: String) throws(APIError) -> CompiledGrammar {
    do throws(GrammarError) {
      return try grammar(pattern)
    } catch {
      throw APIError(error, param: param)
    }
  }
}
