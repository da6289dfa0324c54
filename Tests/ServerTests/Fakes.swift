// A generation service that replays scripts, a tokenizer of single bytes, and a template of the ChatML kind.

import Chat
import Decoding
import HTTP
import Inference
import JSON
import Pipeline
import Platform
import Support
import Tokenizers
import Wire

@testable import Server

/// What a fake generation does with one request.
struct Script: Sendable {
  /// Text of the answer, one token per byte and per marker.
  var text = ""
  /// The end; nil leaves the generation running.
  var end: FinishReason? = .stop
  var error: InferenceError?
  var cachedTokens = 0
  /// What a reader that wants it is told of the prompt.
  var reading: [PromptProgress] = []
  /// Seconds before the first token.
  var delay = 0.0
  /// Further tokens after `text`, for tokens without text.
  var extraTokens: [Int32] = []
  var submitError: InferenceError?
}

extension GenerationRequest {
  /// What its answer may say, whether that was known at once or found out later.
  var madeGuide: Guide? {
    guard let lateGuide else { return guide }
    return lateGuide.guide ?? nil
  }
}

/// Answers each request by the script that a closure chooses.
final class FakeService: GenerationService {
  let limits: EngineLimits
  private let choose: @Sendable (GenerationRequest, Int) -> Script
  private let log = Monitor<[(request: GenerationRequest, mailbox: Mailbox<GenerationEvent>)]>([])

  init(maxContext: Int = 400, _ choose: @escaping @Sendable (GenerationRequest, Int) -> Script) {
    limits = EngineLimits(maxContext: maxContext, vocabularySize: 262)
    self.choose = choose
  }

  convenience init(_ text: String, end: FinishReason? = .stop) {
    self.init { _, _ in Script(text: text, end: end) }
  }

  var requests: [GenerationRequest] { log.withLock { $0.map(\.request) } }

  /// Whether the reader closed each generation; a script that has ended leaves its mailbox open to tell.
  var cancelled: [Bool] { log.withLock { $0.map(\.mailbox.isClosed) } }

  func submit(_ request: GenerationRequest) throws(InferenceError) -> Generation {
    let mailbox = Mailbox<GenerationEvent>(capacity: 100_000)
    let script = choose(request, log.withLock { $0.count })
    if let error = script.submitError { throw error }
    log.update { $0.append((request, mailbox)) }
    let play: @Sendable () -> Void = { Self.play(script, request, into: mailbox) }
    if script.delay > 0 {
      do {
        let thread = try Thread(name: "fake") {
          usleep(UInt32(script.delay * 1e6))
          play()
        }
        thread.detach()
      } catch {
        throw .modelLoading("\(error)")
      }
    } else {
      play()
    }
    return Generation(mailbox: mailbox)
  }

  private static func play(
    _ script: Script, _ request: GenerationRequest, into mailbox: Mailbox<GenerationEvent>
  ) {
    func send(_ event: GenerationEvent) { _ = mailbox.trySend(event) }
    send(.started(cachedTokens: script.cachedTokens))
    if request.reportsProgress { for progress in script.reading { send(.progress(progress)) } }
    if let top = request.promptLogprobs {
      send(
        .promptLogprobs(
          request.promptTokens.enumerated().map { $0.offset == 0 ? nil : sampled($0.element, top: top) }))
    }
    let ids = tinyTokenizer.encode(script.text, addSpecialTokens: false) + script.extraTokens
    for id in ids.prefix(request.maxTokens) { send(.token(sampled(id, top: request.topLogprobs ?? 0))) }
    if let error = script.error {
      send(.failed(error))
    } else if ids.count >= request.maxTokens {
      send(.finished(.length, GenerationTimings()))
    } else if let end = script.end {
      send(.finished(end, GenerationTimings()))
    }
  }

  /// A token of probability e^-0.5 with the id below it as an alternative.
  static func sampled(_ id: Int32, top: Int) -> SampledToken {
    let alternatives = [(id: id, logprob: Float(-0.5)), (id: id - 1, logprob: Float(-1))]
    return makeSampled(id, -0.5, Array(alternatives.prefix(top)))
  }
}

