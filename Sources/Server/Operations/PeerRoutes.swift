// What clients of llama-server and vLLM ask a server about itself: GET /version, /tokenizer_info, /props and /slots.

import Chat
import HTTP
import Inference
import JSON
import Pipeline
import Sampling
import Tokenizers
import Wire

struct PeerRoutes {
  let server: ServerContext

  static func table(_ server: ServerContext) -> RouteTable {
    let routes = PeerRoutes(server: server)
    return RouteTable(
      .openAI,
      [
        .get("/version", "version", "The version of the server", gives: "Version", routes.version),
        .get(
          "/tokenizer_info", "tokenizerInfo", "Special tokens and chat template", gives: "TokenizerInfo",
          routes.tokenizer
        ) { $0.query = ["model"] },
        .get(
          "/props", "properties", "The model and its defaults, as llama.cpp has them", gives: "Properties",
          routes.properties
        ) { $0.query = ["model"] },
        .get(
          "/slots", "slots", "Places for requests that are computed together", gives: "Slots", routes.slots
        ) { $0.query = ["model", "fail_on_no_slot"] },
      ])
  }

  private func version(_: Request, _: ConnectionContext) -> Response {
    Response(json: ["version": .string(server.settings.version)])
  }

  /// The model that `?model=` names, else the first one.
  private func model(_ http: Request, _ context: ConnectionContext) throws(APIError) -> RequestScope {
    let name = http.query("model")
    return try server.anyRequest(["model": name.map(JSONValue.string) ?? .null], loads: false, for: context)
  }

  /// Special tokens and the template, as tools that count tokens elsewhere want them.
  private func tokenizer(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let model = try server.tokenRequest(http, [:], loads: false, for: context).model
    var info = JSONObject([
      ("model", .string(model.id)),
      ("tokenizer_class", "PreTrainedTokenizerFast"), ("vocab_size", .int(model.tokenizer.vocabularySize)),
      ("model_max_length", .int(model.contextTokens)),
      ("chat_template", model.template.map { .string($0.source) } ?? .null),
    ])
    for name in ["bos_token", "eos_token", "pad_token", "unk_token"] { info[name] = .null }
    for (name, text) in model.template?.specialTokens ?? [] { info[name] = .string(text) }
    return Response(json: .object(info))
  }

  private func properties(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let model = try model(http, context).model
    var parameters = JSONObject()
    let sampling = SamplingParameters(model.sampling)
    for field in SamplingField.allCases {
      parameters[field.name] = (try? JSONValue(parsing: sampling.text(of: field))) ?? .null
    }
    let kinds = model.media.inputModalities
    let tokens = Dictionary(model.template?.specialTokens ?? []) { first, _ in first }
    return Response(json: [
      "default_generation_settings": ["n_ctx": .int(model.contextTokens), "params": .object(parameters)],
      "total_slots": .int(slotCount(model).total), "model_path": .string(model.id),
      "model_alias": .string(model.id),
      "modalities": [
        "vision": .bool(kinds.arrayValue?.contains("image") ?? false),
        "audio": .bool(kinds.arrayValue?.contains("audio") ?? false),
      ],
      "chat_template": .string(model.template?.source ?? ""),
      "bos_token": .string(tokens["bos_token"] ?? ""), "eos_token": .string(tokens["eos_token"] ?? ""),
      "build_info": .string("mlxserve " + server.settings.version), "is_sleeping": false,
    ])
  }

  /// Places for requests that are computed together: the first ones are busy, and the first of
  /// these read prompts. Which request has which is not told. With
  /// `fail_on_no_slot=1` a load balancer learns from the status alone that all are.
  private func slots(_ http: Request, _ context: ConnectionContext) throws(APIError) -> Response {
    let model = try model(http, context).model
    let (busy, total) = slotCount(model)
    let reading = (try? model.generator().statistics.reading) ?? []
    guard busy < total || http.query("fail_on_no_slot") != "1" else {
      throw APIError(
        status: 503, type: "server_error", code: "no_slot_available",
        message: "All \(total) places are taken. What is asked now waits for one.", retryAfter: 1)
    }
    return Response(
      json: .array(
        (0..<total).map { index in
          var slot = JSONObject([
            ("id", .int(index)), ("n_ctx", .int(model.contextTokens)), ("is_processing", .bool(index < busy)),
          ])
          if reading.indices.contains(index) { slot[PromptProgress.member] = reading[index].json }
          return .object(slot)
        }))
  }

  private func slotCount(_ model: LoadedModel) -> (busy: Int, total: Int) {
    guard let statistics = try? model.generator().statistics else { return (0, 1) }
    let total = max(1, min(statistics.maxSequences, 1_024))
    return (min(statistics.running, total), total)
  }
}
