// Questions about documents that a running server answers: it has the model, and keeps what was computed.

import HTTP
import Inference
import JSON
import Pipeline
import Platform

struct ServedChat {
  private let url: String
  private let place: (host: String, port: Int)
  private let key = Environment.value(Self.keyVariable)
  private let model: String
  /// What every request says beside its messages.
  private var members: JSONObject
  private var messages: [JSONValue] = []
  /// The last answer, as far as it has come.
  private(set) var answer = AnswerParts()

  /// Where the key of a server is looked for.
  static let keyVariable = "MLXSERVE_API_KEY"
  /// A server sends something at least that often while it works, and has that long to load a model, seconds.
  private static let silence = 600.0
  private static let replyLimit = 4 << 20

  /// - Parameter url: of a server; nil for the one that has the folder of documents now, if it has the model.
  /// - Returns: nil where there is none.
  /// - Throws: where the server that is named cannot be asked.
  init?(at url: String?, _ flags: ParsedFlags) throws {
    guard let url = url ?? flags[.prefixCacheDir].flatMap(DocumentServer.url) else { return nil }
    guard url.utf8.starts(with: "http://".utf8),
      let address = Authority.parse(String(url.dropFirst("http://".count).prefix { $0 != "/" }))
    else {
      throw UsageError.badValue(
        flag: "server", value: url, expected: "http:// with localhost or an address in numbers, and a port")
    }
    (self.url, place) = (url, (address.host, address.port ?? 80))
    let isNamed = flags[.server] != nil
    let reply = Probe.get(
      host: place.host, port: place.port, path: "/v1/models", key: key, limit: Self.replyLimit, seconds: 5)
    guard let reply, reply.status == 200,
      let models = (try? JSONValue(parsing: reply.body))?["data"]?.arrayValue
    else {
      guard isNamed else { return nil }
      let status = reply.map { "answers with status \($0.status)" } ?? "does not answer"
      throw ServerProblem(
        description: "\(url) \(status)"
          + (reply?.status == 401 ? ": put its key into \(Self.keyVariable)" : ""))
    }
    guard let id = Self.model(flags[.model], among: models) else {
      guard isNamed else { return nil }
      throw ServerProblem(description: "\(url) has no model '\(flags[.model] ?? "")' that talks")
    }
    model = id
    members = try Self.members(flags)
  }

  /// The server's name of a model that is meant by its name, its folder, or nothing.
  private static func model(_ wanted: String?, among models: [JSONValue]) -> String? {
    models.filter { $0["task"]?.stringValue ?? "chat" == "chat" }.first { model in
      guard let wanted else { return true }
      let names = [model["id"]?.stringValue] + (model["aliases"]?.arrayValue ?? []).map(\.stringValue)
      return names.contains(wanted) || names.contains(File.name(of: wanted))
    }?["id"]?.stringValue
  }

  private static func members(_ flags: ParsedFlags) throws -> JSONObject {
    let settings = try ChatCommand.settings(flags)
    var members = JSONObject([("stream", true), ("return_progress", true), ("keep_prompt", true)])
    members["stream_options"] = ["include_usage": true]
    members["temperature"] = flags[.temperature].map(JSONValue.double)
    members["top_p"] = flags[.topP].map(JSONValue.double)
    members["seed"] = flags[.seed].map(JSONValue.int)
    members["max_tokens"] = settings.maxTokens.map(JSONValue.int)
    if !settings.stops.isEmpty { members["stop"] = .array(settings.stops.map(JSONValue.string)) }
    if !settings.tools.isEmpty { members["tools"] = .array(settings.tools) }
    members["response_format"] = settings.schema.map(format)
    if settings.switchesThinkingOff { members["chat_template_kwargs"] = ["enable_thinking": false] }
    return members
  }

  private static func format(_ schema: JSONValue) -> JSONValue {
    ["type": "json_schema", "json_schema": ["name": "answer", "strict": true, "schema": schema]]
  }

  // MARK: Asking

