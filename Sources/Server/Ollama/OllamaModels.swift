// GET /api/version, /api/tags and /api/ps, and POST /api/show: what Ollama's clients want to know of models.

import Chat
import HTTP
import Inference
import JSON
import Media
import Pipeline
import Platform
import Wire

struct OllamaModels {
  /// The version of Ollama's API that this wire speaks: editors compare its three numbers.
  private static let level = "0.33.0"
  /// When a model goes that stays: clients expect a date.
  private static let never = "2318-01-01T00:00:00.000000Z"

  let server: ServerContext

  func version(_: Request, _: ConnectionContext) -> Response {
    Response(json: ["version": .string(Self.level), "mlxserve": .string(server.settings.version)])
  }

  func tags(_: Request, _: ConnectionContext) -> Response {
    let models = server.models.statuses.map { status in
      let card = OllamaCard(status)
      return JSONValue.object(JSONObject(card.names + card.facts + [("capabilities", card.capabilities)]))
    }
    return Response(json: ["models": .array(models)])
  }

  /// The loaded models, the one that stays longest first.
  func running(_: Request, _: ConnectionContext) -> Response {
    let loaded = server.models.statuses.filter { $0.model != nil }
      .map { (status: $0, seconds: server.models.secondsLeft(of: $0.source.id)) }
      .sorted { ($0.seconds ?? .infinity) > ($1.seconds ?? .infinity) }
    let models = loaded.map { (status, seconds) in
      let card = OllamaCard(status)
      let expiry = seconds.map { Timestamp.text(seconds: Instant.wallSeconds + $0) } ?? Self.never
      return JSONValue.object(
        JSONObject(
          card.names + card.facts + [
            ("expires_at", .string(expiry)), ("size_vram", 0),
            ("context_length", .int(status.model?.loaded.contextTokens ?? 0)),
          ]))
    }
    return Response(json: ["models": .array(models)])
  }

  func show(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let body = try http.ollamaBody(context.memory)
    let name = try OllamaRequest.model(of: body)
    let source = try server.models.ollamaModel(name)
    let card = OllamaCard(try server.models.status(of: source.id))
    return Response(
      json: [
        "license": "",
        "modelfile": .string("# \(source.id) is a folder that mlxserve has opened; it has no Modelfile"),
        "parameters": .string(card.parameters), "template": .string(card.shownTemplate), "system": "",
        "details": card.details, "model_info": card.info(name: name), "capabilities": card.capabilities,
        "modified_at": .string(card.modified),
      ])
  }
}

/// What is told of one model, loaded or not, from its folder's files.
struct OllamaCard {
  private let status: ModelFleet.Status
  private let config: JSONValue
  private let files: [(name: String, facts: FileFacts)]

