// What an answer may say, and the guide that holds the model to it.

package import Chat
package import Decoding
package import Grammar
package import Tokenizers

/// The calls and the content that an answer may have.
package struct AnswerRules: Sendable {
  /// A tool whose calls are calls; others are text.
  package struct Tool: Sendable {
    let callable: CallableTool
    /// Whether the schema of the arguments is a promise; otherwise it gives way where it cannot be enforced.
    let isStrict: Bool

    package init(_ callable: CallableTool, isStrict: Bool) {
      (self.callable, self.isStrict) = (callable, isStrict)
    }
  }

  package var tools: [Tool] = []
  /// Whether the answer must consist of calls.
  package var isForced = false
  /// Whether there may be none, although the model knows of tools.
  package var forbidsCalls = false
  /// Whether arguments are held to schemas, as far as they can be, where no tool is strict and no call is forced.
  package var holdsArguments = false
  /// Most calls; nil has no bound.
  package var maxCalls: Int?
  /// What the content must look like when there is no call; nil leaves it free.
  package var content: Pattern?
  /// Whether objects may have members that their schemas do not declare and do not forbid.
  package var allowsUndeclaredMembers = false

  package init() {}

  /// Whether any text will do, so that no grammar is needed.
  package var isFree: Bool {
    guard isForced || !tools.isEmpty else { return content == nil && !forbidsCalls }
    return !isForced && !holdsArguments && content == nil && !tools.contains(where: \.isStrict)
  }
}

extension AnswerRules {
  /// A pattern with its schemas read as these rules say.
  fileprivate func read(_ pattern: Pattern) -> Pattern {
    allowsUndeclaredMembers ? pattern : .declared(pattern)
  }
}

extension LoadedModel {
  /// The grammar of an answer; nil where any text will do.
  ///
  /// - Parameter isUnwanted: whether nobody waits for the answer any more; asked while a grammar is compiled.
  package func grammar(
    of rules: AnswerRules, format: OutputFormat, isUnwanted: @escaping () -> Bool = { false }
  ) throws(RulesError) -> CompiledGrammar? {
    guard !rules.isFree else { return nil }
    if !rules.isForced, rules.tools.isEmpty {
      let pattern = rules.content.map { format.framed($0, tokenizer: tokenizer) }
      guard let pattern = pattern ?? format.callFree(tokenizer: tokenizer) else { return nil }
      do throws(GrammarError) {
        return try grammars.grammar(for: rules.read(pattern), isUnwanted: isUnwanted)
      } catch {
        throw .content(error)
      }
    }
    var calls = CallRules(
      tools: rules.tools.map(\.callable), isForced: rules.isForced, maxCalls: rules.maxCalls,
      content: rules.content)
    do throws(GrammarError) {
      return try grammar(of: calls, rules, format, isUnwanted)
    } catch {
      guard error != .unwanted else { throw .tools(error) }
      // Which one is it? Schemas that are no promise give way.
      calls.tools = []
      for (index, tool) in rules.tools.enumerated() {
        calls.tools.append(try enforceable(tool, at: index, rules, format, isUnwanted))
      }
    }
    do throws(GrammarError) {
      return try grammar(of: calls, rules, format, isUnwanted)
    } catch {
      throw rules.content == nil ? .tools(error) : .content(error)
    }
  }

  private func grammar(
    of calls: CallRules, _ rules: AnswerRules, _ format: OutputFormat, _ isUnwanted: @escaping () -> Bool
  ) throws(GrammarError) -> CompiledGrammar {
    try grammars.grammar(
      for: rules.read(format.pattern(for: calls, tokenizer: tokenizer)), isUnwanted: isUnwanted)
  }

  /// The tool with arguments that can be enforced.
  private func enforceable(
    _ tool: AnswerRules.Tool, at index: Int, _ rules: AnswerRules, _ format: OutputFormat,
    _ isUnwanted: @escaping () -> Bool
  ) throws(RulesError) -> CallableTool {
    do throws(GrammarError) {
      _ = try grammars.grammar(
        for: rules.read(format.pattern(of: tool.callable, tokenizer: tokenizer)), isUnwanted: isUnwanted)
      return tool.callable
    } catch {
      guard !tool.isStrict, error != .unwanted else { throw .tool(index: index, error) }
      return CallableTool(name: tool.callable.name, arguments: .anyObject)
    }
  }

  /// The guide of an answer that begins after a prompt; nil where the answer is free.
  ///
  /// - Parameters:
  ///   - mayReason: whether reasoning may come before the answer, if the model does that at all.
  ///   - budget: most tokens of the reasoning; nil for no bound.
  package func guide(
    _ grammar: CompiledGrammar?, format: OutputFormat, promptTail: String, mayReason: Bool, budget: Int? = nil
  ) -> Guide? {
    var reasoning: Guide.Reasoning?
    if mayReason, format.supportsReasoning, grammar != nil || budget != nil {
      let markers = format.reasoningMarkers
      reasoning = Guide.Reasoning(
        tokenizer: tokenizer, open: markers.open, close: markers.close, lead: markers.lead,
        separator: markers.separator, budget: budget,
        startsInside: format.startsInsideReasoning(promptTail: promptTail))
    }
    return grammar == nil && reasoning == nil ? nil : Guide(reasoning: reasoning, grammar: grammar)
  }
}

extension Tokenizer {
  /// The bytes of UTF-8 that no constrained answer can have, in words: no token has them alone.
  package var missingBytes: [String] {
    GrammarVocabulary(tokenizer: self, endTokens: []).missingBytes.map(\.asHexadecimal)
  }
}