func makeSampled(_ id: Int32, _ logprob: Float, _ top: [(id: Int32, logprob: Float)]) -> SampledToken {
  SampledToken(
    id: id, logprob: logprob, top: top.map { TokenLogprob(id: $0.id, logprob: $0.logprob) })
}

// MARK: Tokenizer and template

/// Ids 0 to 255 are bytes; the markers follow.
enum Marker {
  static let names = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
  static let end: Int32 = 257
}

let tinyTokenizer = makeTinyTokenizer(Marker.names.enumerated().map { ($1, $0 < 2) })

/// Bytes, and after them the markers; special or not.
func makeTinyTokenizer(_ markers: [(name: String, isSpecial: Bool)]) -> Tokenizer {
  var vocabulary = JSONObject()
  var next: UInt32 = 256
  for byte in 0..<256 as Range<UInt32> {
    // GPT-2's alphabet: printable bytes stand for themselves, the others follow from U+0100.
    let isPrintable = (33...126).contains(byte) || (161...172).contains(byte) || (174...255).contains(byte)
    let value = isPrintable ? byte : next
    if !isPrintable { next += 1 }
    guard let scalar = Unicode.Scalar(value) else { continue }
    vocabulary[String(Character(scalar))] = .int(Int(byte))
  }
  let added = markers.enumerated().map { index, marker -> JSONValue in
    [
      "id": .int(256 + index), "content": .string(marker.name), "single_word": false, "lstrip": false,
      "rstrip": false,
      "normalized": false, "special": .bool(marker.isSpecial),
    ]
  }
  let byteLevel: JSONValue = [
    "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
  ]
  let file: JSONValue = [
    "version": "1.0", "truncation": nil, "padding": nil, "added_tokens": .array(added), "normalizer": nil,
    "pre_tokenizer": byteLevel, "post_processor": nil, "decoder": byteLevel,
    "model": ["type": "BPE", "vocab": .object(vocabulary), "merges": []],
  ]
  do {
    return try Tokenizer(tokenizerJSON: file.bytes)
  } catch {
    preconditionFailure("the tests' own tokenizer does not load: \(error)")
  }
}

let tinyTemplate: ChatTemplate = {
  let source = """
    {%- if tools %}<|im_start|>system
    <tools>{% for tool in tools %}{{ tool.function.name }} {% endfor %}</tools> Call with <tool_call>\
    {"name": ..., "arguments": ...}</tool_call><|im_end|>
    {% endif %}
    {%- for message in messages %}
    {%- if message.role == 'system' and not loop.first %}{{ raise_exception('System message must be first') }}{% endif %}
    {%- if message.content == 'forbidden' %}{{ raise_exception('This is not to be said') }}{% endif %}
    {{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}
    {%- endfor %}
    {%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
    {%- endif %}
    """
  do {
    return try ChatTemplate(source: source, specialTokens: [("eos_token", "<|im_end|>")]) { (0, 0) }
  } catch {
    preconditionFailure("the tests' own template does not load: \(error)")
  }
}()

// MARK: Application

func makeApp(
  _ service: FakeService, id: String = "m", tokenizer: Tokenizer = tinyTokenizer,
  configure: (inout ServerSettings) -> Void = { _ in }
) -> App {
  var settings = ServerSettings()
  settings.makeID = { "ID" }
  settings.now = { 7 }
  configure(&settings)
  var model = LoadedModel(
    id: id, created: 5, service: service, tokenizer: tokenizer, template: tinyTemplate,
    endTokens: [Marker.end])
  model.systemFingerprint = "fp"
  return App(model, settings: settings)
}

struct Answer {
  let status: Int
  let headers: Headers
  let text: String
  /// The body as JSON; null when it is none.
  var json: JSONValue { (try? JSONValue(parsing: text)) ?? .null }
  /// The data of each event of a stream.
  var events: [String] {
    text.split(separator: "\n\n").map(String.init).filter { $0.hasPrefix("data: ") }.map {
      String($0.dropFirst(6))
    }
  }