  init(_ status: ModelFleet.Status) {
    self.status = status
    let path = status.source.path
    let bytes = path.utf8.isEmpty ? [] : (try? File.read(path + "/config.json", limit: 16 << 20)) ?? []
    config = (try? JSONValue(parsing: bytes)) ?? .object(JSONObject())
    let names = path.utf8.isEmpty ? [] : (try? File.names(in: path)) ?? []
    files = names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }.compactMap { name in
      (try? File.facts(path + "/" + name)).map { (name, $0) }
    }
  }

  private var loaded: LoadedModel? { status.model?.loaded }

  /// With a tag: some clients add one where there is none, and look for that.
  private var name: String {
    status.source.id.utf8.contains(UInt8(ascii: ":")) ? status.source.id : status.source.id + ":latest"
  }

  var names: [(String, JSONValue)] { [("name", .string(name)), ("model", .string(name))] }

  var facts: [(String, JSONValue)] {
    [
      ("modified_at", .string(modified)), ("size", .int(size)), ("digest", .string(digest)),
      ("details", details),
    ]
  }

  private var size: Int {
    let weights = files.filter { $0.name.hasSuffix(".safetensors") }.map(\.facts.bytes).sumOfSizes
    return weights > 0 ? weights : status.model?.weightBytes ?? 0
  }

  /// Changes with the names, sizes and dates of the files: reading gigabytes for a list would be too much.
  private var digest: String {
    let lines = files.map { "\($0.name) \($0.facts.bytes) \($0.facts.modified)" } + [status.source.id]
    return SHA256.hexadecimal(SHA256.digest(Array(lines.joined(separator: "\n").utf8)))
  }

  var modified: String {
    let latest = files.map(\.facts.modified).max() ?? Double(loaded?.created ?? 0)
    return Timestamp.text(seconds: latest)
  }

  private var family: String { config["model_type"]?.stringValue ?? loaded?.facts.modelType ?? "unknown" }

  private var text: JSONValue {
    config["text_config"]?.objectValue == nil ? config : config["text_config"] ?? config
  }

  private var quantization: String {
    stored.blocks ?? stored.quantization.map { "\($0.bits)bit" } ?? "unquantized"
  }

  /// Of models that are not loaded, by the digest of their files: the headers of all weights are read for it.
  private static let counted = Monitor<[String: ModelFacts]>([:])
  private static let mostCounted = 256

  /// What the files of the weights say, loaded or not.
  private var stored: ModelFacts {
    if let loaded { return loaded.facts }
    let digest = digest
    if let known = Self.counted.withLock({ $0[digest] }) { return known }
    let facts = ModelFacts(folder: status.source.path) ?? ModelFacts()
    Self.counted.withLock { known in
      if known.count >= Self.mostCounted { known = [:] }
      known[digest] = facts
    }
    return facts
  }

  var details: JSONValue {
    [
      "parent_model": "", "format": "safetensors", "family": .string(family), "families": [.string(family)],
      "parameter_size": .string(Self.size(stored.parameterCount ?? 0)),
      "quantization_level": .string(quantization),
    ]
  }

  /// As Ollama writes it: `134.52M`, `7.6B`, `8B`, `112K`.
  private static func size(_ parameters: Int) -> String {
    let (unit, name, steps) =
      parameters >= 1_000_000_000
      ? (1e9, "B", 10) : parameters >= 1_000_000 ? (1e6, "M", 100) : (1e3, "K", 1)
    let scaled = Int((Double(parameters) / unit * Double(steps)).rounded())
    guard steps > 1, parameters % Int(unit) != 0 else { return "\(scaled / steps)\(name)" }
    return "\(scaled / steps).\(String(scaled % steps + steps).dropFirst())\(name)"
  }

  var capabilities: JSONValue {
    if loaded?.embedder != nil { return ["embedding"] }
    if loaded?.transcriber != nil { return ["audio"] }
    var names: [JSONValue] = ["completion"]
    let template = self.template
    if fills { names.append("insert") }
    if loaded?.template?.supportsTools ?? template.contains("tools") { names.append("tools") }
    if sees { names.append("vision") }
    if config["audio_config"]?.objectValue != nil { names.append("audio") }
    if loaded?.template?.format.supportsReasoning ?? template.contains("<think>") { names.append("thinking") }
    return .array(names)
  }

  /// Whether it takes images; before it is loaded, whether its family does.
  private var sees: Bool {
    if let loaded { return loaded.media.takes(.image) }
    let type = config["model_type"]?.stringValue ?? ""
    return config["vision_config"]?.objectValue != nil && ModelInspection.seeingTypes.contains(type)
  }

  /// Whether it has learned to fill in the middle.
  private var fills: Bool {
    let folder = status.source.path.split(separator: "/").last ?? ""
    return loaded?.fill?.isTrained(name: "\(status.source.id) \(folder)") ?? false
  }

  /// One client looks for a word of the other program's templates to learn whether a model fills in the middle.
  var shownTemplate: String { fills ? "{# .Suffix #}" + template : template }

  /// Jinja.
  private var template: String {
    let path = status.source.path
    guard !path.utf8.isEmpty else { return "" }
    if let bytes = try? File.read(path + "/chat_template.jinja", limit: 4 << 20) {
      return String(decoding: bytes, as: UTF8.self)
    }
    let bytes = (try? File.read(path + "/tokenizer_config.json", limit: 64 << 20)) ?? []
    return (try? JSONValue(parsing: bytes))?["chat_template"]?.stringValue ?? ""
  }

  /// Lines of a name and a value: one client stops at any other.
  var parameters: String {
    contextLength.map { "num_ctx                        \($0)" } ?? ""
  }

  private var contextLength: Int? {
    loaded?.contextTokens ?? text["max_position_embeddings"]?.intValue
  }

  /// The model in LM Studio's words.
  var studioJSON: JSONValue {
    let id = status.source.id
    let owner = id.utf8.contains(UInt8(ascii: "/")) ? id.prefix { $0 != "/" } : "local"
    let type = loaded?.embedder != nil ? "embeddings" : sees ? "vlm" : "llm"
    var object = JSONObject([
      ("id", .string(id)), ("object", "model"), ("type", .string(type)),
      ("publisher", .string(String(owner))),
      ("arch", .string(family)), ("compatibility_type", "mlx"), ("quantization", .string(quantization)),
      ("state", loaded == nil ? "not-loaded" : "loaded"),
    ])
    object["max_context_length"] = contextLength.map(JSONValue.int)
    object["loaded_context_length"] = loaded.map { .int($0.contextTokens) }
    let takesTools = capabilities.arrayValue?.contains("tools") == true
    object["capabilities"] = takesTools ? ["tool_use"] : []
    return .object(object)
  }

  func info(name: String) -> JSONValue {
    var info = JSONObject([
      ("general.architecture", .string(family)), ("general.basename", .string(name)),
      ("general.parameter_count", stored.parameterCount.map(JSONValue.int) ?? nil),
    ])
    for (key, value) in [
      ("context_length", contextLength), ("embedding_length", text["hidden_size"]?.intValue),
      ("block_count", text["num_hidden_layers"]?.intValue),
      ("attention.head_count", text["num_attention_heads"]?.intValue),
      ("attention.head_count_kv", text["num_key_value_heads"]?.intValue),
      ("vocab_size", text["vocab_size"]?.intValue),
    ] { info["\(family).\(key)"] = value.map(JSONValue.int) }
    return .object(info)
  }
}
