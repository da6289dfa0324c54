// `mlxserve chat`: a conversation in the terminal.
//
// Answers stream; thoughts are dimmed. Ctrl-C stops the answer, a second one (or one at the prompt) leaves.

import Chat
import Decoding
import Inference
import JSON
import Platform
import Sampling
import Server
import Tokenizers

enum ChatCommand {
  @Sendable static func run(_ flags: ParsedFlags) throws -> Int32 {
    Log.configure(level: .warning, json: false)
    let (model, engine) = try Loading.model(flags)
    defer { engine.stop() }
    guard let template = model.template else {
      throw LoadingError.noTemplate(folder: flags.text("model") ?? "")
    }
    let current = Monitor<Generation?>(nil)
    try Signals.onTermination { _, signal in
      // What answers now is stopped; with nothing to stop, the wish is to leave.
      let running = current.withLock { generation -> Generation? in
        defer { generation = nil }
        return generation
      }
      guard let running, signal == SIGINT else {
        if Terminal.outputIsTerminal { Terminal.write("\n") }
        exit(signal == SIGINT ? 0 : 128 + signal)
      }
      running.cancel()
    }

    var dialogue = Dialogue(model: model, template: template, flags: flags)
    if Terminal.outputIsTerminal {
      Terminal.print(Terminal.dimmed("\(model.id). Ctrl-C stops an answer, Ctrl-D leaves."))
    }
    while let line = prompt() {
      guard !line.isEmpty else { continue }
      do {
        try dialogue.answer(line, current: current)
      } catch {
        Terminal.printError("mlxserve: \(error)")
        if !Terminal.outputIsTerminal { return 1 }
      }
    }
    return 0
  }

  /// The user's next line; nil at the end of input.
  private static func prompt() -> String? {
    if Terminal.outputIsTerminal { Terminal.write("> ") }
    return readLine()
  }
}

/// The conversation so far and how to continue it.
struct Dialogue {
  private let model: ServedModel
  private let template: ChatTemplate
  private let sampling: SamplingParameters
  private let maxTokens: Int?
  private let templateArguments: JSONObject
  private(set) var messages: [JSONValue] = []

  init(model: ServedModel, template: ChatTemplate, flags: ParsedFlags) {
    self.model = model
    self.template = template
    var said = model.sampling
    said[.temperature] = flags.decimal("temperature") ?? said[.temperature]
    said[.topP] = flags.decimal("top-p") ?? said[.topP]
    var sampling = SamplingParameters(said)
    sampling.seed = flags.integer("seed").map { UInt64($0) }
    self.sampling = sampling
    maxTokens = flags.integer("max-tokens")
    templateArguments =
      flags.isSet("no-thinking") ? JSONObject([("enable_thinking", .bool(false))]) : JSONObject()
    if let system = flags.text("system") { messages = [["role": "system", "content": .string(system)]] }
  }

  /// Sends one user message and prints the answer as it comes. What gets no answer, because it is too long for the context
  /// or the template refuses it, stays out of the conversation: every later turn would fail too.
  mutating func answer(_ line: String, current: Monitor<Generation?>) throws {
    let question: JSONValue = ["role": "user", "content": .string(line)]
    let conversation = Conversation(messages: messages + [question], templateArguments: templateArguments)
    let prompt = try model.prompts.prompt(of: conversation, template: template)
    var request = GenerationRequest(
      promptTokens: prompt.tokens,
      maxTokens: maxTokens ?? model.service.limits.maxContext, sampling: sampling, stopTokens: model.endTokens
    )
    request.tokenLimit = model.tokenizer.vocabularySize

    let generation = try model.service.submit(request)
    current.withLock { $0 = generation }
    defer { current.withLock { $0 = nil } }
    var printer = AnswerPrinter(
      detokenizer: model.tokenizer.makeDetokenizer(skipSpecialTokens: false),
      parser: template.format.makeParser(promptTail: prompt.text, tools: nil))
    var timings: GenerationTimings?
    reading: while true {
      switch generation.next() {
      case .element(.token(let token)): printer.show(token.id)
      case .element(.finished(_, let end)): timings = end
      case .element(.failed(let error)): throw error
      case .element: continue
      case .closed, .timedOut: break reading
      }
    }
    printer.finish()
    messages += [question, ["role": "assistant", "content": .string(printer.content)]]
    if let timings, Terminal.outputIsTerminal {
      let prefill = "prompt \(timings.promptTokens) tokens, \(fixed(timings.prefillTokensPerSecond)) tokens/s"
      let decode =
        "answer \(timings.generatedTokens) tokens, \(fixed(timings.decodeTokensPerSecond)) tokens/s"
      Terminal.print(Terminal.dimmed("[\(prefill); \(decode)]"))
    }
  }
}

/// Tokens to the terminal: whole characters, thoughts dimmed.
private struct AnswerPrinter {
  private var detokenizer: Detokenizer
  private var parser: OutputParser
  private var isThinking = false
  private(set) var content = ""

  init(detokenizer: Detokenizer, parser: OutputParser) {
    self.detokenizer = detokenizer
    self.parser = parser
  }

  mutating func show(_ token: Int32) { show(parser.feed(detokenizer.push(token))) }

  mutating func finish() {
    show(parser.feed(detokenizer.finish()))
    show(parser.finish())
    Terminal.write("\n")
  }

  private mutating func show(_ events: [OutputEvent]) {
    for event in events {
      switch event {
      case .reasoning(let text):
        isThinking = true
        Terminal.write(Terminal.dimmed(text))
      case .content(let text):
        if isThinking { Terminal.write("\n\n") }
        isThinking = false
        content += text
        Terminal.write(text)
      // Without tools in the conversation there are no calls.
      case .callBegan, .callArguments, .callEnded, .callFailed: break
      }
    }
  }
}
