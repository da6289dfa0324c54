// From what a request allows its answer to say to the guide that holds the model to it.

import Chat
import Decoding
import Grammar
import JSON
import OpenAI
import Pipeline
import Tokenizers

struct AnswerGuide {
  let core: RequestContext
  let request: ChatRequest
  let template: ChatTemplate
  /// Whether nobody waits for the answer any more; asked while its grammar is compiled.
  let isUnwanted: () -> Bool

  private var format: OutputFormat { template.format }

  /// The tools whose calls are calls; others are text.
  var callableTools: [Tool] {
    guard case .named(let name) = request.toolChoice else { return request.tools }
    return request.tools.filter { $0.name.utf8.elementsEqual(name.utf8) }
  }

  /// - Throws: 400 for what cannot be enforced, with the field that asks for it.
  func make(prompt: ModelPrompt) throws(APIError) -> Guide? {
    let grammar = try compile()
    if grammar != nil { try request.options.checkConstrained() }
    let budget = try budget()
    // The switch has closed the reasoning in the prompt.
    let isOff = request.thinking == false && format.supportsThinkingSwitch
    var guide = core.model.guide(
      grammar, format: format, promptTail: prompt.text,
      mayReason: !isOff && !request.continuesFinalMessage, budget: budget)
    if request.continuesFinalMessage, grammar != nil {
      let text = ChatTemplate.continuedText(of: request.messages.last)
      let prefix = core.model.tokenizer.encode(text, addSpecialTokens: false)
      guard guide?.accept(prefix: prefix) == true else {
        throw .invalidValue(
          request.continuationField, "the text to continue does not begin an allowed answer")
      }
    }
    return guide
  }

  /// Most tokens of reasoning: as the request says, none when a template without a switch is told not to reason, or by
  /// the level of effort where the template knows no levels.
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

  private var rules: AnswerRules {
    var rules = AnswerRules()
    rules.content = request.format.map { ContentPattern($0).pattern }
    if case .none = request.toolChoice { return rules }
    rules.tools = callableTools.map { tool in
      AnswerRules.Tool(
        CallableTool(name: tool.name, arguments: tool.parameters.map { .schema($0) } ?? .none),
        isStrict: tool.isStrict)
    }
    switch request.toolChoice {
    case .none, .auto: break
    case .required, .named: rules.isForced = true
    }
    let isSingle = if case .named = request.toolChoice { true } else { !request.allowsParallelCalls }
    rules.maxCalls = isSingle ? 1 : nil
    return rules
  }

  private func compile() throws(APIError) -> CompiledGrammar? {
    do throws(RulesError) {
      return try core.model.grammar(of: rules, format: format, isUnwanted: isUnwanted)
    } catch {
      switch error {
      case .content(let error): throw APIError(error, param: request.format?.param ?? "tools")
      case .tools(let error): throw APIError(error, param: "tools")
      case .tool(let index, let error): throw APIError(error, param: callableTools[index].parametersField)
      }
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
  /// - Parameters:
  ///   - param: the field that holds the constraint.
  ///   - isUnwanted: whether nobody waits for the answer any more; asked now and then.
  func compile(
    _ pattern: Pattern, param: String, isUnwanted: @escaping () -> Bool
  ) throws(APIError) -> CompiledGrammar {
    do throws(GrammarError) {
      return try model.grammars.grammar(for: pattern, isUnwanted: isUnwanted)
    } catch {
      throw APIError(error, param: param)
    }
  }
}