  /// `status code param` of an error.
  var refusal: String {
    let error = json["error"]
    return "\(status) \(error?["code"]?.stringValue ?? "null") \(error?["param"]?.stringValue ?? "null")"
  }
}

extension App {
  /// The response in the words of its path, as a listener sends it.
  func respond(to request: Request, _ context: ConnectionContext) -> Response {
    Self.wire(of: request).finished(answer(request, context), requestID: context.requestID)
  }

  func send(
    _ method: String, _ path: String, body: String = "",
    headers: Headers = ["content-type": "application/json"],
    context: ConnectionContext = ConnectionContext()
  ) throws -> Answer {
    let request = try Request(method, path, headers: headers, body: Array(body.utf8))
    let response = respond(to: request, context)
    return Answer(
      status: response.status, headers: response.headers,
      text: String(decoding: try response.collectedBody(), as: UTF8.self))
  }

  /// A chat request with one user message and further members.
  func chat(_ extra: String = "", context: ConnectionContext = ConnectionContext()) throws -> Answer {
    let body =
      #"{"model":"m","messages":[{"role":"user","content":"hi"}]\#(extra.isEmpty ? "" : ",\(extra)")}"#
    return try send("POST", "/v1/chat/completions", body: body, context: context)
  }

  func complete(_ members: String) throws -> Answer {
    try send("POST", "/v1/completions", body: #"{"model":"m",\#(members)}"#)
  }
}

/// Refuses more than `limit` generations at a time, as an engine with a full queue does.
final class LimitedService: GenerationService {
  private let inner: FakeService
  private let limit: Int
  private let count = Monitor(0)

  init(_ inner: FakeService, limit: Int) {
    self.inner = inner
    self.limit = limit
  }

  var limits: EngineLimits { inner.limits }
  var refusals: Int { count.withLock { $0 } }

  func submit(_ request: GenerationRequest) throws(InferenceError) -> Generation {
    let running = inner.cancelled.count { !$0 }
    guard running < limit else {
      count.update { $0 += 1 }
      throw .queueFull(limit: limit)
    }
    return try inner.submit(request)
  }
}

// MARK: Vector stores

/// An archive on a disk in memory, of an embedding model "e".
func openArchive(_ disk: SimulatedDisk, folder: String = "/library") throws -> Archive {
  var places = Archive.Settings()
  places.folder = folder
  places.embeddingModel = "e"
  return try Archive(places, files: disk, now: { 1_800_000_000 })
}

/// A server over it, whose thread that indexes begins with it.
func startArchive(
  _ archive: Archive, _ encoder: any EmbeddingService = FakeEncoder()
) throws -> (App, ModelFleet) {
  var settings = ModelFleet.Settings()
  settings.measuresProcess = false
  settings.ledger = MemoryLedger(limit: 1 << 40)
  let catalog = try ModelCatalog(named: [ModelSource(id: "e", path: "/models/e")], folder: nil, aliases: [])
  let fleet = try ModelFleet(catalog, settings: settings) { _, _ in
    ResidentModel(
      LoadedModel(id: "e", created: 5, embedder: Embedder(service: encoder, tokenizer: tinyTokenizer)))
  }
  let ids = Monitor(0)
  var server = ServerSettings()
  server.archive = archive
  server.now = { 1_800_000_000 }
  server.makeID = {
    ids.update { count -> String in
      count += 1
      return "\(count)"
    }
  }
  return (App(fleet, settings: server), fleet)
}

extension Archive {
  /// Waits until nothing is being indexed, and every index was looked through.
  func settle() {
    for _ in 0..<20_000 {
      let isBusy = state.withLock { state in
        !state.queue.isEmpty || state.atWork != nil || !state.unchecked.isEmpty
          || state.stores.values.contains { $0.entries.values.contains { $0.status == .inProgress } }
      }
      guard isBusy else { return }
      usleep(200)
    }
  }
}
