// One conversation with a model, from a line of text to the pieces of its answer.

import Chat
import Decoding
import Grammar
package import Inference
package import JSON
package import Media
import Platform
package import Sampling
import Tokenizers

/// The turns so far and how to continue them. Used by one thread.
package struct ChatSession {
  /// What holds for every turn.
  package struct Settings {
    /// The system message.
    package var system: String?
    /// Nil for the model's own.
    package var sampling: SamplingParameters?
    /// Most tokens of one answer; nil for the model's `maxAnswer`.
    package var maxTokens: Int?
    /// Texts that end an answer; they are not part of it.
    package var stops: [String] = []
    /// What the model may call, in the shape of the chat completions API.
    package var tools: [JSONValue] = []
    /// Whether arguments are held to the schemas of tools that are not strict, too.
    package var holdsArguments = false
    /// The JSON Schema of every answer that calls no tool.
    package var schema: JSONValue?
    /// Whether the template is asked to switch reasoning off.
    package var switchesThinkingOff = false

    package init() {}
  }

  /// A call that waits for its result.
  package struct Call: Sendable {
    let id: String
    /// The tool.
    package let name: String
    /// JSON text.
    package let arguments: String
  }

  /// What an answer took; nil where it was ended before the engine said so.
  package typealias Timings = GenerationTimings

  private let model: LoadedModel
  private let template: ChatTemplate
  package private(set) var settings: Settings
  private var rules: AnswerRules
  /// Images and audio of all messages, in their order.
  private var media: [MediaPassage] = []
  /// The conversation, as the template gets it.
  package private(set) var messages: [JSONValue] = []
  /// Calls of the last answer without a result, in order.
  package private(set) var openCalls: [Call] = []
  private var callCount = 0
  /// The last answer, as far as it has come.
  package private(set) var answer = AnswerParts()

  /// - Throws: when the model has no chat template, or none for tools, or a tool is none.
  package init(_ model: LoadedModel, _ settings: Settings = Settings()) throws(PipelineError) {
    guard let template = model.template else { throw .noTemplate(model: model.id) }
    (self.model, self.template, self.settings) = (model, template, settings)
    rules = try Self.rules(settings, model, template)
    clear()
  }

  /// What answers may look like.
  private static func rules(
    _ settings: Settings, _ model: LoadedModel, _ template: ChatTemplate
  ) throws(PipelineError) -> AnswerRules {
    guard settings.tools.isEmpty || template.supportsTools else { throw .noTools(model: model.id) }
    var rules = AnswerRules()
    for (index, tool) in settings.tools.enumerated() {
      guard let function = tool["function"], let name = function["name"]?.stringValue else {
        throw .badTool(index: index)
      }
      let arguments = function["parameters"].map { CallableTool.Arguments.schema($0) } ?? .none
      rules.tools.append(
        AnswerRules.Tool(
          CallableTool(name: name, arguments: arguments), isStrict: function["strict"] == true))
    }
    rules.holdsArguments = settings.holdsArguments
    rules.content = settings.schema.map(Pattern.schema)
    return rules
  }

  /// Changes what holds for the turns that come; what was said stays, but for the system message.
  package mutating func change(_ settings: Settings) throws(PipelineError) {
    rules = try Self.rules(settings, model, template)
    self.settings = settings
    if messages.first?["role"] == "system" { messages.removeFirst() }
    messages = systemMessages + messages
  }

  private var systemMessages: [JSONValue] {
    settings.system.map { [["role": "system", "content": .string($0)]] } ?? []
  }

  /// Forgets what was said.
  package mutating func clear() {
    messages = systemMessages
    (media, openCalls) = ([], [])
  }

  /// Takes up a conversation that was kept as its messages, of which none has an image or a clip.
  package mutating func resume(_ messages: [JSONValue]) {
    clear()
    self.messages = messages
    settings.system = messages.first.flatMap {
      $0["role"] == "system" ? $0["content"]?.stringValue : nil
    }
  }

  /// Adds a question and an answer that somebody else has given.
  package mutating func add(_ question: String, answeredBy answer: String) {
    messages.append(["role": "user", "content": .string(question)])
    messages.append(["role": "assistant", "content": .string(answer)])
  }

  /// Takes the last message of the user back, with all that came after it.
  ///
  /// - Returns: its text and its images and clips; nil where there is none.
  package mutating func takeBack() -> (text: String, media: [MediaPassage])? {
    guard let last = messages.lastIndex(where: { $0["role"] == "user" }) else { return nil }
    let content = messages[last]["content"]
    let parts = content?.arrayValue ?? []
    let count = parts.count { $0["type"] != "text" }
    let inputs = Array(media.suffix(count))
    media.removeLast(inputs.count)
    messages.removeSubrange(last...)
    openCalls = []
    return (content?.stringValue ?? parts.compactMap { $0["text"]?.stringValue }.joined(), inputs)
  }

  /// Whether a message has an image or a clip, which a file of the conversation cannot hold.
  package var hasMedia: Bool { !media.isEmpty }

  /// Tokens of the conversation so far; nil where the template refuses it.
  package var promptTokens: Int? { (try? prompt())?.tokens.count }

  /// Sends a message of the user, or the result of the first call that waits for one; computes the answer unless
  /// further calls wait.
  ///
  /// What gets no answer, because it is too long for the context or the template refuses it, stays out of the
  /// conversation: every later turn would fail too.
  ///
  /// - Parameters:
  ///   - started: gets the generation, for who wants to cancel it.
  ///   - deliver: gets the pieces of the answer as they come.
  package mutating func send(
    _ text: String, media inputs: [MediaPassage] = [], started: (Generation) -> Void = { _ in },
    deliver: (TokenStream.Piece) -> Void
  ) throws(PipelineError) -> Timings? {
    let before = (messages, openCalls, media)
    if openCalls.isEmpty {
      let parts: [JSONValue] = inputs.map { ["type": .string($0.kind.rawValue)] }
      let content: JSONValue =
        parts.isEmpty ? .string(text) : .array(parts + [["type": "text", "text": .string(text)]])
      messages.append(["role": "user", "content": content])
      media += inputs
    } else {
      let call = openCalls.removeFirst()
      messages.append([
        "role": "tool", "tool_call_id": .string(call.id), "name": .string(call.name),
        "content": .string(text),
      ])
      guard openCalls.isEmpty else { return nil }
    }
    do throws(PipelineError) {
      return try generate(started, deliver)
    } catch {
      (messages, openCalls, media) = before
      throw error
    }
  }

  private mutating func generate(
    _ started: (Generation) -> Void, _ deliver: (TokenStream.Piece) -> Void
  ) throws(PipelineError) -> Timings? {
    let prompt = try prompt()
    let request = try request(prompt)
    let generation: Generation
    do throws(InferenceError) {
      generation = try model.generator().submit(request)
    } catch {
      throw .engine(error)
    }
    started(generation)
    var streamSettings = TokenStream.Settings()
    streamSettings.parser = template.format.makeParser(
      promptTail: prompt.text, tools: settings.tools.isEmpty ? nil : settings.tools)
    streamSettings.stops = settings.stops
    streamSettings.hiddenTokens = model.controlTokens
    var stream = TokenStream(
      streamSettings, detokenizer: model.tokenizer.makeDetokenizer(skipSpecialTokens: false))
    let place = AnswerPlace(after: prompt.text)
    var tokens: [Int32] = []
    answer = AnswerParts()
    var timings: Timings?
    while stream.finish == nil {
      let pieces: [TokenStream.Piece]
      switch generation.next() {
      case .element(.token(let token)):
        tokens.append(token.id)
        pieces = stream.consume(token)
      case .element(.finished(let reason, let taken)):
        timings = taken
        pieces = stream.end(reason)
      case .element(.failed(let error)): throw .engine(error)
      case .element(.progress(let progress)): pieces = [.reading(progress)]
      case .element: continue
      // The reader has stopped it: what came is the answer.
      case .closed, .timedOut: pieces = stream.end(.cancelled)
      }
      for piece in pieces {
        answer.add(piece)
        deliver(piece)
      }
    }
    generation.cancel()
    _ = model.remember(tokens, after: prompt.tokens, at: place)
    openCalls = answer.calls.map { name, arguments in
      callCount += 1
      return Call(id: "call_\(callCount)", name: name, arguments: arguments)
    }
    messages.append(message)
    return timings
  }

  private func prompt() throws(PipelineError) -> ModelPrompt {
    let arguments =
      settings.switchesThinkingOff ? JSONObject([("enable_thinking", .bool(false))]) : JSONObject()
    let conversation = Conversation(messages: messages, tools: settings.tools, templateArguments: arguments)
    do throws(ChatError) {
      let prompt = try model.prompt(of: conversation, template: template)
      let whole = ModelPrompt(prompt, passages: media, rules: model.media, tokenizer: model.tokenizer)
      guard let whole else {
        throw ChatError.unsupportedPart(type: media.first?.kind.rawValue ?? "image")
      }
      return whole
    } catch {
      throw .prompt(error)
    }
  }

  private func request(_ prompt: ModelPrompt) throws(PipelineError) -> GenerationRequest {
    var request = GenerationRequest(
      promptTokens: prompt.tokens, maxTokens: settings.maxTokens ?? model.maxAnswer,
      sampling: settings.sampling ?? SamplingParameters(model.sampling), stopTokens: model.endTokens,
      tokenLimit: model.tokenizer.vocabularySize)
    request.media = prompt.media
    request.reportsProgress = true
    do throws(RulesError) {
      let format = template.format
      request.guide = model.guide(
        try model.grammar(of: rules, format: format), format: format, promptTail: prompt.text,
        mayReason: !(settings.switchesThinkingOff && format.supportsThinkingSwitch))
    } catch {
      throw .rules(error)
    }
    return request
  }

  /// The answer as the conversation remembers it: without its reasoning.
  private var message: JSONValue {
    var message = JSONObject([("role", "assistant"), ("content", .string(answer.content))])
    if !openCalls.isEmpty {
      message["tool_calls"] = .array(
        openCalls.map { call in
          [
            "id": .string(call.id), "type": "function",
            "function": ["name": .string(call.name), "arguments": .string(call.arguments)],
          ]
        })
    }
    return .object(message)
  }
}