  /// Sends a message. What gets no answer stays out of the conversation.
  ///
  /// - Parameters:
  ///   - schema: of the answer, where it is another than that of all.
  ///   - most: tokens of the answer, likewise.
  mutating func send(
    _ text: String, system: String?, schema: JSONValue? = nil, most: Int? = nil,
    deliver: (TokenStream.Piece) -> Void
  ) throws -> GenerationTimings {
    var asked = messages
    if asked.isEmpty, let system { asked.append(["role": "system", "content": .string(system)]) }
    asked.append(["role": "user", "content": .string(text)])
    var body = members
    body["model"] = .string(model)
    body["messages"] = .array(asked)
    if let schema { body["response_format"] = Self.format(schema) }
    if let most { body["max_tokens"] = .int(most) }
    answer = AnswerParts()
    var (timings, rest, refusal) = (GenerationTimings(), [UInt8](), nil as JSONValue?)
    let status = Probe.post(
      host: place.host, port: place.port, path: "/v1/chat/completions", key: key,
      body: JSONValue.object(body).bytes, silence: Self.silence
    ) { status, piece in
      rest += piece
      guard status == 200 else { return rest.count < Self.replyLimit }
      while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        let line = rest[..<end]
        if line.starts(with: "data: {".utf8), let event = try? JSONValue(parsing: Array(line.dropFirst(6))) {
          if let error = event["error"] { refusal = error }
          for piece in Self.pieces(of: event, &timings) {
            answer.add(piece)
            deliver(piece)
          }
        }
        rest.removeSubrange(...end)
      }
      return refusal == nil
    }
    if status != 200 { refusal = (try? JSONValue(parsing: rest))?["error"] ?? nil }
    guard status == 200, refusal == nil else {
      let words = refusal?["message"]?.stringValue ?? status.map { "status \($0)" } ?? "no answer"
      throw ServerProblem(description: "\(url): \(words)")
    }
    messages = asked + [["role": "assistant", "content": .string(answer.content)]]
    return timings
  }

  private static func pieces(
    of event: JSONValue, _ timings: inout GenerationTimings
  ) -> [TokenStream.Piece] {
    if let usage = event["usage"], let prompt = usage["prompt_tokens"]?.intValue {
      timings.promptTokens = prompt
      timings.cachedTokens = usage["prompt_tokens_details"]?["cached_tokens"]?.intValue ?? 0
      timings.generatedTokens = usage["completion_tokens"]?.intValue ?? 0
    }
    if let progress = event["prompt_progress"].flatMap(PromptProgress.init) { return [.reading(progress)] }
    guard let choice = event["choices"]?.arrayValue?.first, let delta = choice["delta"] else { return [] }
    var pieces: [TokenStream.Piece] = []
    for name in ["reasoning_content", "reasoning"] {
      if let text = delta[name]?.stringValue { pieces.append(.reasoning(text)) }
    }
    if let text = delta["content"]?.stringValue, !text.isEmpty { pieces.append(.content(text, tokens: [])) }
    for call in delta["tool_calls"]?.arrayValue ?? [] {
      if let name = call["function"]?["name"]?.stringValue { pieces.append(.toolCallBegan(name: name)) }
      if let text = call["function"]?["arguments"]?.stringValue { pieces.append(.toolCallArguments(text)) }
    }
    if let reason = choice["finish_reason"]?.stringValue {
      pieces.append(.finish(TokenStream.End(rawValue: reason) ?? .stop))
    }
    return pieces
  }

  // MARK: As the commands have it

  /// One answer as text or as an object.
  mutating func answerOnce(_ text: String, system: String?, asJSON: Bool) throws -> Int32 {
    if asJSON {
      let timings = try send(text, system: system) { _ in }
      Terminal.print(answer.json(model: model, timings).text)
    } else {
      var printer = AnswerPrinter(wraps: Terminal.outputIsTerminal, isMarkdown: Terminal.outputIsTerminal)
      defer { printer.clear() }
      _ = try send(text, system: system) { printer.show($0) }
    }
    return ExitCode.success
  }

  /// Questions of a person, line by line.
  mutating func converse(about document: String, system: String?) throws -> Int32 {
    defer { TerminalMode.restore() }
    let editor = LineEditor(history: LineHistory(path: LineHistory.usualPath))
    Terminal.print(Terminal.dimmed("\(model) at \(url). Ctrl-D leaves."))
    while true {
      switch editor.read(prompt: ">>> ") {
      case .end: return ExitCode.success
      case .interrupted: Terminal.print(Terminal.dimmed("Ctrl-D leaves."))
      case .text(let typed):
        guard typed.text.contains(where: { !$0.isWhitespace }) else { continue }
        do {
          _ = try answerOnce((messages.isEmpty ? document : "") + typed.text, system: system, asJSON: false)
        } catch {
          Terminal.printError("mlxserve: \(error)")
        }
      }
    }
  }
}

/// Where a server says that it has a folder of documents: a file with its address, and a lock that ends with the process.
enum DocumentServer {
  private static func file(_ folder: String) -> String { folder + "/server" }

  /// Says so for as long as the result is held. Where it cannot, nobody is told.
  static func announce(_ url: String, folder: String) -> FileLock? {
    guard (try? File.makeFolders(folder)) != nil,
      let lock = (try? FileLock.take(file(folder) + ".lock")) ?? nil
    else { return nil }
    try? File.replace(file(folder), with: Array((url + "\n").utf8), mode: 0o600)
    return lock
  }

  /// The server that has a folder now; nil for none.
  static func url(_ folder: String) -> String? {
    guard File.exists(file(folder) + ".lock"),
      ((try? FileLock.take(file(folder) + ".lock", .shared)) ?? nil) == nil,
      let bytes = try? File.read(file(folder), limit: 1 << 10)
    else { return nil }
    return String(decoding: bytes, as: UTF8.self).split(separator: "\n").first.map(String.init)
  }
}

private struct ServerProblem: Error, CustomStringConvertible {
  let description: String
}

extension PromptProgress {
  /// As a server tells it.
  fileprivate init?(_ json: JSONValue) {
    guard let total = json["total"]?.intValue, let cached = json["cache"]?.intValue,
      let processed = json["processed"]?.intValue
    else { return nil }
    func seconds(_ name: String) -> Double? { json[name]?.doubleValue.map { $0 / 1000 } }
    self.init(
      total: total, cached: cached, processed: processed, seconds: seconds("time_ms") ?? 0,
      secondsLeft: seconds("remaining_ms"))
  }
}
