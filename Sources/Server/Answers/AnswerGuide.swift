// From what a request allows its answer to say to the guide that holds the model to it.

import Chat
import Decoding
import Grammar
import JSON
import Pipeline
import Tokenizers
import Wire

struct AnswerGuide {
  let scope: RequestScope
  let request: ChatRequest
  let template: ChatTemplate
  /// Whether nobody waits for the answer any more; asked while its grammar is compiled.
  let isUnwanted: () -> Bool

  private var format: OutputFormat { template.format }

  /// The tools whose calls are calls; others are text.
  var callableTools: [Tool] {
    switch request.toolChoice {
    case .none: []
    case .auto, .required: request.tools
    case .named(let name): request.tools.filter { $0.name.utf8.elementsEqual(name.utf8) }
    }
  }

  /// Whether any text will do, and what makes the guide, which takes no time then.
  ///
  /// - Throws: 400 for what is known at once not to be possible; what is made throws it for what cannot be enforced. Both
  ///   name the field that asks for it.
  func maker(prompt: ModelPrompt) throws(APIError) -> (isFree: Bool, make: AnswerRun.GuideMaker) {
    let rules = try rules()
    if !rules.isFree {
      try request.options.checkConstrained()
      // Not even the prompt is computed for a client that has left.
      if isUnwanted() { throw APIError(AnswerFailure.clientGone, param: request.messagesField) }
    }
    let budget = try budget()
    // The switch has closed the reasoning in the prompt.
    let isOff = request.thinking == false && format.supportsThinkingSwitch
    let make: AnswerRun.GuideMaker = { () throws(APIError) -> Guide? in
      let grammar = try compile(rules)
      grammar?.prepare(isUnwanted: isUnwanted)
      var guide = scope.model.guide(
        grammar, format: format, promptTail: prompt.text,
        mayReason: !isOff && !request.continuesFinalMessage, budget: budget)
      if request.continuesFinalMessage, grammar != nil {
        let text = ChatTemplate.continuedText(of: request.messages.last)
        let prefix = scope.model.tokenizer.encode(text, addSpecialTokens: false)
        guard guide?.accept(prefix: prefix) == true else {
          throw .invalidValue(
            request.continuationField, "the text to continue does not begin an allowed answer")
        }
      }
      return guide
    }
    return (rules.isFree, make)
  }

  /// Most tokens of reasoning: as the request says, none when a template without a switch is told not to reason, or by
  /// the level of effort where the template knows no levels.
  private func budget() throws(APIError) -> Int? {
    if let budget = request.thinkingBudget {
      guard format.supportsReasoning else {
        throw .unsupportedParameter(budget.field, "the model '\(scope.model.id)' does not think")
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

  private func rules() throws(APIError) -> AnswerRules {
    var rules = AnswerRules()
    if let format = request.format { rules.content = try scope.pattern(of: format, quoted) }
    rules.allowsUndeclaredMembers = scope.allowsUndeclaredMembers(
      request.options, isStrict: request.format?.isStrict ?? callableTools.contains(where: \.isStrict))
    if case .none = request.toolChoice {
      // What leaves no room for a grammar leaves calls as text.
      rules.forbidsCalls = !request.tools.isEmpty && request.options.canBeConstrained
      return rules
    }
    rules.tools = callableTools.map { tool in
      AnswerRules.Tool(
        CallableTool(name: tool.name, arguments: arguments(of: tool)),
        isStrict: tool.isStrict)
    }
    // Nobody reads what other servers are sent.
    rules.holdsArguments = request.remote != nil
    switch request.toolChoice {
    case .none, .auto: break
    case .required, .named: rules.isForced = true
    }
    let isSingle = if case .named = request.toolChoice { true } else { !request.allowsParallelCalls }
    rules.maxCalls = isSingle ? 1 : nil
    return rules
  }

  private var quoted: QuotedMessages { QuotedMessages(messages: request.messages) }

  private func arguments(of tool: Tool) -> CallableTool.Arguments {
    switch tool.inputGrammar {
    case .lark(let text): .text(name: Tool.inputName, .lark(text))
    case .regex(let text): .text(name: Tool.inputName, .regex(text))
    case nil: tool.parameters.map { .schema(quoted.resolve($0)) } ?? .none
    }
  }

  private func compile(_ rules: AnswerRules) throws(APIError) -> CompiledGrammar? {
    do throws(RulesError) {
      return try scope.model.grammar(of: rules, format: format, isUnwanted: isUnwanted)
    } catch {
      switch error {
      case .content(let error): throw APIError(error, param: request.format?.param ?? "tools")
      case .tools(let error): throw APIError(error, param: "tools")
      case .tool(let index, let error): throw APIError(error, param: callableTools[index].parametersField)
      }
    }
  }
}

extension RequestScope {
  /// The pattern of an answer's content.
  ///
  /// - Parameter quoted: what may be quoted of the request; nil where it has no messages.
  /// - Throws: 400 for a structural tag that is none.
  func pattern(of format: ResponseFormat, _ quoted: QuotedMessages? = nil) throws(APIError) -> Pattern {
    switch format.form {
    case .anyObject: return .anyObject
    case .schema(let schema): return .schema(quoted?.resolve(schema) ?? schema)
    case .quote(.texts(let texts)): return .quote(of: texts)
    case .quote(.messages):
      guard let quoted else {
        throw .invalidValue(format.param, "this request has no messages: give the source itself")
      }
      return .quote(of: quoted.texts)
    case .regex(let expression): return .regex(expression)
    case .choice(let texts): return .choice(texts.map(Pattern.literal))
    case .grammar(let text): return .grammar(text)
    case .structuralTag(let tag):
      do throws(GrammarError) {
        return try StructuralTag.pattern(tag, tokenizer: model.tokenizer)
      } catch {
        throw APIError(error, param: format.param)
      }
    }
  }

  /// Whether objects may have members that their schemas do not declare and do not forbid: as the request says, not
  /// where it asks for strictness, else as the server's operator has chosen.
  func allowsUndeclaredMembers(_ options: GenerationOptions, isStrict: Bool) -> Bool {
    options.allowsUndeclaredMembers ?? (isStrict ? false : settings.allowsUndeclaredMembers)
  }

  /// What makes the guide of an answer that consists of content alone; nil where any text will do.
  ///
  /// - Parameter isUnwanted: whether nobody waits for the answer any more; asked now and then.
  func guideMaker(
    _ format: ResponseFormat?, _ options: GenerationOptions, isUnwanted: @escaping () -> Bool
  ) throws(APIError) -> AnswerRun.GuideMaker? {
    guard let format else { return nil }
    try options.checkConstrained()
    if isUnwanted() { throw APIError(AnswerFailure.clientGone, param: format.param) }
    return { () throws(APIError) -> Guide? in
      Guide(grammar: try compile(format, options, isUnwanted: isUnwanted))
    }
  }

  private func compile(
    _ format: ResponseFormat, _ options: GenerationOptions, isUnwanted: @escaping () -> Bool
  ) throws(APIError) -> CompiledGrammar {
    let pattern = try pattern(of: format)
    let isOpen = allowsUndeclaredMembers(options, isStrict: format.isStrict)
    do throws(GrammarError) {
      let grammar = try model.grammars.grammar(
        for: isOpen ? pattern : .declared(pattern), isUnwanted: isUnwanted)
      grammar.prepare(isUnwanted: isUnwanted)
      return grammar
    } catch {
      throw APIError(error, param: format.param)
    }
  }
}
